"""One systemd-nspawn container: boot, end, its network cable and its cgroup. Ends only processes it started, by pid."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

BOOT_DEADLINE_S = 90.0

_ENTER_CGROUPS = 'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1"; shift; n=$((n-1)); done; exec "$@"'


def cgroups(name: str) -> list[Path]:
    """A cgroup for ``name`` in every hierarchy systemd uses here.

    nspawn makes ``payload`` below the cgroup it is started in: without one each, all containers would share
    it, and stopping a unit in one would kill the unit of the same name in the others.
    """
    found = []
    own = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own[controllers] = path.lstrip("/")
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, point, kind, options, *_ = line.split()
        if kind == "cgroup2" and "" in own:
            found.append(Path(point, own[""], name))
        elif kind == "cgroup" and "name=systemd" in options.split(",") and "name=systemd" in own:
            found.append(Path(point, own["name=systemd"], name))
    return list(dict.fromkeys(found))


def start_time(pid: int) -> str | None:
    """When the process began, in the kernel's ticks: together with the pid it names a process for good."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid: int) -> bool:
    """Running, and not merely waiting to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def leader_of(pid: int) -> int | None:
    """The container's own pid 1, as this machine numbers it: a child of nspawn ``pid`` that is 1 inside."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for child in children:
            for line in Path(f"/proc/{child}/status").read_text().splitlines():
                if line.startswith("NSpid:") and line.split()[-1] == "1" and len(line.split()) == 3:
                    return int(child)
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None


def end(pid: int, began: str) -> None:
    """Kill nspawn ``pid`` (and with it everything inside) unless the number is another process by now."""
    if start_time(pid) != began:
        return
    leader = leader_of(pid)
    for victim in (pid, leader):
        if victim is not None:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while any(victim is not None and is_alive(victim) for victim in (pid, leader)):
        if time.monotonic() > deadline:
            raise RuntimeError(f"container process {pid} does not end")
        time.sleep(0.02)


def remove_cgroups(name: str) -> None:
    """Remove the empty cgroups a container left."""
    for top in cgroups(name):
        for folder, _, _ in os.walk(top, topdown=False):
            for _ in range(50):
                try:
                    Path(folder).rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # the kernel still counts a dying process
                    time.sleep(0.02)


def _ip(*words: str, enter: Sequence[str] = ()) -> str:
    done = subprocess.run([*enter, "ip", *words], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Container:
    """Boots ``root`` as machine ``name`` (at most 12 characters) and lays a /30 between here and there."""

    def __init__(
        self, *, name: str, root: Path, folder: Path, ours: str, theirs: str, shows: Mapping[str, Path] | None = None
    ) -> None:
        """``shows``: folders of this machine that are seen inside, read-only, under the paths that are the keys."""
        self.name = name
        self._shows = shows or {}
        self.link = f"ve-{name}"
        self._root = root
        self._folder = folder
        self._ours = ours
        self._theirs = theirs
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._began = ""
        self.leader: int | None = None

    @property
    def is_up(self) -> bool:
        """nspawn runs."""
        return self._nspawn is not None and self._nspawn.poll() is None

    def boot(self) -> None:
        """Start, lay the cable, wait until systemd says it is running. Raises ``RuntimeError`` with the console."""
        self._await_old_cable()
        groups = cgroups(self.name)
        for group in groups:
            group.mkdir(exist_ok=True)
        argv = ["sh", "-c", _ENTER_CGROUPS, "sh", str(len(groups)), *(str(group / "cgroup.procs") for group in groups)]
        argv += ["systemd-nspawn", "--quiet", f"--directory={self._root}", "--boot", f"--machine={self.name}"]
        argv += ["--network-veth", "--register=no", "--keep-unit", "--console=passive", "--link-journal=no"]
        argv += [f"--bind-ro={folder}:{path}" for path, folder in self._shows.items()]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        with (self._folder / "console").open("ab") as console:
            self._nspawn = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                env=environment,
                start_new_session=True,
                cwd="/",
            )
        self._began = start_time(self._nspawn.pid) or ""
        (self._folder / "pid").write_text(f"{self._nspawn.pid} {self._began}")
        deadline = time.monotonic() + BOOT_DEADLINE_S
        self._wait_for_leader(deadline)
        self._wait_for_cable(deadline)
        self._lay_cable()
        self._wait_until_running(deadline)

    def _await_old_cable(self) -> None:
        """The link of a boot before goes by itself, a moment after its host has ended."""
        deadline = time.monotonic() + 10
        while Path("/sys/class/net", self.link).exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.link} of an earlier boot is still there")
            time.sleep(0.02)

    def _wait_for_leader(self, deadline: float) -> None:
        assert self._nspawn is not None
        while (leader := leader_of(self._nspawn.pid)) is None:
            self._still(deadline, "no first process")
            time.sleep(0.02)
        self.leader = leader

    def _wait_for_cable(self, deadline: float) -> None:
        """nspawn makes it after the first process: both ends must be there."""
        while True:
            try:
                _ip("link", "show", self.link)
                self._inside("link", "show", "host0")
                return
            except RuntimeError as fault:
                self._still(deadline, str(fault))
                time.sleep(0.02)

    def _lay_cable(self) -> None:
        """The host's hardware address is fixed on our side: with the cable cut, packets are lost in silence
        instead of an answer that nobody is there.
        """
        _ip("addr", "add", f"{self._ours}/30", "dev", self.link)
        _ip("link", "set", self.link, "up")
        self._inside("addr", "add", f"{self._theirs}/30", "dev", "host0")
        self.set_link("up")
        self._inside("link", "set", "lo", "up")
        hardware = json.loads(self._inside("-json", "link", "show", "host0"))[0]["address"]
        _ip("neigh", "replace", self._theirs, "lladdr", hardware, "nud", "permanent", "dev", self.link)

    def set_link(self, state: Literal["up", "down"]) -> None:
        """The host's end of the cable."""
        self._inside("link", "set", "host0", state)

    def _inside(self, *words: str) -> str:
        return _ip(*words, enter=["nsenter", "-t", str(self.leader), "-n"])

    def _wait_until_running(self, deadline: float) -> None:
        while True:
            left = max(1.0, deadline - time.monotonic())
            done = self.enter(["systemctl", "is-system-running", "--wait"], timeout_s=left)
            answer = done.stdout.decode().strip()
            if answer == "running":
                return
            if answer == "degraded":
                failed = self.enter(["systemctl", "--failed", "--no-legend", "--plain"]).stdout.decode()
                raise RuntimeError(f"host {self.name} booted with failed units:\n{failed}")
            self._still(deadline, answer or done.stderr.decode().strip())
            time.sleep(0.05)

    def _still(self, deadline: float, state: str) -> None:
        if not self.is_up or time.monotonic() > deadline:
            console = (self._folder / "console").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"host {self.name} does not boot ({state}):\n{console}")

    def enter(
        self, argv: list[str], *, stdin: bytes = b"", timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run ``argv`` as root inside, past sshd and the network."""
        if self.leader is None:
            raise RuntimeError(f"host {self.name} is not up")
        clean = ["env", "-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"]
        return subprocess.run(
            ["nsenter", "-t", str(self.leader), "-a", *clean, *argv],
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )

    def wait_for_end(self, *, timeout_s: float = 60.0) -> None:
        """Return when nspawn has ended by itself (after a reboot or poweroff inside)."""
        if self._nspawn is not None:
            self._nspawn.wait(timeout_s)
        self.leader = None

    def end(self) -> None:
        """Pull the plug."""
        if self._nspawn is not None and self._nspawn.poll() is None:
            end(self._nspawn.pid, self._began)
        if self._nspawn is not None:
            self._nspawn.wait(20)
        self.leader = None
        remove_cgroups(self.name)
