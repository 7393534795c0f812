"""Answers of nvidia-smi as drivers give them."""

from __future__ import annotations

import pytest

from orchestrator.core.commands import Reply
from orchestrator.core.commands.nvidia import Gpu, Reading, gpus, known_fields, reading, reading_fields, readings
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


# As drivers 470 and 580 answer --help-query-gpu: the fields of ours, and some around them; what each is said to mean is
# shortened.
HELP_470 = """\
List of valid properties to query for the switch "--query-gpu=":

"timestamp"
When the query was made, in the format "YYYY/MM/DD HH:MM:SS.msec".

"driver_version"
Of the installed display driver.

Section about pcie properties
"pcie.link.gen.current"
The current generation. It may be lower when the GPU is not in use.

"pcie.link.gen.max"
The maximum of this GPU in this system.

"pcie.link.width.current"
The current width. It may be lower when the GPU is not in use.

"pcie.link.width.max"
The maximum of this GPU in this system.

"index"
Zero based.

"clocks_throttle_reasons.supported"
Bitmask, see nvml.h.

"clocks_throttle_reasons.active"
Bitmask, see nvml.h. Some GPUs say "[Not Supported]".

"power.draw"
The last measured draw.

"power.limit"
The software limit in watts, as of nvidia-smi -pl.

"enforced.power.limit"
The limit the power management algorithm keeps to.

"clocks.current.graphics" or "clocks.gr"
Of the graphics clock.

"clocks.current.sm" or "clocks.sm"
Of the SM clock.

"clocks.current.memory" or "clocks.mem"
Of the memory clock.

"clocks.max.sm" or "clocks.max.sm"
Maximum.

"ecc.errors.uncorrected.volatile.total"
Sum over memories.
"""
HELP_580 = HELP_470.replace("clocks_throttle_reasons", "clocks_event_reasons").replace(
    '"pcie.link.gen.max"', '"pcie.link.gen.gpucurrent"\nOf the GPU.\n\n"pcie.link.gen.max"'
)


@pytest.mark.parametrize(
    ("page", "reasons"),
    [(HELP_470, "clocks_throttle_reasons.active"), (HELP_580, "clocks_event_reasons.active")],
)
def test_a_driver_is_asked_for_what_it_knows(page: str, reasons: str) -> None:
    known = known_fields().parse(reply(page))
    assert "YYYY" not in " ".join(known)
    fields = reading_fields(known)
    assert fields == (
        *("index", "power.draw", "utilization.gpu", "memory.used", "clocks.sm", "temperature.gpu"),
        *("clocks.mem", "enforced.power.limit", reasons, "pcie.link.gen.current", "pcie.link.width.current"),
    )
    assert f",{reasons}," in readings(fields).argv[1]
    assert reading("3, 412.18, 98, 71230, 1980, 61, 13365, 600.00, 0x0000000000000044, 5, 16", fields) == Reading(
        gpu=3,
        power_w=412.18,
        utilisation=98.0,
        memory_mib=71230.0,
        sm_clock_mhz=1980.0,
        temperature_c=61.0,
        memory_clock_mhz=13365.0,
        power_limit_w=600.0,
        throttle=0x44,
        link_gen=5,
        link_width=16,
    )


def test_what_a_card_does_not_tell_is_absent_from_the_longer_line_too() -> None:
    fields = reading_fields(known_fields().parse(reply(HELP_580)))
    found = reading("0, 85.20, 3, 512, 210, 31, [N/A], [Not Supported], [N/A], [GPU is lost], N/A", fields)
    assert found is not None
    more = (found.memory_clock_mhz, found.power_limit_w, found.throttle, found.link_gen, found.link_width)
    assert more == (None,) * 5


@pytest.mark.parametrize("told", [reply("", returncode=127), reply("Unknown option\n", returncode=2), reply("")])
def test_a_program_that_does_not_say_what_it_knows_is_asked_for_the_first_fields(told: Reply) -> None:
    assert reading_fields(known_fields().parse(told)) == (
        *("index", "power.draw", "utilization.gpu", "memory.used", "clocks.sm", "temperature.gpu"),
    )


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
