"""What may be said of the winner: the confirmed gain with its interval, a tie, nothing better, or not decided yet."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.core.clean import clean
from orchestrator.core.judge.confirm import FLOOR, Confirmation, Gain
from orchestrator.report.text import folded, percent

_NAMED = 4


def interval(gain: Gain) -> str:
    """``+5.1 % (95 %: +3.9 … +6.2 %)``."""
    return f"{percent(gain.value)} % (95 %: {percent(gain.low)} … {percent(gain.high)} %)"


def confirmed_lines(found: Confirmation, *, figure: str, at: str, reference: str | None, width: int) -> list[str]:
    """The result of fresh launches; nothing while there were too few to look at.

    ``figure``: steady or whole; ``at``: the load point; ``reference``: what gains are over, as reports name it.
    """
    if found.outcome == "open" and not found.blocks:
        return []
    launches = f"{found.blocks} fresh launches"  # a look is never after one
    over = f" {figure} over {reference}" if reference else f" {figure}"
    lines: list[str] = []
    if found.outcome == "winner":
        name = found.best[0]
        gain = f", {interval(found.gains[name])}{over}" if name in found.gains else ""
        lines += folded("best", clean(f"{name} at {at}: confirmed on {launches}{gain}"), width)
    elif found.outcome == "no clear winner":
        said = f"no clear winner at {at} among {', '.join(found.best)}: {found.reason}"
        lines += folded("best", clean(said), width)
    elif found.outcome == "nothing better":
        lines += folded("best", clean(f"{reference or 'none'} at {at}: {found.reason}"), width)
    else:
        said = f"not confirmed at {at}: {found.reason}, after {launches} of {', '.join(found.best)}"
        lines += folded("best", clean(said), width)
    if found.outcome != "winner":
        shown = [name for name in found.gains if name in found.best] or list(found.gains)[:_NAMED]
        for name in shown:
            lines += folded("", clean(f"{name}: {interval(found.gains[name])}{over}, {launches}"), width)
    for name, ahead in list(found.ahead.items())[:_NAMED]:
        if name in found.beaten and found.outcome == "winner":
            lines += folded("", clean(f"{interval(ahead)} over {name}"), width)
    lines += _left(found.set_aside, width)
    if found.noise is not None:
        or_less = " or less" if found.noise <= FLOOR else ""
        lines += folded("", f"fresh launches of one config differ by {100 * found.noise:.1f} %{or_less}", width)
    return lines


def _left(names: Sequence[str], width: int) -> list[str]:
    if not names:
        return []
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return folded("", clean(f"less promising, not followed to the end: {', '.join(names[:_NAMED])}{more}"), width)
