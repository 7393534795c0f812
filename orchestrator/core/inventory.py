"""Where things run: hosts, and the services on them. Read from ``inventory.yaml`` by ``project``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from orchestrator.core.config import FlagValue


@dataclass(frozen=True, kw_only=True)
class HostEntry:
    """One machine. ``name`` is what ``ssh NAME`` would be told; everything else about reaching it is ssh's to say."""

    name: str
    connection: Literal["ssh", "local"] = "ssh"
    manager: Literal["systemd", "process"] = "systemd"
    ssh_config: str | None = None  # a file for `ssh -F`; the user's own otherwise
    gpus: int | None = None
    gpu_memory_gib: float | None = None  # of one card


@dataclass(frozen=True, kw_only=True)
class Model:
    """What the rules and the simulated engine need to know of the model's ``config.json``."""

    name: str
    layers: int
    attention_heads: int
    hidden_size: int
    experts: int = 0
    experts_per_token: int = 0
    moe_intermediate_size: int = 0
    multimodal: bool = False
    weight_gib: float | None = None
    kv_lora_rank: int = 0  # of multi-head latent attention (MLA); 0: not known, or another attention
    rope_dim: int = 0  # the rotary part MLA caches beside it
    kv_heads: int = 0
    head_dim: int = 0
    vocabulary: int = 0


@dataclass(frozen=True, kw_only=True)
class Startup:
    """How long a start may take (s): in all, and without any sign of progress; how long a deploy has to stay up."""

    timeout_s: float = 3600.0
    no_progress_s: float = 900.0
    healthy_for_s: float = 20.0


@dataclass(frozen=True, kw_only=True)
class SecretRef:
    """Where a secret value is found, never the value: one of a file on the ops box, an environment variable there,
    or a variable in an environment file on the host. ``flag``: the engine is told it through this flag.
    """

    name: str
    file: str | None = None
    env: str | None = None
    host_file: str | None = None
    variable: str | None = None  # in ``host_file``
    flag: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServiceEntry:
    """One engine on one host: the production unit, how trials of it are built, and where it listens."""

    name: str
    host: HostEntry
    unit: str
    template: str
    template_text: str
    engines: Mapping[str, str]  # engine version -> environment folder on the host
    engine: str
    port: int
    address: str | None = None  # where clients reach it; the host's own address otherwise
    user: str | None = None
    working_directory: str | None = None
    model: Model | None = None
    reach: Literal["direct", "ssh-forward"] = "direct"
    flags: Mapping[str, FlagValue] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[SecretRef, ...] = ()
    startup: Startup = Startup()
    lease_s: float = 600.0  # how long the host waits for a sign of life of the ops box before it restores alone
    kept: tuple[str, ...] = ()  # lines of an adopted unit that are kept without being understood
    kind: Literal["sglang", "vllm"] = "sglang"  # flags of other engines stand under their own names, unchecked
    extra_args: tuple[str, ...] = ()  # words of the command line that the catalogue does not know, as written

    @property
    def trial_unit(self) -> str:
        """The unit trials run in; never the production unit's own name, which would lose to /etc."""
        return f"{self.unit.removesuffix('.service')}-trial.service"

    @property
    def engine_folder(self) -> str:
        """The environment folder of the assumed engine version."""
        return self.engines[self.engine]

    def under(self, engine: str) -> ServiceEntry:
        """The same service under another of its ``engines``: its spelling of flags, its folder."""
        return self if engine == self.engine else replace(self, engine=engine)


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Everything ``inventory.yaml`` says."""

    hosts: Mapping[str, HostEntry]
    services: Mapping[str, ServiceEntry]
