"""What an event changes in the database, in one transaction: its own row, and the rows it opens or closes.

An event told twice is one event: its content is hashed, and a hash already there changes nothing. Ids never name
two things: a launch or level told a second time with other content is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import singledispatch
from math import isfinite
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, select, update
from sqlalchemy.dialects.sqlite import insert

from orchestrator.core import events
from orchestrator.core.history import figure_columns
from orchestrator.errors import StoreFault
from orchestrator.store import request_files, telemetry
from orchestrator.store.schema import build, config, event, launch, level, request_file, run, sanity, trial
from orchestrator.store.schema import telemetry as telemetry_table

# Kept elsewhere, whole: the event's own row has only their hash.
_BULKY = frozenset({"records", "answers", "gpu", "unit_text", "sweep_text", "plan", "settings", "conditions"})


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An event made ready for the database. ``records`` and ``readings`` are a level's, packed."""

    told: events.Event
    body: dict[str, Any]
    digest: str
    records: bytes = b""
    readings: bytes = b""


def prepare(told: events.Event) -> Entry:
    """Pack and hash an event; touches nothing."""
    plain: dict[str, bytes] = {}
    if isinstance(told, events.LevelEnded):
        plain = {"records": request_files.lines(told.records), "gpu": telemetry.columns(told.gpu)}
    body: dict[str, Any] = {}
    for field in fields(told):
        value = getattr(told, field.name)
        if field.name in _BULKY:
            content = plain.get(field.name) or json.dumps(storable(value), sort_keys=True).encode()
            body[f"{field.name}_sha256"] = hashlib.sha256(content).hexdigest()
        else:
            body[field.name] = storable(value)
    text = json.dumps([type(told).__name__, body], sort_keys=True)
    return Entry(
        told=told,
        body=body,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        records=request_files.pack(plain["records"]) if plain else b"",
        readings=telemetry.pack(plain["gpu"]) if plain else b"",
    )


def enter(connection: Connection, folder: Path, entry: Entry) -> None:
    """Apply a prepared event inside the caller's transaction. Raises ``StoreFault`` when it cannot be true."""
    told = entry.told
    known = select(event.c.number).where(event.c.run == told.run, event.c.digest == entry.digest)
    if connection.execute(known).first() is not None:
        return
    if isinstance(told, events.LevelEnded):
        _close_level(connection, folder, told, entry)
    else:
        _apply(told, connection)
    changed = connection.execute(update(run).where(run.c.run == told.run).values(last_at=told.at))
    if changed.rowcount != 1:
        raise _untrue(told, f"run {told.run} was never started")
    connection.execute(
        insert(event).values(
            run=told.run,
            at=told.at,
            kind=type(told).__name__,
            trial=getattr(told, "trial", None),
            body=entry.body,
            digest=entry.digest,
        )
    )


@singledispatch
def _apply(told: events.Event, connection: Connection) -> None:
    """Events without a row of their own (a note, for one) are only written down."""


@_apply.register
def _run_started(told: events.RunStarted, connection: Connection) -> None:
    before = connection.execute(select(run).where(run.c.run == told.run)).mappings().first()
    if before is None and told.resumed:
        raise _untrue(told, f"run {told.run} is to be resumed but was never started")
    if before is None:
        connection.execute(
            insert(run).values(
                **_columns(told, "run", "sweep", "service", "host", "rehearsal", "tool_version", "sweep_digest"),
                **_columns(told, "sweep_text", "plan"),
                simulated=told.rehearsal,
                state="open",
                started_at=told.at,
                last_at=told.at,
                resumes=0,
            )
        )
        return
    if not told.resumed:
        raise _untrue(told, f"run {told.run} was started before")
    for name in ("rehearsal", "sweep_digest", "service", "host"):
        if before[name] != getattr(told, name):
            raise _untrue(told, f"run {told.run} had {name} {before[name]!r}, now it is {getattr(told, name)!r}")
    _interrupt_open(connection, told)
    again = {
        "state": "open",
        "ended_at": None,
        "exit_code": None,
        "host_state": None,
        "reason": None,
        "resumes": run.c.resumes + 1,
    }
    # What is measured is the same; by what it is judged may have been changed in between, and the latest word counts.
    judged = {"plan": {**before["plan"], "objective": told.plan.get("objective")}}
    connection.execute(update(run).where(run.c.run == told.run).values(**again, **judged))


@_apply.register
def _surveyed(told: events.Surveyed, connection: Connection) -> None:
    if told.simulated:
        connection.execute(update(run).where(run.c.run == told.run).values(simulated=True))
    elif _simulated(connection, told):
        raise _untrue(told, f"run {told.run} is simulated, and now the host has a real engine")


@_apply.register
def _trial_planned(told: events.TrialPlanned, connection: Connection) -> None:
    key = (trial.c.run == told.run) & (trial.c.trial == told.trial)
    before = connection.execute(select(trial.c.config_id).where(key)).first()
    if before is not None:
        if before.config_id != told.config_id:
            raise _untrue(told, f"config {told.trial} was {before.config_id}, now it is {told.config_id}")
        return
    connection.execute(insert(config).values(**_columns(told, "config_id", "config_json")).on_conflict_do_nothing())
    connection.execute(
        insert(trial).values(
            **_columns(told, "run", "trial", "order", "role", "alias_of", "config_id"),
            state="planned" if told.alias_of is None else "alias",
        )
    )


@_apply.register
def _trial_set_aside(told: events.TrialSetAside, connection: Connection) -> None:
    why = {"because": storable(told.because), "reason": storable(told.reason)}
    alias = {"alias_of": storable(told.because)} if told.state == "alias" else {}
    _change_trial(connection, told, told.trial, told.state, {**why, **alias})


@_apply.register
def _launch_started(told: events.LaunchStarted, connection: Connection) -> None:
    key = (launch.c.run == told.run) & (launch.c.trial == told.trial) & (launch.c.launch == told.launch)
    if connection.execute(select(launch.c.number).where(key)).first() is not None:
        raise _untrue(told, f"launch {told.launch} was started before; every start has a number of its own")
    content = storable(told.build)
    build_id = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]
    connection.execute(insert(build).values(build_id=build_id, build=content).on_conflict_do_nothing())
    _change_trial(connection, told, told.trial, "open", {"because": None, "reason": None})
    connection.execute(
        insert(launch).values(
            **_columns(told, "run", "trial", "launch", "argv", "unit_text"),
            simulated=_simulated(connection, told),
            state="starting",
            started_at=told.at,
            build_id=build_id,
        )
    )


@_apply.register
def _launch_phase(told: events.LaunchPhase, connection: Connection) -> None:
    # A restore tells its phases too, and is no launch: then there is nothing to change.
    key = (launch.c.run == told.run) & (launch.c.trial == told.trial) & (launch.c.launch == told.launch)
    connection.execute(update(launch).where(key).values(storable({"phase": told.phase})))


@_apply.register
def _launch_ready(told: events.LaunchReady, connection: Connection) -> None:
    changes = {
        **_columns(told, "invocation_id", "settings", "phases"),
        "state": "ready",
        "phase": None,
        "ready_at": told.at,
        "ready_s": told.seconds,
    }
    _change_launch(connection, told, told.trial, told.launch, changes)


@_apply.register
def _launch_failed(told: events.LaunchFailed, connection: Connection) -> None:
    changes = {
        **_columns(told, "failure_class", "verdict", "explanation", "next_step", "evidence"),
        "state": "failed",
        "ended_at": told.at,
        "failed_after_s": told.seconds,
    }
    _change_launch(connection, told, told.trial, told.launch, changes)
    _close_open_levels(connection, told, _levels_of(told), "failed", told.failure_class)
    _change_trial(connection, told, told.trial, "failed")


@_apply.register
def _launch_ended(told: events.LaunchEnded, connection: Connection) -> None:
    _change_launch(connection, told, told.trial, told.launch, {"state": "ended", "phase": None, "ended_at": told.at})
    cut = _close_open_levels(connection, told, _levels_of(told), "interrupted", None)
    ours = (trial.c.run == told.run) & (trial.c.trial == told.trial)
    if connection.execute(select(trial.c.state).where(ours)).scalar() in {"alias", "left-out"}:
        return
    of_trial = (level.c.run == told.run) & (level.c.trial == told.trial) & (level.c.purpose == "measure")
    measured = connection.execute(
        select(func.count()).select_from(level).where(of_trial & (level.c.state == "measured"))
    ).scalar_one()
    _change_trial(connection, told, told.trial, "interrupted" if cut else "measured" if measured else "failed")


@_apply.register
def _sanity_checked(told: events.SanityChecked, connection: Connection) -> None:
    _change_launch(connection, told, told.trial, told.launch, {})
    connection.execute(insert(sanity).values(**_columns(told, "run", "trial", "launch", "turn", "at", "answers")))


@_apply.register
def _level_started(told: events.LevelStarted, connection: Connection) -> None:
    key = _levels_of(told) & (level.c.level == told.level) & (level.c.purpose == told.purpose)
    if connection.execute(select(level.c.number).where(key)).first() is not None:
        raise _untrue(told, f"level {told.level} ({told.purpose}) was started before in launch {told.launch}")
    _change_launch(connection, told, told.trial, told.launch, {})
    connection.execute(
        insert(level).values(
            **_columns(told, "run", "trial", "launch", "level", "purpose", "workload", "workload_digest"),
            **_columns(told, "concurrency", "rate", "arrival", "repeat", "requests"),
            simulated=_simulated(connection, told),
            state="open",
            started_at=told.at,
        )
    )


@_apply.register
def _restore_began(told: events.RestoreBegan, connection: Connection) -> None:
    changes = {"restore_state": "under-way", "restore_s": None, "restore_detail": told.why}
    connection.execute(update(run).where(run.c.run == told.run).values(changes))


@_apply.register
def _restored(told: events.Restored, connection: Connection) -> None:
    changes = {
        "restore_state": "verified" if told.verified else "not-verified",
        "restore_s": told.seconds,
        "restore_detail": told.detail,
    }
    connection.execute(update(run).where(run.c.run == told.run).values(storable(changes)))


@_apply.register
def _run_ended(told: events.RunEnded, connection: Connection) -> None:
    _interrupt_open(connection, told)
    changes = {**_columns(told, "exit_code", "host_state", "reason"), "state": told.outcome, "ended_at": told.at}
    connection.execute(update(run).where(run.c.run == told.run).values(changes))


def _close_level(connection: Connection, folder: Path, told: events.LevelEnded, entry: Entry) -> None:
    """The records' file first, then figures, file and readings in the transaction: a crash loses the level or
    keeps it, and never keeps half of it."""
    key = _levels_of(told) & (level.c.level == told.level) & (level.c.state == "open")
    found = connection.execute(select(level).where(key)).mappings().first()
    if found is None:
        raise _untrue(told, f"level {told.level} of launch {told.launch} is not open")
    path = request_files.relative_path(told.run, told.trial, told.launch, told.level, found["purpose"])
    request_files.write(folder, path, entry.records)
    connection.execute(
        update(level)
        .where(level.c.number == found["number"])
        .values(
            **figure_columns(told.figures),
            **_columns(told, "watts_per_gpu", "engine_tokens", "client", "conditions", "warnings"),
            state=told.figures.state,
            reason=storable(told.figures.reason),
            ended_at=told.at,
        )
    )
    connection.execute(
        insert(request_file).values(
            level_number=found["number"],
            path=path,
            sha256=hashlib.sha256(entry.records).hexdigest(),
            count=len(told.records),
            bytes=len(entry.records),
        )
    )
    connection.execute(
        insert(telemetry_table).values(
            level_number=found["number"], **telemetry.summary(told.gpu), readings=entry.readings
        )
    )


def _levels_of(
    told: events.LaunchFailed | events.LaunchEnded | events.LevelStarted | events.LevelEnded,
) -> ColumnElement[bool]:
    return (level.c.run == told.run) & (level.c.trial == told.trial) & (level.c.launch == told.launch)


def _close_open_levels(
    connection: Connection, told: events.Event, where: ColumnElement[bool], state: str, reason: str | None
) -> int:
    changes = {"state": state, "reason": reason, "ended_at": told.at}
    return connection.execute(update(level).where(where & (level.c.state == "open")).values(changes)).rowcount


def _interrupt_open(connection: Connection, told: events.Event) -> None:
    """Close what a killed process, or a signal, left open."""
    _close_open_levels(connection, told, level.c.run == told.run, "interrupted", None)
    open_launches = (launch.c.run == told.run) & launch.c.state.in_(("starting", "ready"))
    connection.execute(update(launch).where(open_launches).values(state="interrupted", ended_at=told.at))
    open_trials = (trial.c.run == told.run) & (trial.c.state == "open")
    connection.execute(update(trial).where(open_trials).values(state="interrupted"))


def _change_launch(
    connection: Connection, told: events.Event, in_trial: str, name: str, changes: Mapping[str, Any]
) -> None:
    key = (launch.c.run == told.run) & (launch.c.trial == in_trial) & (launch.c.launch == name)
    if changes:
        found = connection.execute(update(launch).where(key).values(dict(changes))).rowcount == 1
    else:
        found = connection.execute(select(launch.c.number).where(key)).first() is not None
    if not found:
        raise _untrue(told, f"launch {name} was never started")


def _change_trial(
    connection: Connection, told: events.Event, name: str, state: str, more: Mapping[str, Any] | None = None
) -> None:
    key = (trial.c.run == told.run) & (trial.c.trial == name)
    if connection.execute(update(trial).where(key).values({"state": state, **(more or {})})).rowcount != 1:
        raise _untrue(told, f"config {name} was never planned")


def _simulated(connection: Connection, told: events.Event) -> bool:
    row = connection.execute(select(run.c.simulated).where(run.c.run == told.run)).first()
    if row is None:
        raise _untrue(told, f"run {told.run} was never started")
    return bool(row.simulated)


def _columns(told: events.Event, *names: str) -> dict[str, Any]:
    return {name: storable(getattr(told, name)) for name in names}


def _untrue(told: events.Event, why: str) -> StoreFault:
    return StoreFault(
        f"{type(told).__name__} cannot be recorded: {why}",
        cause="two processes record the same run, or a fault of tune itself",
        remedy="tune runs lists what is recorded; nothing was changed",
    )


def storable(value: Any) -> Any:
    """The value as plain JSON: text without lone surrogates, numbers that JSON has (else their name as text).

    Raises ``TypeError`` for what has no JSON form.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [storable(item) for item in items]
    if is_dataclass(value) and not isinstance(value, type):
        return storable(asdict(value))
    raise TypeError(f"{type(value).__name__} has no place in the store")
