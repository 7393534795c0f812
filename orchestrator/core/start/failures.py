"""Why an engine failed: classes with their evidence, in words, and what may be done next.

The journal decides before the exit status does: SGLang's parent SIGKILLs itself when a child fails, so systemd's
``9/KILL`` says nothing about the host's own OOM killer. The first matching row wins, and rows that only say
*something above went wrong* come last. Patterns are SGLang's own words, read in versions 0.5.3 to 0.5.23.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.core.units import UnitState

Verdict = Literal["infeasible", "environment", "unknown"]
Stage = Literal["start", "load", "capture", "serve"]

KEEP_LINES = 6
TRACEBACK_LINES = 60  # a traceback that began further up is another one's


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A named failure with the journal lines that show it."""

    name: str
    verdict: Verdict
    explanation: str
    next_step: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """One class. ``stages`` narrows where in a start the pattern counts; ``terminal``: the engine will not recover,
    even if its process is still there (a port clash leaves the server hanging with everything loaded)."""

    name: str
    pattern: str
    verdict: Verdict
    explanation: str
    next_step: str
    stages: tuple[Stage, ...] = ("start", "load", "capture", "serve")
    terminal: bool = True


_OOM = r"torch\.(cuda\.)?OutOfMemoryError|CUDA out of memory"

ROWS: tuple[Row, ...] = (
    Row(
        name="bad-flag",
        pattern=r"error: (unrecognized arguments|ambiguous option|argument .*(invalid choice|expected one argument))",
        verdict="infeasible",
        explanation="the installed engine does not know a flag or a value",
        next_step="compare the flag with the installed version: tune plan shows the spelling it would use",
    ),
    Row(
        name="model-no-pp",
        pattern=r"Pipeline Parallel is not compatible with this model",
        verdict="infeasible",
        explanation="this version cannot split this model into pipeline stages",
        next_step="a newer engine (Kimi K2.5/K2.6: 0.5.10 or later), or pp-size 1",
    ),
    Row(
        name="pp-partition",
        pattern=r"does not match (pp_size|num_hidden_layers)",
        verdict="infeasible",
        explanation="SGLANG_PP_LAYER_PARTITION does not fit pp-size or the number of layers",
        next_step="one count per stage, their sum the model's layers",
    ),
    Row(
        name="stale-gpu",
        pattern=r"The memory capacity is unbalanced",
        verdict="environment",
        explanation="one GPU had less free memory than the others: nearly always leftovers of an earlier process",
        next_step="nvidia-smi names who holds the memory; free it, then resume the run",
    ),
    Row(
        name="kv-too-small",
        pattern=r"Not enough memory\. Please try to increase --mem-fraction-static|Loaded weights leave no GPU memory"
        r"|Memory pool size is too small",
        verdict="infeasible",
        explanation="the KV cache does not fit beside the weights",
        next_step="a larger mem-fraction-static, or a layout that splits the layers further (pp-size)",
    ),
    Row(
        name="load-oom",
        pattern=_OOM,
        verdict="infeasible",
        explanation="a GPU ran out of memory while the weights were loaded",
        next_step="a layout with fewer weights per GPU: more GPUs, or a smaller quantisation",
        stages=("start", "load"),
    ),
    Row(
        name="graph-oom",
        pattern=_OOM + r"|Capture cuda graph failed",
        verdict="infeasible",
        explanation="a GPU ran out of memory while CUDA graphs were captured",
        next_step="a lower mem-fraction-static, or a smaller cuda-graph-max-bs",
        stages=("capture",),
    ),
    Row(
        name="run-oom",
        pattern=_OOM,
        verdict="infeasible",
        explanation="a GPU ran out of memory under load",
        next_step="a lower mem-fraction-static or a lower concurrency for this config",
        stages=("serve",),
    ),
    Row(
        name="port-in-use",
        pattern=r"[Aa]ddress already in use|EADDRINUSE|Port is already in use|is used by a process already",
        verdict="environment",
        explanation="somebody else listens on a port the engine needs; it may hang there with everything loaded",
        next_step="ss -ltnp on the host names the listener",
    ),
    Row(
        name="nccl",
        pattern=r"NCCL error|ncclUnhandledCudaError|Watchdog caught collective operation timeout"
        r"|ProcessGroupNCCL.*(error|abort)",
        verdict="unknown",
        explanation="the GPUs' collective communication failed",
        next_step="the kernel log (Xid, PCIe errors) and NCCL_DEBUG=INFO say more",
    ),
    Row(
        name="watchdog",
        pattern=r"[Ww]atchdog timeout",
        verdict="unknown",
        explanation="a forward pass hung, or kernels were compiled inside one, for longer than the watchdog allows",
        next_step="a higher watchdog-timeout for a first start; else the py-spy dump above",
    ),
    Row(
        name="shm-full",
        pattern=r"Bus error|exit code: -7\b",
        verdict="environment",
        explanation="the shared-memory mount is full, usually of segments leaked by killed runs",
        next_step="df -h /dev/shm on the host",
    ),
    Row(
        name="host-oom",
        pattern=r"oom-kill|Out of memory: Killed process",
        verdict="environment",
        explanation="the host's own memory ran out and the kernel killed a process",
        next_step="less loader parallelism, or more free RAM",
    ),
    Row(
        name="warmup-fail",
        pattern=r"Initialization failed\. warmup error",
        verdict="unknown",
        explanation="the engine's own first request failed or took longer than SGLANG_WARMUP_TIMEOUT",
        next_step="the traceback above it",
    ),
    Row(
        name="cuda-fault",
        pattern=r"illegal memory access|device-side assert|CUBLAS_STATUS|no kernel image",
        verdict="unknown",
        explanation="a CUDA kernel failed on this GPU architecture",
        next_step="another attention-backend or moe-runner-backend; the engine's issue tracker",
    ),
    Row(
        name="model-missing",
        pattern=r"Repo id must be in the form|is not a local folder and is not a valid model identifier"
        r"|outgoing traffic has been disabled",
        verdict="infeasible",
        explanation="the model folder is not there (the engine takes its path for a repository name)",
        next_step="check model-path and HF_HOME on the host",
    ),
    Row(
        name="rejected-combo",
        pattern=r"^\s*(\w+\.)*(AssertionError|ValueError)\b",
        verdict="infeasible",
        explanation="the engine refused this combination of flags before loading anything",
        next_step="the message says which; it will not do better a second time",
        stages=("start",),
        terminal=False,
    ),
    Row(
        name="child-died",
        pattern=r"scheduler died during initialization|scheduler is dead|[Ss]ubprocess .*crashed with exit code",
        verdict="unknown",
        explanation="a scheduler process died",
        next_step="the first traceback in the journal; exit code -9 without one points at the kernel log",
    ),
    Row(
        name="generic",
        pattern=r"Scheduler hit an exception|Received sigquit from a child process",
        verdict="unknown",
        explanation="a child process of the engine failed",
        next_step="the first traceback in the journal",
    ),
)

_COMPILED = tuple((row, re.compile(row.pattern)) for row in ROWS)
_ANY = re.compile("|".join(f"(?:{row.pattern})" for row in ROWS))

# Where in a start a line stands: once a mark was seen, the stage holds until the next mark.
_STAGE_MARKS: tuple[tuple[re.Pattern[str], Stage], ...] = (
    (re.compile(r"Load weight begin"), "load"),
    (re.compile(r"[Cc]apture .*(cuda|CUDA) graph begin"), "capture"),
    (re.compile(r"Uvicorn running on|fired up and ready to roll"), "serve"),
)


def stages(lines: Sequence[str]) -> tuple[Stage, ...]:
    """The stage each journal line was written in."""
    current: Stage = "start"
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


def from_journal(lines: Sequence[str], *, terminal_only: bool = False) -> Failure | None:
    """The class the journal speaks of, or None.

    ``terminal_only``: consider just what an engine never recovers from, for use while its process still lives.
    """
    where = stages(lines)
    for row, pattern in _COMPILED:
        if terminal_only and not row.terminal:
            continue
        for number, line in enumerate(lines):
            if where[number] in row.stages and pattern.search(line):
                return _failure(row, _around(lines, number))
    return None


def from_end(lines: Sequence[str], unit: UnitState) -> Failure:
    """The class of an engine whose process has ended: from its journal, else from how systemd saw it end."""
    found = from_journal(lines)
    if found is not None:
        return found
    tail = _tail(lines)
    if unit.result == "start-limit-hit":
        return Failure(
            name="start-limit",
            verdict="environment",
            explanation="systemd refuses to start the unit again so soon",
            next_step=f"systemctl reset-failed, then start; it failed {unit.n_restarts} times before",
            evidence=tail,
        )
    if unit.exec_main_code == 1 and unit.exec_main_status == 0:
        return Failure(
            name="exit-0",
            verdict="unknown",
            explanation="the engine ended by itself, with success, before it served anything",
            next_step="an ExecStart that forks or prints its version ends like this",
            evidence=tail,
        )
    if unit.exec_main_code in {2, 3}:
        return Failure(
            name="killed",
            verdict="unknown",
            explanation=f"the main process was killed by signal {unit.exec_main_status}; SGLang kills itself with 9"
            " when a child fails",
            next_step="the journal of the invocation, then the kernel log",
            evidence=tail,
        )
    return Failure(
        name="exited",
        verdict="unknown",
        explanation=f"the main process exited with status {unit.exec_main_status} (systemd result: {unit.result})",
        next_step="the journal of the invocation",
        evidence=tail,
    )


def crash_loop(lines: Sequence[str], unit: UnitState) -> Failure:
    """The unit was restarted by systemd while we waited: name what it dies of."""
    cause = from_journal(lines)
    why = f": {cause.explanation}" if cause else ""
    return Failure(
        name="crash-loop",
        verdict=cause.verdict if cause else "unknown",
        explanation=f"systemd restarted the unit {unit.n_restarts} times; exit status {unit.exec_main_status}{why}",
        next_step=cause.next_step if cause else "the journal of the invocation",
        evidence=cause.evidence if cause else _tail(lines),
    )


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


def no_progress(lines: Sequence[str], seconds: float) -> Failure:
    """Nothing moved: no journal line, CPU time, IO or GPU memory."""
    return Failure(
        name="timeout-no-progress",
        verdict="unknown",
        explanation=f"nothing moved for {seconds:.0f} s: no journal line, CPU time, IO or GPU memory",
        next_step="the last journal lines say where it stands",
        evidence=_tail(lines),
    )


def timeout(lines: Sequence[str], seconds: float) -> Failure:
    """Still not ready after the whole time allowed for a start."""
    return Failure(
        name="timeout",
        verdict="unknown",
        explanation=f"not ready after {seconds:.0f} s, the whole time allowed",
        next_step="a larger startup.timeout if the last lines still make progress",
        evidence=_tail(lines),
    )


def other_engine(differences: Sequence[str]) -> Failure:
    """An engine answers, but with another model or layout than was asked for."""
    return Failure(
        name="other-engine",
        verdict="environment",
        explanation="the engine that answers is not the one that was started: " + "; ".join(differences),
        next_step="check who serves on this port",
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
    return tuple(line.rstrip() for line in lines if line.strip())[-KEEP_LINES:]
