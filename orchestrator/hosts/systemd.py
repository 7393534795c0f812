"""A service under systemd on some host, behind ``core.ports.Service``: every word goes through the helper there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from orchestrator.core.commands import Answer, Command, Reply, aftermath, nvidia
from orchestrator.core.commands.engine import PARSER_S, check_units
from orchestrator.core.commands.helper import HelperCalls
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.ports import Clock, Host
from orchestrator.core.units import (
    SIMULATED_PACKAGE,
    Aftermath,
    GpuState,
    HostRecord,
    KernelLog,
    Lease,
    Observation,
    RestoreState,
    Role,
    Survey,
    Teardown,
    TrialUnit,
)
from orchestrator.errors import HostFault, NotReached, OutcomeUnknown
from orchestrator.hosts.helper.install import ensure_helper

TAKE_S = 660.0  # a take-over restores first: the helper's own bounds for that, and a margin
TAKE_TRIES, RETRY_EVERY_S = 3, 5.0
MARGIN_S = 60.0  # for the round trip, and for waiting until another verb has let go of the host's lock
AFTERMATH_S = 20.0  # for each of its questions: a driver that lost a GPU can make nvidia-smi wait for ever
VERSION_S = 60.0  # importing nothing of the engine, but its folder may be on a slow disk

_VERSIONS = (
    "import importlib.metadata as m, sys; "
    "print(sys.version.split()[0]); "
    "[print(n, next(iter({d.version for d in m.distributions(name=n)}), '')) for n in sys.argv[1:]]"
)
_PACKAGES = ("sglang", "vllm", "torch", SIMULATED_PACKAGE)


def reveal(host: Host, entry: ServiceEntry, path: str) -> str:
    """The text of an environment file on the host, also when only root may read it. Raises ``HostFault``."""
    return host.run(_calls(host, entry).reveal(path))


def _calls(host: Host, entry: ServiceEntry) -> HelperCalls:
    prefix = ensure_helper(host)
    return HelperCalls(host=host.name, service=entry.name, unit=entry.unit, port=entry.port, prefix=prefix)


class SystemdService:
    """Satisfies ``core.ports.Service``. ``owner`` is ``user@box``, as others see it on the host record.

    ``secrets`` is the text of each file that gives trials their secrets (``core.secrets.files``).
    """

    def __init__(
        self, host: Host, entry: ServiceEntry, *, owner: str, clock: Clock, secrets: Mapping[str, str] | None = None
    ) -> None:
        self._host = host
        self._entry = entry
        self._owner = owner
        self._clock = clock
        self._secrets = secrets or {}
        self._calls: HelperCalls | None = None
        self._seen_journal: dict[str, int] = {}  # InvocationID -> bytes seen so far

    def survey(self) -> Survey:
        """Look at the host before anything is changed; the engine's version is asked of its own python."""
        survey = self._run(self._helper.survey())
        versions = self.installed(self._entry.engine)
        facts = {**survey.facts, **{name: version for name, version in versions.items() if name != self._entry.kind}}
        return replace(survey, engine_version=versions.get(self._entry.kind), facts=facts)

    def installed(self, engine: str) -> Mapping[str, str]:
        """Ask the python of that engine's folder, as the service's user: never root, for that user may write there."""
        python = f"{self._entry.engines[engine]}/bin/python"
        question = Command(argv=(python, "-I", "-c", _VERSIONS, *_PACKAGES), parse=_versions)
        asked = self._helper.ask(question, user=self._entry.user, deadline_s=VERSION_S)
        return self._run(asked, deadline_s=VERSION_S + MARGIN_S)

    def record(self) -> HostRecord | None:
        """Who holds the service."""
        return self._run(self._helper.record())

    def take(self, *, run: str, purpose: str, ttl_s: float) -> Lease:
        """Become the owner. When the link is lost it is asked again: a run may take over what it holds itself."""
        command = self._helper.take(owner=self._owner, run=run, purpose=purpose, ttl_s=ttl_s)
        for _ in range(TAKE_TRIES - 1):
            try:
                return self._run(command, deadline_s=TAKE_S)
            except OutcomeUnknown:
                self._clock.sleep(RETRY_EVERY_S)
        return self._run(command, deadline_s=TAKE_S)

    def renew(self, lease: Lease, *, ttl_s: float) -> None:
        """Show a sign of life."""
        self._run(self._helper.renew(lease, ttl_s=ttl_s))

    def free(self, lease: Lease) -> None:
        """Give the record back."""
        self._run(self._helper.free(lease))

    def verify(self, unit: TrialUnit) -> None:
        """Have the host's systemd check the text under its real name."""
        self._run(self._helper.verify(unit))

    def check_argv(self, units: Mapping[str, TrialUnit]) -> Mapping[str, str]:
        """Ask the parser of each engine, as the service's user and in the service's surroundings."""
        refused: dict[str, str] = {}
        for question in check_units(self._entry, units):
            asked = self._helper.ask(question, user=self._entry.user, deadline_s=PARSER_S)
            answer: Mapping[str, str] = self._run(asked, deadline_s=PARSER_S + MARGIN_S)
            refused |= answer
        return refused

    def install(self, lease: Lease, unit: TrialUnit) -> None:
        """Put the trial unit in place; installing the same again changes nothing."""
        self._run(self._helper.install(lease, unit, self._secrets))

    def stop(self, lease: Lease, role: Role, *, deadline_s: float) -> None:
        """Stop the unit, and return when it is."""
        self._run(self._helper.stop(lease, role, deadline_s=deadline_s), deadline_s=deadline_s + MARGIN_S)

    def teardown(self) -> Teardown:
        """One look at who still holds what the next start needs."""
        return self._run(self._helper.teardown())

    def start(self, lease: Lease, role: Role) -> str:
        """Start it and return its InvocationID; what runs already is left running."""
        return self._run(self._helper.start(lease, role), deadline_s=2 * MARGIN_S).invocation_id

    def watch(self, role: Role, cursor: str = "") -> Observation:
        """One look at the unit. ``progress.journal_bytes`` counts what this object has seen of the invocation."""
        seen = self._run(self._helper.watch(role, cursor))
        invocation = seen.unit.invocation_id
        before = self._seen_journal.get(invocation, 0) if cursor else 0
        self._seen_journal[invocation] = before + seen.progress.journal_bytes
        return replace(seen, progress=replace(seen.progress, journal_bytes=self._seen_journal[invocation]))

    def aftermath(self, role: Role, invocation_id: str, *, since_s: float) -> Aftermath:
        """Last words, kernel log and GPUs, each asked as root and each with a bound of its own."""
        kernel = self._told(aftermath.kernel_log(since_s), lambda why: KernelLog(problem=why))
        if not kernel.lines and not kernel.problem and not self._told(aftermath.is_kernel_log_kept(), lambda _: False):
            kernel = KernelLog(problem="the host's journal keeps no kernel messages")
        return Aftermath(
            unit=self._entry.unit if role == "production" else self._entry.trial_unit,
            journal=self._told(aftermath.last_words(invocation_id), lambda _: ()) if invocation_id else (),
            kernel=kernel,
            gpus=self._told(nvidia.state(), lambda why: GpuState(problem=why)),
        )

    def restore(self, lease: Lease) -> None:
        """Ask the host to put production back by itself."""
        self._run(self._helper.restore(lease))

    def restoring(self) -> RestoreState:
        """How far the host is with that."""
        return self._run(self._helper.restoring())

    def _told(self, question: Command[Answer], otherwise: Callable[[str], Answer]) -> Answer:
        """Its answer, or what stands for one that the host could not give; a lost link is nobody's answer."""
        try:
            asked = self._helper.ask(question, user=None, deadline_s=AFTERMATH_S)
            return self._run(asked, deadline_s=AFTERMATH_S + MARGIN_S)
        except (OutcomeUnknown, NotReached):
            raise
        except HostFault as fault:
            return otherwise(fault.fact)

    @property
    def _helper(self) -> HelperCalls:
        """The helper's verbs; on first contact it is checked, and put there when we are root."""
        if self._calls is None:
            self._calls = _calls(self._host, self._entry)
        return self._calls

    def _run(self, command: Command[Answer], *, deadline_s: float = MARGIN_S + 30.0) -> Answer:
        return self._host.run(command, deadline_s=deadline_s)


def _versions(reply: Reply) -> Mapping[str, str]:
    """Lines ``name version``, python's own version first. Empty when that python could not be asked."""
    lines = reply.text.splitlines() if reply.returncode == 0 else []
    found = {"python": lines[0]} if lines else {}
    return {**found, **{name: version for name, _, version in (line.partition(" ") for line in lines[1:]) if version}}
