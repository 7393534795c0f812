"""The test bed of one pytest session: keys, addresses, hosts on demand; leftovers of sessions that died are swept.

Several sessions may run at once on a machine. Each holds a numbered slot by a lock that dies with it; the slot
decides machine names and the addresses 10.231.SLOT.0/24, which are checked to be unused.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from tests.bed.container import Container, end, remove_cgroups
from tests.bed.host import BedHost
from tests.bed.overlay import Overlay, unmount

HOME = Path("/run/tune-bed")
NETWORK = "10.231"
SLOTS = range(1, 100)
PROGRAMS = {
    "systemd-nspawn": "systemd-container",
    "systemd-id128": "systemd",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ip": "iproute2",
    "dbus-daemon": "dbus",
    "sudo": "sudo",
    "pgrep": "procps",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}


def missing() -> str | None:
    """Why no host can be booted on this machine, with what to install; None when all is there."""
    if os.geteuid() != 0:
        return "the test bed boots real hosts with systemd-nspawn and needs root: run the tests as root"
    search = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    packages = {package for program, package in PROGRAMS.items() if shutil.which(program, path=search) is None}
    if packages:
        return f"the test bed needs programs that are not here: apt-get install {' '.join(sorted(packages))}"
    return None


class Bed:
    """Hosts by name, booted when first asked for and shared by the session."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._hosts: dict[str, BedHost] = {}
        self._slot, self._lock = _claim_slot()
        self._folder = HOME / f"slot-{self._slot}"
        atexit.register(self.close)
        _sweep_folder(self._folder, self._slot)
        _check_unused(f"{NETWORK}.{self._slot}.")
        _fence("add", self._slot)
        self.ssh_folder = self._folder / "ssh"
        self.ssh_folder.mkdir(parents=True, mode=0o700)
        self.key_file = self.ssh_folder / "id_ed25519"
        self.ssh_config = self.ssh_folder / "config"
        self.known_hosts = self.ssh_folder / "known_hosts"
        keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test bed", "-f", str(self.key_file)]
        subprocess.run(keygen, check=True, timeout=30)

    def host(self, name: str = "gpu1", shows: Mapping[str, Path] | None = None) -> BedHost:
        """The host of that name, booted now if it is not yet; ``shows`` as in ``Container``, for its boot."""
        if name not in self._hosts:
            index = len(self._hosts)
            base = f"{NETWORK}.{self._slot}."
            folder = self._folder / name
            overlay = Overlay(folder)
            machine = f"tb{self._slot}x{index}"
            ours, theirs = f"{base}{4 * index + 1}", f"{base}{4 * index + 2}"
            host = BedHost(
                name=name,
                address=theirs,
                key_file=self.key_file,
                ssh_config=self.ssh_config,
                container=Container(
                    name=machine, root=overlay.root, folder=folder, ours=ours, theirs=theirs, shows=shows
                ),
                overlay=overlay,
                on_identity=lambda _: self._write_ssh_files(),
            )
            self._hosts[name] = host
            try:
                host.first_boot()
            except BaseException:
                del self._hosts[name]
                host.remove()
                raise
        return self._hosts[name]

    def _write_ssh_files(self) -> None:
        known, config = [], []
        for host in self._hosts.values():
            known.append(f"{host.address} {host.host_key}\n")
            config.append(f"Host {host.name}\n  HostName {host.address}\n  User root\n\n")
        config.append(
            f"Host *\n  IdentityFile {self.key_file}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.known_hosts}\n  GlobalKnownHostsFile /dev/null\n"
            "  StrictHostKeyChecking yes\n"
        )
        self.known_hosts.write_text("".join(known))
        self.ssh_config.write_text("".join(config))

    def clean(self) -> None:
        """Every host as it was found."""
        for host in self._hosts.values():
            host.clean()

    def close(self) -> None:
        """End every host and leave nothing behind. Calling it twice is harmless."""
        atexit.unregister(self.close)
        if self._lock.closed:
            return
        while self._hosts:
            _, host = self._hosts.popitem()
            host.remove()
        _fence("del", self._slot)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()


def _claim_slot() -> tuple[int, IO[str]]:
    HOME.mkdir(mode=0o700, exist_ok=True)
    claimed: tuple[int, IO[str]] | None = None
    for slot in SLOTS:
        if claimed is not None and not (HOME / f"slot-{slot}").exists():
            continue
        lock = (HOME / f"slot-{slot}.lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        if claimed is None:
            claimed = (slot, lock)
        else:
            _sweep_folder(HOME / f"slot-{slot}", slot)  # its session died
            lock.close()
    if claimed is None:
        raise RuntimeError(f"all {len(SLOTS)} slots of the test bed are taken")
    return claimed


def _sweep_folder(folder: Path, slot: int) -> None:
    """End and unmount what a session that died in this slot left. The caller holds the slot's lock."""
    if not folder.exists():
        return
    for host in sorted(folder.iterdir()):
        pid_file = host / "pid"
        if pid_file.exists():
            pid, _, began = pid_file.read_text().partition(" ")
            end(int(pid), began)
        for mount in ("root", "memory"):
            unmount(host / mount)
    for index in range(16):
        remove_cgroups(f"tb{slot}x{index}")
    _fence("del", slot)
    shutil.rmtree(folder)


def _fence(change: str, slot: int) -> None:
    """A host that is off must not be looked for on the network this machine is on: its addresses end here."""
    route = ["ip", "route", change, "unreachable", f"{NETWORK}.{slot}.0/24"]
    subprocess.run(route, capture_output=True, timeout=20, check=change == "add")


def _check_unused(prefix: str) -> None:
    """Nothing on this machine may already answer to the addresses we are about to give out."""
    answer = subprocess.run(["ip", "-json", "-4", "route", "show", "table", "all"], capture_output=True, check=True)
    taken = [str(route.get("dst", "")) for route in json.loads(answer.stdout) if route.get("dst") != "default"]
    for destination in taken:
        if destination.startswith(prefix) or destination in {"10.0.0.0/8", "10.231.0.0/16"}:
            raise RuntimeError(f"the test bed's addresses {prefix}0/24 are in use here: {destination}")
