"""``tune sweep --detach``: ask everything here, and let a unit of this machine's systemd do it.

The run itself begins in the unit, and holds the host from its first step on; what it has to ask is asked here.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from orchestrator.cli import own_systemd
from orchestrator.cli.leash import Leash
from orchestrator.cli.running import QUESTION, Prepared, Request, earlier_part, prepared, run_id_of, show
from orchestrator.cli.streams import say
from orchestrator.errors import HostFault, InputRefused, Interrupted
from orchestrator.project import Project
from orchestrator.store.store import Store

BEGINS_S = 120.0  # for an interpreter to begin on a busy machine
OUTPUT = "output.txt"


def detach(request: Request) -> int:
    """Begin it. 0 once the run has everything it needs of a person; else the exit code it ended with."""
    with Store.open(Project.open(request.folder).state) as store:
        ready = prepared(request, store)
        show(request, ready)
        words = own_systemd.manager()
        run_id = run_id_of(store, request, ready.sweep)
        earlier_part(request, ready, store, run_id)
        folder = store.run_folder(run_id)
    _warn_of_agent()
    output = _output(folder)
    said_before = output.stat().st_size
    unit = f"tune-{run_id}.service"
    with tempfile.TemporaryDirectory(prefix="tune-") as home:
        leash = _begin(words, request, ready, run_id, unit, output, str(Path(home, "leash")))
    try:
        code = _listen(leash)
    except KeyboardInterrupt:
        own_systemd.stop(words, unit)
        raise Interrupted(f"interrupted; run {run_id} was told to stop", remedy=f"tune attach {run_id}") from None
    finally:
        leash.close()
    if code is None:
        _told(run_id, unit, words, folder)
        return 0
    with output.open(encoding="utf-8", errors="replace") as file:
        file.seek(said_before)
        say(file.read().rstrip("\n"), err=code != 0)
    return code


def _output(folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    output = (folder / OUTPUT).absolute()
    os.close(os.open(output, os.O_CREAT | os.O_WRONLY, 0o600))
    return output


def _begin(
    words: tuple[str, ...], request: Request, ready: Prepared, run_id: str, unit: str, output: Path, path: str
) -> Leash:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(path)
        listening.listen(1)
        listening.settimeout(1.0)
        own_systemd.start(
            words,
            unit,
            about=f"tune sweep {ready.sweep.name}, run {run_id}",
            output=output,
            startup_s=ready.sweep.service.startup.timeout_s,
            socket_path=path,
        )
        for _ in range(int(BEGINS_S)):
            try:
                connection, _ = listening.accept()
                break
            except TimeoutError:
                if not own_systemd.is_active(words, unit):
                    raise _did_not_begin(unit, output) from None
        else:
            own_systemd.stop(words, unit)
            raise _did_not_begin(unit, output)
    connection.settimeout(None)
    leash = Leash(connection)
    leash.send(
        request=_plain(replace(request, plain=True, resume=run_id if request.resume else None)),
        environment=dict(os.environ),
        run=run_id,
        unit=unit,
        digest=ready.plan.digest,
    )
    return leash


def _plain(request: Request) -> dict[str, Any]:
    content = asdict(request)
    return {**content, "folder": str(request.folder), "sweep_file": str(request.sweep_file)}


def _did_not_begin(unit: str, output: Path) -> HostFault:
    lines = output.read_text(encoding="utf-8", errors="replace").splitlines()[-10:]
    return HostFault(
        f"{unit} ended before the run had begun", evidence=lines, host_state="nothing was changed on the host"
    )


def _listen(leash: Leash) -> int | None:
    """What the run says and asks, until it needs nobody any more (None) or has ended (its exit code)."""
    while (message := leash.receive()) is not None:
        if "say" in message:
            say(f"  {message['say']}")
        elif "ask" in message:
            say(message["ask"])
            leash.send(yes=_answer())
        elif "begun" in message:
            return None
        elif "ended" in message:
            return int(message["ended"])
    return HostFault.exit_code  # it was killed: what it said before is all that is known


def _answer() -> bool:
    try:
        if not sys.stdin.isatty():
            say("nobody can be asked here: repeat with --yes to agree", err=True)
            return False
        return click.confirm(QUESTION, default=False)
    except (OSError, click.Abort):
        return False


def _warn_of_agent() -> None:
    if "SSH_AUTH_SOCK" in os.environ and "SSH_CONNECTION" in os.environ:
        say(
            "the ssh agent of this login ends with it: if the link is lost after that, only a key file named in "
            "~/.ssh/config can make it again"
        )


def _told(run_id: str, unit: str, words: tuple[str, ...], folder: Path) -> None:
    systemctl = " ".join(("systemctl", *words))
    say(
        f"run {run_id} goes on as {unit}; this terminal may be closed\n"
        f"  output     {folder / 'log.txt'}\n"
        f"  attach     tune attach {run_id}\n"
        f"  stop       tune stop {run_id}     (or {systemctl} stop {unit}; both put production back)\n"
        f"  show       tune show {run_id}"
    )


def refuse_rehearsal(request: Request) -> None:
    """A rehearsal is over in seconds, and its faults are for the terminal they are typed in."""
    if request.sim:
        raise InputRefused("--detach is for a real night", remedy="--sim takes seconds: leave --detach out")
