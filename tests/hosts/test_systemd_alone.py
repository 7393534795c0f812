"""What the host does without the ops box: the dead man's switch, restores, leftovers on GPUs, a reboot."""

from __future__ import annotations

import dataclasses
import time

import pytest

from orchestrator.core.units import Lease
from orchestrator.errors import HostFault, LeaseLost, Locked
from orchestrator.hosts.systemd import SystemdService
from tests.bed import BedHost
from tests.hosts.stand_in import HELPER, TRIAL, UNIT, furnish, listening, nvidia_smi, service, soon, state, tell, trial


@pytest.fixture
def k26(gpu1: BedHost) -> SystemdService:
    furnish(gpu1)
    return service(gpu1.entry)


def away(host: BedHost, door: SystemdService, *, ttl_s: float, mode: str = "") -> Lease:
    """A run that has stopped production and started a trial."""
    lease = door.take(run="7f3c", purpose="sweep", ttl_s=ttl_s)
    door.install(lease, trial(host.entry, mode=mode))
    door.stop(lease, "production", deadline_s=30)
    door.start(lease, "trial")
    return lease


def test_without_a_sign_of_life_production_comes_back(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=4)
    gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)
    soon(lambda: k26.restoring().phase == "restored")
    assert state(gpu1, TRIAL) == "inactive"
    soon(lambda: k26.record() is None)
    with pytest.raises(LeaseLost):
        k26.renew(lease, ttl_s=60)
    soon(lambda: gpu1.sh("systemctl list-units --all --no-legend 'tune-*'") == "")


def test_a_sign_of_life_keeps_the_trial(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=3)
    for _ in range(5):
        time.sleep(1)
        k26.renew(lease, ttl_s=3)
    assert state(gpu1, TRIAL) == "active"
    k26.restore(lease)


def test_a_hold_that_touched_nothing_just_ends(gpu1: BedHost, k26: SystemdService) -> None:
    lease = k26.take(run="7f3c", purpose="sweep", ttl_s=2)
    k26.install(lease, trial(gpu1.entry))
    soon(lambda: k26.record() is None)
    assert gpu1.attempt(f"ls /run/systemd/system/{TRIAL}").returncode != 0
    assert state(gpu1, UNIT) == "active"
    assert k26.restoring().phase == "nothing-to-restore"


def test_the_host_goes_on_restoring_when_the_link_is_cut(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600)
    k26.restore(lease)
    gpu1.cut_link()
    gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)


def test_a_reboot_in_mid_trial_ends_with_production(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600)
    gpu1.reboot()
    gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)
    door = service(gpu1.entry)
    assert gpu1.attempt(f"systemctl cat {TRIAL}").returncode != 0
    with pytest.raises(LeaseLost, match="rebooted"):
        door.start(lease, "trial")
    record = door.record()
    assert record is not None
    assert record.state == "temporary"
    other = service(gpu1.entry, owner="you@there")
    again = other.take(run="aaaa", purpose="sweep", ttl_s=60)
    assert again.restored_first
    assert again.rebooted
    assert state(gpu1, UNIT) == "active"
    other.free(again)


def test_a_reboot_while_the_host_restores_ends_with_production(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600, mode="deaf")
    k26.restore(lease)
    assert k26.restoring().phase == "restoring"
    gpu1.kill()
    gpu1.boot()
    gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)
    told = service(gpu1.entry).restoring()
    assert (told.phase, told.detail) == ("restored", f"the host was rebooted meanwhile; {UNIT} is active")


def test_a_run_that_ran_out_is_restored_before_it_is_taken_over(gpu1: BedHost, k26: SystemdService) -> None:
    away(gpu1, k26, ttl_s=2)
    gpu1.sh("systemctl stop tune-expire-k26.timer")  # the switch itself is gone, too
    other = service(gpu1.entry, owner="you@there")
    with pytest.raises(Locked):
        other.take(run="aaaa", purpose="sweep", ttl_s=60)
    time.sleep(2)
    lease = other.take(run="aaaa", purpose="sweep", ttl_s=60)
    assert lease.restored_first
    assert not lease.rebooted
    assert state(gpu1, UNIT) == "active"
    assert "tune-expire-k26.timer" in gpu1.sh("systemctl list-units --no-legend 'tune-*'")
    other.free(lease)


def test_a_person_can_end_a_hold(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600)
    gpu1.sh(f"{HELPER} break k26")
    gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)
    with pytest.raises(LeaseLost):
        k26.start(lease, "trial")


def test_a_person_who_starts_production_is_left_alone(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600)
    gpu1.sh(f"systemctl start {UNIT}")
    assert state(gpu1, TRIAL) in {"inactive", "failed"}
    by_hand = gpu1.sh(f"systemctl show -P InvocationID {UNIT}")
    k26.restore(lease)
    soon(lambda: k26.restoring().phase == "restored")
    assert gpu1.sh(f"systemctl show -P InvocationID {UNIT}") == by_hand
    k26.free(lease)


def test_production_that_does_not_start_again_is_a_failed_restore(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600)
    gpu1.sh("mv /opt/engine/bin/python /opt/engine/bin/python.away")
    gpu1.sh(f"sed -i s/Restart=always/Restart=no/ /etc/systemd/system/{UNIT} && systemctl daemon-reload")
    k26.restore(lease)
    soon(lambda: k26.restoring().phase == "failed")
    told = k26.restoring()
    assert told.detail.startswith(f"{UNIT} was started and is failed")
    assert told.production is not None
    assert not told.production.is_running
    record = k26.record()
    assert record is not None
    assert record.state == "temporary"
    gpu1.sh("mv /opt/engine/bin/python.away /opt/engine/bin/python")
    k26.restore(lease)
    soon(lambda: k26.restoring().phase == "restored")
    k26.free(lease)


TROUBLES = {
    "nvidia-smi makes no sense": "printf '#!/bin/sh\\necho a, b; echo c\\n' > /usr/local/bin/nvidia-smi && "
    "chmod 755 /usr/local/bin/nvidia-smi",
    "the disk is full": "cp -a /var/lib/tune /var/lib/t && mount -t tmpfs -o size=64k,mode=700 bed /var/lib/tune && "
    "cp -a /var/lib/t/. /var/lib/tune && (dd if=/dev/zero of=/var/lib/tune/.full bs=1k 2>/dev/null; true)",
    "the disk cannot be written": "mount --bind /var/lib/tune /var/lib/tune && mount -o remount,bind,ro /var/lib/tune",
    "/run is full": "fallocate -l $(($(df --output=avail -k /run | tail -1) * 1024)) /run/.full",
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_nothing_on_the_host_keeps_production_down(gpu1: BedHost, k26: SystemdService, trouble: str) -> None:
    lease = away(gpu1, k26, ttl_s=600)
    gpu1.sh("rm -f /usr/local/bin/nvidia-smi")
    gpu1.sh(TROUBLES[trouble])
    try:
        k26.restore(lease)
        gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)
        soon(lambda: k26.restoring().phase == "restored")
        assert state(gpu1, TRIAL) in {"inactive", "failed"}
    finally:
        gpu1.attempt("rm -f /run/.full; umount --lazy /var/lib/tune")


def test_who_lets_go_while_the_host_restores_leaves_it_free(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=8)
    k26.restore(lease)
    k26.renew(lease, ttl_s=1)
    gpu1.wait_until(f"systemctl is-active {UNIT}", timeout_s=30)
    soon(lambda: k26.record() is None)


def test_a_restore_that_is_killed_is_told_and_can_be_ordered_again(gpu1: BedHost, k26: SystemdService) -> None:
    lease = away(gpu1, k26, ttl_s=600, mode="deaf")
    k26.restore(lease)
    with pytest.raises(HostFault, match="is putting production back"):
        k26.start(lease, "trial")
    gpu1.sh("systemctl kill --signal=KILL tune-restore-k26.service")
    soon(lambda: k26.restoring().phase == "failed")
    assert "ended without a word" in k26.restoring().detail
    gpu1.sh(f"systemctl kill --signal=KILL {TRIAL}")
    k26.restore(lease)
    soon(lambda: k26.restoring().phase == "restored")


def test_a_leftover_on_a_gpu_is_named_until_it_goes(gpu1: BedHost, k26: SystemdService) -> None:
    nvidia_smi(gpu1)
    lease = k26.take(run="7f3c", purpose="sweep", ttl_s=600)
    k26.stop(lease, "production", deadline_s=30)
    gpu1.sh("date +%s > /tmp/stopped")
    app = "GPU-bb, 4242, sglang::scheduler, 71002\\n"
    nvidia_smi(gpu1, apps=app, until="[ $(($(date +%s) - $(cat /tmp/stopped))) -ge 4 ]")
    proof = k26.teardown()
    (holder,) = proof.holders
    assert (holder.what, holder.pid, holder.command) == ("gpu", 4242, "sglang::scheduler")
    assert (holder.gpu, holder.memory_mib) == (1, 71002)
    assert proof.gpu_memory_mib == (4, 71006)
    soon(lambda: k26.teardown().is_clean, within_s=15)
    k26.restore(lease)


def test_a_leftover_that_stays_does_not_keep_production_down(gpu1: BedHost, k26: SystemdService) -> None:
    nvidia_smi(gpu1)
    lease = away(gpu1, k26, ttl_s=600)
    nvidia_smi(gpu1, apps="GPU-bb, 4242, sglang::scheduler, 71002\\n")
    gpu1.sh(f"sed -i 's/^CLEAR_BOUND_S = .*/CLEAR_BOUND_S = 2.0/' {HELPER}")  # minutes, on a real host
    k26.restore(lease)
    soon(lambda: "waiting until port and GPUs are free" in k26.restoring().detail)
    assert state(gpu1, UNIT) == "inactive"
    soon(lambda: k26.restoring().phase == "restored")
    assert k26.restoring().detail == (f"{UNIT} was started; pid 4242 (sglang::scheduler) is on GPU 1 with 71002 MiB")


def test_a_port_that_is_taken_is_named_and_production_not_started(gpu1: BedHost, k26: SystemdService) -> None:
    lease = k26.take(run="7f3c", purpose="sweep", ttl_s=600)
    k26.stop(lease, "production", deadline_s=30)
    gpu1.sh("systemd-run --quiet --unit=squatter /usr/bin/python3 -m http.server 30000")
    listening(gpu1)
    gpu1.sh(f"sed -i 's/^CLEAR_BOUND_S = .*/CLEAR_BOUND_S = 2.0/' {HELPER}")
    k26.restore(lease)
    soon(lambda: k26.restoring().phase == "failed")
    assert "(/usr/bin/python3 -m http.server) listens on the port" in k26.restoring().detail
    assert state(gpu1, UNIT) == "inactive"
    gpu1.sh("systemctl stop squatter")
    k26.restore(lease)
    soon(lambda: k26.restoring().phase == "restored")


def test_a_restore_that_keeps_failing_is_given_up(gpu1: BedHost, k26: SystemdService) -> None:
    away(gpu1, k26, ttl_s=2)
    gpu1.sh(f"sed -i 's/^RESTORE_TRIES = 5/RESTORE_TRIES = 2/' {HELPER}")
    gpu1.sh("mv /opt/engine/bin/python /opt/engine/bin/python.away")
    gpu1.sh(f"sed -i s/Restart=always/Restart=no/ /etc/systemd/system/{UNIT} && systemctl daemon-reload")
    soon(lambda: "tune-expire" not in gpu1.sh("systemctl list-units --no-legend 'tune-*.timer'"), within_s=40)
    assert k26.restoring().phase == "failed"
    record = k26.record()
    assert record is not None
    assert record.state == "temporary"
    gpu1.sh("mv /opt/engine/bin/python.away /opt/engine/bin/python")
    gpu1.sh(f"{HELPER} break k26")
    soon(lambda: k26.restoring().phase == "restored")


def test_who_was_on_the_gpus_before_is_tolerated_and_told(gpu1: BedHost, k26: SystemdService) -> None:
    gpu1.sh("systemd-run --quiet --unit=neighbour sleep 1000")
    pid = int(gpu1.sh("systemctl show -P MainPID neighbour"))
    nvidia_smi(gpu1, apps=f"GPU-aa, {pid}, /usr/bin/sleep, 500\\n")
    survey = k26.survey()
    assert [(holder.pid, holder.gpu) for holder in survey.foreign] == [(pid, 0)]
    assert survey.gpus == ("RTX PRO 6000", "RTX PRO 6000")
    assert survey.facts["driver"] == "590.48"
    lease = k26.take(run="7f3c", purpose="sweep", ttl_s=600)
    k26.stop(lease, "production", deadline_s=30)
    assert k26.teardown().is_clean
    assert gpu1.sh("systemctl is-active neighbour").strip() == "active"


def test_an_nvidia_smi_that_fails_proves_nothing(gpu1: BedHost, k26: SystemdService) -> None:
    nvidia_smi(gpu1)
    lease = k26.take(run="7f3c", purpose="sweep", ttl_s=600)
    k26.stop(lease, "production", deadline_s=30)
    gpu1.write("/usr/local/bin/nvidia-smi", "#!/bin/sh\necho 'Driver/library version mismatch' >&2\nexit 18\n", 0o755)
    with pytest.raises(HostFault, match="nvidia-smi") as fault:
        k26.teardown()
    assert "Driver/library version mismatch" in fault.value.evidence
    assert k26.watch("production").progress.gpu_memory_mib is None


def test_the_token_is_shown_to_nobody(gpu1: BedHost, k26: SystemdService) -> None:
    lease = k26.take(run="7f3c", purpose="sweep", ttl_s=600)
    assert lease.token not in repr(k26.record())
    assert lease.token not in repr(tell(gpu1, "take", unit=UNIT, port=30000, owner="o", run="r", purpose="p", ttl_s=60))
    assert gpu1.sh("stat -c %a /var/lib/tune /var/lib/tune/k26 /var/lib/tune/k26/record.json").split() == [
        "700",
        "700",
        "600",
    ]
    with pytest.raises(LeaseLost):
        k26.free(dataclasses.replace(lease, token="f" * 32))
