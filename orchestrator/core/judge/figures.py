"""From request records to the figures of a level: each formula, and what gates a level.

Seconds count from the level's first send. n output tokens (from ``usage``) that came in k token events are taken as
n/k tokens an event. Two throughputs, both in output tok/s:

whole   all output tokens / (first send to last finish): ramp and tail are in it.
steady  tokens received inside a window / its length. Several waves: from the C-th first token (every stream is
        decoding) to the last send (the queue of unsent requests is empty, streams begin to fall idle). One wave
        (N <= C): from the last first token to the first finish. The window is open at its start, closed at its end.
        No window, no figure; one of less than two mean gaps between token events is none. A level that ends by the
        clock has the same window: its last send is the last one that the clock allowed. Open loop (every request has
        its ``due_s``): from the first finish to the last send.

In an open loop a latency counts from the moment its request was due: what the client, or a connection that had to be
opened, took before the send is in it.

A level is ``failed`` when more than ``max_failed`` requests failed: no throughput is given, for a failed request's
time and tokens belong to no rate. It is ``invalid`` when answers came without usage (throughput unknown) or with
other lengths than asked for (throughput kept, not comparable and not shown), or by ``judge.validity``.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Literal

from orchestrator.core.judge.stats import mean, spread
from orchestrator.core.results import LevelFigures, Outcome, RequestRecord
from orchestrator.core.workload import LevelSpec

State = Literal["measured", "failed", "invalid"]
Window = tuple[float, float]

_SHOWN_ERRORS = 3
_WRONG_LENGTH: dict[Outcome, str] = {"short": "shorter than asked for", "over-long": "longer than asked for"}


def level_figures(level: LevelSpec, records: Sequence[RequestRecord], *, max_failed: int = 0) -> LevelFigures:
    """The figures of ``level``, from every record of it."""
    found = figures(level.concurrency, records, max_failed=max_failed)
    return replace(found, rate=level.rate, arrival=level.point.arrival)


def figures(concurrency: int, records: Sequence[RequestRecord], *, max_failed: int = 0) -> LevelFigures:
    """The figures of a level asked to run at ``concurrency``, from every record of it, failed ones included."""
    good = [record for record in records if record.error is None]
    outcomes = Counter(record.outcome for record in records)
    state, reason = _state(records, outcomes, max_failed)
    tokens = [record.output_tokens for record in good if record.output_tokens is not None]
    wall = _wall(records)
    rated = state != "failed" and wall > 0 and len(tokens) == len(good) > 0
    ordered = sorted(records, key=lambda record: record.sent_s)
    first, later = ordered[:concurrency], ordered[concurrency:]
    return LevelFigures(
        concurrency=concurrency,
        requests=len(records),
        outcomes={str(kind): count for kind, count in sorted(outcomes.items())},
        output_tokens=sum(tokens),
        wall_s=wall,
        whole_tok_s=sum(tokens) / wall if rated else None,
        steady_tok_s=_steady(concurrency, records) if rated else None,
        mean_tokens=mean(tokens) if tokens else None,
        held_concurrency=math.fsum(r.end_s - r.sent_s for r in records) / wall if wall > 0 else None,
        ttft=spread(_each(later or first, ttft)),
        tpot=spread(_each(good, tpot)),
        gaps=spread(gap for record in good for gap in gaps(record)),
        first_wave_ttft=spread(_each(first, ttft)),
        state=state,
        reason=reason,
        sent_rate=_sent_rate(ordered),
        answered_rate=len(good) / wall if is_open_loop(records) and wall > 0 else None,
    )


def is_open_loop(records: Sequence[RequestRecord]) -> bool:
    """Whether requests were sent when they were due, not when an answer had ended."""
    return bool(records) and all(record.due_s is not None for record in records)


def _sent_rate(ordered: Sequence[RequestRecord]) -> float | None:
    span = ordered[-1].sent_s - ordered[0].sent_s if is_open_loop(ordered) else 0.0
    return (len(ordered) - 1) / span if span > 0 else None


def ttft(record: RequestRecord) -> float | None:
    """Time to first token: first event with a generated token, in any channel, minus send (s); None when failed.

    In an open loop minus the moment it was due.
    """
    if record.error is not None or record.first_token_s is None:
        return None
    return record.first_token_s - (record.sent_s if record.due_s is None else record.due_s)


def tpot(record: RequestRecord) -> float | None:
    """Time per output token: (latency - TTFT) / (tokens - 1) (s); None for fewer than two tokens, or when failed."""
    first = record.first_token_s
    if record.error is not None or first is None or record.output_tokens is None or record.output_tokens < 2:
        return None
    return (record.end_s - first) / (record.output_tokens - 1)


def gaps(record: RequestRecord) -> list[float]:
    """Times between neighbouring token events (s). One event may hold several tokens: this is not per token."""
    return [after - before for before, after in pairwise(record.stamps)]


# Each stream is cut somewhere inside a gap at both ends of the window. In one of fewer mean gaps than this the
# count of tokens is chance: a window between two arrivals would read as 0 tok/s, or as thousands.
LEAST_GAPS = 2


def steady_window(concurrency: int, records: Sequence[RequestRecord]) -> Window | None:
    """Start and end of the steady window (module docstring), or None when there is none."""
    good = [record for record in records if record.error is None]
    firsts = sorted(record.first_token_s for record in good if record.first_token_s is not None)
    streams = min(concurrency, len(records))
    if not firsts or len(firsts) < streams:
        return None
    first_end, last_send = min(record.end_s for record in good), max(record.sent_s for record in records)
    if is_open_loop(records):
        start, end = first_end, last_send
    else:
        start = firsts[streams - 1]
        end = first_end if len(records) <= concurrency else last_send
    return (start, end) if end - start >= LEAST_GAPS * _mean_gap(good) > 0 else None


def _mean_gap(records: Sequence[RequestRecord]) -> float:
    """Mean time (s) between token events of one answer; 0 where no answer has two."""
    spans = [record.stamps[-1] - record.stamps[0] for record in records if len(record.stamps) > 1]
    gaps = sum(len(record.stamps) - 1 for record in records if len(record.stamps) > 1)
    return sum(spans) / gaps if gaps else 0.0


def tokens_inside(record: RequestRecord, window: Window) -> float | None:
    """Tokens of one answer that arrived inside ``window``; None when it has tokens but no events to place them by."""
    if not record.output_tokens:
        return 0.0 if record.output_tokens == 0 else None
    if not record.stamps:
        return None
    start, end = window
    events = bisect_right(record.stamps, end) - bisect_right(record.stamps, start)
    return record.output_tokens * events / len(record.stamps)


def original_line(level: LevelFigures) -> str:
    """The familiar line, ``C=16: agg=156.4 tok/s wall=305.8s avg=2989 tok/req``; what was not measured says why."""
    if level.state != "measured" or level.whole_tok_s is None or level.mean_tokens is None:
        return f"{level.words}: {level.state}: {level.reason or 'no throughput'}"
    return (
        f"{level.words}: agg={level.whole_tok_s:.1f} tok/s wall={level.wall_s:.1f}s avg={level.mean_tokens:.0f} tok/req"
    )


def _each(records: Sequence[RequestRecord], measure: Callable[[RequestRecord], float | None]) -> list[float]:
    return [value for value in map(measure, records) if value is not None]


def _wall(records: Sequence[RequestRecord]) -> float:
    if not records:
        return 0.0
    return max(record.end_s for record in records) - min(record.sent_s for record in records)


def _steady(concurrency: int, records: Sequence[RequestRecord]) -> float | None:
    window = steady_window(concurrency, records)
    if window is None:
        return None
    received = [tokens_inside(record, window) for record in records if record.error is None]
    placed = [tokens for tokens in received if tokens is not None]
    if len(placed) < len(received):
        return None
    start, end = window
    return math.fsum(placed) / (end - start)


def _state(records: Sequence[RequestRecord], outcomes: Counter[Outcome], max_failed: int) -> tuple[State, str | None]:
    total = len(records)
    if total == 0:
        return "failed", "no request was sent"
    failed = outcomes["failed"]
    if failed > max_failed or failed == total:
        return "failed", f"{failed} of {total} requests failed: {_errors(records)}"
    if outcomes["tokens-unknown"]:
        return "invalid", f"{outcomes['tokens-unknown']} of {total} answers came without usage: tokens unknown"
    odd = [f"{outcomes[kind]} of {total} answers {words}" for kind, words in _WRONG_LENGTH.items() if outcomes[kind]]
    return ("invalid", "; ".join(odd)) if odd else ("measured", None)


def _errors(records: Sequence[RequestRecord]) -> str:
    counted = Counter(record.error for record in records if record.error is not None)
    shown = [f"{error} ({count})" for error, count in counted.most_common(_SHOWN_ERRORS)]
    left = len(counted) - len(shown)
    return "; ".join(shown) + (f"; {left} other errors" if left > 0 else "")
