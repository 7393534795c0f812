"""Which systemd of this machine can carry a detached run, and the unit it is given."""

from __future__ import annotations

import getpass
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import orchestrator
from orchestrator.errors import HostFault, InputRefused

CARRIED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "XDG_RUNTIME_DIR")
"""Variables that Python needs to begin; none of them is a secret. The rest comes over the socket."""

ANSWERS_S = 120.0  # for the manager to begin a unit
LONGER_S = 600.0  # than a start of production may take: stop the trial, prove the teardown, tell the end


def manager() -> tuple[str, ...]:
    """The words that choose it: none for the system's own, ``--user`` for the user's.

    Raises ``InputRefused`` where a run would not live on: no systemd, or a user manager that ends at logout.
    """
    there = Path("/run/systemd/system").is_dir() and shutil.which("systemd-run") and shutil.which("systemctl")
    if not there:
        raise InputRefused(
            "--detach needs systemd, and this machine does not run it",
            remedy="tmux new -s night, there tune sweep without --detach, and leave it with C-b d; or begin it with "
            "nohup and --yes: tune stays then when the terminal goes",
        )
    if os.geteuid() == 0:
        return ()
    user = getpass.getuser()
    if _ask("systemctl", "--user", "show-environment") is None:
        raise InputRefused(
            "--detach needs a systemd manager of your own, and none answers",
            cause="the login was made with su or sudo, or without XDG_RUNTIME_DIR",
            remedy=f"log in as {user} by ssh; or detach as root",
        )
    if _ask("loginctl", "show-user", user, "--property=Linger", "--value") != "yes":
        raise InputRefused(
            f"--detach: systemd would end the run when {user} logs out",
            cause="lingering is not allowed for this user, so the user manager ends with the last login",
            remedy=f"loginctl enable-linger {user} (once; as root where that is refused)",
        )
    return ("--user",)


def start(words: tuple[str, ...], unit: str, *, about: str, output: Path, startup_s: float, socket_path: str) -> None:
    """Begin the run behind ``socket_path`` as the transient ``unit``; returns when its program was executed.

    KillMode=mixed: a stop sends one TERM to tune alone, which stops the load and restores; only then, or after
    TimeoutStopSec, is what is left killed. Raises ``HostFault`` with systemd's words.
    """
    untouched = "nothing was changed on the host"
    root = str(Path(orchestrator.__file__).parents[1])
    properties = [
        "KillMode=mixed",
        f"TimeoutStopSec={startup_s + LONGER_S:.0f}",
        f"StandardOutput=append:{output}",
        f"StandardError=append:{output}",
        "After=network.target network-online.target",  # at a shutdown the run ends before the network does
    ]
    if not words:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        properties.append(f"LimitNOFILE={soft}:{hard}")
    argv = [
        "systemd-run",
        *words,
        "--quiet",
        "--collect",
        f"--unit={unit}",
        f"--description={about}",
        "--service-type=exec",
        f"--working-directory={Path.cwd()}",
        *(f"--property={one}" for one in properties),
        *(f"--setenv={name}={os.environ[name]}" for name in CARRIED if name in os.environ),
        f"--setenv=PYTHONPATH={root}",
        "--",
        sys.executable,
        "-P",
        "-m",
        "orchestrator.cli.detached",
        socket_path,
    ]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWERS_S, check=False)
    except subprocess.TimeoutExpired as late:
        stop(words, unit)  # should it begin after all
        fact = f"systemd on this machine has not begun {unit} within {ANSWERS_S:.0f} s"
        raise HostFault(fact, host_state=untouched) from late
    if done.returncode != 0:
        raise HostFault(
            f"systemd on this machine did not begin {unit}: {done.stderr.strip() or f'exit {done.returncode}'}",
            host_state=untouched,
        )


def is_active(words: tuple[str, ...], unit: str) -> bool:
    """Whether the unit runs, or is about to."""
    return _ask("systemctl", *words, "is-active", unit) in {"active", "activating", "deactivating", "reloading"}


def stop(words: tuple[str, ...], unit: str) -> None:
    """Have it stopped; returns at once."""
    _ask("systemctl", *words, "stop", "--no-block", unit)


def _ask(*argv: str) -> str | None:
    """The answer; None when there is none."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
