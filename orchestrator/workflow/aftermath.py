"""A failed launch, looked at once more: what its host says of it, asked once and only then."""

from __future__ import annotations

from orchestrator.core.ports import Doors
from orchestrator.core.start import aftermath, failures
from orchestrator.core.start.failures import Failure
from orchestrator.core.units import Aftermath, Role
from orchestrator.workflow.lease import Held


def host_word(doors: Doors, held: Held, role: Role, invocation_id: str, *, since_s: float) -> Aftermath:
    """The end of the invocation's journal, the kernel log of the last ``since_s``, the GPUs."""
    return held.ask(lambda: doors.service.aftermath(role, invocation_id, since_s=since_s))


def explained(
    doors: Doors,
    held: Held,
    role: Role,
    failure: Failure,
    *,
    invocation_id: str,
    since_s: float,
    gpus: int | None,
) -> Failure:
    """The failure of a start in the light of what kernel and GPUs say; ``gpus``: how many there were before.

    A cause that is the start's own needs no asking. Raises what ``Held.ask`` raises.
    """
    if failures.is_own(failure):
        return failure
    told = host_word(doors, held, role, invocation_id, since_s=since_s)
    return aftermath.judge(failures.with_last_words(failure, told.journal), told, gpus)
