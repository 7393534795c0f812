"""Engines that fail on a real host: each with its class, its words and its next step, and production back after it."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.core import events
from orchestrator.core.inventory import Startup
from orchestrator.core.load.levels import levels
from orchestrator.errors import HostFault, NotReached, RestoreFailed
from orchestrator.workflow.lease import Held
from tests.bed import BedHost
from tests.core.start import kernel_logs
from tests.hosts.failing import WORKLOAD, Stage, stage
from tests.hosts.stand_in import HELPER, TRIAL, UNIT, listening, service, state


@pytest.fixture
def on(gpu1: BedHost, tmp_path: Path) -> Iterator[Stage]:
    with stage(gpu1, tmp_path) as ours:
        yield ours


REFUSED = "launch_server.py: error: unrecognized arguments: --enable-reasoning"


def test_dead_on_arrival_costs_a_few_polls_and_shows_its_own_line(on: Stage) -> None:
    began = time.monotonic()
    failure = on.fails("exits-2")
    assert time.monotonic() - began < 60
    assert (failure.name, failure.verdict) == ("bad-flag", "infeasible")
    assert failure.evidence[-1] == REFUSED
    put = on.restore()
    assert put.verified
    assert state(on.host, UNIT) == "active"


def test_production_that_dies_in_a_loop_is_never_called_restored(on: Stage) -> None:
    on.fails("exits-2")
    on.mode("exits-2")  # whatever was changed meanwhile: it starts, dies, and Restart=always starts it again
    began = time.monotonic()
    with pytest.raises(RestoreFailed) as caught:
        on.restore()
    assert time.monotonic() - began < 60
    fault = caught.value
    assert "does not know a flag or a value" in fault.fact
    assert REFUSED in fault.evidence
    assert fault.host_state == f"gpu1: {UNIT} does not serve"
    assert f"systemctl restart {UNIT}" in (fault.remedy or "")
    on.mode("serves")
    on.host.sh(f"systemctl restart {UNIT}")
    listening(on.host)


def test_production_that_systemd_gives_up_on_is_told_with_what_it_died_of(gpu1: BedHost, tmp_path: Path) -> None:
    with stage(gpu1, tmp_path, window="60") as on:
        on.fails("exits-0")
        on.mode("exits-2")
        with pytest.raises(RestoreFailed) as caught:
            on.restore()
    assert REFUSED in caught.value.evidence
    assert caught.value.host_state == f"gpu1: {UNIT} does not serve"


def test_every_end_of_a_start_has_its_class_and_its_words(on: Stage) -> None:
    ended = on.fails("exits-0")
    assert (ended.name, ended.verdict) == ("exit-0-at-once", "unknown")
    assert "sglang 0.5.23" in ended.evidence

    crashed = on.fails("crashes", replaces="trial")
    assert crashed.name == "generic"
    assert "RuntimeError: cannot reshape tensor of 0 elements" in crashed.evidence

    killed = on.fails("killed", replaces="trial")  # 9/KILL alone is SGLang's own way to end, too
    assert (killed.name, killed.verdict) == ("killed", "unknown")
    assert "is not known (the host's journal keeps no kernel messages)" in killed.explanation

    kernel_says(on, kernel_logs.QUIET)
    silent = on.fails("killed", replaces="trial")
    assert silent.explanation.endswith("the kernel log tells of no process of it killed for memory")

    kernel_says(on, kernel_logs.HOST_FULL)
    eaten = on.fails("killed", replaces="trial")
    assert (eaten.name, eaten.verdict) == ("host-oom", "environment")
    assert "Killed process 4712 (sglang::schedul)" in eaten.evidence[0]


def test_an_engine_that_dies_while_it_serves_is_a_failed_launch(on: Stage) -> None:
    many = levels(WORKLOAD, repeats=40)
    ended = on.launch("dies-serving", *many)
    assert ended.failure is not None
    assert ended.failure.name == "killed"
    assert len(ended.measured) < len(many)
    (told,) = [event for event in on.heard.all if isinstance(event, events.LaunchFailed)]
    assert told.seconds is not None
    assert told.seconds > 3


def test_who_burns_cpu_in_silence_is_waited_for(on: Stage) -> None:
    ended = on.launch("burns")
    assert ended.failure is None
    assert ended.start_s is not None
    assert ended.start_s > 6  # longer than nothing may move


def test_who_sleeps_without_moving_is_not(on: Stage) -> None:
    failure = on.fails("sleeps")
    assert (failure.name, failure.verdict) == ("timeout-no-progress", "unknown")
    assert re.search(r"nothing moved for [45] s in the phase process start", failure.explanation)


def test_the_whole_time_allowed_ends_also_who_goes_on_moving(gpu1: BedHost, tmp_path: Path) -> None:
    with stage(gpu1, tmp_path, startup=Startup(timeout_s=4.0, no_progress_s=3.0)) as on:
        failure = on.fails("burns")
    assert failure.name == "timeout"
    assert "the whole time allowed" in failure.explanation


def test_a_port_that_somebody_else_took_meanwhile_is_named(on: Stage) -> None:
    failure = on.fails("robbed")
    assert (failure.name, failure.verdict) == ("foreign-listener", "environment")
    assert re.search(r"another process: pid \d+ \(/usr/bin/python3 -m http.server\)", failure.explanation)


def test_ready_is_who_gave_a_token_and_only_then_the_load_begins(on: Stage) -> None:
    on.host.sh("rm -f /tmp/seen-by-the-engine")
    ended = on.launch("too-early", *levels(WORKLOAD))
    assert ended.failure is None
    assert ended.measured == {"c2.r1"}
    assert ended.start_s is not None
    assert ended.start_s > 5  # 503 for three seconds, then a first answer that takes three
    seen = on.seen()
    first = seen.index("in load")
    assert "tokens probe" in seen[:first]
    assert "in probe" not in seen[first:]
    in_flight = 0
    for line in seen[:first]:
        in_flight += {"in probe": 1, "out probe": -1}.get(line, 0)
        assert in_flight <= 1


def kernel_says(on: Stage, text: str) -> None:
    """The test bed has no kernel of its own to break: journalctl answers for the kernel what was recorded."""
    on.host.write("/tmp/kernel", text.replace("sglang-k26-trial.service", TRIAL))
    script = '#!/bin/sh\ncase " $* " in *" --dmesg "*) exec cat /tmp/kernel ;; esac\nexec /usr/bin/journalctl "$@"\n'
    on.host.write("/usr/local/bin/journalctl", script, 0o755)


def test_a_gpu_that_is_gone_is_told_by_kernel_and_nvidia_smi(on: Stage) -> None:
    kernel_says(on, kernel_logs.FELL_OFF)
    on.gpus = 2
    on.host.write(
        "/usr/local/bin/nvidia-smi",
        "#!/bin/sh\ncase $1 in\n"
        "--query-gpu=index,pci.bus_id,name) echo '0, 00000000:C1:00.0, RTX PRO 6000'\n"
        "  echo 'Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error'; exit 15 ;;\n"
        "--query-gpu=index,uuid) printf '0, GPU-aa\\n' ;;\n"
        "--query-gpu=memory.used) echo 4 ;;\nesac\n",
        0o755,
    )
    failure = on.fails("crashes")
    assert (failure.name, failure.verdict) == ("gpu-fell-off", "environment")
    assert failure.explanation == "the GPU at 0000:3b:00 has fallen off the bus; 1 of 2 GPUs answer"
    assert any(line.startswith("nvidia-smi: Unable to determine") for line in failure.evidence)


@pytest.mark.slow
def test_an_nvidia_smi_that_hangs_does_not_keep_a_failure_from_being_told(on: Stage) -> None:
    on.host.write("/usr/local/bin/nvidia-smi", "#!/bin/sh\ncase $1 in *bus_id*) exec sleep 1000 ;; esac\n", 0o755)
    on.doors.service.stop(on.held.lease, "production", deadline_s=30)
    began = time.monotonic()
    told = on.doors.service.aftermath("trial", "", since_s=1.0)
    assert time.monotonic() - began < 60
    assert "did not answer within 20 s" in (told.gpus.problem or "")


def test_a_login_that_may_not_read_the_journal_is_answered_through_the_helper(on: Stage) -> None:
    kernel_says(on, kernel_logs.HOST_FULL)
    user = on.host.add_user("ops", f"ops ALL=(root) NOPASSWD: {HELPER}")
    told = service(user).aftermath("production", "", since_s=10.0)
    assert told.unit == UNIT
    assert "Killed process 4712" in told.kernel.lines[-1]


@pytest.mark.slow
def test_a_host_that_stops_answering_for_good_is_lost_contact(on: Stage) -> None:
    on.held = Held(on.doors.service, on.held.lease, on.doors.clock, ttl_s=8.0)
    on.held.prove()

    class Cuts:
        def tell(self, event: events.Event) -> None:
            on.heard.all.append(event)
            if isinstance(event, events.LaunchPhase) and event.phase == "process start":
                on.host.cut_link()

    on.heard.tell = Cuts().tell  # type: ignore[method-assign]
    try:
        with pytest.raises((NotReached, HostFault)):
            on.launch("sleeps")
    finally:
        on.host.restore_link()
    (told,) = [event for event in on.heard.all if isinstance(event, events.LaunchFailed)]
    assert (told.failure_class, told.verdict) == ("lost-contact", "environment")
    assert "the host stopped answering" in told.explanation
    assert told.evidence
