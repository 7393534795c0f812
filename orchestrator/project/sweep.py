"""A sweep file to ``core.sweep.Sweep``: everything that must be there, and what must agree with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from orchestrator.core.config import FlagValue
from orchestrator.core.inventory import ServiceEntry
from orchestrator.core.load.whole import CONCURRENCY
from orchestrator.core.nearest import nearest
from orchestrator.core.plan.grid import check_where, read_where
from orchestrator.core.plan.where import WhereRefused
from orchestrator.core.sweep import Axis, Budget, Objective, Repeats, Sweep
from orchestrator.core.workload import Workload
from orchestrator.project import shapes
from orchestrator.project.checked import missing, validate
from orchestrator.project.document import Document, Place, dotted
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.grid import read_grid
from orchestrator.project.load import read_workload
from orchestrator.project.settings import read_environment, read_flags

_LIMITS = tuple(f"{what}_{which}" for what in ("ttft", "tpot", "gap") for which in ("mean", "p50", "p95", "p99"))


def read_sweep(
    document: Document, path: Path, services: Mapping[str, ServiceEntry], names: tuple[str, ...] | None, faults: Faults
) -> Sweep | None:
    """The sweep, or None when it cannot be built; every fault is added.

    ``services`` are the sound entries of the inventory, ``names`` all it has (None: it could not be read),
    so that a fault there is told once.
    """
    shape = validate(shapes.SweepFile, document, faults)
    service = _service(document, shape.service, services, names, faults)
    axes = read_grid(document, shape.grid or {}, service.engines if service else None, faults)
    flags = read_flags(document, ("flags",), shape.flags, faults)
    environment = read_environment(document, ("environment",), shape.environment, faults)
    _check_fixed(document, axes, {**flags, **environment}, faults)
    model = service.model if service else None
    vocabulary = model.vocabulary if model else 0
    workload: Workload | None = None
    if shape.workload is None:
        missing(document, (), "workload", faults)
    else:
        workload = read_workload(document, ("workload",), shape.workload, path.parent, vocabulary, faults)
    _check_objective(document, shape.objective, shape.workload, faults)
    _check_budget(document, shape.budget, faults)
    if service is None or workload is None:
        _check_words(document, shape.where, axes, faults)
        return None
    sweep = Sweep(
        name=path.stem,
        path=document.name,
        text=document.text,
        service=service,
        axes=axes,
        where=tuple(shape.where),
        flags=flags,
        environment=environment,
        workload=workload,
        repeats=_repeats(shape.repeats),
        objective=Objective(
            maximize="whole_tok_s" if shape.objective.maximize == "whole_tok_s" else "steady_tok_s",
            concurrency=shape.objective.at.concurrency,
            rate=shape.objective.at.rate,
            arrival=shape.objective.at.arrival,
            slo=shape.objective.slo,
        ),
        budget=Budget(until=shape.budget.until, hours=shape.budget.hours),
        reference="none" if shape.reference == "none" else "production",
        sanity=_sanity(shape.sanity),
        order="as-listed" if shape.order == "as-listed" else "shuffled",
        seed=shape.seed,
    )
    _check_where(document, sweep, faults)
    return sweep


def _repeats(shape: shapes.Repeats) -> Repeats:
    asked = shape.confirm
    if isinstance(asked, int):
        return Repeats(per_level=shape.per_level, launches=shape.launches, confirm=asked)
    return Repeats(per_level=shape.per_level, launches=shape.launches, confirm="auto" if asked == "auto" else None)


def _sanity(asked: int | str) -> int:
    if isinstance(asked, int):
        return asked
    return CONCURRENCY if asked == "on" else 0


def _check_where(document: Document, sweep: Sweep, faults: Faults) -> None:
    host = sweep.service.host
    if host.gpus is None and faults.count:  # the count may be among what the inventory was refused for
        service = replace(sweep.service, host=replace(host, gpus=1))
        sweep = replace(sweep, service=service)
    for index, text in enumerate(sweep.where):
        refused = check_where(sweep, text)
        if refused is not None:
            faults.add(_where_fault(document, index, refused))


def _check_words(document: Document, where: Sequence[str], axes: Sequence[Axis], faults: Faults) -> None:
    """Without a service only the words of an expression can be judged."""
    for index, text in enumerate(where):
        try:
            read_where(text, axes)
        except WhereRefused as refused:
            faults.add(_where_fault(document, index, refused))


def _where_fault(document: Document, index: int, refused: WhereRefused) -> Fault:
    line = document.line(("where", index))
    text = f'"{refused.expression}": {refused.problem}'
    return Fault(document.name, line, "where", text, hint=did_you_mean(refused.nearest))


def _service(
    document: Document,
    name: str | None,
    services: Mapping[str, ServiceEntry],
    names: tuple[str, ...] | None,
    faults: Faults,
) -> ServiceEntry | None:
    if name is None:
        missing(document, (), "service", faults)
        return None
    if names is not None and name not in names:
        hint = did_you_mean(nearest(name, names))
        text = f'read "{name}"; accepted: {" or ".join(names) or "a service of inventory.yaml"}'
        faults.add(Fault(document.name, document.line(("service",)), "service", text, hint=hint))
    return services.get(name)


def _check_fixed(document: Document, axes: tuple[Axis, ...], fixed: Mapping[str, FlagValue], faults: Faults) -> None:
    for axis in axes:
        varied = dict.fromkeys(name for point in axis.points for name in point.settings)
        for name in varied:
            if name in fixed:
                place: Place = ("grid", axis.name)
                text = f'"{axis.name}" varies {name}, which is also fixed under flags or environment'
                faults.add(Fault(document.name, document.line(place), "grid", text, hint="leave one of the two out"))


def _check_objective(document: Document, objective: shapes.Objective, load: shapes.Load | None, faults: Faults) -> None:
    if load is not None and (load.concurrency or load.rate):
        levels: dict[str, Sequence[object]] = {
            "concurrency": load.concurrency or [],
            "rate": load.rate or [],
            "arrival": load.arrival if load.arrival and len(load.arrival) > 1 else [],
        }
        for key, known in levels.items():
            asked = getattr(objective.at, key)
            if asked is not None and asked not in known:
                place: Place = ("objective", "at", key)
                there = ", ".join(map(_plain, dict.fromkeys(known)))
                text = (
                    f"read {_plain(asked)}; accepted: {f'a level of the workload: {there}' if there else 'none here'}"
                )
                faults.add(Fault(document.name, document.line(place), dotted(place), text))
    for name in objective.slo:
        if name not in _LIMITS:
            place = ("objective", "slo", name)
            hint = did_you_mean(nearest(name, _LIMITS)) or f"accepted: {', '.join(_LIMITS)}"
            faults.add(
                Fault(document.name, document.line(place), "objective.slo", f'unknown limit "{name}"', hint=hint)
            )


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _check_budget(document: Document, budget: shapes.Budget, faults: Faults) -> None:
    if budget.until is not None and budget.hours is not None:
        line = document.line(("budget",))
        faults.add(Fault(document.name, line, "budget", "until and hours are both there; accepted: one of them"))
