"""A host of the test bed as a test sees it: arrange things inside, break it, and have it put back as found."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from orchestrator.core.inventory import HostEntry
from tests.bed.container import Container
from tests.bed.overlay import Overlay

_UNIT_FOLDERS = ("/etc/systemd/system", "/run/systemd/system", "/run/systemd/transient")

_QUIET = {
    "etc/fstab": "",
    "etc/systemd/journald.conf.d/bed.conf": "[Journal]\nSystemMaxUse=32M\nRuntimeMaxUse=16M\nRateLimitIntervalSec=0\n",
    "etc/ssh/sshd_config.d/bed.conf": "UseDNS no\nPrintMotd no\nMaxStartups 100\nMaxSessions 50\n",
    "root/.bashrc": "",
    "root/.profile": "",
}
_MASKED = ("console-getty.service", "getty@.service", "systemd-networkd-wait-online.service", "tmp.mount")


class BedHost:
    """A booted machine. ``name`` is what ``ssh -F bed.ssh_config NAME`` takes; ``address`` speaks HTTP too.

    Everything a test changes under /etc, /usr, /opt, /root, /home, /srv, /var/lib, every unit, mount, user and
    cut cable is put back by ``clean`` after the test (the ``bed`` fixture sees to it).
    """

    def __init__(
        self,
        *,
        name: str,
        address: str,
        key_file: Path,
        ssh_config: Path,
        container: Container,
        overlay: Overlay,
        on_identity: Callable[[BedHost], None],
    ) -> None:
        self.name = name
        self.address = address
        self.key_file = key_file
        self.ssh_config = ssh_config
        self._container = container
        self._overlay = overlay
        self._on_identity = on_identity
        self._units: set[str] = set()
        self._undo: list[Callable[[], object]] = []

    @property
    def entry(self) -> HostEntry:
        """Reach it as root over ssh."""
        return HostEntry(name=self.name, ssh_config=str(self.ssh_config))

    @property
    def root(self) -> Path:
        """Its file system as seen from this machine (not its /run, /tmp, /proc)."""
        return self._overlay.root

    @property
    def is_up(self) -> bool:
        """Powered on."""
        return self._container.is_up

    @property
    def leader(self) -> int | None:
        """Its first process, as numbered on this machine; None while it is off."""
        return self._container.leader

    # -- life -------------------------------------------------------------------------------------------------

    def first_boot(self) -> None:
        """Lay the file system, boot, and remember how it was."""
        self._overlay.mount()
        self._furnish()
        self._container.boot()
        self.keep()

    def boot(self) -> None:
        """Power on again: /etc and /var stay, /run and the processes are new."""
        self._container.boot()

    def reboot(self) -> None:
        """``systemctl reboot`` from inside, and wait until it is up again."""
        self.attempt("systemctl reboot")
        self.await_boot()

    def await_boot(self) -> None:
        """Somebody else told the host to reboot or power off: wait for the end and boot it again."""
        self._container.wait_for_end()
        self._container.end()
        self.boot()

    def kill(self) -> None:
        """Power cut."""
        self._container.end()

    def remove(self) -> None:
        """Power cut, and nothing is left."""
        self._container.end()
        self._overlay.unmount()

    def _furnish(self) -> None:
        root = self.root
        machine_id = subprocess.run(["systemd-id128", "new"], capture_output=True, text=True, check=True).stdout
        files = {"etc/machine-id": machine_id, "etc/hostname": f"{self.name}\n", **_QUIET}
        files["etc/hosts"] = f"127.0.0.1 localhost {self.name}\n"
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        units = root / "etc/systemd/system"
        for folder in ("multi-user.target.wants", "timers.target.wants", "sockets.target.wants"):
            for link in (units / folder).glob("*"):  # services of this machine are none of the host's
                link.unlink()
        for script in root.glob("etc/rc[0-9S].d/S*"):
            script.unlink()
        (units / "multi-user.target.wants").mkdir(exist_ok=True)
        (units / "multi-user.target.wants/ssh.service").symlink_to("/lib/systemd/system/ssh.service")
        (units / "default.target").unlink(missing_ok=True)
        (units / "default.target").symlink_to("/lib/systemd/system/multi-user.target")
        for unit in _MASKED:
            (units / unit).unlink(missing_ok=True)
            (units / unit).symlink_to("/dev/null")
        self._new_host_key(root)
        keys = root / "root/.ssh"
        keys.mkdir(mode=0o700, exist_ok=True)
        (keys / "authorized_keys").write_text(self.key_file.with_suffix(".pub").read_text())

    def _new_host_key(self, root: Path) -> None:
        for old in root.glob("etc/ssh/ssh_host_*"):
            old.unlink()
        key = root / "etc/ssh/ssh_host_ed25519_key"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True, timeout=30)
        self._on_identity(self)

    @property
    def host_key(self) -> str:
        """Type and base64 of its present ssh host key."""
        return " ".join((self.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2])

    # -- arranging --------------------------------------------------------------------------------------------

    def attempt(self, command: str, *, stdin: str = "", timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a shell command as root inside, whatever comes of it. Works also with the cable cut."""
        done = self._container.enter(["sh", "-c", command], stdin=stdin.encode(), timeout_s=timeout_s)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def sh(self, command: str, *, stdin: str = "", timeout_s: float = 60.0) -> str:
        """Run a shell command as root inside and return its standard output; ``AssertionError`` when it fails."""
        done = self.attempt(command, stdin=stdin, timeout_s=timeout_s)
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {command!r} gave {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def wait_until(self, command: str, *, timeout_s: float = 20.0) -> str:
        """Poll a shell command until it succeeds; return its output."""
        deadline = time.monotonic() + timeout_s
        while (done := self.attempt(command)).returncode != 0:
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: {command!r} still fails after {timeout_s} s: {done.stderr}")
            time.sleep(0.1)
        return done.stdout

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file inside, folders made as needed."""
        there = shlex.quote(path)
        self.sh(f'mkdir -p "$(dirname {there})" && cat > {there} && chmod {mode:o} {there}', stdin=text)

    def read(self, path: str) -> str:
        """A file's text."""
        return self.sh(f"cat {shlex.quote(path)}")

    def configure_sshd(self, lines: str) -> None:
        """Lines of sshd_config that come before the host's own, in force on return."""
        self.write("/etc/ssh/sshd_config.d/a.conf", lines.rstrip("\n") + "\n")
        self.restart_sshd()

    def restart_sshd(self) -> None:
        """Sessions live on. The counter against restarting too often is set back, tests restart often."""
        self.sh("systemctl reset-failed ssh; systemctl restart ssh")

    def add_user(self, name: str, sudoers: str = "") -> HostEntry:
        """An account with the test key; ``sudoers`` are its lines verbatim. Returns how to reach the host as it."""
        self.sh(f"useradd --create-home --shell /bin/bash {name}")
        self._undo.append(lambda: self.attempt(f"pkill -KILL -u {name}; userdel --force --remove {name}"))
        home = f"/home/{name}"
        self.write(f"{home}/.ssh/authorized_keys", self.key_file.with_suffix(".pub").read_text())
        self.sh(f"chown -R {name}: {home}/.ssh && chmod 700 {home}/.ssh && chmod 600 {home}/.ssh/authorized_keys")
        if sudoers:
            self.write(f"/etc/sudoers.d/{name}", sudoers.rstrip("\n") + "\n", 0o440)
            self.sh(f"visudo -c -q -f /etc/sudoers.d/{name}")
        alias = f"{self.name}-{name}"
        here = self.ssh_config.parent / f"{alias}.conf"
        here.write_text(f"Include {self.ssh_config}\n\nHost {alias}\n  HostName {self.address}\n  User {name}\n")
        return HostEntry(name=alias, ssh_config=str(here))

    def write_production(
        self,
        unit: str = "sglang-sim.service",
        *,
        engine: str = "/opt/sglang-sim",
        port: int = 30000,
        flags: Sequence[str] = ("--trust-remote-code", "--pp-size 8 --tp-size 1", "--mem-fraction-static 0.92"),
        service_lines: Sequence[str] = (),
        user: str | None = None,
        start: bool = False,
    ) -> str:
        """A production unit as people write them by hand: flags on several lines, Restart=always, enabled."""
        words = ["--model-path moonshotai/Kimi-K2.6", f"--host 0.0.0.0 --port {port}", *flags]
        lines = [f"User={user}"] if user else []
        lines += ["Restart=always", "RestartSec=2", "LimitMEMLOCK=infinity", *service_lines]
        command = " \\\n    ".join([f"{engine}/bin/python -m sglang.launch_server", *words])
        text = (
            "[Unit]\nDescription=SGLang by hand\nAfter=network-online.target\n\n"
            f"[Service]\nType=simple\nExecStart={command}\n" + "\n".join(lines) + "\n\n"
            "[Install]\nWantedBy=multi-user.target\n"
        )
        self.write(f"/etc/systemd/system/{unit}", text)
        self.sh(f"systemctl daemon-reload && systemctl enable --quiet {unit}")
        if start:
            self.sh(f"systemctl start {unit}")
        return unit

    def install_sim_engine(self, folder: str = "/opt/sglang-sim", *, version: str | None = None) -> str:
        """Make ``folder`` an installed SGLang whose engine is the simulator, its nvidia-smi the host's; both stay.

        The command runs on this machine with the host's /opt bound over ours, so the project need not be
        visible inside and every path it writes is right there.
        """
        if (self.root / folder.lstrip("/") / "bin/python").exists():
            return folder
        argv = [sys.executable, "-m", "orchestrator", "sim", "env", folder, "--python", "/usr/bin/python3"]
        if version is not None:
            argv += ["--version", version]
        script = 'mount --bind "$1" /opt && shift && exec "$@"'
        project = Path(__file__).resolve().parents[2]
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", str(self.root / "opt"), *argv],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"sim env failed: {done.stderr}{done.stdout}")
        self.sh(f"ln -sfn {folder}/bin/nvidia-smi /usr/local/bin/nvidia-smi")
        self.keep()
        return folder

    def keep(self) -> None:
        """What is there now is what ``clean`` returns to."""
        self._overlay.keep()
        self._units = {path.name for path in (self.root / "etc/systemd/system").iterdir()}

    # -- breaking ---------------------------------------------------------------------------------------------

    def cut_link(self) -> None:
        """Pull the network cable at the host's end: packets are lost without a word."""
        self._container.set_link("down")
        self._undo.append(self.restore_link)

    def restore_link(self) -> None:
        """Put the cable back."""
        if self.is_up:
            self._container.set_link("up")

    def mount_tmpfs(self, folder: str, *, size: str = "4m", mode: str = "0755") -> None:
        """A small file system of its own over ``folder``."""
        self.sh(f"mkdir -p {folder} && mount -t tmpfs -o size={size},mode={mode} bed {folder}")
        self._undo.append(lambda: self.attempt(f"umount --lazy {folder}"))

    def fill(self, folder: str, *, size: str = "1m") -> None:
        """A full file system over ``folder``: the next byte written there is ENOSPC."""
        self.mount_tmpfs(folder, size=size)
        self.attempt(f"dd if=/dev/zero of={folder}/.full bs=4k")

    def mount_read_only(self, folder: str) -> None:
        """``folder`` can be read, not written."""
        self.sh(f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}")
        self._undo.append(lambda: self.attempt(f"umount --lazy {folder}"))

    def change_host_key(self) -> None:
        """Another ssh identity, which known_hosts does not know (until the test is over)."""
        for path in self.root.glob("etc/ssh/ssh_host_*"):
            path.unlink()
        self.sh("ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key")
        self.restart_sshd()

    # -- as found ---------------------------------------------------------------------------------------------

    def clean(self) -> None:
        """Put everything back as it was before the test; boots the host when the test left it off."""
        if not self.is_up:
            self._container.wait_for_end()
            self._container.end()
            self._undo.clear()
            self.boot()
        self._end_units()
        undo, self._undo = self._undo, []
        self._end_sessions()
        changed = self._overlay.put_back()
        for step in reversed(undo):
            step()
        self.attempt("systemctl daemon-reload; systemctl reset-failed; rm -rf /run/tune* /tmp/* /var/tmp/*")
        if (
            any(path.is_relative_to("etc/ssh") for path in changed)
            or self.attempt("systemctl -q is-active ssh").returncode
        ):
            self.restart_sshd()

    def _end_units(self) -> None:
        """Stop and remove every unit that is not of the host's own furniture."""
        listing = self.sh(
            f"for d in {' '.join(_UNIT_FOLDERS)}; do [ -d $d ] && find $d -maxdepth 1 -printf '%f\\n'; done; true"
        )
        suffixes = (".service", ".timer", ".scope", ".path", ".socket")
        ended = [
            unit
            for unit in sorted(set(listing.splitlines()) - self._units)
            if unit.endswith(suffixes) and not unit.startswith("session-")
        ]
        if not ended:
            return
        names = " ".join(shlex.quote(unit) for unit in ended)
        files = " ".join(shlex.quote(f"/run/systemd/system/{unit}") for unit in ended)
        drop_ins = " ".join(shlex.quote(f"/run/systemd/system/{unit}.d") for unit in ended)
        self.attempt(
            f"systemctl kill --signal=KILL {names}; timeout 30 systemctl stop {names}; "
            f"systemctl disable --quiet {names}; rm -rf {files} {drop_ins}; "
            "rm -rf /run/systemd/system/*-trial*; systemctl daemon-reload"
        )

    def _end_sessions(self) -> None:
        """End what ssh logins left running, and the logins."""
        self.attempt(
            "loginctl list-sessions --no-legend | while read -r id _; do loginctl kill-session $id -s KILL; done"
        )
