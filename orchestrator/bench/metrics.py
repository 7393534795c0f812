"""Reading one number out of a Prometheus page."""

from __future__ import annotations

import math
import re

# Ranks that work on the same requests: their series repeat one another and the largest is the truth.
SAME_REQUESTS = ("pp_rank", "tp_rank", "moe_ep_rank", "ep_rank")

_SAMPLE = re.compile(r"(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def total(page: str, name: str) -> float | None:
    """The sum of metric ``name`` over its series, ranks of one pipeline counted once; None when it is not there.

    ``sglang:num_running_reqs`` has a series per pipeline and tensor rank for the same requests; data-parallel ranks and
    labels such as ``is_streaming`` split them.
    """
    largest: dict[tuple[tuple[str, str], ...], float] = {}
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
        if not math.isfinite(value):
            continue
        labels = _LABEL.findall(sample["labels"] or "")
        group = tuple(sorted(label for label in labels if label[0] not in SAME_REQUESTS))
        largest[group] = max(value, largest.get(group, value))
    return math.fsum(largest.values()) if largest else None
