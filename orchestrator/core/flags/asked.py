"""What a config asks of a given engine on a given host: settings with SGLang's defaults in place of what is unsaid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags.flag import Flag
from orchestrator.core.flags.names import find
from orchestrator.core.flags.versions import within
from orchestrator.core.inventory import Model


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the rules need to know beside the config. None: not known, and rules that need it stay silent.

    ``gpus`` are those of one node. ``gpu_memory_gib`` is one card's; without it the graph sizes and chunk size that
    SGLang chooses by itself are those of cards from 60 to 160 GiB.
    """

    version: str
    gpus: int | None
    model: Model | None
    nnodes: int = 1
    gpu_memory_gib: float | None = None


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a rule says about a config.

    ``refused``: the server would die at start. ``rewritten``: it would run, with another value than the one asked
    for. ``warning``: it would run as asked, and a person should know something. ``text`` names what was read and
    what would do; ``sentence`` is the rule in words, the same for every config.
    """

    kind: Literal["refused", "rewritten", "warning"]
    rule: str
    text: str
    flags: tuple[str, ...]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A config under one engine version; reads every setting, said or not."""

    config: Config
    facts: Facts

    def is_said(self, name: str) -> bool:
        """Whether the config itself says it."""
        return name in self.config.flags

    def value(self, name: str) -> FlagValue | None:
        """The said value, else the default, else None."""
        if name in self.config.flags:
            return self.config.flags[name]
        flag = find(name)
        return flag.default if isinstance(flag, Flag) else None

    def whole(self, name: str) -> int | None:
        """A whole number, or None when unset."""
        value = self.value(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def size(self, name: str) -> int:
        """A size whose default is 1."""
        return self.whole(name) or 1

    def text(self, name: str) -> str | None:
        """A text or a choice, or None when unset."""
        value = self.value(name)
        return value if isinstance(value, str) else None

    def is_on(self, name: str) -> bool:
        """The state of a switch."""
        return self.value(name) is True

    def environment(self, name: str) -> str | None:
        """An environment tunable, or None when unset."""
        return self.config.environment.get(name)

    def since(self, version: str) -> bool:
        """Whether the engine is ``version`` or later."""
        return within(self.facts.version, version, None)

    @property
    def nnodes(self) -> int:
        """Nodes the engine spans: what the config says, else the host's."""
        return self.size("nnodes") if self.is_said("nnodes") else self.facts.nnodes

    def but(self, settings: Mapping[str, FlagValue]) -> Asked:
        """The same with ``settings`` instead of what is there."""
        return replace(self, config=replace(self.config, flags={**self.config.flags, **settings}))
