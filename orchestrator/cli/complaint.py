"""An error as a paragraph: the fact, the usual cause, the next step, the state of the host."""

from __future__ import annotations

import textwrap

from orchestrator.core.clean import clean_lines
from orchestrator.errors import InputRefused, TuneError

WIDTH = 80


def error_text(error: TuneError) -> str:
    """What the user reads when a command fails; the exit code stands at its end."""
    faults = error.faults if isinstance(error, InputRefused) else ()
    if faults:
        lines = [line for fault in faults for line in clean_lines(fault)]
        lines += _labelled("try", error.remedy)
        return "\n".join([*lines, _closing(f"{_count(len(faults))}. Nothing has been touched.", error.exit_code)])
    lines = clean_lines(error.fact)
    lines += [f"  | {line}" for evidence in error.evidence for line in clean_lines(evidence)]
    lines += _labelled("usual cause", error.cause)
    lines += _labelled("try", error.remedy)
    lines += _labelled("host", error.host_state)
    return "\n".join([*lines, _closing("", error.exit_code)])


def _labelled(label: str, text: str | None) -> list[str]:
    return _folded(text, f"  {label:<13} ", " " * 16) if text else []


def _folded(text: str, first: str, rest: str) -> list[str]:
    """Folded to the width at blanks only, so that a path or an option is never cut.

    A line that begins with blanks is a command to be pasted: it stays one line, however long.
    """
    lines: list[str] = []
    for part in clean_lines(text):
        indent = rest if lines else first
        if part.startswith(" "):
            lines.append(indent + part)
            continue
        lines += textwrap.wrap(
            part,
            WIDTH,
            initial_indent=indent,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def bug_text(bug: Exception, log: str) -> str:
    """What the user reads when tune itself is wrong."""
    lines = clean_lines(f"tune itself failed: {type(bug).__name__}: {bug}")
    return "\n".join([*lines, f"  traceback     {log}", _closing("", TuneError.exit_code)])


def _count(faults: int) -> str:
    return f"{faults} fault{'' if faults == 1 else 's'}"


def _closing(text: str, code: int) -> str:
    end = f"exit {code}"
    return text + end.rjust(WIDTH - len(text))
