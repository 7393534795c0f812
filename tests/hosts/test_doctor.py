"""A check-up of real hosts: what is found, by whom, where it stops, and that nothing is changed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.cli.clock import RealClock
from orchestrator.core.commands.checkup import model_folder
from orchestrator.core.doctor import Finding, examine
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.hosts.helper.install import look
from orchestrator.hosts.helper.setup import Setup
from orchestrator.hosts.local import LocalHost
from orchestrator.hosts.ssh import SshHost
from orchestrator.workflow.doctor import check_up
from tests.bed import BedHost
from tests.hosts.stand_in import ENGINE, HELPER, PORT, TRIAL, UNIT, entry, furnish


def doctor(host: HostEntry, *services: ServiceEntry) -> tuple[Finding, ...]:
    door = SshHost(host, connect_timeout_s=3)
    try:
        return examine(check_up(door, host, services, clock=RealClock(), look_at_helper=lambda: look(door)))
    finally:
        door.close()


def troubles(found: tuple[Finding, ...]) -> list[str]:
    return [f"{one.level}: {one.text}" for one in found if one.level != "ok"]


def test_a_login_with_one_line_of_sudoers_sees_what_is_wrong(gpu1: BedHost) -> None:
    furnish(gpu1)
    gpu1.sh(
        "rm -f /usr/local/bin/nvidia-smi; useradd --system sglang; chown sglang: /opt/engine; chmod 700 /opt/engine"
    )
    site = gpu1.sh(f"ls -d {ENGINE}/lib/python3*/site-packages").strip()
    parser = "class ServerArgs:\n    @staticmethod\n    def add_cli_args(parser):\n        pass\n"
    gpu1.write(f"{site}/sglang/srt/server_args.py", parser)
    gpu1.write("/srv/m/config.json", "{}")
    gpu1.write("/srv/m/model.safetensors.index.json", json.dumps({"weight_map": {"w": "a.safetensors"}}))
    gpu1.write("/srv/m/a.safetensors", "weights")
    ops = gpu1.add_user("ops")
    setup = SshHost(gpu1.entry)
    Setup(setup, dry=False, report=lambda _: None).install("ops")
    setup.close()
    service = entry(ops, user="sglang", flags={"model-path": "/srv/m"})
    assert troubles(doctor(ops, service)) == []

    gpu1.sh(f"systemctl disable --now {UNIT}; rm /srv/m/a.safetensors; userdel sglang; touch /dev/shm/torch_left")
    gpu1.sh(f"cp /etc/systemd/system/{UNIT} /run/systemd/system/{TRIAL}; rm -r {site}/torch* {site}/sglang/srt")
    gpu1.sh(f"systemd-run --unit=house python3 -m http.server {PORT}")
    gpu1.wait_until(f"ss -Hltn | grep -q :{PORT}")
    before = gpu1.sh("systemctl list-units --all --no-legend --plain | sort; ls -lR /etc/sudoers.d /usr/local/libexec")
    found = doctor(replace(ops, gpus=8), replace(service, user=None))
    after = gpu1.sh("systemctl list-units --all --no-legend --plain | sort; ls -lR /etc/sudoers.d /usr/local/libexec")
    assert [line for line in after.splitlines() if "session" not in line and "user" not in line] == [
        line for line in before.splitlines() if "session" not in line and "user" not in line
    ]
    gpu1.sh("rm /dev/shm/torch_left")
    told = troubles(found)
    pid = gpu1.sh("systemctl show -P MainPID house").strip()
    for expected in (
        "fault: there is no nvidia-smi, and the inventory says 8 GPUs",
        f"warning: {UNIT} is inactive: production does not serve",
        f"warning: {UNIT} is disabled: a reboot ends without production",
        "fault: /srv/m is not complete: a.safetensors",
        f"fault: port {PORT} is held by pid {pid} (/usr/bin/python3 -m http.server), not by {UNIT}",
        f"warning: /run/systemd/system/{TRIAL} is of a run, and nobody holds the host",
        "warning: /dev/shm: 1 segment with 0 MiB of an engine, and none runs: torch_left",
    ):
        assert expected in told, told
    assert any("ModuleNotFoundError" in line for line in told)
    assert "fault: there is no account sglang" in troubles(doctor(ops, service))


def test_as_root_it_changes_nothing_either(gpu1: BedHost) -> None:
    furnish(gpu1, start=False)
    found = doctor(gpu1.entry, entry(gpu1.entry))
    assert any("the next sweep puts it right" in line for line in troubles(found))
    assert any(one.text.startswith("engine 0.5.23 in") for one in found)
    assert gpu1.attempt(f"ls {HELPER} /var/lib/tune").stdout == ""


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        ("HostName no-such-host.invalid", "name"),
        ("Port 9", "connection"),
        ("UserKnownHostsFile /dev/null", "host key"),
        ("User nobody-here", "login"),
        ("PKCS11Provider /usr/lib/x.so", "ssh configuration"),
    ],
)
def test_a_host_that_cannot_be_reached_says_which_step_failed(
    gpu1: BedHost, tmp_path: Path, lines: str, step: str
) -> None:
    config = tmp_path / "config"
    config.write_text(f"Host gpu1\n  {lines}\n\nInclude {gpu1.ssh_config}\n")
    (only,) = doctor(HostEntry(name="gpu1", ssh_config=str(config)), entry(gpu1.entry))
    assert (only.group, only.level, only.text.partition(":")[0]) == ("reach", "fault", step)
    assert only.remedy


def test_a_model_in_the_hugging_face_cache(tmp_path: Path) -> None:
    host = LocalHost(HostEntry(name="here", connection="local"))
    place = tmp_path / "hub/models--org--name"
    snapshot = place / "snapshots/abc"
    where = (f"HF_HOME={tmp_path}",)
    absent = host.run(model_folder("org/name", None, where))
    assert absent.folder is None
    assert absent.free
    (place / "refs").mkdir(parents=True)
    (place / "refs/main").write_text("abc")
    (place / "blobs").mkdir()
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    index = {"weight_map": {"x": "1.safetensors", "y": "2.safetensors", "z": "2.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (place / "blobs/1").write_bytes(b"12345")
    (snapshot / "1.safetensors").symlink_to("../../blobs/1")
    (snapshot / "2.safetensors").symlink_to("../../blobs/2")
    (place / "blobs/2.incomplete").touch()
    seen = host.run(model_folder("org/name", None, where))
    assert (seen.folder, seen.has_config, seen.missing, seen.size, seen.files) == (
        str(snapshot),
        True,
        ("2.safetensors",),
        5,
        2,
    )
    assert seen.is_loading
    (place / "blobs/2").write_bytes(b"678")
    whole = host.run(model_folder(str(snapshot), None, where))
    assert (whole.missing, whole.size) == ((), 8)


def test_on_this_machine_without_systemd(tmp_path: Path) -> None:
    here = HostEntry(name="here", connection="local", manager="process")
    service = replace(entry(here), engines={"0.5.23": str(Path(sys.executable).parents[1])}, port=9)
    door = LocalHost(here)
    facts = check_up(door, here, (service,), clock=RealClock(), look_at_helper=lambda: "never asked")
    found = examine(facts)
    assert any("no engine could be asked: importlib" in line for line in troubles(found))
    assert "fault: the model /models/m is not on the host" in troubles(found)
    assert not any("helper" in one.text or "unit" in one.text for one in found)
    assert any(one.text == "port 9 is free" for one in found)
