"""Why an engine failed: classes with their evidence, in words, and what may be done next.

The journal (``failure_rows``) decides before the exit status does: SGLang's parent SIGKILLs itself when a child fails,
so systemd's ``9/KILL`` says nothing about the host's own OOM killer. What only kernel and GPUs can tell is added by
``aftermath``, once a failure is certain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from orchestrator.core.start.failure_rows import ROWS, Row, Stage, Verdict
from orchestrator.core.units import UnitState

KEEP_LINES = 6
STOPPED = "stopped"
TRACEBACK_LINES = 60  # a traceback that began further up is another one's


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A named failure with the journal lines that show it."""

    name: str
    verdict: Verdict
    explanation: str
    next_step: str
    evidence: tuple[str, ...] = ()


_COMPILED = tuple((row, re.compile(row.pattern)) for row in ROWS)
_CHILD_DIED = next(row for row in ROWS if row.name == "child-died")
_PEER_LOST = re.compile(r"Connection (closed|reset) by peer|caused by a remote worker crashing")
_HOST_OOM = next(row for row in ROWS if row.name == "host-oom")
_OWN = frozenset(row.name for row in ROWS if row.is_own)
_ANY = re.compile("|".join(f"(?:{row.pattern})" for row in ROWS))

# Where in a start a line stands: once a mark was seen, the stage holds until the next mark.
_STAGE_MARKS: tuple[tuple[re.Pattern[str], Stage], ...] = (
    (re.compile(r"Load weight begin"), "load"),
    (re.compile(r"[Cc]apture .*(cuda|CUDA) graph begin"), "capture"),
    (re.compile(r"Uvicorn running on|fired up and ready to roll"), "serve"),
)


# systemd's word that somebody asked for the stop; older ones name the unit's description alone. An engine that leaves
# by itself, or dies, has no such line.
_STOPPING = re.compile(r"Stopping (\S+\.service - |tune trial )")

# What a clean stop of SGLang ends with, by the dozen: extensions that count what Python left unfreed.
_NOISE = re.compile(r"nanobind: (leaked|this is likely)| - leaked | - \.\.\. skipped remainder|See https://nanobind")

_BATCH = re.compile(r"(Decode|Prefill) batch, ")  # what it goes on saying while it drains


def stages(lines: Sequence[str], began: Stage = "start") -> tuple[Stage, ...]:
    """The stage each journal line was written in; ``began``: the stage before the first of them."""
    current = began
    found: list[Stage] = []
    for line in lines:
        for mark, stage in _STAGE_MARKS:
            if mark.search(line):
                current = stage
        found.append(current)
    return tuple(found)


def is_suspicious(line: str) -> bool:
    """Some class may be in this line; cheap enough for every line of every start."""
    return _ANY.search(line) is not None


def is_own(failure: Failure) -> bool:
    """The cause is known to be the start's own: no kernel message or lost GPU could explain it better."""
    return failure.name in _OWN


def from_journal(lines: Sequence[str], *, terminal_only: bool = False, began: Stage = "start") -> Failure | None:
    """The class the journal speaks of, or None.

    ``terminal_only``: consider just what an engine never recovers from, for use while its process still lives.
    ``began``: the stage before the first line, for a journal that is kept from there on.
    """
    where = stages(lines, began)
    for row, pattern in _COMPILED:
        if terminal_only and not row.terminal:
            continue
        for number, line in enumerate(lines):
            if where[number] in row.stages and pattern.search(line):
                return _of_the_first(_failure(row, _around(lines, number)))
    return None


def _of_the_first(failure: Failure) -> Failure:
    """Of a pipeline the ranks that are left raise what they hear of the one that died: theirs is not the cause."""
    if failure.name != "generic" or not any(_PEER_LOST.search(line) for line in failure.evidence[-1:]):
        return failure
    explanation = f"{_CHILD_DIED.explanation}; what the journal shows is another that lost contact with it"
    return replace(_failure(_CHILD_DIED, failure.evidence), explanation=explanation)


def from_end(lines: Sequence[str], unit: UnitState, *, began: Stage = "start") -> Failure:
    """The class of an engine whose process has ended: from its journal, else from how systemd saw it end."""
    tail = _tail(lines)
    if unit.result == "start-limit-hit":  # of this start there is no journal: the lines are an earlier one's
        return _start_limit(lines)
    stop = next((number for number, line in enumerate(lines) if _STOPPING.match(line)), None)
    found = from_journal(lines[:stop], terminal_only=stop is not None, began=began)
    if found is not None:
        return found
    if unit.result == "oom-kill":
        return _failure(_HOST_OOM, tail)
    if stop is not None:
        told = (line.rstrip() for line in lines[stop:] if _is_telling(line) and not _BATCH.search(line))
        return _stopped(tuple(told)[:KEEP_LINES])
    has_served = "serve" in stages(lines, began)
    if unit.exec_main_code == 1 and unit.exec_main_status == 0:
        return _left_by_itself(tail, has_served=has_served)
    if unit.exec_main_code in {2, 3}:
        return _killed(tail, unit)
    if unit.exec_main_code == 0 and unit.result == "success":
        return _stopped(tail)
    return Failure(
        name="exited",
        verdict="unknown",
        explanation=f"the main process exited with status {unit.exec_main_status} (systemd result: {unit.result})",
        next_step="the journal of the invocation",
        evidence=tail,
    )


def _stopped(evidence: tuple[str, ...]) -> Failure:
    return Failure(
        name=STOPPED,
        verdict="environment",
        explanation="the unit was stopped by somebody else",
        next_step="journalctl -u of the unit says when; nothing of ours stops it while it starts or serves",
        evidence=evidence,
    )


def _start_limit(lines: Sequence[str]) -> Failure:
    cause = from_journal(lines)
    why = f"; it died of this each time: {cause.explanation}" if cause else ""
    return Failure(
        name="start-limit",
        verdict="environment",
        explanation=f"systemd refuses to start the unit again: it failed too often in too short a time{why}",
        next_step=cause.next_step if cause else "systemctl reset-failed, then start it and read its journal",
        evidence=cause.evidence if cause else _tail(lines),
    )


def _left_by_itself(tail: tuple[str, ...], *, has_served: bool) -> Failure:
    if has_served:
        return Failure(
            name="exit-0-while-serving",
            verdict="environment",
            explanation="the engine ended by itself, with success, while it served: somebody told it to",
            next_step="SIGTERM to its main process ends it like this; journalctl around that time may say whose",
            evidence=tail,
        )
    return Failure(
        name="exit-0-at-once",
        verdict="unknown",
        explanation="the engine ended by itself, with success, before it served anything",
        next_step="an ExecStart that forks, or only prints its help or version, ends like this",
        evidence=tail,
    )


def _killed(tail: tuple[str, ...], unit: UnitState) -> Failure:
    number = unit.exec_main_status
    own = "; SGLang kills itself with 9 when a child fails" if number == 9 else ""
    return Failure(
        name="killed",
        verdict="unknown",
        explanation=f"the main process was killed by signal {number}{own}",
        next_step="the journal of the invocation, then the kernel log",
        evidence=tail,
    )


def from_death(lines: Sequence[str], unit: UnitState, invocation_id: str) -> Failure:
    """The class of an engine that was ready and is no more. ``lines``: the end of its journal, all of them of serving.

    It may have been started again meanwhile, by its own unit (``Restart=``) or by somebody.
    """
    if unit.invocation_id in {"", invocation_id}:
        return from_end(lines, unit, began="serve")
    found = from_journal(lines, began="serve")
    if found is not None:
        return found
    return crash_loop(lines, unit) if unit.n_restarts else replaced(lines, invocation_id, unit.invocation_id)


def crash_loop(lines: Sequence[str], unit: UnitState) -> Failure:
    """The unit was restarted by systemd while we waited: name what it dies of."""
    cause = from_journal(lines)
    why = f": {cause.explanation}" if cause else ""
    times = "once" if unit.n_restarts == 1 else f"{unit.n_restarts} times"
    ended = ("", "exit status", "signal", "signal")[unit.exec_main_code] if unit.exec_main_code in range(4) else ""
    status = f", each time after {ended} {unit.exec_main_status}" if ended else ""  # none while it runs again
    return Failure(
        name="crash-loop",
        verdict=cause.verdict if cause else "unknown",
        explanation=f"it dies and systemd starts it again, {times} so far{status}{why}",
        next_step=cause.next_step if cause else "the journal of the invocation",
        evidence=cause.evidence if cause else _tail(lines),
    )


def with_last_words(failure: Failure, lines: Sequence[str]) -> Failure:
    """A failure with the end of its own invocation's journal, where that was over before it could be read.

    A unit that restarts at once shows but its next life: what the first one died of, the crash loop dies of.
    """
    cause = from_journal(lines) if failure.name == "crash-loop" and failure.verdict == "unknown" else None
    if cause is not None:
        return replace(cause, name=failure.name, explanation=f"{failure.explanation}: {cause.explanation}")
    return failure if failure.evidence else replace(failure, evidence=_tail(lines))


def replaced(lines: Sequence[str], expected: str, found: str) -> Failure:
    """Another invocation than the one we started is running."""
    return Failure(
        name="replaced",
        verdict="environment",
        explanation=f"the unit was started again by somebody else (invocation {found[:8]}, ours was {expected[:8]})",
        next_step="journalctl -u on the host says who; nothing of ours was left running",
        evidence=_tail(lines),
    )


def foreign_listener(pid: int, command: str) -> Failure:
    """The port answers, but not our process."""
    return Failure(
        name="foreign-listener",
        verdict="environment",
        explanation=f"the port belongs to another process: pid {pid} ({command})",
        next_step="stop it, or give the service another port",
    )


def no_progress(lines: Sequence[str], seconds: float, phase: str, said: str = "") -> Failure:
    """Nothing moved: no journal line, CPU time, IO or GPU memory. ``said``: what came of our last request."""
    return Failure(
        name="timeout-no-progress",
        verdict="unknown",
        explanation=f"nothing moved for {seconds:.0f} s in the phase {phase}: no journal line, CPU time, IO or GPU"
        f" memory{_our_request(said)}",
        next_step="the last journal lines say where it stands; a larger startup.no-progress only if it was merely slow",
        evidence=_tail(lines),
    )


def timeout(lines: Sequence[str], seconds: float, phase: str, said: str = "") -> Failure:
    """Still not ready after the whole time allowed for a start, although things moved."""
    return Failure(
        name="timeout",
        verdict="unknown",
        explanation=f"not ready after {seconds:.0f} s, the whole time allowed; it stood in the phase {phase}"
        f"{_our_request(said)}",
        next_step="a larger startup.timeout if the last lines still make progress",
        evidence=_tail(lines),
    )


def lost_contact(fact: str, seconds: float) -> Failure:
    """The host no longer answered while this launch was under way; ``seconds``: how long it was waited for."""
    return Failure(
        name="lost-contact",
        verdict="environment",
        explanation=f"the host stopped answering and was waited for in vain for {seconds:.0f} s",
        next_step="once it answers: tune doctor, then resume the run; this config is started again",
        evidence=(fact,),
    )


def _our_request(said: str) -> str:
    return f"; it listens, and our last request came to: {said}" if said else ""


def other_engine(differences: Sequence[str]) -> Failure:
    """An engine answers, but of another version, or with another model or layout, than was asked for."""
    return Failure(
        name="other-engine",
        verdict="environment",
        explanation="the engine that answers is not the one that was started: " + "; ".join(differences),
        next_step="check who serves on this port, and what is installed in the folder that was started",
        evidence=tuple(differences),
    )


def _failure(row: Row, evidence: tuple[str, ...]) -> Failure:
    return Failure(
        name=row.name,
        verdict=row.verdict,
        explanation=row.explanation,
        next_step=row.next_step,
        evidence=evidence,
    )


_TRACEBACK = "Traceback (most recent call last)"


def _around(lines: Sequence[str], number: int) -> tuple[str, ...]:
    """The matching line with what explains it: the traceback it opens or closes, else the lines that led to it."""
    start = next((i for i in range(number, max(-1, number - TRACEBACK_LINES), -1) if _TRACEBACK in lines[i]), None)
    if start is None:
        return _tail(lines[: number + 1])
    end = _end_of_traceback(lines, start)
    if not start <= number <= end:
        return _tail(lines[: number + 1])
    return (lines[start].rstrip(), *_tail(lines[start + 1 : end + 1])[-KEEP_LINES + 1 :])


def _end_of_traceback(lines: Sequence[str], start: int) -> int:
    """The exception's own line: the first after the frames, which are indented."""
    for number in range(start + 1, len(lines)):
        if lines[number].strip() and not lines[number].startswith((" ", "\t")):
            return number
    return len(lines) - 1


def _tail(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.rstrip() for line in lines if _is_telling(line))[-KEEP_LINES:]


def _is_telling(line: str) -> bool:
    return bool(line.strip()) and _NOISE.match(line) is None
