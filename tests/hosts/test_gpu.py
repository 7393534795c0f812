"""GPU readings through one nvidia-smi that keeps printing: a stand-in program, real streams."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from orchestrator.cli.clock import RealClock
from orchestrator.core.inventory import HostEntry
from orchestrator.core.ports import Host
from orchestrator.core.results import GpuSample
from orchestrator.hosts.gpu import NvidiaTelemetry
from orchestrator.hosts.local import LocalHost
from orchestrator.hosts.ssh import SshHost
from tests.bed import BedHost

TWO_GPUS = """#!/bin/sh
case "$*" in
*--query-gpu=index,uuid*)
  echo "0, GPU-a, 97887, 575.57.08, Stand-in"; echo "1, GPU-b, 97887, 575.57.08, Stand-in";;
*"-l 1"*)
  while true; do
    echo "0, 85.25, 3, 1024, 1980, 40"; echo "1, [N/A], [Not Supported], 1024, 1980, [N/A]"
    echo "Unable to determine the device handle for GPU0000:41:00.0: Unknown Error"
    sleep 0.1
  done;;
esac
"""


def wait_for(telemetry: NvidiaTelemetry, count: int) -> list[GpuSample]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        samples = list(telemetry.between(0, time.monotonic()))
        if len(samples) >= count:
            return samples
        time.sleep(0.05)
    raise AssertionError(f"no {count} samples within 10 s; absent: {telemetry.absent}")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalHost:
    """This machine with whatever nvidia-smi a test puts into ``tmp_path``, and no other."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return LocalHost(HostEntry(name="here", connection="local"))


def stand_in(folder: Path, text: str) -> None:
    (folder / "nvidia-smi").write_text(text)
    (folder / "nvidia-smi").chmod(0o755)


def test_samples_carry_the_clock_and_absent_stays_absent(here: Host, tmp_path: Path) -> None:
    stand_in(tmp_path, TWO_GPUS)
    telemetry = NvidiaTelemetry(here, RealClock())
    began = time.monotonic()
    telemetry.start()
    samples = wait_for(telemetry, 6)
    telemetry.stop()
    assert began < samples[0].at < samples[-1].at < time.monotonic()
    assert {(s.gpu, s.power_w, s.utilisation, s.memory_mib, s.sm_clock_mhz, s.temperature_c) for s in samples} == {
        (0, 85.25, 3.0, 1024.0, 1980.0, 40.0),
        (1, None, None, 1024.0, 1980.0, None),
    }
    assert telemetry.absent is None


def test_between_is_a_closed_interval_and_outlives_the_stream(here: Host, tmp_path: Path) -> None:
    stand_in(tmp_path, TWO_GPUS)
    telemetry = NvidiaTelemetry(here, RealClock())
    telemetry.start()
    samples = wait_for(telemetry, 6)
    telemetry.stop()
    assert list(telemetry.between(samples[1].at, samples[3].at)) == samples[1:4]
    assert telemetry.between(0, samples[0].at - 1e-6) == []


def test_starting_again_goes_on_sampling(here: Host, tmp_path: Path) -> None:
    stand_in(tmp_path, TWO_GPUS)
    telemetry = NvidiaTelemetry(here, RealClock())
    telemetry.start()
    telemetry.start()
    before = wait_for(telemetry, 2)
    telemetry.stop()
    telemetry.stop()
    telemetry.start()
    wait_for(telemetry, len(before) + 4)
    telemetry.stop()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (None, "there is no nvidia-smi on here: no power, clocks or memory are recorded"),
        ("#!/bin/sh\nexit 0\n", "nvidia-smi on here lists no GPU"),
        (
            "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n",
            "GPU readings of here cannot be had: nvidia-smi failed with exit status 18: "
            "Failed to initialize NVML: Driver/library version mismatch",
        ),
    ],
)
def test_a_host_without_readings_says_why_and_yields_none(
    here: Host, tmp_path: Path, script: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    if script is not None:
        stand_in(tmp_path, script)
    telemetry = NvidiaTelemetry(here, RealClock())
    telemetry.start()
    assert telemetry.absent == why
    assert telemetry.between(0, time.monotonic()) == []
    telemetry.stop()


def test_over_ssh_the_program_ends_with_the_sampling(gpu1: BedHost) -> None:
    gpu1.write("/usr/local/bin/nvidia-smi", TWO_GPUS, 0o755)
    host = SshHost(gpu1.entry)
    telemetry = NvidiaTelemetry(host, RealClock())
    telemetry.start()
    wait_for(telemetry, 4)
    assert gpu1.sh("pgrep -fc '[n]vidia-smi --query-gpu'").strip() >= "1"
    telemetry.stop()
    gpu1.wait_until("! pgrep -f '[n]vidia-smi --query-gpu'", timeout_s=5)
    host.close()


def test_a_host_that_is_off_is_no_error_for_telemetry(gpu1: BedHost) -> None:
    gpu1.kill()
    telemetry = NvidiaTelemetry(SshHost(gpu1.entry, connect_timeout_s=2), RealClock())
    telemetry.start()
    assert telemetry.absent is not None
    assert telemetry.absent.startswith("GPU readings of gpu1 cannot be had: gpu1 ")
