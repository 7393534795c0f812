"""The catalogue as a page for people: every canonical name with what it may be and since when."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.core.config import FlagValue
from orchestrator.core.flags.catalogue import FLAGS, OPTIONS, TUNABLES
from orchestrator.core.flags.deployment import DEPLOYMENT
from orchestrator.core.flags.flag import NEWEST, OLDEST, Flag, Tunable
from orchestrator.core.flags.rules import RULES


def catalogue_page() -> str:
    """Markdown: one table of settings a group, the environment tunables, then every rule in words."""
    return "\n".join((*_settings(), *_tunables(), *_rules())) + "\n"


def _settings() -> Iterator[str]:
    yield f"# Settings of SGLang {OLDEST} to {NEWEST}"
    for group in dict.fromkeys(flag.group for flag in FLAGS):
        yield from ("", f"## {group}", "", "| name | value | default | versions | also spelled | note |")
        yield "|---|---|---|---|---|---|"
        for flag in FLAGS:
            if flag.group == group:
                cells = (f"`{flag.name}`", _values(flag), _default(flag.default), _versions(flag), _also(flag))
                yield _row(*cells, _note(flag))


def _tunables() -> Iterator[str]:
    yield from ("", "## environment", "", "| name | value | default | versions | note |", "|---|---|---|---|---|")
    for tunable in TUNABLES:
        value = {"switch": "on, off", "str": "text", "int": "whole number", "float": "number"}[tunable.kind]
        default = _default(tunable.default)
        yield _row(
            f"`{tunable.name}`",
            value,
            default,
            "all" if tunable.since == OLDEST else f"from {tunable.since}",
            _tunable_note(tunable),
        )


def _rules() -> Iterator[str]:
    yield from ("", "# Rules", "", "| rule | what happens | versions | in words |", "|---|---|---|---|")
    for rule in RULES:
        versions = f"from {rule.since}" if rule.since else f"before {rule.until}" if rule.until else "all"
        yield _row(f"`{rule.id}`", rule.kind, versions, rule.sentence)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _values(flag: Flag) -> str:
    if flag.choices:
        return ", ".join(f"`{choice}`" for choice in flag.choices)
    return {
        "switch": "on, off",
        "int": "whole number",
        "float": "number",
        "str": "text",
        "enum": "name",
        "int-list": "whole numbers",
        "str-list": "texts",
    }[flag.kind]


def _default(value: FlagValue | None) -> str:
    if value is None:
        return ""
    return ("on" if value else "off") if isinstance(value, bool) else f"`{value}`"


def _versions(flag: Flag) -> str:
    since = "all" if flag.since == OLDEST else f"from {flag.since}"
    if flag.removed is None:
        return since
    return f"before {flag.removed}" if flag.since == OLDEST else f"{since}, before {flag.removed}"


def _also(flag: Flag) -> str:
    spellings = [*flag.aliases, *(option.name for option in OPTIONS if option.means == flag.name)]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(spellings) if name != flag.name)


def _note(flag: Flag) -> str:
    marks = ["live" if flag.live else "", "deployment" if flag.name in DEPLOYMENT else "", flag.note]
    return "; ".join(mark for mark in marks if mark)


def _tunable_note(tunable: Tunable) -> str:
    example = f"`{tunable.example}`" if tunable.example else ""
    marks = ["simulated engine only" if tunable.simulated_only else "", tunable.note, example]
    return "; ".join(mark for mark in marks if mark)
