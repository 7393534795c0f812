"""Which settings go together: every rule as a row, and the walk over them."""

from __future__ import annotations

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags.asked import Asked, Facts, Finding
from orchestrator.core.flags.catalogue import TUNABLES
from orchestrator.core.flags.flag import Flag
from orchestrator.core.flags.names import find
from orchestrator.core.flags.rules import graphs, memory, parallel, pipeline, versions
from orchestrator.core.flags.rules.rule import Rule

# Rewriting rules are applied in this order, so a rule sees what earlier ones left.
RULES: tuple[Rule, ...] = (*parallel.RULES, *pipeline.RULES, *memory.RULES, *graphs.RULES)


def check(config: Config, facts: Facts) -> tuple[Finding, ...]:
    """Everything there is to say about ``config`` on this engine and host: refusals first, then rewrites, warnings.

    Raises ``FlagRefused`` when ``facts.version`` is not a version.
    """
    asked = Asked(config=config, facts=facts)
    found = [*versions.findings(asked), *(rule.finding(asked) for rule in RULES)]
    order = ("refused", "rewritten", "warning")
    return tuple(sorted((item for item in found if item is not None), key=lambda item: order.index(item.kind)))


def effective(config: Config, facts: Facts) -> Config:
    """What is left of ``config`` once the engine has rewritten it: two configs with equal results are one.

    Ignored settings fall back to their defaults, forced ones take what the engine takes, and values that only say the
    default are left out. Applying it twice changes nothing.
    """
    asked = Asked(config=config, facts=facts)
    for rule in RULES:
        if rule.becomes is not None and rule.finding(asked) is not None:
            asked = asked.but(rule.becomes(asked))
    flags = graphs.settled(asked)
    said = {tunable.name: tunable.default for tunable in TUNABLES}
    return Config(
        flags={name: value for name, value in flags.items() if not _is_default(name, value)},
        environment={name: value for name, value in config.environment.items() if value != said.get(name)},
    )


def _is_default(name: str, value: FlagValue) -> bool:
    flag = find(name)
    return isinstance(flag, Flag) and flag.default == value
