"""Ask a host everything a check-up needs. Changes nothing; every question has an end, and one without an answer is
told as such and keeps no other from being asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from orchestrator.core.adopt import Account
from orchestrator.core.commands import Command, checkup
from orchestrator.core.commands import systemd as ask
from orchestrator.core.commands.engine import PARSER_S, check_arguments
from orchestrator.core.commands.helper import HelperCalls
from orchestrator.core.commands.sudo import ROOT, who
from orchestrator.core.doctor import HostFacts
from orchestrator.core.doctor.facts import Engine, Entrance, Failure, Hold, Machine, Port, Service
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.ports import Clock, Host
from orchestrator.core.units import SIMULATED_PACKAGE, HostRecord
from orchestrator.errors import HostFault, InputRefused, OutcomeUnknown

Answer = TypeVar("Answer")

SHORT_S = 20.0
MOST_LOST = 2
ENGINE_S = 60.0
MARGIN_S = 30.0  # for the helper's own round trip
_PLACES = ("/run", "/var/lib", "/tmp", "/dev/shm")


@dataclass
class _Asking:
    """Puts questions and keeps what was not answered."""

    host: Host
    unanswered: list[Failure] = field(default_factory=list)
    lost: int = 0  # questions in a row whose outcome is unknown: after two, nobody is there to be asked

    def __call__(self, command: Command[Answer], *, deadline_s: float = SHORT_S) -> Answer | None:
        if self.lost >= MOST_LOST:
            return None
        try:
            answer = self.host.run(command, deadline_s=deadline_s)
        except HostFault as fault:
            self.lost += isinstance(fault, OutcomeUnknown)
            self.unanswered.append(Failure(fact=fault.fact, remedy=fault.remedy))
            if self.lost >= MOST_LOST:
                self.unanswered.append(Failure(fact="nothing more was asked: the host does not answer any more"))
            return None
        self.lost = 0
        return answer

    def told(self) -> tuple[Failure, ...]:
        """What was not answered since the last time."""
        failures, self.unanswered = tuple(self.unanswered), []
        return failures


def check_up(
    host: Host,
    entry: HostEntry,
    services: Sequence[ServiceEntry],
    *,
    clock: Clock,
    look_at_helper: Callable[[], str | None],
) -> HostFacts:
    """The facts of one host and of the services the inventory has on it; never raises for what a host does.

    ``look_at_helper`` says what is wrong with the helper there, in words, or None.
    """
    facts = HostFacts(name=entry.name, gpus_expected=entry.gpus)
    try:
        entrance = _enter(host, entry, look_at_helper)
    except (HostFault, InputRefused) as fault:
        words = " ".join([fault.fact, *getattr(fault, "faults", ())])
        return replace(facts, unreached=Failure(fact=words, remedy=fault.remedy))
    asking = _Asking(host)
    machine = _machine(asking, clock, entrance)
    told = tuple(_service(asking, one, entrance, clock) for one in services)
    return replace(facts, entrance=entrance, machine=machine, services=told)


def _enter(host: Host, entry: HostEntry, look_at_helper: Callable[[], str | None]) -> Entrance:
    login = host.run(who(), deadline_s=SHORT_S)
    entrance = Entrance(login=login, address=host.address, is_local=entry.connection == "local", manager=entry.manager)
    if entry.manager == "process":
        return entrance
    version, said = host.run(checkup.helper_version(() if login == "root" else ROOT), deadline_s=SHORT_S)
    return replace(
        entrance, helper_fault=look_at_helper(), helper_version=version, sudo_fault=None if login == "root" else said
    )


def _machine(asking: _Asking, clock: Clock, entrance: Entrance) -> Machine:
    has_units = entrance.manager == "systemd"
    before = clock.now().timestamp()
    there = asking(checkup.wall_clock())
    after = clock.now().timestamp()
    memory = asking(checkup.memory())
    machine = Machine(
        systemd=asking(checkup.systemd_version()) if has_units else None,
        python=asking(checkup.python_version()) if has_units else None,
        skew_s=None if there is None else there - (before + after) / 2,
        file_systems=asking(checkup.file_systems(_PLACES)),
        memory=memory[0] if memory else None,
        cached=memory[1] if memory else None,
        segments=asking(checkup.shared_memory()),
        left_files=asking(checkup.left_files()) if has_units else None,
        left_units=asking(checkup.left_units()) if has_units else None,
    )
    return replace(_gpus(asking, machine), unanswered=asking.told())


def _gpus(asking: _Asking, machine: Machine) -> Machine:
    first, *more = checkup.gpu_fields()
    before = len(asking.unanswered)
    answer = asking(checkup.gpu_columns(first))
    if answer is None:
        return replace(machine, has_nvidia_smi=len(asking.unanswered) > before)  # there, and ill
    others = [columns for fields in more if (columns := asking(checkup.gpu_columns(fields))) is not None]
    return replace(
        machine,
        has_nvidia_smi=True,
        gpus=checkup.gpu_health([answer, *others]),
        no_p2p=asking(checkup.peer_to_peer()),
    )


# --- one service -------------------------------------------------------------------------------------------------


def _service(asking: _Asking, entry: ServiceEntry, entrance: Entrance, clock: Clock) -> Service:
    model = entry.flags.get("model-path")
    facts = Service(
        name=entry.name,
        unit=entry.unit,
        trial_unit=entry.trial_unit,
        port=entry.port,
        user=entry.user,
        is_offline=entry.environment.get("HF_HUB_OFFLINE", "0").lower() in {"1", "true", "yes", "on"},
        model_path=str(model) if isinstance(model, str) else None,
        weights_gib=entry.model.weight_gib if entry.model else None,
        reads_weights=entry.flags.get("load-format") != "dummy",
        working_directory=entry.working_directory,
    )
    helper = None
    if entrance.manager == "systemd":
        facts = replace(facts, production=asking(checkup.production(entry.unit)))
        if entrance.has_helper:
            prefix = () if entrance.login == "root" else ROOT
            helper = HelperCalls(
                host=entry.host.name, service=entry.name, unit=entry.unit, port=entry.port, prefix=prefix
            )
    account = asking(ask.account(entry.user)) if entry.user else None
    facts = replace(
        facts,
        has_user=None if entry.user is None else account is not None,
        has_folder=asking(checkup.has_folder(entry.working_directory)) if entry.working_directory else None,
    )
    as_service = _Surroundings(asking, entry, helper, account if entrance.login == "root" else None)
    facts = as_service.engines(facts)
    facts = as_service.model(facts)
    facts = _port(asking, facts, helper)
    facts = _hold(asking, facts, helper, clock)
    return replace(facts, unanswered=asking.told())


@dataclass
class _Surroundings:
    """Questions asked as the service: through the helper as its user, else as near to that as this login comes."""

    asking: _Asking
    entry: ServiceEntry
    helper: HelperCalls | None
    person: Account | None  # whom root becomes where there is no helper

    @property
    def variables(self) -> tuple[str, ...]:
        """``NAME=value`` of the service."""
        home = (f"HOME={self.person.home}",) if self.person and self.helper is None else ()
        return (*home, *(f"{name}={value}" for name, value in self.entry.environment.items()))

    def setting(self, folder: str) -> ask.Setting:
        """The interpreter of one installed engine."""
        person = self.person if self.helper is None else None
        where = self.entry.working_directory
        return ask.Setting(python=f"{folder}/bin/python", folder=where, variables=self.variables, person=person)

    def put(self, command: Command[Answer], *, deadline_s: float) -> Answer | None:
        """Through the helper where there is one."""
        if self.helper is None:
            return self.asking(command, deadline_s=deadline_s)
        whole = self.helper.ask(command, user=self.entry.user, deadline_s=deadline_s)
        return self.asking(whole, deadline_s=deadline_s + MARGIN_S)

    def engines(self, facts: Service) -> Service:
        """Version of each, and the parser of the one that sweeps use."""
        found = tuple(self._engine(version, folder) for version, folder in self.entry.engines.items())
        facts = replace(facts, engines=found)
        here = next((one for one in found if one.expected == self.entry.engine and one.version), None)
        if here is None or self.entry.kind != "sglang":
            return facts
        before = len(self.asking.unanswered)
        question = check_arguments(self.setting(here.folder), {}, engine=here.folder)
        answer = self.put(question, deadline_s=PARSER_S)
        failures = self.asking.unanswered[before:]
        del self.asking.unanswered[before:]
        return replace(facts, parser_asked=answer is not None, parser_fault=failures[0].fact if failures else None)

    def _engine(self, version: str, folder: str) -> Engine:
        setting = self.setting(folder)
        before = len(self.asking.unanswered)
        answer: Any = self.put(ask.engine_version(setting, self.entry.kind), deadline_s=ENGINE_S)
        if answer is None or isinstance(answer, str):
            failures = self.asking.unanswered[before:]
            del self.asking.unanswered[before:]
            fault = answer or (failures[0].fact if failures else None)
            return Engine(folder=folder, expected=version, version=None, fault=fault)
        pretended = self.put(ask.engine_version(setting, SIMULATED_PACKAGE), deadline_s=ENGINE_S)
        simulated = pretended is not None and not isinstance(pretended, str)
        return Engine(folder=folder, expected=version, version=answer[0], is_simulated=simulated)

    def model(self, facts: Service) -> Service:
        """The model's files; a simulated engine reads none."""
        if facts.model_path is None or any(engine.is_simulated for engine in facts.engines):
            return facts
        revision = self.entry.flags.get("revision")
        variables = tuple(word for word in self.variables if word.startswith(("HF_", "HOME=")))
        question = checkup.model_folder(
            facts.model_path, str(revision) if isinstance(revision, str) else None, variables
        )
        if self.helper is None and self.person is not None and self.person.uid != 0:
            ids = (f"--reuid={self.person.uid}", f"--regid={self.person.gid}", "--init-groups", "--inh-caps=-all")
            question = replace(question, argv=("setpriv", *ids, *question.argv))
        return replace(facts, model=self.put(question, deadline_s=ENGINE_S))


def _port(asking: _Asking, facts: Service, helper: HelperCalls | None) -> Service:
    if helper is not None:
        seen = asking(helper.watch("production", ""), deadline_s=SHORT_S + MARGIN_S)
        if seen is None:
            return facts
        found = seen.listener
        port = None if found is None else Port(pid=found.pid, command=found.command, is_ours=found.ours)
        return replace(facts, port_asked=True, listener=port)
    sockets = asking(ask.listening_sockets())
    if sockets is None:
        return facts
    mine = [socket for socket in sockets if socket.port == facts.port]
    if not mine:
        return replace(facts, port_asked=True)
    pids = [pid for socket in mine for pid in socket.pids]
    if not pids:
        return replace(facts, port_asked=True, listener=Port(pid=0, command="", is_ours=None))
    own = asking(ask.unit_pids(facts.unit)) if facts.production is not None else ()
    port = Port(pid=pids[0], command=mine[0].command, is_ours=pids[0] in (own or ()))
    return replace(facts, port_asked=True, listener=port)


def _hold(asking: _Asking, facts: Service, helper: HelperCalls | None, clock: Clock) -> Service:
    if helper is None:
        return facts
    before = len(asking.unanswered)
    record = asking(helper.record())
    if len(asking.unanswered) > before:
        return facts
    return replace(facts, hold_asked=True, hold=_held(record, clock) if record is not None else None)


def _held(record: HostRecord, clock: Clock) -> Hold:
    """Over by wall clock: the host itself decides by a clock that never steps, and clears it within a minute."""
    over = record.deadline < clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    return Hold(
        owner=record.owner,
        run=record.run,
        until=record.deadline,
        is_over=over,
        is_temporary=record.state == "temporary",
        rebooted=record.rebooted,
    )
