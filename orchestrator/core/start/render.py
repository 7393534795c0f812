"""From a config to the unit of a trial, or to production's own: the only home of jinja2.

A template is text that people edit, so what comes out is read back before anybody sees it: one command, exactly
the argv that was meant, every variable, and the handful of directives without which a unit of its role is not safe for
the host. Templates see ``role`` (``trial`` or ``production``), ``service`` (the inventory's entry), ``run``, ``trial``
(both empty for production), ``argv``, ``environment``, ``kept.unit``, ``kept.service`` and ``kept.install`` (lines of
the hand-written unit that count for this role, and where its secrets come from), and the filters ``exec``,
``environment``, ``path``, ``user`` and ``text``, which write a value as systemd reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from orchestrator.core import flags, secrets
from orchestrator.core.config import Config, FlagValue
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.start import unit
from orchestrator.core.start.unit import Directive
from orchestrator.core.units import Role, TrialUnit
from orchestrator.errors import InputRefused

MARKER = "# tune: trial "
PRODUCTION_MARKER = "# tune: production "

# Lines of the production unit that make a trial of it comparable: what the engine may use, and where it runs.
# Everything else stays out: when production restarts, what it starts and notifies, how it is enabled.
_KEPT_IN_UNIT = frozenset(
    {"Requires", "Wants", "BindsTo", "Requisite", "After", "RequiresMountsFor", "JoinsNamespaceOf"}
)
_SERVICE_NAMES = """
    Group SupplementaryGroups DynamicUser UMask PAMName PassEnvironment UnsetEnvironment
    StateDirectory CacheDirectory LogsDirectory RuntimeDirectory ConfigurationDirectory
    StateDirectoryMode CacheDirectoryMode LogsDirectoryMode RuntimeDirectoryMode ConfigurationDirectoryMode
    Nice OOMScoreAdjust IOSchedulingClass IOSchedulingPriority CPUSchedulingPolicy CPUSchedulingPriority
    CPUAffinity NUMAPolicy NUMAMask TimerSlackNSec Slice Delegate
    LimitAS LimitCORE LimitCPU LimitDATA LimitFSIZE LimitLOCKS LimitMEMLOCK LimitMSGQUEUE LimitNICE LimitNOFILE
    LimitNPROC LimitRSS LimitRTPRIO LimitRTTIME LimitSIGPENDING LimitSTACK TasksMax
    CPUQuota CPUWeight AllowedCPUs AllowedMemoryNodes MemoryMax MemoryHigh MemoryLow MemoryMin MemorySwapMax IOWeight
    DeviceAllow DevicePolicy PrivateDevices PrivateTmp PrivateNetwork PrivateUsers PrivateIPC
    ProtectSystem ProtectHome ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectControlGroups
    ProtectClock ProtectHostname ProtectProc ProcSubset ReadWritePaths ReadOnlyPaths InaccessiblePaths BindPaths
    BindReadOnlyPaths TemporaryFileSystem NoNewPrivileges CapabilityBoundingSet AmbientCapabilities SecureBits
    RestrictAddressFamilies RestrictNamespaces RestrictRealtime RestrictSUIDSGID LockPersonality
    MemoryDenyWriteExecute SystemCallFilter SystemCallArchitectures KeyringMode
"""
_KEPT_IN_SERVICE = frozenset(_SERVICE_NAMES.split())

# Of production every line is kept, but for what the template alone may say; its name says which section it is from.
_INSTALL_NAMES = frozenset({"WantedBy", "RequiredBy", "UpheldBy", "Also", "Alias", "DefaultInstance"})
_UNIT_TEXT = """
    Description Documentation Wants Requires Requisite BindsTo PartOf Upholds Conflicts Before After OnFailure OnSuccess
    PropagatesReloadTo ReloadPropagatedFrom PropagatesStopTo StopPropagatedFrom JoinsNamespaceOf RequiresMountsFor
    WantsMountsFor OnFailureJobMode OnSuccessJobMode IgnoreOnIsolate StopWhenUnneeded RefuseManualStart
    RefuseManualStop AllowIsolate DefaultDependencies SurviveFinalKillSignal CollectMode FailureAction SuccessAction
    FailureActionExitStatus SuccessActionExitStatus JobTimeoutSec JobRunningTimeoutSec JobTimeoutAction
    JobTimeoutRebootArgument StartLimitIntervalSec StartLimitInterval StartLimitBurst StartLimitAction
    RebootArgument SourcePath
"""
_UNIT_NAMES = frozenset(_UNIT_TEXT.split())
_TEMPLATE_ALONE = frozenset({"Type", "ExecStart", "KillMode", "SendSIGKILL"})

_NEEDED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("Service", "KillMode"): ("mixed", "control-group"),
    ("Service", "SendSIGKILL"): ("yes", "true", "on", "1"),
}
_RESTART: Mapping[Role, Mapping[tuple[str, str], tuple[str, ...]]] = {
    "trial": {("Service", "Restart"): ("no",)},
    "production": {},  # the template's, or what a person chose
}


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Lines of the hand-written unit that count for a role, by section."""

    unit: tuple[str, ...]
    service: tuple[str, ...]
    install: tuple[str, ...] = ()


def render_unit(entry: ServiceEntry, config: Config, *, run: str, trial: str) -> TrialUnit:
    """The unit of one trial of ``config``.

    Raises ``InputRefused`` with ``template:line`` of everything that keeps the template from being one, and for a
    value that no unit can hold or a flag that the engine's version does not have.
    """
    return _unit(entry, config, "trial", {"run": run, "trial": trial})


def render_production(entry: ServiceEntry, config: Config) -> TrialUnit:
    """Production's own unit for ``config``: as ``render_unit``, with a ``Restart=`` and limits fit for service.

    The text depends on nothing but service, template and config, so that the same deploy twice is known as the same.
    """
    return _unit(entry, config, "production", {"run": "", "trial": ""})


def _unit(entry: ServiceEntry, config: Config, role: Role, said: Mapping[str, str]) -> TrialUnit:
    argv = launch_argv(entry, config, role)
    environment = {**entry.environment, **config.environment}
    also = kept(entry.kept) if role == "trial" else kept_in_production(entry.kept)
    also = replace(also, service=(*also.service, *secrets.unit_lines(entry, role)))
    values = {**said, "role": role, "argv": argv, "environment": environment, "kept": also}
    text = _fill(entry, values)
    _check(entry, text, argv, environment, role)
    return TrialUnit(
        name=entry.trial_unit if role == "trial" else entry.unit,
        text=text,
        argv=argv,
        environment=environment,
        user=entry.user,
        working_directory=entry.working_directory,
    )


def launch_argv(entry: ServiceEntry, config: Config, role: Role = "trial") -> tuple[str, ...]:
    """The whole command line: the engine's own python, the config's flags, and where this service listens."""
    if entry.kind != "sglang":
        raise InputRefused(
            f"{entry.name}: trials of {entry.kind} are not made yet, only of sglang",
            remedy="adopt and plan work; a sweep needs an SGLang service",
        )
    program = (f"{entry.engine_folder}/bin/python", "-m", "sglang.launch_server")
    told = flags.argv({**config.flags, **_deployment(entry)}, entry.engine)
    return (*program, *told, *secrets.config_words(entry, role), *entry.extra_args)


def _deployment(entry: ServiceEntry) -> Mapping[str, FlagValue]:
    """Where the engine listens, and the entry's other flags that are no part of a config."""
    own = {name: value for name, value in entry.flags.items() if name in flags.DEPLOYMENT}
    loopback = entry.reach == "ssh-forward" or entry.host.connection == "local"
    return {"host": "127.0.0.1" if loopback else "0.0.0.0", **own, "port": entry.port}


def kept(lines: Sequence[str]) -> Kept:
    """Sort the lines an entry keeps: those that count for a trial, by section; the others are left out."""
    named = [(line.partition("=")[0].strip(), line.strip()) for line in lines if "\n" not in line]
    return Kept(
        unit=tuple(line for name, line in named if name in _KEPT_IN_UNIT),
        service=tuple(line for name, line in named if name in _KEPT_IN_SERVICE),
    )


def kept_in_production(lines: Sequence[str]) -> Kept:
    """Sort every line an entry keeps by the section it is from; those that only the template may say are left out."""
    named = [(line.partition("=")[0].strip(), line.strip()) for line in lines if "\n" not in line]
    own = [(name, line) for name, line in named if name not in _TEMPLATE_ALONE and secrets.SHOWN not in line]
    return Kept(
        unit=tuple(line for name, line in own if name in _UNIT_NAMES),
        service=tuple(line for name, line in own if name not in _UNIT_NAMES | _INSTALL_NAMES),
        install=tuple(line for name, line in own if name in _INSTALL_NAMES),
    )


# --- the template ------------------------------------------------------------------------------------------------


def _fill(entry: ServiceEntry, values: Mapping[str, object]) -> str:
    machine = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,  # a unit is not HTML; the filters below escape for systemd
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    machine.filters.update(
        exec=unit.quote_exec_lines,
        environment=unit.quote_environment,
        path=unit.quote_path,
        user=unit.quote_user,
        text=unit.quote_text,
    )
    try:
        return machine.from_string(entry.template_text).render(service=entry, **values)
    except TemplateSyntaxError as error:
        raise _refused(entry, [(error.lineno, str(error))]) from error
    except InputRefused as error:
        raise _refused(entry, [(_line_of(error.__traceback__), error.fact)]) from error
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
        raise _refused(entry, [(_line_of(error.__traceback__), str(error))]) from error


def _line_of(traceback: TracebackType | None) -> int:
    """The template's line in which something was raised; jinja2 rewrites its frames to say so."""
    line = 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == "<template>":
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _refused(entry: ServiceEntry, faults: Sequence[tuple[int, str]]) -> InputRefused:
    place = f"templates/{entry.template}"
    return InputRefused(
        f"{place} does not make a unit of {entry.name}",
        faults=[f"{place}:{line}: {text}" if line else f"{place}: {text}" for line, text in faults],
        remedy="compare it with the template that comes with tune",
    )


# --- what came out -------------------------------------------------------------------------------------------------


def _check(entry: ServiceEntry, text: str, argv: tuple[str, ...], environment: Mapping[str, str], role: Role) -> None:
    """Refuse a text that is not a safe unit of exactly this argv; all faults at once, each with its line."""
    faults: list[tuple[str | None, str]] = []
    marker = MARKER if role == "trial" else PRODUCTION_MARKER
    if not text.startswith(marker):
        faults.append((None, f"the first line does not begin with {marker!r}, by which {role} units are known"))
    try:
        directives = unit.read_unit(text)
        commands = unit.exec_start(directives)
        variables = unit.environment(directives)
    except InputRefused as error:
        raise _refused(entry, [(0, f"what it makes is no unit: {error.fact}")]) from error
    if len(commands) != 1:
        faults.append(
            ("ExecStart", f"{len(commands)} ExecStart commands, one is needed: ExecStart={{{{ argv | exec }}}}")
        )
    elif commands[0] != argv:
        faults.append(("ExecStart", f"ExecStart is not the argv that was meant: {_difference(argv, commands[0])}"))
    changed = [name for name, value in environment.items() if variables.get(name) != value]
    if changed:
        faults.append(("environment", f"{', '.join(changed)}: not set in the unit, or to another value than meant"))
    faults += _unsafe(directives, entry.unit, role)
    there = {f"{directive.key}={directive.value}" for directive in directives if directive.section == "Service"}
    faults += [
        ("kept", f"[Service] {line} is not in it: the {role} would start without its secrets")
        for line in secrets.unit_lines(entry, role)
        if line not in there
    ]
    if faults:
        raise _refused(entry, [(_template_line(entry.template_text, key), fault) for key, fault in faults])


def _unsafe(directives: Sequence[Directive], production: str, role: Role) -> list[tuple[str | None, str]]:
    """Directives without which a stop may have no end; a trial could outlive its run, or run beside production."""
    last = {(directive.section, directive.key): directive.value for directive in directives}
    faults: list[tuple[str | None, str]] = []
    for (section, key), accepted in {("Service", "Type"): ("exec",), **_RESTART[role], **_NEEDED}.items():
        value = last.get((section, key))
        if value not in accepted:
            faults.append((key, f"[{section}] {key}= is {value or 'not set'}; accepted: {' or '.join(accepted)}"))
    if not last.get(("Service", "TimeoutStopSec")):
        faults.append(("TimeoutStopSec", "[Service] TimeoutStopSec= is not set; a stop has to have an end"))
    if role == "production":
        return faults
    for key in ("Conflicts", "After"):
        named = [word for d in directives if (d.section, d.key) == ("Unit", key) for word in d.value.split()]
        if production not in named:
            faults.append((key, f"[Unit] {key}= does not name {production}, so both could run at once"))
    if any(section == "Install" for section, _ in last):
        faults.append(("[Install]", "[Install]: a trial is never enabled"))
    return faults


def _difference(meant: Sequence[str], found: Sequence[str]) -> str:
    for at, word in enumerate(meant):
        if at >= len(found):
            return f"{word!r} is missing"
        if found[at] != word:
            return f"word {at + 1} is {found[at]!r}, meant is {word!r}"
    return f"{found[len(meant)]!r} is too much"


def _template_line(template: str, key: str | None) -> int:
    """The template's line that speaks of a directive: the last one with it in front; 1 for the first, 0 for none."""
    if key is None:
        return 1
    found = 0
    for number, line in enumerate(template.splitlines(), start=1):
        if line.strip().lower().startswith(key.lower()):
            found = number
    return found
