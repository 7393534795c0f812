"""Reading numbers out of a Prometheus page, and what SGLang's page says of its own work."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from orchestrator.core.conditions import EngineCounters

# Ranks that work on the same requests: their series repeat one another and the largest is the truth.
SAME_REQUESTS = ("pp_rank", "tp_rank", "moe_ep_rank", "ep_rank")

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_RANKS = (("dp_rank", "dp"), ("pp_rank", "pp"), ("tp_rank", "tp"))


def total(page: str, name: str) -> float | None:
    """The sum of metric ``name`` over its series, ranks of one pipeline counted once; None when it is not there.

    ``sglang:num_running_reqs`` has a series per pipeline and tensor rank for the same requests; data-parallel ranks and
    labels such as ``is_streaming`` split them.
    """
    largest = _largest(page, name)
    return math.fsum(largest.values()) if largest else None


def by_label(page: str, name: str, label: str) -> dict[str, float]:
    """``total`` apart for each value of one label, ``mode`` for instance; empty when it is not there."""
    sums: dict[str, float] = {}
    for labels, value in _largest(page, name).items():
        key = dict(labels).get(label)
        if key is not None:
            sums[key] = sums.get(key, 0.0) + value
    return sums


def by_rank(page: str, name: str) -> dict[str, float]:
    """Each scheduler's own value, by its place: ``pp0.tp0``. Nothing is added up over ranks."""
    values: dict[str, float] = {}
    for labels, value in _series(page, name):
        place = ".".join(f"{short}{labels[long]}" for long, short in _RANKS if labels.get(long, "").isdigit())
        if place:
            values[place] = values.get(place, 0.0) + value
    return values


def counters(page: str) -> EngineCounters | None:
    """The engine's totals; None for a page without any of SGLang's. Names as in SGLang 0.5.3 to 0.5.23."""
    if "sglang:" not in page:
        return None
    return EngineCounters(
        generation_tokens=total(page, "sglang:generation_tokens_total"),
        prompt_tokens=total(page, "sglang:prompt_tokens_total"),
        cached_tokens=total(page, "sglang:cached_tokens_total"),
        requests=total(page, "sglang:num_requests_total"),
        aborted_requests=total(page, "sglang:num_aborted_requests_total"),
        retracted_requests=total(page, "sglang:num_retracted_requests_total"),
        passes=by_label(page, "sglang:cuda_graph_passes_total", "mode"),
        idle_s=by_rank(page, "sglang:scheduler_idle_seconds_total"),
        running_reqs=by_rank(page, "sglang:num_running_reqs"),
        queue_reqs=by_rank(page, "sglang:num_queue_reqs"),
        spec_accept_length=max(by_rank(page, "sglang:spec_accept_length").values(), default=0.0) or None,
    )


def _largest(page: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    largest: dict[tuple[tuple[str, str], ...], float] = {}
    for labels, value in _series(page, name):
        group = tuple(sorted(label for label in labels.items() if label[0] not in SAME_REQUESTS))
        largest[group] = max(value, largest.get(group, value))
    return largest


def _series(page: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of every finite sample of one metric."""
    for line in page.splitlines():
        if not line.startswith(name):
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None or sample["name"] != name:
            continue
        try:
            value = float(sample["value"])
        except ValueError:
            continue
        if math.isfinite(value):
            yield dict(_LABEL.findall(sample["labels"] or "")), value
