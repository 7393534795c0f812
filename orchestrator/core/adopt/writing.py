"""A unit that was understood → its inventory entry, and what a person should know about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.core import flags as catalogue
from orchestrator.core.adopt import secrets
from orchestrator.core.adopt.arguments import Arguments, FlagSecret
from orchestrator.core.adopt.entry import Entry
from orchestrator.core.adopt.expand import Variable
from orchestrator.core.adopt.facts import Engine
from orchestrator.core.adopt.reading import Reading, port_of, read_arguments, refusal
from orchestrator.core.inventory import SecretRef

_UNDERSTOOD = frozenset(
    {
        ("Service", name)
        for name in ("ExecStart", "Environment", "EnvironmentFile", "UnsetEnvironment", "WorkingDirectory")
    }
)
_LOOPBACK = re.compile(r"(127\.[\d.]+|localhost|::1)\Z")
_ANY = frozenset({"0.0.0.0", "::", "*", ""})


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """What adopt found out. No secret is in any of it."""

    entry: Entry
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    gpus: int | None = None  # how many nvidia-smi shows on the host


def service_name(unit: str) -> str:
    """A name for the inventory from the unit's: ``sglang@k26.service`` is ``sglang-k26``."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", unit.removesuffix(".service")).strip("-._")[:63] or "engine"


def refuse_engine(reading: Reading, said: str) -> Exception:
    """The unit's interpreter could not say which version it has."""
    facts = reading.facts
    reason = f"{reading.python} does not say which {reading.launch.kind} it has: {said}"
    remedy = f"it is asked for the version, and trials start it: make it so that {reading.python} runs on the host"
    if reading.launch.folder and reading.line.path != reading.python and said.endswith("No such file or directory"):
        remedy = f"the unit runs {reading.line.path}, trials run {reading.python}: give it that name too"
    return refusal(facts.unit, facts.host, [f"{reading.place}: {facts.unit} on {facts.host}: {reason}\n    {remedy}"])


def questions(reading: Reading) -> tuple[str, ...]:
    """Options of SGLang's that the catalogue does not have: worth asking the installed parser about."""
    if reading.launch.kind != "sglang":
        return ()
    return read_arguments(reading.launch, reading.expansion, reading.variables, None).unknown_options


def write(reading: Reading, engine: Engine, *, name: str | None, is_local: bool, gpus: int | None = None) -> Adoption:
    """The entry of a unit. Deterministic: the same facts give the same bytes."""
    launch, loaded = reading.launch, reading.facts.loaded
    version = engine.version if launch.kind == "sglang" else None
    arguments = read_arguments(launch, reading.expansion, reading.variables, version)
    writer = _Writer(reading, arguments)
    environment, pointers = writer.environment()
    port = port_of(arguments, launch)
    listen = str(arguments.flags.get("host", "127.0.0.1" if launch.kind == "sglang" else ""))
    is_loopback = _LOOPBACK.match(listen) is not None
    person = reading.facts.account
    user = None if loaded.dynamic_user or not loaded.user else person.name if person else loaded.user
    entry = Entry(
        name=name or service_name(loaded.id),
        host=reading.facts.host,
        kind=launch.kind,
        unit=loaded.id,
        template="sglang.service.j2" if launch.kind == "sglang" else None,
        user=user,
        working_directory=reading.working_directory,
        engines={engine.version: reading.folder},
        engine=engine.version,
        port=port,
        address=None if is_loopback or listen in _ANY or is_local else listen,
        reach="ssh-forward" if is_loopback and not is_local else "direct",
        flags={flag: value for flag, value in arguments.flags.items() if flag != "port"},
        extra=arguments.extra,
        environment=environment,
        secrets=pointers,
        kept=writer.kept(),
        origins=arguments.origins,
    )
    commented = tuple(f"{option}: not in the catalogue" for option in arguments.unknown_options)
    warnings = [
        *(warning for warning in arguments.warnings if not warning.startswith(commented)),
        *writer.warnings,
        *_about_options(arguments, engine),
        *_about_running(reading, port),
    ]
    notes = [*reading.notes, *writer.notes, *_about_launch(reading), *_about_port(reading, arguments, port)]
    hidden = writer.hidden
    return Adoption(
        entry=entry,
        gpus=gpus,
        warnings=tuple(dict.fromkeys(secrets.redact(text, hidden) for text in warnings)),
        notes=tuple(dict.fromkeys(secrets.redact(text, hidden) for text in notes)),
    )


class _Writer:
    """Sorts what the unit sets into environment, pointers to secrets, and kept lines."""

    def __init__(self, reading: Reading, arguments: Arguments) -> None:
        self._reading = reading
        self._arguments = arguments
        self.warnings: list[str] = []
        self.notes: list[str] = []
        variables = reading.environment.items()
        self.hidden = tuple(
            {secret.value for secret in arguments.secrets}
            | {variable.value for name, variable in variables if secrets.is_secret_variable(name, variable.value)}
        )

    def environment(self) -> tuple[dict[str, str], tuple[SecretRef, ...]]:
        """Plain variables with their values; secrets as pointers to where they stand."""
        pointers = [*self._flag_pointers()]
        pointed = {pointer.variable for pointer in pointers}
        spread = self._spread()
        told = {secret.variable for secret in self._arguments.secrets}
        plain: dict[str, str] = {}
        for name, variable in self._reading.environment.items():
            if name in pointed:
                continue
            if name in spread:
                self.notes.append(
                    f"${name} in {variable.source} holds flags: they stand under flags, it is not kept itself"
                )
            elif name in told or secrets.is_secret_variable(name, variable.value) or self._holds_hidden(variable.value):
                pointers += self._variable_pointer(name, variable)
            else:
                plain[name] = variable.value
        return plain, tuple(pointers)

    def _spread(self) -> set[str]:
        """Variables whose words became flags."""
        words = self._reading.expansion.words
        return {word.variables[0] for word in words if word.how == "split" and word.text.startswith("-")}

    def _holds_hidden(self, value: str) -> bool:
        return any(len(hidden) >= 6 and hidden in value for hidden in self.hidden)

    def _variable_pointer(self, name: str, variable: Variable) -> list[SecretRef]:
        if variable.is_file:
            return [SecretRef(name=name, host_file=variable.source, variable=name)]
        self.warnings.append(
            f"{name} in {variable.source} is a secret in the unit's text, which every user of the host can read with "
            f"systemctl show; its value is left out. Move it to a file that only root can read (EnvironmentFile=)"
        )
        return []

    def _flag_pointers(self) -> Iterable[SecretRef]:
        taken: set[str] = set()
        for secret in self._arguments.secrets:
            self.warnings.append(self._about(secret))
            if secret.variable and secret.file and secret.is_whole:
                alone = secret.variable not in taken
                name = secret.variable if alone else secret.flag.upper().replace("-", "_")
                taken.add(secret.variable)
                yield SecretRef(name=name, host_file=secret.file, variable=secret.variable, flag=secret.flag)

    def _about(self, secret: FlagSecret) -> str:
        seen = f"--{secret.flag}: any user of the host can read it in the process list now"
        if secret.variable and secret.file and not secret.is_whole:
            place = f"${secret.variable} in {secret.file}"
            return f"{seen}; left out of the entry, since {place} holds more than it: give it a variable of its own"
        if secret.variable and secret.file:
            return f"{seen}; the entry points to {secret.variable} in {secret.file}"
        return f"{seen}; its value is left out of the entry, put it into a file that only the service may read"

    def kept(self) -> tuple[str, ...]:
        """Lines of the unit that stand in no other key, in the order in which systemd applies them."""
        dynamic = self._reading.facts.loaded.dynamic_user
        lines = [
            "DynamicUser=yes" if dynamic and directive.name == "DynamicUser" else directive.text
            for directive in self._reading.directives
            if (directive.section, directive.name) not in _UNDERSTOOD
            and (dynamic or (directive.section, directive.name) != ("Service", "User"))
        ]
        lines = [re.sub(r"^(SetCredential\w*=[^:]*:).*", rf"\1{secrets.SHOWN}", line) for line in lines]
        return tuple(secrets.redact(line, self.hidden) for line in lines)


def _about_options(arguments: Arguments, engine: Engine) -> list[str]:
    said = []
    for option in dict.fromkeys(arguments.unknown_options):
        if not engine.parser_asked:
            said.append(f"{option}: not in the catalogue, and the installed parser could not be asked; kept as written")
        elif option in engine.options:
            said.append(f"{option}: known to the installed parser, not to the catalogue; kept as written")
        else:
            said.append(
                f"{option}: neither the catalogue nor the installed parser ({engine.version}) knows it; kept as written"
            )
    return said


def _about_launch(reading: Reading) -> list[str]:
    said = []
    if reading.launch.launcher:
        said.append(
            f"{reading.launch.launcher} starts the engine: it may change the environment {reading.folder} at its next "
            "start, and the entry would not"
        )
    if reading.launch.lost:
        said.append(
            f"python's own options {' '.join(reading.launch.lost)} are not part of an entry: trials run without them"
        )
    if reading.facts.loaded.dynamic_user:
        said.append(
            "DynamicUser=yes: there is no fixed user, and none is made up; a fixed one could not read the unit's state"
        )
    sources = {variable.source for variable in reading.environment.values() if variable.is_file}
    if sources:
        said.append(f"values were copied from {', '.join(sorted(sources))}: adopt again after changing it")
    return said


def _about_port(reading: Reading, arguments: Arguments, port: int) -> list[str]:
    said = [] if "port" in arguments.flags else [f"no --port: {reading.launch.kind} listens on {port} by default"]
    if reading.facts.main is None:
        said.append(f"the unit is {reading.facts.loaded.active_state} now: no process and no socket to compare with")
    if reading.facts.server(port) is not None:
        said.append(f"port {port}: the unit's own process listens there now")
    return said


def _about_running(reading: Reading, port: int) -> list[str]:
    """What the running process and its socket say otherwise."""
    facts = reading.facts
    if facts.main is None:
        return []
    return [*_about_socket(reading, port), *_about_command_line(reading, port)]


def _about_socket(reading: Reading, port: int) -> list[str]:
    facts, listeners = reading.facts, reading.facts.listeners(port)
    if facts.server(port) is not None:
        return []
    own = sorted({socket.port for socket in facts.sockets if set(socket.pids) & set(facts.pids)})
    elsewhere = f"; the unit listens on {', '.join(map(str, own))}" if own else ""
    if not listeners:
        return [f"port {port}: nothing listens there now, the engine may still be loading{elsewhere}"]
    pids = [pid for socket in listeners for pid in socket.pids]
    if not pids:
        return [f"port {port}: who listens there cannot be seen without root; not compared"]
    return [f"port {port}: held by {listeners[0].command} (pid {pids[0]}), which is no process of this unit{elsewhere}"]


def _about_command_line(reading: Reading, port: int) -> list[str]:
    facts = reading.facts
    process = facts.server(port) if reading.launch.launcher else facts.main
    if process is None or not process.argv:
        return ["the running process does not show its command line; not compared"]
    meant = [word.text for word in reading.expansion.words[reading.launch.words :]]
    running = list(process.argv)
    if running[len(running) - len(meant) :] == meant and len(running) > len(meant):
        return []
    if len(running) == 1:
        return [f"the running process calls itself {running[0]!r}: its command line cannot be compared"]
    start = _engine_words(running)
    known = catalogue.names()
    now, then = secrets.mask_words(running[start:], known), secrets.mask_words(meant, known)
    if now == then:
        return ["the running process was started with another value of a secret flag than its next start would use"]
    differences = [line for line in difflib.ndiff(_by_option(now), _by_option(then)) if line[:2] in ("- ", "+ ")]
    shown = "".join(f"\n    {line}" for line in differences)
    return [f"process {process.pid} was started with other words (-) than its next start would use (+):{shown}"]


def _engine_words(running: Sequence[str]) -> int:
    """Where the engine's own words begin: behind ``serve``, behind ``-m MODULE``, or at the first long option."""
    for at, word in enumerate(running):
        if word == "serve" or word.startswith("--"):
            return at + (word == "serve")
        if at and running[at - 1] == "-m" and word not in ("sglang", "vllm"):
            return at + 1
    return len(running)


def _by_option(words: Sequence[str]) -> list[str]:
    """One line an option, with its values."""
    lines: list[list[str]] = []
    for word in words:
        if word.startswith("-") or not lines:
            lines.append([word])
        else:
            lines[-1].append(word)
    return [" ".join(line) for line in lines]
