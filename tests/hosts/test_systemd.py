"""The systemd door on a real host: from production to a trial and back, and who may do what."""

from __future__ import annotations

import dataclasses

import pytest

from orchestrator.core.units import Lease
from orchestrator.errors import HostFault, LeaseLost, Locked
from orchestrator.hosts.systemd import SystemdService
from tests.bed import BedHost
from tests.hosts.stand_in import ENGINE, HELPER, TRIAL, UNIT, furnish, listening, service, soon, state, tell, trial


@pytest.fixture
def k26(gpu1: BedHost) -> SystemdService:
    furnish(gpu1)
    return service(gpu1.entry)


def take(door: SystemdService, *, run: str = "7f3c", ttl_s: float = 600) -> Lease:
    return door.take(run=run, purpose="sweep k26_pp", ttl_s=ttl_s)


def restored(door: SystemdService) -> None:
    soon(lambda: door.restoring().phase != "restoring")
    assert door.restoring().phase == "restored", door.restoring()


def test_from_production_to_a_trial_and_back(gpu1: BedHost, k26: SystemdService) -> None:
    gpu1.sh("rm -f /usr/local/bin/nvidia-smi")  # a host without GPUs
    before = k26.survey()
    assert before.production.is_running
    assert before.production_argv[:3] == (f"{ENGINE}/bin/python", "-m", "sglang.launch_server")
    assert before.engine_version == "0.5.23"
    assert before.facts["torch"] == "2.14.1"
    assert before.gpus is None
    unit = trial(gpu1.entry)
    lease = take(k26)
    k26.verify(unit)
    k26.install(lease, unit)
    assert state(gpu1, UNIT) == "active"
    record = k26.record()
    assert record is not None
    assert record.state == "production"

    k26.stop(lease, "production", deadline_s=30)
    record = k26.record()
    assert record is not None
    assert record.state == "temporary"
    assert k26.teardown().is_clean
    invocation = k26.start(lease, "trial")
    soon(lambda: k26.watch("trial").listener is not None)
    seen = k26.watch("trial")
    assert seen.unit.invocation_id == invocation
    assert seen.unit.is_running
    assert seen.argv == unit.argv
    assert seen.listener is not None
    assert seen.listener.ours
    assert any(line.startswith("argv ") for line in seen.lines)
    assert seen.progress.cpu_ns
    assert k26.watch("trial", seen.cursor).lines == ()

    k26.restore(lease)
    restored(k26)
    assert state(gpu1, UNIT) == "active"
    assert gpu1.attempt(f"ls /run/systemd/system/{TRIAL}").returncode != 0
    k26.free(lease)
    assert k26.record() is None
    assert gpu1.sh("systemctl list-units --all --no-legend 'tune-*'") == ""
    assert k26.survey().production_argv == before.production_argv


def test_a_record_is_not_freed_while_production_is_away(k26: SystemdService) -> None:
    lease = take(k26)
    k26.stop(lease, "production", deadline_s=30)
    with pytest.raises(HostFault, match="restore production first"):
        k26.free(lease)
    k26.restore(lease)
    restored(k26)
    k26.free(lease)


def test_production_that_was_stopped_stays_stopped(gpu1: BedHost, k26: SystemdService) -> None:
    gpu1.sh(f"systemctl stop {UNIT}")
    lease = take(k26)
    k26.stop(lease, "trial", deadline_s=30)  # never installed: nothing to do
    k26.install(lease, trial(gpu1.entry))
    k26.start(lease, "trial")
    k26.restore(lease)
    restored(k26)
    assert "as it was before" in k26.restoring().detail
    assert state(gpu1, UNIT) == "inactive"


def test_who_holds_it_is_named_to_others(gpu1: BedHost, k26: SystemdService) -> None:
    take(k26)
    other = service(gpu1.entry, owner="you@there")
    with pytest.raises(Locked, match=r"k26 is held: me@box, run 7f3c \(sweep k26_pp\), since .* until .*") as refused:
        take(other, run="aaaa")
    assert refused.value.remedy is not None
    assert f"{HELPER} break k26" in refused.value.remedy
    neighbour = service(gpu1.entry, owner="you@there", name="second")
    with pytest.raises(Locked, match="k26 is held"):
        take(neighbour, run="aaaa")


def test_a_wrong_token_changes_nothing(gpu1: BedHost, k26: SystemdService) -> None:
    lease = take(k26)
    unit = trial(gpu1.entry)
    forged = dataclasses.replace(lease, token="0" * 32)
    for act in (
        lambda: k26.renew(forged, ttl_s=60),
        lambda: k26.install(forged, unit),
        lambda: k26.stop(forged, "production", deadline_s=30),
        lambda: k26.start(forged, "trial"),
        lambda: k26.restore(forged),
        lambda: k26.free(forged),
    ):
        with pytest.raises(LeaseLost, match="taken over"):
            act()
    assert state(gpu1, UNIT) == "active"
    assert k26.record() is not None


def test_the_same_run_takes_over_what_it_left(gpu1: BedHost, k26: SystemdService) -> None:
    first = take(k26)
    k26.install(first, trial(gpu1.entry))
    k26.stop(first, "production", deadline_s=30)
    k26.start(first, "trial")
    again = take(k26)
    assert again.restored_first
    assert state(gpu1, UNIT) == "active"
    assert state(gpu1, TRIAL) == "inactive"
    with pytest.raises(LeaseLost):
        k26.renew(first, ttl_s=60)
    k26.renew(again, ttl_s=60)
    k26.free(again)


def test_of_two_takers_at_once_one_wins(gpu1: BedHost, k26: SystemdService) -> None:
    k26.record()  # the helper is there
    fields = f'"unit": "{UNIT}", "port": 30000, "owner": "o", "purpose": "p", "ttl_s": 60'
    script = "; ".join(
        f"""echo '{{"service": "k26", {fields}, "run": "r{n}"}}' | {HELPER} take > /tmp/t{n} &""" for n in range(4)
    ).replace("&;", "&")
    gpu1.sh(f"{script} wait")
    answers = [gpu1.read(f"/tmp/t{n}") for n in range(4)]
    assert sorted('"ok": true' in answer for answer in answers) == [False, False, False, True]


def test_a_dead_trial_tells_how_it_ended(gpu1: BedHost, k26: SystemdService) -> None:
    lease = take(k26)
    k26.stop(lease, "production", deadline_s=30)
    for mode, result, status in (("dies", "exit-code", 2), ("exits-0", "success", 0)):
        k26.install(lease, trial(gpu1.entry, mode=mode))
        invocation = k26.start(lease, "trial")
        soon(lambda: not k26.watch("trial").unit.is_running)
        seen = k26.watch("trial")
        assert seen.unit.invocation_id == invocation
        assert (seen.unit.result, seen.unit.exec_main_code, seen.unit.exec_main_status) == (result, 1, status)
    assert "launch_server.py: error: unrecognized arguments: --house-rule" in seen.lines or mode == "exits-0"


def test_lines_of_children_belong_to_the_invocation_and_of_others_do_not(gpu1: BedHost, k26: SystemdService) -> None:
    lease = take(k26)
    k26.stop(lease, "production", deadline_s=30)
    k26.install(lease, trial(gpu1.entry, mode="dies"))
    k26.start(lease, "trial")
    soon(lambda: not k26.watch("trial").unit.is_running)
    k26.install(lease, trial(gpu1.entry, mode="child"))
    k26.start(lease, "trial")
    soon(lambda: "from the child" in k26.watch("trial").lines)
    assert not any("unrecognized" in line for line in k26.watch("trial").lines)


def test_a_foreign_listener_is_told_from_our_own(gpu1: BedHost, k26: SystemdService) -> None:
    lease = take(k26)
    k26.stop(lease, "production", deadline_s=30)
    gpu1.sh("systemd-run --quiet --unit=squatter /usr/bin/python3 -m http.server 30000")
    listening(gpu1)
    proof = k26.teardown()
    assert [(holder.what, holder.command) for holder in proof.holders] == [("port", "/usr/bin/python3 -m http.server")]
    listener = k26.watch("trial").listener
    assert listener is not None
    assert not listener.ours


def test_a_trial_that_does_not_hear_sigterm_is_stopped_by_its_own_limit(gpu1: BedHost, k26: SystemdService) -> None:
    lease = take(k26)
    k26.stop(lease, "production", deadline_s=30)
    short = trial(gpu1.entry, mode="deaf")
    k26.install(lease, dataclasses.replace(short, text=short.text.replace("StopSec=120", "StopSec=2")))
    k26.start(lease, "trial")
    soon(lambda: k26.watch("trial").listener is not None)
    with pytest.raises(HostFault, match=rf"{TRIAL} did not stop within 1 s"):
        k26.stop(lease, "trial", deadline_s=1)
    k26.stop(lease, "trial", deadline_s=30)
    assert k26.watch("trial").unit.result == "timeout"
    assert k26.teardown().is_clean


def test_a_login_with_one_sudoers_line_can_do_it_all(gpu1: BedHost, k26: SystemdService) -> None:
    k26.record()
    user = gpu1.add_user("ops", f"ops ALL=(root) NOPASSWD: {HELPER}")
    door = service(user)
    lease = take(door)
    door.install(lease, trial(gpu1.entry))
    door.stop(lease, "production", deadline_s=30)
    door.start(lease, "trial")
    assert door.survey().engine_version == "0.5.23"
    door.restore(lease)
    restored(door)
    door.free(lease)
    gpu1.sh("journalctl --sync")
    assert "stop k26 production for ops" in gpu1.sh("journalctl -t tune-helper -o cat")


def test_without_sudo_or_helper_the_set_up_is_named(gpu1: BedHost) -> None:
    furnish(gpu1, start=False)
    user = gpu1.add_user("ops")
    with pytest.raises(HostFault, match="tune-helper is not there") as refused:
        service(user).record()
    assert "tune host setup" in (refused.value.remedy or "")
    service(gpu1.entry).record()  # root puts it there
    with pytest.raises(HostFault, match="sudo does not let this login run"):
        service(user).record()


def test_an_altered_helper_is_replaced_by_root_and_refused_by_others(gpu1: BedHost, k26: SystemdService) -> None:
    k26.record()
    user = gpu1.add_user("ops", f"ops ALL=(root) NOPASSWD: {HELPER}")
    gpu1.sh(f"echo '# more' >> {HELPER}")
    with pytest.raises(HostFault, match="is not the one of this version"):
        service(user).record()
    assert service(gpu1.entry).record() is None
    assert "# more" not in gpu1.read(HELPER)
    gpu1.sh(f"chmod 775 {HELPER}")
    refused = tell(gpu1, "record")
    assert refused["fact"] == f"{HELPER} can be changed by others than root: the helper does not run from there"
    with pytest.raises(HostFault, match="not root's alone"):
        service(user).record()
