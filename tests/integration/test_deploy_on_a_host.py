"""Another version in service on a real host: what is recorded, what comes back, and what a deploy refuses to touch."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.bed import BedHost
from tests.integration.line import UNIT, Going, Line, lay

PATH = f"/etc/systemd/system/{UNIT}"
GUARD = "/etc/systemd/system/tune-guard-sim.service"
RECORD = "/var/lib/tune/sim/record.json"
DIES = "mem-fraction-static=0.5"  # the weights alone need more


@pytest.fixture
def line(gpu1: BedHost, tmp_path: Path) -> Line:
    laid = lay(gpu1, tmp_path)
    path = tmp_path / "inventory.yaml"
    text = re.sub(r"\n    startup:.*", "", path.read_text())
    path.write_text(text.replace(f"    unit: {UNIT}\n", f"    unit: {UNIT}\n    startup: {{healthy-for: 2s}}\n"))
    return laid


def found(line: Line) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(line.tune("releases", "sim", "--json").stdout)
    return content


def outcomes(line: Line) -> list[tuple[int, str]]:
    return [(one["number"], one["outcome"]) for one in found(line)["releases"]]


def is_free(line: Line) -> bool:
    return line.host.attempt(f"ls {RECORD} {GUARD}").stdout == ""


def running(line: Line) -> str:
    pid = line.production()["MainPID"]
    return line.host.sh(f"tr '\\0' ' ' < /proc/{pid}/cmdline")


def test_one_flag_is_deployed_then_nothing_changes_then_it_is_rolled_back(line: Line) -> None:
    by_hand = line.host.read(PATH)
    dry = line.tune("deploy", "sim", "--set", "pp-async-batch-depth=8", "--dry-run")
    assert "+ pp-async-batch-depth: 8" in dry.stdout
    assert "Nothing has been touched" in dry.stdout
    assert line.host.read(PATH) == by_hand
    before = line.production()

    done = line.tune("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes", "-m", "bursts pile up")
    assert f"{UNIT} serves as release 2" in done.stdout
    assert "inventory.yaml is behind for pp-async-batch-depth" in done.stderr
    assert line.answers()
    assert "--pp-async-batch-depth 8" in running(line)
    assert line.production()["InvocationID"] != before["InvocationID"]
    assert outcomes(line) == [(1, "adopted"), (2, "deployed")]
    assert found(line)["releases"][1]["why"] == "bursts pile up"
    assert is_free(line)

    after = line.production()
    again = line.tune("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    assert "runs exactly that already: release 2. Nothing was touched." in again.stdout
    assert line.production() == after
    status = line.tune("status", "sim").stdout
    assert "release   2, deployed" in status
    assert "drift     none" in status

    line.tune("rollback", "sim", "--yes")
    assert line.host.read(PATH) == by_hand
    assert "--pp-async-batch-depth" not in running(line)
    assert line.answers()
    assert outcomes(line)[2] == (3, "deployed")
    assert found(line)["releases"][2]["copy_of"] == 1


def test_a_version_that_dies_at_start_is_rolled_back_with_a_code_of_its_own(line: Line) -> None:
    by_hand = line.host.read(PATH)
    failed = line.tune("deploy", "sim", "--set", DIES, "--yes", check=9)
    assert "kv-too-small" in failed.stderr
    assert "|" in failed.stderr  # the journal lines that show it
    last = [text for text in failed.stderr.splitlines() if text.startswith("  host")]
    assert last, failed.stderr
    assert "rolled back" in failed.stderr
    assert "release 1" in " ".join(failed.stderr.split())
    assert line.host.read(PATH) == by_hand
    assert line.answers()
    content = found(line)
    assert [(one["number"], one["outcome"]) for one in content["releases"]] == [(1, "adopted"), (2, "rolled back")]
    assert "passed the gate" in content["releases"][1]["detail"]
    assert (content["last_good"], content["in_place"]) == (1, 1)
    acts = [(act["verb"], act["what"].split()[0]) for act in content["audit"]]
    for verb in ("adopt-found", "stage", "stop", "place", "start", "restore", "free"):
        assert (verb, "begins") in acts
        assert (verb, "done") in acts
    assert is_free(line)


def test_a_version_that_is_to_stay_although_it_failed_is_left_and_rolled_back_by_hand(line: Line) -> None:
    failed = line.tune("deploy", "sim", "--set", DIES, "--yes", "--no-rollback", check=5)
    assert "tune rollback sim" in failed.stderr
    assert outcomes(line) == [(1, "adopted"), (2, "failed")]
    assert is_free(line)
    line.tune("rollback", "sim", "--yes")
    assert line.answers()
    assert outcomes(line)[2] == (3, "deployed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_gate_returns_to_the_last_good_release_and_leaves_no_lock(
    line: Line, going: list[Going], number: signal.Signals
) -> None:
    by_hand = line.host.read(PATH)
    run = line.start("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    going.append(run)
    run.until("release 2: weights")
    run.signal(number)
    assert run.wait() == 130
    assert "rolled back" in run.text
    assert line.answers()
    assert line.host.read(PATH) == by_hand
    assert is_free(line)
    assert "held by nobody" in line.tune("lock", "status", "sim").stdout


def test_a_second_signal_leaves_the_host_to_return_alone(line: Line, going: list[Going]) -> None:
    by_hand = line.host.read(PATH)
    run = line.start("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    going.append(run)
    run.until("release 2: weights")
    run.signal(signal.SIGINT)
    run.until("returning")
    run.signal(signal.SIGINT)
    assert run.wait() == 131
    line.wait_for_production()
    assert line.host.read(PATH) == by_hand
    assert "--pp-async-batch-depth" not in running(line)


def test_a_unit_that_somebody_edited_is_shown_refused_and_adopted_on_demand(line: Line) -> None:
    line.tune("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    line.host.sh(f"sed -i 's/--pp-async-batch-depth 8/--pp-async-batch-depth 4/' {PATH} && systemctl daemon-reload")
    edited = line.host.read(PATH)
    assert f"{PATH} was edited since release 2" in line.tune("status", "sim").stdout
    assert "pp-async-batch-depth 4" in line.tune("diff", "sim", check=3).stdout
    refused = line.tune("deploy", "sim", "--set", "schedule-conservativeness=0.9", "--yes", check=4)
    assert "edited since release 2" in refused.stderr
    assert "--adopt" in refused.stderr
    assert line.host.read(PATH) == edited
    assert "--pp-async-batch-depth 8" in running(line)

    line.tune("deploy", "sim", "--set", "schedule-conservativeness=0.9", "--yes", "--adopt")
    assert outcomes(line) == [(1, "adopted"), (2, "deployed"), (3, "adopted"), (4, "deployed")]
    assert "--pp-async-batch-depth 4" in running(line)
    assert "--schedule-conservativeness 0.9" in running(line)


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (f"mv {PATH} /root/unit && ln -s /root/unit {PATH}", "is a symbolic link to /root/unit"),
        (f"mkdir -p /usr/lib/systemd/system && mv {PATH} /usr/lib/systemd/system/", "deploy writes"),
        (
            f"mkdir {PATH}.d && printf '[Service]\\nExecStart=\\nExecStart=/bin/sleep 100\\n' > {PATH}.d/mine.conf",
            "systemd understood another command than was meant",
        ),
    ],
)
def test_somebody_elses_unit_is_refused_before_anything_is_touched(line: Line, deed: str, words: str) -> None:
    before = line.production()
    line.host.sh(f"{deed} && systemctl daemon-reload")
    refused = line.tune("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes", check=4)
    assert words in " ".join(refused.stderr.split())
    assert line.production() == before
    assert line.answers()
    assert is_free(line)
    line.host.sh(f"rm -rf {PATH}.d /usr/lib/systemd/system/{UNIT}")


def test_a_killed_deploy_ends_in_the_last_good_release_by_the_hosts_own_timer(line: Line, going: list[Going]) -> None:
    inventory = line.folder / "inventory.yaml"
    inventory.write_text(inventory.read_text().replace("lease: 2m", "lease: 30s"))
    by_hand = line.host.read(PATH)
    run = line.start("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    going.append(run)
    run.until("release 2: weights")
    assert "production is away" in line.tune("lock", "status", "sim").stdout
    run.signal(signal.SIGKILL)
    line.host.wait_until(f"! ls {RECORD}", timeout_s=120.0)
    line.wait_for_production()
    assert line.host.read(PATH) == by_hand
    content = found(line)
    assert content["releases"][1]["outcome"] == "rolled back"
    assert "not verified" in content["releases"][1]["detail"]
    assert not line.host.attempt(f"ls {GUARD}").stdout
    status = line.tune("status", "sim").stdout
    assert "restored" in status
    assert "verified  no: the host returned to it by itself" in status


def test_a_hold_that_nobody_will_end_is_ended_by_a_person(line: Line, going: list[Going]) -> None:
    by_hand = line.host.read(PATH)
    run = line.start("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    going.append(run)
    run.until("release 2: weights")
    run.signal(signal.SIGKILL)
    assert "ordered production back" in line.tune("lock", "release", "sim", "--yes").stdout
    line.host.wait_until(f"! ls {RECORD}", timeout_s=60.0)
    line.wait_for_production()
    assert line.host.read(PATH) == by_hand


def test_a_deploy_broken_by_a_reboot_ends_in_the_last_good_release(line: Line, going: list[Going]) -> None:
    by_hand = line.host.read(PATH)
    run = line.start("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    going.append(run)
    run.until("release 2: weights")
    assert line.host.read(PATH) != by_hand
    run.signal(signal.SIGKILL)
    line.host.reboot()
    line.wait_for_production()
    assert line.host.read(PATH) == by_hand
    assert "--pp-async-batch-depth" not in running(line)
    content = found(line)
    assert content["releases"][1]["outcome"] == "rolled back"
    assert "after a reboot; not verified" in content["releases"][1]["detail"]
    assert is_free(line)


def test_every_fault_of_a_command_line_is_said_at_once(line: Line) -> None:
    refused = line.tune(
        "deploy", "sim", "--set", "pp-asynch-batch-depth=8", "--set", "tp-size=two", "--unset", "nothing", check=2
    )
    assert "did you mean pp-async-batch-depth?" in refused.stderr
    assert "tp-size" in refused.stderr
    assert 'unknown flag "nothing"' in refused.stderr
    assert "3 faults. Nothing has been touched." in refused.stderr


def test_production_gets_its_secrets_from_files_that_only_root_reads(gpu1: BedHost, tmp_path: Path) -> None:
    key = "sk-very-secret-0123456789"
    line = lay(gpu1, tmp_path, api_key=key)
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(
        inventory.read_text().replace(f"    unit: {UNIT}\n", f"    unit: {UNIT}\n    startup: {{healthy-for: 1s}}\n")
    )
    done = line.tune("deploy", "sim", "--set", "pp-async-batch-depth=8", "--yes")
    assert "serves as release 2" in done.stdout
    assert line.answers()
    said = [done.stdout, done.stderr, line.host.read(PATH), running(line)]
    said += [line.tune(*words, check=None).stdout for words in (("releases", "sim", "--json"), ("status", "sim"))]
    assert all(key not in text for text in said)
    modes = line.host.sh("stat -c '%a %U' /var/lib/tune/sim/secrets /var/lib/tune/sim/secrets/*").splitlines()
    assert {mode.split()[0] for mode in modes} <= {"700", "600"}
    assert {mode.split()[1] for mode in modes} == {"root"}
