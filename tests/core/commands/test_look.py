"""One look at a host, as its shell answers it."""

from __future__ import annotations

from orchestrator.core.commands import Reply
from orchestrator.core.commands.look import look, look_fields
from orchestrator.core.conditions import ComputeProcess, HostLook
from orchestrator.core.doctor.facts import GpuHealth

FIELDS = look_fields(
    frozenset(
        {
            *("uuid", "clocks.max.sm", "persistence_mode", "ecc.errors.uncorrected.volatile.total"),
            *("pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max"),
        }
    )
)
UNIT = "sglang-k26-trial.service"
HOST = """\
== page
4096
== load
3.25 2.10 1.05 2/1200 4711
== memory
MemTotal:       1056000000 kB
MemAvailable:    524288000 kB
SwapTotal:        8388604 kB
== swap
nr_free_pages 1000
pswpin 256
pswpout 512
"""
GPUS = """\
== gpus
1, 143771, 580.95.05, GPU-b, 1980, Disabled, 2, 5, 8, 16, NVIDIA H200, custom
0, 143771, 580.95.05, GPU-a, 1980, Enabled, [N/A], 5, 16, 16, NVIDIA H200
== whole
"""
APPS = """\
== apps
GPU-a, 500, 90000, sglang::scheduler
GPU-a, 600, 700, /opt/x, y/python
GPU-b, 700, [N/A], [Not Found]
GPU-b, 800, 12, elsewhere
GPU-b, 900, 12, main
== process 500
0::/system.slice/sglang-k26-trial.service
up 450
== process 600
0::/user.slice/user-1000.slice/session-3.scope
up 599
up 450
== process 700
== process 800
1:name=systemd:/system.slice/sglang-k26-trial.service.d/other.service
up 2
== process 900
0::/user.slice
"""


def asked(text: str, *, main_pid: int = 900) -> HostLook:
    return look(FIELDS, unit=UNIT, main_pid=main_pid).parse(Reply(returncode=0, stdout=text.encode(), stderr=b""))


def test_the_host_without_gpus() -> None:
    assert asked(HOST) == HostLook(load_average=3.25, swap_in_mib=1.0, swap_out_mib=2.0, available_mib=524288000 / 1024)


def test_nothing_told_is_nothing_known() -> None:
    assert asked("") == HostLook()
    assert (
        asked("== page\nx\n== load\n\n== memory\n== swap\npswpin x\n== gpus\nFailed to initialize NVML\n") == HostLook()
    )


def test_gpus_in_order_each_with_what_it_tells() -> None:
    found = asked(GPUS)
    first = GpuHealth(
        index=0,
        name="NVIDIA H200",
        memory_mib=143771,
        driver="580.95.05",
        link_width=16,
        link_width_max=16,
        link_gen_max=5,
        sm_clock_max_mhz=1980.0,
        persistence=True,
    )
    assert found.gpus is not None
    assert found.gpus[0] == first
    told = [(gpu.name, gpu.ecc_uncorrected, gpu.link_width, gpu.persistence) for gpu in found.gpus]
    assert told == [("NVIDIA H200", None, 16, True), ("NVIDIA H200, custom", 2, 8, False)]


def test_whose_processes_they_are() -> None:
    """By control group, by who started it, or not at all: what cannot be told is not called foreign."""
    found = asked(HOST + GPUS + APPS)
    assert found.processes == (
        ComputeProcess(pid=500, command="sglang::scheduler", gpu=0, memory_mib=90000, ours=True),
        ComputeProcess(pid=600, command="/opt/x, y/python", gpu=0, memory_mib=700, ours=False),
        ComputeProcess(pid=700, command="[Not Found]", gpu=1, memory_mib=None, ours=None),
        ComputeProcess(pid=800, command="elsewhere", gpu=1, memory_mib=12, ours=False),
        ComputeProcess(pid=900, command="main", gpu=1, memory_mib=12, ours=True),
    )
    started = asked(HOST + GPUS + APPS, main_pid=450)
    assert [one.ours for one in started.processes or ()] == [True, True, None, False, False]


def test_no_process_is_an_empty_list_and_no_answer_is_none() -> None:
    assert asked(GPUS + "== apps\nNo running processes found\n").processes == ()
    assert asked(GPUS).processes is None
