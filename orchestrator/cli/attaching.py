"""Watching and stopping a run that goes on in another process, by what that one writes down."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from orchestrator.cli import living
from orchestrator.cli.living import Living
from orchestrator.cli.progress import Progress
from orchestrator.cli.streams import say
from orchestrator.cli.terminal import width
from orchestrator.cli.transcript import Reader
from orchestrator.core import events
from orchestrator.errors import InputRefused, Interrupted, RestoreUnderWay
from orchestrator.report.show import run_text
from orchestrator.report.summary import summary_text
from orchestrator.store.store import Store

LOOK_EVERY_S = 0.3
_NAMED = 8  # run ids in a refusal


def watch(state: Path, reference: str | None, *, plain: bool) -> int:
    """Show a run to its end, or its result if it has one already. The run's exit code; 0 if the watcher left.

    A run that was killed has no exit code: its host restores by itself, which is what 131 says.

    ``state`` is the project's ``.tune``. Raises ``InputRefused`` for a run that is not there.
    """
    with Store.open(state, create=False) as store:
        run_id, process = _meant(store, reference)
        if process is None:
            return _ended(store, run_id)
        if process.is_elsewhere:
            say(f"run {run_id} goes on in {process.where}: watched from here, it can be stopped only there")
            say(f"  {process.if_gone}")
        return _follow(store, run_id, process, plain=plain)


def end(state: Path, reference: str | None, *, plain: bool) -> int:
    """Tell a run to stop, once, and show it to its end. 0 when it ended by that and production is back."""
    with Store.open(state, create=False) as store:
        run_id = _to_stop(store, reference)
        process = living.living(store.run_folder(run_id))
        if process is None:
            raise InputRefused(f"run {run_id} is not going on", remedy=f"tune attach {run_id} shows how it ended")
        if process.is_elsewhere:
            raise InputRefused(
                f"run {run_id} goes on in {process.where}", remedy=f"tune stop, there; {process.if_gone}"
            )
        if process.stopping:
            say(f"run {run_id} ({process.where}) is stopping already")
        elif process.terminate():
            say(f"run {run_id} ({process.where}) was told to stop the load and put production back")
        code = _follow(store, run_id, process, plain=plain)
    return 0 if code == Interrupted.exit_code else code


def _meant(store: Store, reference: str | None) -> tuple[str, Living | None]:
    """The run, and its process if it has one."""
    if reference is not None:
        run_id = _find(store, reference)
        return run_id, living.living(store.run_folder(run_id))
    going = living.all_living(store.folder / "runs")
    if not going:
        run_id = store.find_run()
        say("no run is going on in this project; this is the latest:\n")
        return run_id, None
    if len(going) > 1:
        others = ", ".join(one.run for one in going[1:])
        say(f"{len(going)} runs are going on; this is the newest, {going[0].run}. The others: {others}")
    return going[0].run, going[0]


def _to_stop(store: Store, reference: str | None) -> str:
    if reference is not None:
        return _find(store, reference)
    going = living.all_living(store.folder / "runs")
    if not going:
        raise InputRefused("no run is going on in this project", remedy="tune runs lists those that were")
    if len(going) > 1:
        raise InputRefused(
            f"{len(going)} runs are going on",
            remedy=f"name one of them: {', '.join(one.run for one in going[:_NAMED])}",
        )
    return going[0].run


def _find(store: Store, reference: str) -> str:
    """Also a run that has just begun and recorded nothing yet."""
    going = [one.run for one in living.all_living(store.folder / "runs") if one.run.startswith(reference)]
    return going[0] if len(going) == 1 else store.find_run(reference)


def _follow(store: Store, run_id: str, process: Living, *, plain: bool) -> int:
    folder = store.run_folder(run_id)
    say(f"watching run {run_id} ({process.where}); Ctrl-C ends the watching, not the run")
    try:
        code = _show(folder, process, plain=plain)
    except KeyboardInterrupt:
        say(f"\nno longer watching; run {run_id} goes on")
        say(f"  watch again    tune attach {run_id}\n  stop it        tune stop {run_id}")
        return 0
    if code is None:
        say(f"run {run_id} ended without a word ({process.where} was killed, or its machine went down)")
        return _ended(store, run_id)
    say(run_text(store.read(run_id), width=width()))
    return code


def _show(folder: Path, process: Living, *, plain: bool) -> int | None:
    """What was told and is told, until the run's last word; its exit code, or None when the process ended without."""
    while True:
        try:
            reader = Reader(folder)
            break
        except FileNotFoundError:
            if not _goes_on(process):
                return None
            time.sleep(LOOK_EVERY_S)
    with reader:
        so_far = list(reader.fresh())
        while reader.outlook is None:
            if not _goes_on(process):
                return None
            time.sleep(LOOK_EVERY_S)
            so_far += reader.fresh()
        with Progress(reader.outlook, plain=plain) as screen:
            with screen.recalling():
                code = _tell(screen, so_far)
            while code is None:
                goes_on = _goes_on(process)  # before reading: what it said last is not missed
                code = _tell(screen, list(reader.fresh()))
                if code is None and not goes_on:
                    return None
                time.sleep(LOOK_EVERY_S if code is None else 0)
            return code


def _goes_on(process: Living) -> bool:
    return process.is_elsewhere or process.is_alive


def _tell(screen: Progress, told: Sequence[events.Event]) -> int | None:
    code = None
    for event in told:
        screen.tell(event)
        if isinstance(event, events.RunEnded):
            code = event.exit_code
    return code


def _ended(store: Store, run_id: str) -> int:
    history = store.read(run_id)
    say(summary_text(history, width=width()))
    return RestoreUnderWay.exit_code if history.run.exit_code is None else history.run.exit_code
