"""GPU readings of a level, kept small: columns of JSON, deflated, with a summary beside them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

from orchestrator.core.results import GpuSample

_COLUMNS = tuple(field.name for field in fields(GpuSample))


def columns(samples: Sequence[GpuSample]) -> bytes:
    """Every reading as JSON, by column. The same readings give the same bytes."""
    values = {name: [getattr(sample, name) for sample in samples] for name in _COLUMNS}
    return json.dumps(values, separators=(",", ":")).encode()


def pack(content: bytes) -> bytes:
    """The columns as the database has them."""
    return zlib.compress(content)


def unpack(packed: bytes) -> tuple[GpuSample, ...]:
    """The readings, unchanged. Raises ``zlib.error`` or ``ValueError`` when the bytes are damaged."""
    values = json.loads(zlib.decompress(packed))
    names = [name for name in _COLUMNS if name in values]  # what was recorded by an older version has fewer
    rows = zip(*(values[name] for name in names), strict=True)
    return tuple(GpuSample(**dict(zip(names, row, strict=True))) for row in rows)


def summary(samples: Sequence[GpuSample]) -> dict[str, Any]:
    """The columns of the table ``telemetry`` without its readings. What was never read is None."""
    return {
        "samples": len(samples),
        "gpus": len({sample.gpu for sample in samples}),
        "power_w_mean": _mean(sample.power_w for sample in samples),
        "power_w_max": _largest(sample.power_w for sample in samples),
        "utilisation_mean": _mean(sample.utilisation for sample in samples),
        "memory_mib_max": _largest(sample.memory_mib for sample in samples),
        "sm_clock_mhz_min": _smallest(sample.sm_clock_mhz for sample in samples),
        "temperature_c_max": _largest(sample.temperature_c for sample in samples),
    }


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return sum(known) / len(known) if known else None


def _largest(values: Iterable[float | None]) -> float | None:
    return max(_known(values), default=None)


def _smallest(values: Iterable[float | None]) -> float | None:
    return min(_known(values), default=None)
