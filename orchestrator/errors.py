"""One family of errors. Each class owns its exit code and says what to try.

Only ``cli.main`` prints an error and exits; everybody else raises. A message holds the fact, the usual
cause, the next step, and the state the host is in. "Worse than before" is an answer, not a fault of the
program, and yet has a code here, so that a timer or a CI job can tell the mornings apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class TuneError(Exception):
    """Something the user can act on.

    ``fact`` is one sentence. ``cause`` is what is usually behind it, ``remedy`` what to try next, ``host_state``
    what the host is left in, ``evidence`` the lines (journal, argv, diff) that show it.
    """

    exit_code: ClassVar[int] = 1
    meaning: ClassVar[str] = "a fault of tune itself; the log file named in the message has the traceback"

    def __init__(
        self,
        fact: str,
        *,
        cause: str | None = None,
        remedy: str | None = None,
        host_state: str | None = None,
        evidence: Sequence[str] = (),
    ) -> None:
        super().__init__(fact)
        self.fact = fact
        self.cause = cause
        self.remedy = remedy
        self.host_state = host_state
        self.evidence = tuple(evidence)


class InputRefused(TuneError):
    """A file, flag or argument that cannot be accepted. ``faults`` are printed one a paragraph; nothing was touched."""

    exit_code = 2
    meaning = "refused input: nothing was touched"

    def __init__(
        self,
        fact: str,
        *,
        faults: Sequence[str] = (),
        cause: str | None = None,
        remedy: str | None = None,
        evidence: Sequence[str] = (),
    ) -> None:
        super().__init__(fact, cause=cause, remedy=remedy, host_state=None, evidence=evidence)
        self.faults = tuple(faults)


class BadAnswer(TuneError):
    """The work was done and the answer is no: no config could be measured, for instance."""

    exit_code = 3
    meaning = "done, but the answer is bad: nothing could be measured, or a plan does not fit"


class HostFault(TuneError):
    """The host, its SSH connection or its service manager failed us."""

    exit_code = 4
    meaning = "host: not reached, refused us, or a command on it failed"


class NotReached(HostFault):
    """Nobody answers at the host's address, so nothing was sent: it may be tried again while there is time."""


class OutcomeUnknown(HostFault):
    """The link was lost or the deadline passed while a command ran: it may have happened, or still be running."""


class UnitRefused(HostFault):
    """The host does not accept a unit as meant (verify's own line, another argv, a masked or foreign unit)."""


class NotReady(TuneError):
    """The engine did not become ready; ``failure_class`` is one of ``core.failures``."""

    exit_code = 5
    meaning = "not ready: the engine did not start or did not answer"

    def __init__(
        self,
        fact: str,
        *,
        failure_class: str = "unknown",
        cause: str | None = None,
        remedy: str | None = None,
        host_state: str | None = None,
        evidence: Sequence[str] = (),
    ) -> None:
        super().__init__(fact, cause=cause, remedy=remedy, host_state=host_state, evidence=evidence)
        self.failure_class = failure_class


class BenchFault(TuneError):
    """The load program or the endpoint failed in a way that leaves no number."""

    exit_code = 6
    meaning = "benchmark: the load program or the endpoint failed"


class Locked(TuneError):
    """Somebody else holds the host."""

    exit_code = 7
    meaning = "locked: another run or person holds the host, or this run's hold on it has ended"


class LeaseLost(Locked):
    """The host record is no longer ours: it expired or was taken over. Nothing more may be changed by us."""


class StoreFault(TuneError):
    """The record of what was measured cannot be read or written."""

    exit_code = 8
    meaning = "store: results cannot be read or written"


class RolledBack(TuneError):
    """A change failed and what ran before is in service again."""

    exit_code = 9
    meaning = "rolled back: the change failed, what ran before serves again"


class RestoreFailed(TuneError):
    """Production could not be put back. The message says the exact state and the command to run by hand."""

    exit_code = 10
    meaning = "restore or roll-back failed: production does not serve; the message says what to do"


class Regression(TuneError):
    """A guarded configuration got worse than its past."""

    exit_code = 11
    meaning = "regression: a guarded configuration got worse"


class NotMeasured(TuneError):
    """A guarded configuration could not be measured, so nothing is known about it."""

    exit_code = 12
    meaning = "not measured: the guard has no reading"


class Declined(TuneError):
    """The person asked said no (or could not be asked). Nothing was touched."""

    exit_code = 13
    meaning = "declined: the question was answered with no; nothing was touched"


class Interrupted(TuneError):
    """A signal ended the run and everything was put back."""

    exit_code = 130
    meaning = "interrupted: stopped by a signal, the host is as it was before"


class RestoreUnderWay(Interrupted):
    """A second signal ended the watching; the host goes on restoring by itself."""

    exit_code = 131
    meaning = "interrupted: the host is still restoring by itself; the message has the command to look"


def exit_codes() -> dict[int, str]:
    """Every exit code and its meaning, ascending. Subclasses without a code of their own share their parent's."""
    table = {0: "done"}
    pending: list[type[TuneError]] = [TuneError]
    while pending:
        kind = pending.pop()
        if "exit_code" in vars(kind):
            table[kind.exit_code] = kind.meaning
        pending.extend(kind.__subclasses__())
    return dict(sorted(table.items()))
