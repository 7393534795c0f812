"""Answers of nvidia-smi as drivers give them."""

from __future__ import annotations

import pytest

from orchestrator.core.commands import Reply
from orchestrator.core.commands.nvidia import Gpu, Reading, gpus, reading, readings
from orchestrator.errors import HostFault


def reply(stdout: str, *, returncode: int = 0, stderr: str = "") -> Reply:
    return Reply(returncode=returncode, stdout=stdout.encode(), stderr=stderr.encode())


def test_the_stream_asks_for_plain_numbers_every_second() -> None:
    assert readings().argv == (
        "nvidia-smi",
        "--query-gpu=index,power.draw,utilization.gpu,memory.used,clocks.sm,temperature.gpu",
        "--format=csv,noheader,nounits",
        "-l",
        "1",
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("3, 412.18, 98, 71230, 1980, 61", (3, 412.18, 98, 71230, 1980, 61)),
        ("0, [N/A], 0, 0, 210, 31", (0, None, 0, 0, 210, 31)),
        ("1, 85.20, [Not Supported], 512, [N/A], [Unknown Error]", (1, 85.2, None, 512, None, None)),
        ("2, 85.20, 7", (2, 85.2, 7, None, None, None)),
        ("4, ERR!, N/A, [GPU requires reset], nan, 30", (4, None, None, None, None, 30)),
        ("5,85.20,1,2,3,4", (5, 85.2, 1, 2, 3, 4)),
    ],
)
def test_a_reading_is_numbers_or_absent(line: str, expected: tuple[float | None, ...]) -> None:
    gpu, power, utilisation, memory, clock, temperature = expected
    assert reading(line) == Reading(
        gpu=int(gpu or 0),
        power_w=power,
        utilisation=utilisation,
        memory_mib=memory,
        sm_clock_mhz=clock,
        temperature_c=temperature,
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "No devices were found",
        "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "index, power.draw [W]",
        "7",
        "[N/A], 85.20, 1, 2, 3, 4",
        "0, 1, 2, 3, 4, 5, 6",
    ],
)
def test_what_is_no_reading_is_none(line: str) -> None:
    assert reading(line) is None


def test_facts_of_the_gpus() -> None:
    answer = (
        "1, GPU-b2, 97887, 575.57.08, NVIDIA RTX PRO 6000 Blackwell\n0, GPU-a1, [N/A], 575.57.08, NVIDIA H200, custom\n"
    )
    assert gpus().parse(reply(answer)) == (
        Gpu(index=0, uuid="GPU-a1", name="NVIDIA H200, custom", driver="575.57.08", memory_mib=None),
        Gpu(index=1, uuid="GPU-b2", name="NVIDIA RTX PRO 6000 Blackwell", driver="575.57.08", memory_mib=97887),
    )


@pytest.mark.parametrize("status", [126, 127])
def test_no_nvidia_smi_is_absent(status: int) -> None:
    missing = reply("", returncode=status, stderr="bash: nvidia-smi: command not found")
    assert gpus().parse(missing) is None


def test_a_driver_that_does_not_answer_is_a_fault_not_an_absence() -> None:
    broken = reply("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", returncode=9)
    with pytest.raises(HostFault, match="nvidia-smi failed with exit status 9: NVIDIA-SMI has failed because"):
        gpus().parse(broken)
