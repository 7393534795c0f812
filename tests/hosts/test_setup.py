"""Setting a host up for a login that is not root: what is written, by whom, and that it is the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.core.inventory import HostEntry
from orchestrator.errors import HostFault, InputRefused, Locked
from orchestrator.hosts.helper.setup import Setup, Step
from orchestrator.hosts.ssh import SshHost
from tests.bed import BedHost
from tests.hosts.stand_in import HELPER, furnish, service
from tests.integration.line import TRIAL, lay

LINE = f"ops ALL=(root) NOPASSWD: {HELPER}\n"
FILE = "/etc/sudoers.d/tune-ops"


def set_up(entry: HostEntry, login: str | None = "ops", *, dry: bool = False, remove: bool = False) -> list[str]:
    """``what: change`` of each step."""
    steps: list[Step] = []
    host = SshHost(entry)
    try:
        work = Setup(host, dry=dry, report=steps.append)
        (work.remove if remove else work.install)(login)
    finally:
        host.close()
    return [f"{step.what}: {step.change}" for step in steps]


def of_sudo(host: BedHost) -> str:
    return host.sh("cd /etc && sha256sum sudoers sudoers.d/*; ls -la --time-style=full-iso sudoers.d")


def test_root_sets_up_a_login_once_and_again_changes_nothing(gpu1: BedHost) -> None:
    gpu1.add_user("ops")
    before = of_sudo(gpu1)
    assert set_up(gpu1.entry, dry=True) == ["helper: to be written", "sudoers: to be written", "proof: not tried"]
    assert of_sudo(gpu1) == before
    assert gpu1.attempt(f"ls {HELPER}").returncode != 0
    assert set_up(gpu1.entry) == ["helper: written", "sudoers: written", "proof: works"]
    assert gpu1.read(FILE) == LINE
    assert gpu1.sh(f"stat -c '%U %a' {FILE} {HELPER}") == "root 440\nroot 755\n"
    before = of_sudo(gpu1)
    assert set_up(gpu1.entry) == ["helper: unchanged", "sudoers: unchanged", "proof: works"]
    assert of_sudo(gpu1) == before
    assert gpu1.sh("ls -A /etc/sudoers.d | grep '^\\.' || true") == ""
    gpu1.sh(f"echo '# changed' >> {HELPER}")
    assert set_up(gpu1.entry) == ["helper: written", "sudoers: unchanged", "proof: works"]
    assert set_up(gpu1.entry, remove=True) == ["sudoers: removed"]
    assert set_up(gpu1.entry, None, remove=True) == ["helper: removed", "records: unchanged"]
    assert gpu1.attempt("ls /usr/local/libexec/tune /etc/sudoers.d/tune-ops").stdout == ""


def test_a_login_whose_sudo_allows_everything_sets_up_another(gpu1: BedHost) -> None:
    gpu1.add_user("ops")
    admin = gpu1.add_user("admin", "admin ALL=(ALL) NOPASSWD: ALL")
    assert set_up(admin) == ["helper: written", "sudoers: written", "proof: works"]
    assert gpu1.sh(f"stat -c '%U:%G %a' {FILE} {HELPER}") == "root:root 440\nroot:root 755\n"


def test_who_may_not_become_root_is_told_what_to_do(gpu1: BedHost) -> None:
    ops = gpu1.add_user("ops")
    with pytest.raises(HostFault, match="ops may not become root there without a password") as caught:
        set_up(ops)
    assert caught.value.remedy is not None
    assert LINE.strip() in caught.value.remedy
    assert caught.value.evidence[0].startswith("sudo: ")
    assert gpu1.attempt(f"ls {HELPER} {FILE}").stdout == ""


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ("nobody-here", "gpu1 has no login nobody-here"),
        ("ADMINS", 'read "ADMINS"'),
        ("ops ALL", 'read "ops ALL"'),
        ("root", "root needs no line"),
    ],
)
def test_a_login_that_is_none_is_refused_before_anything_is_written(gpu1: BedHost, login: str, words: str) -> None:
    with pytest.raises(InputRefused, match=words):
        set_up(gpu1.entry, login)
    assert gpu1.attempt(f"ls {HELPER}").returncode != 0


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        ("/etc/sudoers.d/broken", "this is no sudoers\n", "sudoers is not valid as it is"),
        ("/etc/sudoers.d/zz-house", "ops ALL=(ALL) PASSWD: ALL\n", "still does not let ops run the helper"),
    ],
)
def test_a_line_that_cannot_work_leaves_sudoers_as_it_was(gpu1: BedHost, file: str, text: str, words: str) -> None:
    gpu1.add_user("ops")
    gpu1.write(file, text, 0o440)
    before = gpu1.sh("cd /etc && sha256sum sudoers sudoers.d/*")
    with pytest.raises(HostFault, match=words):
        set_up(gpu1.entry)
    assert gpu1.sh("cd /etc && sha256sum sudoers sudoers.d/*") == before


def test_the_helper_is_not_taken_from_under_a_run(gpu1: BedHost) -> None:
    furnish(gpu1)
    door = service(gpu1.entry)
    lease = door.take(run="7f3c", purpose="sweep", ttl_s=600)
    with pytest.raises(Locked, match="k26 is held"):
        set_up(gpu1.entry, None, remove=True)
    door.free(lease)
    assert "helper: removed" in set_up(gpu1.entry, None, remove=True)


@pytest.mark.slow
def test_with_that_one_line_a_login_runs_a_whole_sweep(gpu1: BedHost, tmp_path: Path) -> None:
    line = lay(gpu1, tmp_path)
    inventory = (tmp_path / "inventory.yaml").read_text()
    ops = gpu1.add_user("ops")
    done = line.tune("host", "setup", "gpu1", "--user", "ops")
    assert f"  sudoers   {FILE}: written" in done.stdout
    assert max(len(text) for text in done.stdout.splitlines()) <= 80
    (tmp_path / "inventory.yaml").write_text(
        inventory.replace("gpu1:", f"{ops.name}:")
        .replace(str(gpu1.ssh_config), str(ops.ssh_config))
        .replace("host: gpu1", f"host: {ops.name}")
    )
    done = line.tune("sweep", "sweeps/three.yaml", "--yes")
    assert "sglang-sim.service is ready again" in done.stdout
    assert line.answers()
    measured = {trial["trial"]: trial["state"] for trial in line.show()["trials"]}
    assert measured["d0.mem0.92"] == measured["d8.mem0.92"] == "measured"
    assert gpu1.sh(f"ls /run/systemd/system | grep -c {TRIAL} || true").strip() == "0"
    assert "take sim for ops" in gpu1.sh("journalctl -t tune-helper --no-pager")
