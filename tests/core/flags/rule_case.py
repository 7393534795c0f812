"""How a rule is tried: a config on a host, and the very words it says (None: silence)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.flags import Facts, Finding, check
from orchestrator.core.inventory import Model

K26 = Model(
    name="moonshotai/Kimi-K2.6",
    layers=61,
    attention_heads=64,
    hidden_size=7168,
    experts=384,
    experts_per_token=8,
    moe_intermediate_size=2048,
    multimodal=True,
)
LLAMA = Model(name="llama", layers=16, attention_heads=32, hidden_size=2048)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A config whose ``rule`` says exactly ``text``; with None it says nothing."""

    rule: str
    text: str | None
    flags: Mapping[str, FlagValue]
    environment: Mapping[str, str] = field(default_factory=dict)
    version: str = "0.5.23"
    model: Model | None = K26
    gpus: int | None = 8
    nnodes: int = 1
    memory: float | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        facts = Facts(
            version=self.version,
            gpus=self.gpus,
            model=self.model,
            nnodes=self.nnodes,
            gpu_memory_gib=self.memory,
        )
        return check(Config(flags=self.flags, environment=self.environment), facts)
