"""An error as a paragraph: the fact, the usual cause, the next step, the state of the host."""

from __future__ import annotations

import re

from orchestrator.errors import InputRefused, TuneError

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
WIDTH = 80


def printable(text: str) -> str:
    """``text`` without control characters: what a host or an engine says must not drive the terminal."""
    return _CONTROL.sub("�", text)


def error_text(error: TuneError) -> str:
    """What the user reads when a command fails; the exit code stands at its end."""
    lines: list[str] = []
    faults = error.faults if isinstance(error, InputRefused) else ()
    if faults:
        lines += [printable(fault) for fault in faults]
        lines.append(_closing(f"{_count(len(faults))}. Nothing has been touched.", error.exit_code))
        if error.remedy:
            lines.insert(-1, f"  try           {printable(error.remedy)}")
        return "\n".join(lines)
    lines.append(printable(error.fact))
    lines += [f"  | {printable(line)}" for line in error.evidence]
    for label, text in (("usual cause", error.cause), ("try", error.remedy), ("host", error.host_state)):
        if text:
            lines.append(f"  {label:<13} {printable(text)}")
    lines.append(_closing("", error.exit_code))
    return "\n".join(lines)


def bug_text(bug: Exception, log: str) -> str:
    """What the user reads when tune itself is wrong."""
    return f"tune itself failed: {type(bug).__name__}: {printable(str(bug))}\n  traceback     {log}\n" + _closing(
        "", TuneError.exit_code
    )


def _count(faults: int) -> str:
    return f"{faults} fault{'' if faults == 1 else 's'}"


def _closing(text: str, code: int) -> str:
    end = f"exit {code}"
    return text + end.rjust(WIDTH - len(text))
