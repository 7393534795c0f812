"""What a host is asked for a check-up. None: it was not asked, or did not answer (then ``unanswered`` says why)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Level = Literal["ok", "warning", "fault"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at. ``remedy`` is what to do about a warning or a fault."""

    group: str
    level: Level
    text: str
    remedy: str | None = None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """An error as it was told: what, and what to do about it."""

    fact: str
    remedy: str | None = None


@dataclass(frozen=True, kw_only=True)
class Entrance:
    """How we got in, and what we may do there. ``helper_fault`` is None for the right helper, root's alone."""

    login: str
    address: str
    is_local: bool
    manager: Literal["systemd", "process"]
    sudo_fault: str | None = None  # why sudo does not let this login run the helper; None for root
    helper_fault: str | None = None
    helper_version: str | None = None

    @property
    def has_helper(self) -> bool:
        """The helper may be asked."""
        return self.manager == "systemd" and self.helper_fault is None and self.sudo_fault is None


@dataclass(frozen=True, kw_only=True)
class FileSystem:
    """Bytes of one mounted file system."""

    mount: str
    size: int
    free: int


@dataclass(frozen=True, kw_only=True)
class Left:
    """Something that may be of an earlier run: a path or a unit, and its bytes where it has some."""

    what: str
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class GpuHealth:
    """One GPU as nvidia-smi describes it now; fields it does not tell are None."""

    index: int
    name: str
    memory_mib: int | None
    driver: str
    link_width: int | None = None
    link_width_max: int | None = None
    link_gen: int | None = None
    link_gen_max: int | None = None
    throttle: int | None = None  # the bits of clocks_event_reasons.active
    power_limit_w: float | None = None
    power_default_w: float | None = None
    ecc_uncorrected: int | None = None
    sm_clock_max_mhz: float | None = None
    persistence: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The host itself. ``skew_s``: its clock minus ours."""

    systemd: int | None = None
    python: str | None = None
    skew_s: float | None = None
    file_systems: Mapping[str, FileSystem] | None = None  # path asked for -> where it lies
    memory: int | None = None  # bytes
    cached: int | None = None  # bytes of it that hold pages of files
    segments: tuple[Left, ...] | None = None  # in /dev/shm, of engines
    left_files: tuple[Left, ...] | None = None  # trial units and the like in /run
    left_units: tuple[Left, ...] | None = None  # trial units and ours that systemd still knows
    gpus: tuple[GpuHealth, ...] | None = None
    has_nvidia_smi: bool | None = None
    no_p2p: tuple[tuple[int, int, str], ...] | None = None  # pairs that cannot read each other, and why
    unanswered: tuple[Failure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """The model's files as the service's user sees them."""

    folder: str | None  # None: not there
    has_config: bool = False
    missing: tuple[str, ...] = ()  # files its index names that are not there, or are empty
    size: int = 0  # bytes of its weights
    files: int = 0
    is_loading: bool = False  # a download of it is not complete
    free: int | None = None  # bytes where it would be put, when it is not there


@dataclass(frozen=True, kw_only=True)
class Engine:
    """One installed environment. ``version`` None: ``fault`` says why."""

    folder: str
    expected: str
    version: str | None
    fault: str | None = None
    is_simulated: bool = False


@dataclass(frozen=True, kw_only=True)
class Port:
    """Who listens on the service's port; ``pid`` 0 when this login is not shown."""

    pid: int
    command: str
    is_ours: bool | None


@dataclass(frozen=True, kw_only=True)
class Production:
    """The production unit, in systemd's words."""

    load: str
    active: str
    enabled: str
    needs_reload: bool


@dataclass(frozen=True, kw_only=True)
class Hold:
    """The host record: who holds the service. ``is_over``: its deadline has passed. ``rebooted``: so it has ended."""

    owner: str
    run: str
    until: str
    is_over: bool
    is_temporary: bool
    rebooted: bool = False


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service of the inventory on this host."""

    name: str
    unit: str
    trial_unit: str
    port: int
    user: str | None
    is_offline: bool  # HF_HUB_OFFLINE: nothing is downloaded at start
    model_path: str | None
    weights_gib: float | None = None  # by the inventory
    reads_weights: bool = True  # load-format dummy makes weights up
    production: Production | None = None
    has_user: bool | None = None
    has_folder: bool | None = None
    working_directory: str | None = None
    listener: Port | None = None
    port_asked: bool = False
    model: ModelFolder | None = None
    engines: tuple[Engine, ...] = ()
    parser_fault: str | None = None
    parser_asked: bool = False
    hold: Hold | None = None
    hold_asked: bool = False
    unanswered: tuple[Failure, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """Everything about one host. ``unreached`` leaves all the rest out."""

    name: str
    gpus_expected: int | None = None
    unreached: Failure | None = None
    entrance: Entrance | None = None
    machine: Machine = field(default_factory=Machine)
    services: tuple[Service, ...] = ()
