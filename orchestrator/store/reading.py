"""Rows out of the database as ``core.history`` values. Questions only; each answers from one snapshot."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, Select, func, select

from orchestrator.core import history
from orchestrator.core.conditions import from_json
from orchestrator.core.events import Surveyed
from orchestrator.core.judge.sanity import Said
from orchestrator.core.results import GpuSample
from orchestrator.errors import InputRefused, StoreFault
from orchestrator.store import telemetry
from orchestrator.store.schema import build, config, event, launch, level, request_file, run, sanity, trial
from orchestrator.store.schema import telemetry as telemetry_table

Row = TypeVar("Row")

_SHOWN = 8  # run ids named in a refusal


def find_run(connection: Connection, reference: str | None) -> str:
    """The id meant: whole, a prefix that fits one run only, or None for the latest. Raises ``InputRefused``.

    The latest is one that started something: an attempt that was refused must not hide last night's results.
    """
    ids: list[str] = list(connection.scalars(select(run.c.run).order_by(run.c.number.desc())))
    if not ids:
        raise InputRefused("no run has been recorded here yet", remedy="tune sweep FILE --sim records a rehearsal")
    if reference is None:
        begun = set(connection.scalars(select(launch.c.run).distinct()))
        return next((run_id for run_id in ids if run_id in begun), ids[0])
    fits = [run_id for run_id in ids if run_id == reference] or [
        i for i in ids if reference and i.startswith(reference)
    ]
    if len(fits) == 1:
        return fits[0]
    said = "fits more than one run" if fits else "is not a run recorded here"
    offered = fits or ids
    more = ", …" if len(offered) > _SHOWN else ""
    raise InputRefused(f'"{reference}" {said}: {", ".join(offered[:_SHOWN])}{more}', remedy="tune runs lists them all")


def summaries(connection: Connection) -> tuple[history.RunSummary, ...]:
    """Every run, the latest first."""
    states: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    counted = (
        select(trial.c.run, trial.c.state, func.count())
        .where(trial.c.role == "candidate")
        .group_by(trial.c.run, trial.c.state)
    )
    for row in connection.execute(counted):
        states[row.run][row.state] = int(row[2])
    measured = (level.c.purpose == "measure") & (level.c.state == "measured")
    points = select(level.c.run, func.count()).where(measured).group_by(level.c.run)
    levels = {row[0]: int(row[1]) for row in connection.execute(points)}
    starts = select(launch.c.run, func.count()).group_by(launch.c.run)
    launches = {row[0]: int(row[1]) for row in connection.execute(starts)}
    return tuple(
        history.RunSummary(
            run=_make(history.RunRow, row),
            trials=sum(count for state, count in states[row["run"]].items() if state != "alias"),
            measured=states[row["run"]]["measured"],
            failed=states[row["run"]]["failed"],
            launches=launches.get(row["run"], 0),
            levels=levels.get(row["run"], 0),
        )
        for row in connection.execute(select(run).order_by(run.c.number.desc())).mappings()
    )


def read_config(connection: Connection, config_id: str) -> tuple[history.RunHistory, ...]:
    """Every run that has the config, oldest first, each with that config's trials alone."""
    asked = select(run.c.run).join_from(run, trial).where(trial.c.config_id == config_id).distinct()
    numbered = asked.add_columns(run.c.number).order_by(run.c.number)
    return tuple(read_run(connection, row.run, config_id=config_id) for row in connection.execute(numbered))


def named_configs(connection: Connection) -> tuple[history.NamedConfig, ...]:
    """Every config that was launched, under each name it had in each run, oldest first."""
    launched = select(launch.c.run, launch.c.trial).distinct().subquery()
    asked = (
        select(run.c.run, run.c.service, run.c.started_at, trial.c.trial, trial.c.config_id)
        .join_from(run, trial)
        .join(launched, (launched.c.run == trial.c.run) & (launched.c.trial == trial.c.trial))
        .order_by(run.c.number, trial.c.order)
    )
    return tuple(_make(history.NamedConfig, row) for row in connection.execute(asked).mappings())


def read_run(connection: Connection, run_id: str, *, config_id: str | None = None) -> history.RunHistory:
    """A run with everything under it; with ``config_id`` only the trials of that config."""
    row = connection.execute(select(run).where(run.c.run == run_id)).mappings().one()
    by_launch: dict[tuple[str, str], list[history.LevelRow]] = defaultdict(list)
    for point in read_levels(connection, run_id):
        by_launch[point.trial, point.launch].append(point)
    by_trial: dict[str, list[history.LaunchHistory]] = defaultdict(list)
    for start in read_launches(connection, run_id):
        points = tuple(by_launch[start.trial, start.launch])
        by_trial[start.trial].append(history.LaunchHistory(launch=start, levels=points))
    trials = tuple(
        history.TrialHistory(trial=planned, launches=tuple(by_trial[planned.trial]))
        for planned in read_trials(connection, run_id)
        if config_id in {None, planned.config_id}
    )
    return history.RunHistory(
        run=_make(history.RunRow, row),
        trials=trials,
        notes=_read_notes(connection, run_id),
        restored_at=_read_restored(connection, run_id),
        sanity=_read_sanity(connection, run_id),
        earlier=_read_earlier(connection, row),
    )


def read_trials(connection: Connection, run_id: str) -> tuple[history.TrialRow, ...]:
    """The configs of a run, production first, then in the run's order."""
    joined = trial.join(config, trial.c.config_id == config.c.config_id)
    asked = select(trial, config.c.config_json).select_from(joined).where(trial.c.run == run_id)
    ordered = asked.order_by(trial.c.role == "candidate", trial.c.order, trial.c.trial)
    return tuple(_make(history.TrialRow, row) for row in connection.execute(ordered).mappings())


def read_launches(connection: Connection, run_id: str) -> tuple[history.LaunchRow, ...]:
    """The starts of a run, in the order they were made."""
    joined = launch.join(build, launch.c.build_id == build.c.build_id)
    asked = select(launch, build.c.build).select_from(joined).where(launch.c.run == run_id).order_by(launch.c.number)
    return tuple(_make(history.LaunchRow, row) for row in connection.execute(asked).mappings())


def read_levels(connection: Connection, run_id: str) -> tuple[history.LevelRow, ...]:
    """The load points of a run, warm-ups included, in the order they were begun."""
    files = _by_level(connection, history.RequestFileRow, select(request_file), run_id)
    summary = [column for column in telemetry_table.c if column.name != "readings"]
    readings = _by_level(connection, history.TelemetryRow, select(*summary), run_id)
    rows = connection.execute(select(level).where(level.c.run == run_id).order_by(level.c.number)).mappings()
    return tuple(
        _make(
            history.LevelRow,
            {
                **row,
                "conditions": None if row["conditions"] is None else from_json(row["conditions"]),
                "request_file": files.get(row["number"]),
                "telemetry": readings.get(row["number"]),
            },
        )
        for row in rows
    )


def _by_level(connection: Connection, kind: type[Row], asked: Select[Any], run_id: str) -> dict[int, Row]:
    source = asked.selected_columns["level_number"]
    rows = connection.execute(asked.join_from(source.table, level).where(level.c.run == run_id)).mappings()
    return {row["level_number"]: _make(kind, row) for row in rows}


def _read_notes(connection: Connection, run_id: str) -> tuple[history.NoteRow, ...]:
    asked = select(event.c.at, event.c.body).where(event.c.run == run_id, event.c.kind == "Note")
    rows = connection.execute(asked.order_by(event.c.number))
    return tuple(history.NoteRow(at=row.at, text=row.body["text"], trial=row.body["trial"]) for row in rows)


def _read_sanity(connection: Connection, run_id: str) -> tuple[history.SanityRow, ...]:
    rows = connection.execute(select(sanity).where(sanity.c.run == run_id).order_by(sanity.c.number)).mappings()
    return tuple(
        _make(history.SanityRow, {**row, "answers": tuple(Said(**answer) for answer in row["answers"])}) for row in rows
    )


def _read_earlier(connection: Connection, of: RowMapping) -> tuple[history.EarlierLevel, ...]:
    """Measured load points of the runs before it that its noise may be judged by."""
    names = [field.name for field in fields(history.EarlierLevel)]
    asked = (
        select(*(level.c[name] for name in names))
        .join_from(level, run, level.c.run == run.c.run)
        .where(run.c.service == of["service"], run.c.host == of["host"], run.c.number < of["number"])
        .where(run.c.simulated == of["simulated"], run.c.rehearsal == of["rehearsal"])
        .where(level.c.purpose == "measure", level.c.state == "measured")
        .order_by(level.c.number)
    )
    return tuple(_make(history.EarlierLevel, row) for row in connection.execute(asked).mappings())


def _read_restored(connection: Connection, run_id: str) -> str | None:
    asked = select(event.c.at).where(event.c.run == run_id, event.c.kind == "Restored")
    return connection.scalars(asked.order_by(event.c.number.desc()).limit(1)).first()


def answered_levels(connection: Connection, run_id: str) -> frozenset[tuple[str, str]]:
    """``(trial, level)`` of every load point that has its answer (``LevelRow.is_answered``)."""
    points = read_levels(connection, run_id)
    return frozenset((point.trial, point.level) for point in points if point.purpose == "measure" and point.is_answered)


def ready_launches(
    connection: Connection, service: str, host: str, *, rehearsal: bool
) -> tuple[tuple[str, str, float], ...]:
    """``(config id, build id, seconds until ready)`` of every start that came through, oldest first."""
    joined = launch.join(run, launch.c.run == run.c.run).join(
        trial, (launch.c.run == trial.c.run) & (launch.c.trial == trial.c.trial)
    )
    asked = (
        select(trial.c.config_id, launch.c.build_id, launch.c.ready_s)
        .select_from(joined)
        .where(run.c.service == service, run.c.host == host, run.c.rehearsal == rehearsal)
        .where(launch.c.ready_s.is_not(None))  # production measured as it ran was not started
        .order_by(launch.c.number)
    )
    return tuple((row.config_id, row.build_id, float(row.ready_s)) for row in connection.execute(asked))


def card_memory(connection: Connection, service: str, host: str, *, rehearsal: bool) -> tuple[int, ...]:
    """MiB of each GPU as the latest look at the host that knew it found them; empty when none did."""
    asked = (
        select(event.c.body)
        .join_from(event, run, event.c.run == run.c.run)
        .where(run.c.service == service, run.c.host == host, run.c.rehearsal == rehearsal)
        .where(event.c.kind == Surveyed.__name__)
        .order_by(event.c.number.desc())
        .limit(20)
    )
    seen = (body.get("card_mib") for body in connection.scalars(asked))
    return tuple(next((sizes for sizes in seen if sizes), ()))


def readings(connection: Connection, run_id: str, in_trial: str, in_launch: str, name: str) -> tuple[GpuSample, ...]:
    """Every GPU reading of a measured load point; empty when there was none. Raises ``StoreFault`` when damaged."""
    asked = (
        select(telemetry_table.c.readings)
        .join_from(telemetry_table, level)
        .where(level.c.run == run_id, level.c.trial == in_trial, level.c.launch == in_launch)
        .where(level.c.level == name, level.c.purpose == "measure")
    )
    row = connection.execute(asked).first()
    if row is None:
        return ()
    try:
        return telemetry.unpack(row.readings)
    except (zlib.error, ValueError, TypeError) as fault:
        raise StoreFault(
            f"the GPU readings of {in_launch} {name} in run {run_id} are damaged: {fault}",
            remedy="the level's figures still stand; put the database back from a copy to have its readings",
        ) from fault


def _make(kind: type[Row], row: RowMapping | Mapping[str, Any]) -> Row:
    """A row class from a database row: fields by column name; JSON lists become tuples."""
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    values = {name: row[name] for name in names}
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
