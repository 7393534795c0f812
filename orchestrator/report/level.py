"""A load point in words: what we say of it beside the familiar line of ``core.figures.original_line``."""

from __future__ import annotations

from orchestrator.core.results import LevelFigures
from orchestrator.report.text import count, rate, seconds


def figure_words(found: LevelFigures) -> list[str]:
    """Its figures, each with its unit; what is absent is left out. The first wave stands apart where others follow."""
    parts = [f"steady={rate(found.steady_tok_s)} tok/s" if found.steady_tok_s is not None else "no steady window"]
    if found.ttft is not None:
        parts.append(f"ttft p50={seconds(found.ttft.p50)} p95={seconds(found.ttft.p95)} s")
    if found.first_wave_ttft is not None and found.requests > found.concurrency:
        parts.append(f"first wave p50={seconds(found.first_wave_ttft.p50)} s")
    if found.tpot is not None:
        parts.append(f"tpot p50={1000 * found.tpot.p50:.1f} p95={1000 * found.tpot.p95:.1f} ms")
    if found.gaps is not None:
        parts.append(f"gap p99={1000 * found.gaps.p99:.1f} ms")
    if found.held_concurrency is not None:
        parts.append(f"held {found.held_concurrency:.1f} of {found.concurrency}")
    return [*parts, f"{found.outcomes.get('ok', 0)} of {count(found.requests, 'answer')} as asked"]
