"""The test bed itself: what other tests rely on is really so."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.bed import Bed, BedHost
from tests.bed.container import is_alive


def ssh(host: BedHost, *words: str, timeout_s: float = 20.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ssh", "-F", str(host.ssh_config), host.name, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_a_host_runs_real_systemd_and_answers_ssh(gpu1: BedHost) -> None:
    assert ssh(gpu1, "systemctl", "is-system-running").stdout == "running\n"
    assert ssh(gpu1, "hostname").stdout == "gpu1\n"


def test_two_hosts_do_not_share_units_or_addresses(gpu1: BedHost, gpu2: BedHost) -> None:
    unit = "[Service]\nExecStart=/bin/sleep 1000\n"
    for host in (gpu1, gpu2):
        host.write("/run/systemd/system/same-trial.service", unit)
        host.sh("systemctl daemon-reload && systemctl start same-trial")
    gpu1.sh("systemctl stop same-trial")
    assert gpu2.sh("systemctl is-active same-trial").strip() == "active"
    assert gpu1.address != gpu2.address


def test_journal_lines_carry_the_invocation(gpu1: BedHost) -> None:
    unit = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/echo hello\n"
    gpu1.write("/run/systemd/system/say-trial.service", unit)
    gpu1.sh("systemctl daemon-reload && systemctl start say-trial && journalctl --sync")
    invocation = gpu1.sh("systemctl show -P InvocationID say-trial").strip()
    assert gpu1.sh(f"journalctl -o cat _SYSTEMD_INVOCATION_ID={invocation}") == "hello\n"


def test_clean_puts_back_what_a_test_changed(bed: Bed, gpu1: BedHost) -> None:
    sshd_config, passwd = gpu1.read("/etc/ssh/sshd_config"), gpu1.read("/etc/passwd")
    gpu1.write(
        "/etc/systemd/system/x.service", "[Service]\nExecStart=/bin/sleep 999\n[Install]\nWantedBy=multi-user.target\n"
    )
    gpu1.sh("systemctl daemon-reload && systemctl enable --now x.service")
    gpu1.sh("systemd-run --unit=x-trial --on-active=3600 /bin/true")
    gpu1.sh("echo broken >> /etc/ssh/sshd_config && rm /root/.ssh/authorized_keys && mkdir -p /var/lib/tune/x")
    gpu1.add_user("ops", "ops ALL=(root) NOPASSWD: /usr/bin/true")
    gpu1.fill("/var/lib/full")
    gpu1.mount_read_only("/etc/ssh")
    gpu1.cut_link()
    gpu1.clean()
    assert gpu1.read("/etc/ssh/sshd_config") == sshd_config
    assert gpu1.read("/etc/passwd") == passwd
    assert ssh(gpu1, "true").returncode == 0
    assert gpu1.attempt("ls /var/lib/tune /var/lib/full /etc/sudoers.d/ops /home/ops").stdout == ""
    assert gpu1.sh("systemctl list-units --all --no-legend 'x*'") == ""
    assert gpu1.sh("systemctl is-system-running").strip() == "running"
    assert gpu1.attempt("touch /etc/ssh/x && rm /etc/ssh/x").returncode == 0


def test_a_user_has_exactly_its_sudoers_lines(gpu1: BedHost) -> None:
    entry = gpu1.add_user("ops", "ops ALL=(root) NOPASSWD: /usr/bin/id")
    argv = ["ssh", "-F", str(entry.ssh_config), entry.name]
    assert (
        subprocess.run([*argv, "sudo -n /usr/bin/id -u"], capture_output=True, text=True, check=False).stdout == "0\n"
    )
    assert subprocess.run([*argv, "sudo -n /usr/bin/cat /etc/shadow"], capture_output=True, check=False).returncode != 0


def test_a_reboot_keeps_etc_and_forgets_run(gpu1: BedHost) -> None:
    gpu1.write("/etc/kept", "x")
    gpu1.write("/run/systemd/system/lost-trial.service", "[Service]\nExecStart=/bin/sleep 1000\n")
    boot = gpu1.read("/proc/sys/kernel/random/boot_id")
    gpu1.reboot()
    assert gpu1.read("/etc/kept") == "x"
    assert gpu1.attempt("systemctl cat lost-trial").returncode != 0
    assert gpu1.read("/proc/sys/kernel/random/boot_id") != boot


def test_a_killed_host_is_gone_and_boots_again(gpu1: BedHost) -> None:
    gpu1.kill()
    assert not gpu1.is_up
    assert ssh(gpu1, "-o", "ConnectTimeout=2", "true").returncode == 255
    gpu1.boot()
    assert ssh(gpu1, "true").returncode == 0


def test_a_cut_cable_loses_packets_without_a_word(gpu1: BedHost) -> None:
    gpu1.cut_link()
    with pytest.raises(subprocess.TimeoutExpired):
        ssh(gpu1, "true", timeout_s=2)
    gpu1.restore_link()
    assert ssh(gpu1, "true").returncode == 0


def models(host: BedHost) -> int:
    with urllib.request.urlopen(f"http://{host.address}:30000/v1/models", timeout=5) as answer:
        return int(answer.status)


def wait_for_models(host: BedHost, *, timeout_s: float = 30.0) -> int:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return models(host)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_a_simulated_engine_serves_as_a_production_unit_and_comes_back_after_a_reboot(gpu1: BedHost) -> None:
    gpu1.install_sim_engine()
    gpu1.add_user("sglang")
    unit = gpu1.write_production(user="sglang", service_lines=["Environment=TUNE_SIM_SPEED=100"], start=True)
    assert wait_for_models(gpu1) == 200
    assert gpu1.sh("nvidia-smi -L").count("GPU ") == 8
    first = gpu1.sh(f"systemctl show -P InvocationID {unit}")
    gpu1.reboot()
    assert wait_for_models(gpu1) == 200
    assert gpu1.sh(f"systemctl show -P InvocationID {unit}") != first


def test_what_a_killed_session_left_is_swept_by_the_next(bed: Bed) -> None:
    """A session is killed -9 with a host up; the next one takes its slot, ends the host and unmounts it."""
    left = "import os, signal; from tests.bed import Bed; b = Bed(); h = b.host(); print(h.root, h.leader, flush=True)"
    project = Path(__file__).resolve().parents[2]
    argv = [sys.executable, "-c", f"{left}; os.kill(os.getpid(), signal.SIGKILL)"]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    root, leader = done.stdout.split()
    assert is_alive(int(leader))
    assert os.path.ismount(root)
    sweep = [sys.executable, "-c", "from tests.bed import Bed; Bed().close()"]
    subprocess.run(sweep, cwd=project, timeout=60, check=True)
    assert not is_alive(int(leader))
    assert not Path(root).exists()
