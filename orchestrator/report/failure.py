"""How a failed launch is told: the class in words, the line that shows it, whose fault it is, what to do next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.core.clean import clean
from orchestrator.core.events import LaunchFailed
from orchestrator.core.history import LaunchRow
from orchestrator.report.text import folded

SHOWN_LINES = 4  # of the evidence; --journal has all

_BLAME: Mapping[str | None, str] = {
    "infeasible": "the config: it cannot run here, and is not started again",
    "environment": "the host, not the config: it is started once more, and again by --resume",
    "unknown": "not known; --resume starts it again",
}
_OF_THE_HOST = ("kernel ", "nvidia-smi: ")


def telling_line(evidence: Sequence[str]) -> str | None:
    """The one line to show where there is room for one: the host's own word, else what the journal ends with."""
    of_host = next((line for line in evidence if line.startswith(_OF_THE_HOST)), None)
    return of_host or (evidence[-1].strip() if evidence else None)


def below(event: LaunchFailed) -> list[str]:
    """What follows a failure's first line: the explanation, the line that shows it (``| …``), the next step."""
    shown = telling_line(event.evidence)
    lines = [event.explanation, *([f"| {shown}"] if shown else []), f"try: {event.next_step}"]
    return [clean(line) for line in lines]


def when(*, was_ready: bool, failure_class: str) -> str:
    """``did not start``, or what is said of an engine that served before."""
    if failure_class == "lost-contact":
        return "lost"
    return "failed under load" if was_ready else "did not start"


def failure_lines(launch: LaunchRow, width: int, *, evidence: bool) -> list[str]:
    """A failed launch as a paragraph: the fact, how late, its lines, whose fault, the next step."""
    what = "did not become ready" if launch.ready_at is None else "failed under load"
    said = f"{launch.launch} {what}: {launch.explanation} ({launch.failure_class})"
    lines = folded("", clean(said), width, indent=2, hang=2)
    if launch.failed_after_s is not None:
        lines += folded("after", f"{launch.failed_after_s:.0f} s", width)
    if evidence:
        for number, line in enumerate(_shown(launch.evidence or ())):
            lines += folded("" if number else "shown by", clean(line.strip()), width)
    if launch.verdict in _BLAME:
        lines += folded("blame", _BLAME[launch.verdict], width)
    if launch.next_step:
        lines += folded("try", clean(launch.next_step), width)
    return lines


def _shown(evidence: Sequence[str]) -> Sequence[str]:
    """What the host said and how the journal ended, where it is too much for all."""
    of_host = [line for line in evidence if line.startswith(_OF_THE_HOST)][: SHOWN_LINES // 2]
    rest = [line for line in evidence if not line.startswith(_OF_THE_HOST)]
    return [*of_host, *rest[-(SHOWN_LINES - len(of_host)) :]]
