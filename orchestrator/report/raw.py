"""A level's figures traced to its requests: every number with what it was made of, and whether it comes out again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from orchestrator.core.clean import clean
from orchestrator.core.history import LevelRow
from orchestrator.core.judge.figures import figures, steady_window, tokens_inside, ttft
from orchestrator.core.results import LevelFigures, RequestRecord
from orchestrator.report.text import ABSENT, Row, count, table

CLOSE = 1e-9  # relative: the records are kept as doubles, so a figure comes out again to the last digits


def raw_text(level: LevelRow, records: Sequence[RequestRecord], *, width: int) -> str:
    """Each figure of the level from its records, then the records themselves, one a line, times in s from its start."""
    found = figures(level.concurrency, records)
    head = f"{level.trial} · {level.launch} · {level.level} · {count(len(records), 'request')} of workload"
    lines = [f"{head} {level.workload} ({level.workload_digest})", ""]
    lines += list(_derivations(level, found, records))
    lines += ["", *table("request", _COLUMNS, [_request(record) for record in records], width)]
    return "\n".join(lines)


_COLUMNS = ("prompt", "due", "sent", "first", "end", "ttft", "tokens", "of", "events", "outcome")


def _derivations(level: LevelRow, found: LevelFigures, records: Sequence[RequestRecord]) -> Iterator[str]:
    good = [record for record in records if record.error is None]
    tokens = " + ".join(str(record.output_tokens) for record in good[:3])
    more = f" + … ({len(good)} answers)" if len(good) > 3 else ""
    first, last = min(r.sent_s for r in records), max(r.end_s for r in records)
    yield f"  output tokens   {tokens}{more} = {found.output_tokens}"
    yield f"  wall            last end {last:.4f} - first send {first:.4f} = {found.wall_s:.4f} s"
    yield _proved(
        "whole tok/s", f"{found.output_tokens} / {found.wall_s:.4f}", found.whole_tok_s, level.whole_tok_s, digits=3
    )
    window = steady_window(level.concurrency, records)
    if window is not None:
        inside = math.fsum(tokens_inside(record, window) or 0.0 for record in good)
        words = f"{inside:.1f} tokens in the window {window[0]:.4f} … {window[1]:.4f} s"
        yield _proved("steady tok/s", words, found.steady_tok_s, level.steady_tok_s, digits=3)
    if found.ttft is not None:
        later = [value for record in records if (value := ttft(record)) is not None]
        words = f"mean of {found.ttft.count} of {len(later)} answers (the first wave stands apart)"
        yield _proved("TTFT mean s", words, found.ttft.mean, level.ttft_mean_s, digits=5)
        yield _proved("TTFT p95 s", "linear between closest ranks", found.ttft.p95, level.ttft_p95_s, digits=5)
    if found.tpot is not None:
        words = f"mean of (end - first) / (tokens - 1) of {found.tpot.count} answers"
        yield _proved("TPOT mean s", words, found.tpot.mean, level.tpot_mean_s, digits=5)
    if found.gaps is not None:
        words = f"of {found.gaps.count:,} gaps between token events"
        yield _proved("gap p99 s", words, found.gaps.p99, level.gap_p99_s, digits=5)
    if found.held_concurrency is not None:
        words = "sum of request times / wall"
        yield _proved("held", words, found.held_concurrency, level.held_concurrency, digits=3)


def _proved(name: str, words: str, again: float | None, recorded: float | None, *, digits: int) -> str:
    """A figure, how it is made, and whether the recorded one is the same."""
    if again is None or recorded is None:
        same = again is None and recorded is None
        return f"  {name:<15} {words}: {ABSENT}" + ("" if same else ", which is not what was recorded")
    same = math.isclose(again, recorded, rel_tol=CLOSE)
    mark = "as recorded" if same else f"recorded was {recorded:.{digits}f}"
    return f"  {name:<15} {words} = {again:.{digits}f}, {mark}"


def _request(record: RequestRecord) -> Row:
    first = record.first_token_s
    cells = (
        clean(record.prompt),
        ABSENT if record.due_s is None else f"{record.due_s:.4f}",
        f"{record.sent_s:.4f}",
        ABSENT if first is None else f"{first:.4f}",
        f"{record.end_s:.4f}",
        ABSENT if (value := ttft(record)) is None else f"{value:.4f}",
        ABSENT if record.output_tokens is None else str(record.output_tokens),
        str(record.max_tokens),
        str(len(record.stamps)),
        clean(record.error or record.outcome),
    )
    return Row(label=str(record.index), cells=tuple((cell,) for cell in cells))
