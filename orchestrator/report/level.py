"""A load point in words: the familiar line of ``core.figures.original_line``, and what we say of it besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.core.clean import clean
from orchestrator.core.judge.figures import original_line
from orchestrator.core.ports import LoadProgress
from orchestrator.core.results import LevelFigures, Spread
from orchestrator.core.workload import Lengths, Workload
from orchestrator.report.text import count, folded, listed, rate, seconds


def level_lines(
    found: LevelFigures,
    width: int,
    *,
    name: str = "",
    indent: int = 0,
    below: int = 2,
    more: Sequence[str] = (),
    warnings: Sequence[str] = (),
) -> list[str]:
    """The familiar line; under it, ``below`` columns in, its figures with ``more``, then what to know of them.

    A level that was not *measured* has no numbers: its reason, how its answers came, and ``more``, which explains it.
    """
    familiar = clean(f"{name}{original_line(found)}")
    if found.state != "measured":
        said = [answers_words(found), *more] if found.whole_tok_s is not None or more else []
        lines = folded("", familiar, width, indent=0, hang=indent)
        return [*lines, *listed(said, width, indent=below)] if said else lines
    lines = [" " * indent + familiar, *listed([*figure_words(found), *more], width, indent=below)]
    for warning in warnings:
        lines += folded("", clean(f"warning: {warning}"), width, indent=0, hang=below)
    return lines


def answers_words(found: LevelFigures) -> str:
    """``11 of 12 answers as asked (1 short)``."""
    odd = [f"{number} {kind}" for kind, number in found.outcomes.items() if kind != "ok" and number]
    kinds = f" ({', '.join(odd)})" if odd else ""
    return f"{found.outcomes.get('ok', 0)} of {count(found.requests, 'answer')} as asked{kinds}"


def figure_words(found: LevelFigures) -> list[str]:
    """Its figures, each with its unit; what is absent is left out. The first wave stands apart where others follow."""
    parts = [f"steady={rate(found.steady_tok_s)} tok/s" if found.steady_tok_s is not None else "no steady window"]
    if found.ttft is not None:
        parts.append(f"ttft p50={seconds(found.ttft.p50)} p95={seconds(found.ttft.p95)} s{few(found.ttft, 95)}")
    if found.first_wave_ttft is not None and found.requests > found.concurrency > 0:
        parts.append(f"first wave p50={seconds(found.first_wave_ttft.p50)} s")
    if found.tpot is not None:
        p50, p95 = 1000 * found.tpot.p50, 1000 * found.tpot.p95
        parts.append(f"tpot p50={p50:.1f} p95={p95:.1f} ms{few(found.tpot, 95)}")
    if found.gaps is not None:
        parts.append(f"gap p99={1000 * found.gaps.p99:.1f} ms{few(found.gaps, 99)}")
    if found.held_concurrency is not None:
        of = f" of {found.concurrency}" if found.concurrency else " in flight"
        parts.append(f"held {found.held_concurrency:.1f}{of}")
    if found.sent_rate is not None and found.answered_rate is not None:
        parts.append(f"sent {found.sent_rate:.3g}/s, answered {found.answered_rate:.3g}/s of {found.rate:g}/s")
    return [*parts, answers_words(found)]


def few(spread: Spread, percentile: int) -> str:
    """`` of 31`` behind a percentile of so few values that the largest of them alone stands for it; else nothing."""
    return f" of {spread.count}" if spread.count * (100 - percentile) < 100 else ""


def client_words(client: Mapping[str, float]) -> list[str]:
    """How late the load program was and how busy; nothing for one that does not say."""
    lags = [client[name] for name in ("receive_lag_p99_s", "away_p99_s") if name in client]
    late = [f"client late p99={1000 * max(lags):.1f} ms"] if lags else []
    return [*late, *([f"{client['cpu_share']:.0%} of a core"] if "cpu_share" in client else [])]


def bench_head(url: str, model: str, workload: Workload, *, width: int, simulated: bool) -> str:
    """What ``tune bench`` measures, above its load points: whom, and what is sent."""
    parts = [_lengths_words(workload.lengths), _loop_words(workload), *(workload.arrival, *workload.beside)]
    prompts = ", ".join(prompt.name for prompt in workload.prompts)
    where = [clean(url), clean(model), *(["SIMULATED"] if simulated else [])]
    return "\n".join([*listed(where, width, indent=0), *listed([*parts, prompts], width, indent=2)])


def _lengths_words(lengths: Lengths) -> str:
    if lengths.kind == "around":
        return f"{lengths.tokens // 2} to {lengths.tokens * 3 // 2} tokens an answer"
    if lengths.kind == "natural":
        return f"natural lengths, at most {lengths.tokens} tokens"
    if lengths.kind == "fixed":
        return f"{lengths.tokens} tokens an answer"
    return f"{lengths.kind} lengths"


def _loop_words(workload: Workload) -> str:
    """What ends a level."""
    if workload.duration_s is not None:
        return f"{workload.duration_s:g} s a level"
    if workload.requests is not None:
        return f"{workload.requests} requests a level"
    return f"{workload.requests_per_stream} requests a stream"


def progress_line(words: str, progress: LoadProgress) -> str:
    """Where a load point stands while it runs."""
    failed = f" · {progress.failed} failed" if progress.failed else ""
    return (
        f"{words}  {progress.answered} of {progress.requests} answers · {rate(progress.tok_s)} tok/s"
        f" · {progress.elapsed_s:.0f} s{failed}"
    )
