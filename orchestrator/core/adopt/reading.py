"""Facts about a unit → what it starts, or every reason at once why it cannot be adopted.

A refusal names unit, file, line and reason, and what can be done. Nothing is guessed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from orchestrator.core import flags as catalogue
from orchestrator.core.adopt import expand
from orchestrator.core.adopt.arguments import Arguments, read_sglang, read_vllm
from orchestrator.core.adopt.directives import Directive, in_force, read_directives
from orchestrator.core.adopt.expand import Expansion, Variable, Word
from orchestrator.core.adopt.facts import Elsewhere, ExecLine, Facts, ReadFile, UserUnit
from orchestrator.core.adopt.launcher import Launch, NotAnEngine, read_command
from orchestrator.core.adopt.secrets import redact
from orchestrator.core.start.unit import split_words
from orchestrator.errors import InputRefused

_BY_SYSTEMD = frozenset(
    {"INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "MANAGERPID", "SYSTEMD_EXEC_PID", "PIDFILE", "NOTIFY_SOCKET"}
    | {"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "WATCHDOG_PID", "WATCHDOG_USEC", "REMOTE_ADDR", "TERM"}
    | {"RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY"}
    | {"CREDENTIALS_DIRECTORY", "LOG_NAMESPACE", "MEMORY_PRESSURE_WATCH"}
)
"""Variables the manager makes at start (systemd.exec(5), "Environment Variables in Spawned Processes")."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A unit that starts an engine we know. ``environment`` is what the unit sets, files included."""

    facts: Facts
    launch: Launch
    line: ExecLine
    place: str  # file:line of ExecStart=
    folder: str  # of the engine's environment
    expansion: Expansion
    environment: Mapping[str, Variable]
    variables: Mapping[str, Variable]  # with those of the manager and the account
    directives: tuple[Directive, ...]
    notes: tuple[str, ...] = ()

    @property
    def python(self) -> str:
        """The engine's interpreter, as trials will call it."""
        return f"{self.folder}/bin/python"

    @property
    def working_directory(self) -> str | None:
        """The unit's, without the ``-`` that lets it be missing (D-Bus writes ``!``); ``~`` is the user's home."""
        folder = self.facts.loaded.working_directory.removeprefix("!")
        if folder == "~":
            return self.facts.account.home if self.facts.account else "/root"
        return folder or None


MODEL = {"sglang": "model-path", "vllm": "model"}
DEFAULT_PORT = {"sglang": 30000, "vllm": 8000}


def read_arguments(
    launch: Launch, expansion: Expansion, variables: Mapping[str, Variable], version: str | None
) -> Arguments:
    """The engine's own words as flags."""
    words = expansion.words[launch.words :]
    if launch.kind == "vllm":
        return read_vllm(words, variables, positional=launch.positional == "model")
    if launch.positional == "model" and words and not words[0].text.startswith("-"):
        words = (Word(text="--model-path"), *words)  # `sglang serve MODEL`
    return read_sglang(words, variables, version)


def port_of(arguments: Arguments, launch: Launch) -> int:
    """Where it listens; the engine's own default when it is not told."""
    port = arguments.flags.get("port")
    return port if isinstance(port, int) else DEFAULT_PORT[launch.kind]


def refusal(unit: str, host: str, faults: Iterable[str]) -> InputRefused:
    """Not adopted: every reason."""
    return InputRefused(f"{unit} on {host} cannot be adopted", faults=list(faults))


def read_unit(facts: Facts) -> Reading:
    """What the unit starts. Raises ``InputRefused`` with every reason against it."""
    faults = _state_faults(facts)
    if faults:
        raise refusal(facts.unit, facts.host, faults)
    directives = read_directives(facts.files)
    told = _Told(facts, directives)
    line, launch = told.launch()
    variables, environment = told.environment(launch)
    if line is None or launch is None:
        raise refusal(facts.unit, facts.host, told.faults)
    expansion = told.expansion(line, variables)
    arguments = read_arguments(launch, expansion, variables, None)
    told.check(arguments, launch, expansion)
    folder = launch.folder or told.folder_of_the_running(launch, port_of(arguments, launch))
    if told.faults or folder is None:
        raise refusal(facts.unit, facts.host, told.faults)
    return Reading(
        facts=facts,
        launch=launch,
        line=line,
        place=told.exec_place,
        folder=folder,
        expansion=expansion,
        environment=environment,
        variables=variables,
        directives=directives,
        notes=tuple(told.notes),
    )


def _state_faults(facts: Facts) -> list[str]:
    """What makes every further question pointless."""
    loaded = facts.loaded
    name = f"{facts.unit} on {facts.host}"
    where = loaded.fragment or facts.unit
    if loaded.load_state == "masked":
        return [f"{where}: {name}: the unit is masked\n    systemctl unmask {facts.unit}, if it is meant to run"]
    if loaded.load_state != "loaded":
        reason = f"systemd could not load it ({loaded.load_state}): {loaded.load_error}"
        return [f"{where}: {name}: {reason}\n    mend the unit file"]
    faults = [
        f"{file.path}: {name}: the file {_problem(file)}, so nobody can say which line is in force\n"
        "    run adopt as a user who may read it, or as root"
        for file in facts.files
        if file.text is None
    ]
    if loaded.need_reload:
        faults.append(
            f"{where}: {name}: the files have changed since systemd read them, so what runs next is not what they say\n"
            "    systemctl daemon-reload (adopt changes nothing on the host), then adopt again"
        )
    if loaded.transient:
        faults.append(
            f"{where}: {name}: the unit is transient (systemd-run): once stopped it is gone and cannot be put back\n"
            "    write it as a unit file under /etc/systemd/system"
        )
    return faults


def _problem(file: ReadFile) -> str:
    return "does not exist" if file.problem == "missing" else f"cannot be read ({file.detail or 'no permission'})"


class _Told:
    """Reads a loaded unit and gathers what speaks against adopting it."""

    def __init__(self, facts: Facts, directives: tuple[Directive, ...]) -> None:
        self.facts = facts
        self.directives = directives
        self.faults: list[str] = []
        self.notes: list[str] = []
        self._missing: list[str] = []
        lines = in_force(directives, "ExecStart")
        self.exec_place = lines[0].place if lines else facts.loaded.fragment

    def refuse(self, place: str, reason: str, remedy: str) -> None:
        """One more reason."""
        self.faults.append(f"{place}: {self.facts.unit} on {self.facts.host}: {reason}\n    {remedy}")

    def launch(self) -> tuple[ExecLine | None, Launch | None]:
        """The one command the unit runs."""
        lines = self.facts.loaded.exec_start
        read = [read_command(line.path, line.argv) for line in lines]
        for launch in read:
            if isinstance(launch, NotAnEngine):
                self.refuse(self.exec_place, redact(launch.reason, ()), launch.remedy)
                return None, None
        if len(lines) != 1:
            self.refuse(self.exec_place, f"{len(lines)} ExecStart= lines are in force", "keep the engine's own")
            return None, None
        self._check_service(lines[0])
        launch = read[0]
        assert isinstance(launch, Launch)
        if any("$" in word for word in lines[0].argv[1 : launch.words]):
            self.refuse(self.exec_place, "a variable decides what is started", "write that part out in ExecStart=")
        return lines[0], launch

    def _check_service(self, line: ExecLine) -> None:
        loaded = self.facts.loaded
        if loaded.type in ("oneshot", "forking"):
            place = self._place_of("Type")
            self.refuse(
                place, f"Type={loaded.type}: the engine is not the unit's main process", "use Type=exec or simple"
            )
        if loaded.root:
            reason = f"the engine runs inside {loaded.root}: its paths are not the host's"
            self.refuse(loaded.fragment, reason, "leave RootDirectory= and RootImage= out")
        for flag, prefix in (("privileged", "+"), ("no-setuid", "!"), ("ambient", "!!")):
            if flag in line.flags:
                reason = f"ExecStart={prefix}... runs the engine with other rights than User= says"
                self.refuse(self.exec_place, reason, f"leave the {prefix} out")

    def _place_of(self, name: str) -> str:
        found = in_force(self.directives, name)
        return found[-1].place if found else self.facts.loaded.fragment

    def environment(self, launch: Launch | None) -> tuple[dict[str, Variable], dict[str, Variable]]:
        """Everything a ``$`` may mean, and what the unit itself sets: later sources win, files last of all."""
        loaded = self.facts.loaded
        own = expand.assignments(loaded.environment, "Environment=")
        places = in_force(self.directives, "EnvironmentFile")
        for index, file in enumerate(self.facts.environment_files):
            place = places[index].place if len(places) == len(self.facts.environment_files) else loaded.fragment
            own |= self._file(file, is_optional=loaded.environment_files[index][1], place=place)
        for unset in loaded.unset_environment:
            name, equals, value = unset.partition("=")
            if name in own and (not equals or own[name].value == value):
                del own[name]
        own |= expand.assignments(launch.environment if launch else (), "env in ExecStart=")
        everything = expand.assignments(self.facts.manager_environment, "the manager's environment")
        person = self.facts.account
        if person is not None:
            login = (f"HOME={person.home}", f"USER={person.name}", f"LOGNAME={person.name}", f"SHELL={person.shell}")
            everything |= expand.assignments(login, "the account")
        return everything | own, own

    def _file(self, file: ReadFile, *, is_optional: bool, place: str) -> dict[str, Variable]:
        if any(character in file.path for character in "*?["):
            self.refuse(place, f"EnvironmentFile={file.path} is a pattern", "name the files one by one")
            return {}
        if file.problem == "missing" and is_optional:
            self._missing.append(file.path)
            return {}
        if file.text is None:
            consequence = "and the unit cannot start" if file.problem == "missing" else "so what it sets is unknown"
            remedy = (
                "write the file, or EnvironmentFile=-"
                if file.problem == "missing"
                else "run adopt as a user who may read it, or as root"
            )
            self.refuse(place, f"EnvironmentFile={file.path} {_problem(file)}, {consequence}", remedy)
            return {}
        read = expand.read_environment(file.text)
        for number in read.doubtful:
            reason = "a comment ends in a backslash: before systemd 254 the next line is a comment too, later it is not"
            self.refuse(f"{file.path}:{number}", reason, "take the backslash away")
        for number, reason in read.ignored:
            self.notes.append(f"{file.path}:{number}: {reason}; systemd ignores the line")
        return {name: Variable(value=value, source=file.path, is_file=True) for name, value in read.values.items()}

    def expansion(self, line: ExecLine, variables: Mapping[str, Variable]) -> Expansion:
        """The words at start. A variable that only the manager or PAM could fill is a reason against."""
        if "no-env-expand" in line.flags:
            return Expansion(words=tuple(Word(text=word) for word in line.argv))
        expansion = expand.expand(line.argv, variables)
        for name in () if self.faults else expansion.unset:
            if name in _BY_SYSTEMD:
                self.refuse(self.exec_place, f"${name} is made by systemd at start", "write the value itself")
            elif self.facts.loaded.pam:
                reason = f"${name} is set by neither unit nor file, but PAM ({self.facts.loaded.pam}) may set it"
                self.refuse(self.exec_place, reason, "set it with Environment=")
            else:
                self.notes.append(self.empty(name))
        return expansion

    def empty(self, name: str) -> str:
        """Why a variable holds nothing."""
        if self._missing:
            exist = "does not exist" if len(self._missing) == 1 else "do not exist"
            return f"${name} is empty, {' and '.join(self._missing)} {exist}"
        return f"${name} is empty: neither the unit nor a file sets it"

    def check(self, arguments: Arguments, launch: Launch, expansion: Expansion) -> None:
        """What an entry cannot be without, and what it cannot hold."""
        name, port = MODEL[launch.kind], arguments.flags.get("port")
        if name not in arguments.flags and not self.faults:
            why = "; ".join(self.empty(unset) for unset in expansion.unset)
            self.refuse(self.exec_place, f"no {name}{'; ' if why else ''}{why}", f"the engine needs --{name}")
        if port is not None and (isinstance(port, bool) or not isinstance(port, int)):
            self.refuse(self.exec_place, f"--port has no single number: {port}", "write --port and one number")
        for option in arguments.unknown_options:
            found = catalogue.find(option)
            if found is not None and found.name in ("port", "host", "model-path"):
                said = [text for text in arguments.warnings if text.startswith((f"{found.name}:", option))]
                reason = "; ".join(text.removesuffix("; kept as it is") for text in said) or f"{option} is no use"
                self.refuse(self.exec_place, reason, f"the engine itself would not take this {option}")
        for word in expansion.words:
            if word.how == "whole" and not word.text:
                reason = f"the engine gets an empty word for ${{{word.variables[0]}}}: {self.empty(word.variables[0])}"
                self.refuse(self.exec_place, reason, "set it, or leave the word out")
        if "config" in arguments.flags:
            reason = f"--config: more flags are decided in {arguments.flags['config']}"
            self.refuse(self.exec_place, reason, "write them into ExecStart= and leave --config out")
        if arguments.flags.get("nnodes", 1) != 1:
            reason = f"--nnodes {arguments.flags['nnodes']}: an engine over several hosts"
            self.refuse(self.exec_place, reason, "tune drives engines on one host so far")

    def folder_of_the_running(self, launch: Launch, port: int) -> str | None:
        """The environment that the process which owns the port runs from, behind a launcher."""
        process = self.facts.server(port)
        if process is None:
            is_stopped = self.facts.loaded.main_pid == 0
            what = "the unit is not running" if is_stopped else f"no process of it is seen listening on port {port}"
            reason = f"ExecStart runs {launch.launcher}: uv chooses the environment at start, and {what}"
            remedy = "adopt it while it serves (as root), or put /path/to/.venv/bin/python into ExecStart="
            self.refuse(self.exec_place, reason, remedy)
            return None
        for word in process.argv[1::-1]:  # the console script, which lies in its environment, before the interpreter
            name = word.rpartition("/")[2]
            if word.startswith("/") and (name in ("vllm", "sglang") or name.startswith("python")):
                return posixpath.dirname(posixpath.dirname(word))
        if process.virtual_env:
            return process.virtual_env
        self.refuse(
            self.exec_place,
            f"ExecStart runs {launch.launcher}, and process {process.pid} does not show which environment it runs from",
            "put /path/to/.venv/bin/python into ExecStart=",
        )
        return None


def refuse_elsewhere(found: Elsewhere) -> InputRefused:
    """The system's manager does not know the name: say who does, and what speaks against adopting that."""
    name = f"{found.unit} on {found.host}"
    faults: list[str] = []
    for user_unit in found.user_units:
        owner = f"the user manager of {user_unit.user}" if user_unit.user else "the users' own managers"
        faults.append(
            f"{user_unit.path}: {name}: only {owner} knows this unit, the system's manager does not\n"
            "    make it a system unit with User= under /etc/systemd/system; tune works with those"
        )
        faults += _user_unit_faults(user_unit, name)
    if not faults:
        near = f"; did you mean {' or '.join(found.known)}?" if found.known else ""
        unread = f" (could not look into {', '.join(found.unread)})" if found.unread else ""
        faults = [f"{name}: no such unit, neither in the system's manager nor in a user's{unread}{near}"]
    return refusal(found.unit, found.host, faults)


def _user_unit_faults(user_unit: UserUnit, name: str) -> list[str]:
    if user_unit.text is None:
        return [f"{user_unit.path}: {name}: the file cannot be read"]
    directives = read_directives([ReadFile(path=user_unit.path, text=user_unit.text)])
    faults = []
    for directive in in_force(directives, "ExecStart"):
        words = split_words(directive.value)
        launch = read_command(words[0].lstrip("-@:+!"), words) if words else None
        if isinstance(launch, NotAnEngine):
            faults.append(f"{directive.place}: {name}: {redact(launch.reason, ())}\n    {launch.remedy}")
    return faults
