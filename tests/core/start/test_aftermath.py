"""What kernel and GPUs say of a failed launch, and when that decides its class instead of the journal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core.commands import Reply, nvidia
from orchestrator.core.commands import aftermath as questions
from orchestrator.core.start import failures
from orchestrator.core.start.aftermath import judge
from orchestrator.core.start.failures import Failure
from orchestrator.core.start.kernel_log import oom_kills, pcie_errors, worst, xids
from orchestrator.core.units import Aftermath, GpuState, KernelLog
from tests.core.start import kernel_logs
from tests.core.start.journals import CASES, OOM, TO_LOAD, TO_SERVE, WRAPPER
from tests.core.start.test_failures import ended

UNIT = "sglang-k26-trial.service"
NVIDIA_SMI = "".join(f"{n}, 00000000:{address}:00.0, NVIDIA RTX PRO 6000\n" for n, address in enumerate(("3B", "C1")))


def reply(text: str, code: int = 0, said: str = "") -> Reply:
    return Reply(returncode=code, stdout=text.encode(), stderr=said.encode())


def kernel(text: str) -> KernelLog:
    return questions.kernel_log(60).parse(reply(text))


def gpus(text: str = NVIDIA_SMI, code: int = 0) -> GpuState:
    return nvidia.state().parse(reply(text, code))


def told(text: str = "", state: GpuState | None = None, *, main_pid: int = 0) -> Aftermath:
    return Aftermath(unit=UNIT, kernel=kernel(text), gpus=gpus() if state is None else state, main_pid=main_pid)


KILLED = failures.from_end(["starting"], ended(code=2, status=9, result="signal"))
NCCL = failures.from_end([*CASES["nccl"][0]], ended(code=2, status=9, result="signal"))


# --- reading -------------------------------------------------------------------------------------------------------


def test_the_kernel_is_asked_for_a_length_of_time_and_a_bounded_number_of_lines() -> None:
    argv = questions.kernel_log(411.6).argv
    assert "--since=-417s" in argv
    assert {"--dmesg", "--utc", "--lines=3000"} <= set(argv)


def test_only_lines_that_matter_are_kept_with_their_time() -> None:
    log = kernel(kernel_logs.QUIET + kernel_logs.FELL_OFF_WITHOUT_XID)
    assert log.lines[0] == "kernel 03:06:01: NVRM: The NVIDIA GPU 0000:b3:00.0"
    assert len(log.lines) == 3
    assert log.problem is None


def test_a_flood_keeps_its_beginning_and_its_end() -> None:
    flood = kernel_logs.FELL_OFF + kernel_logs.AER * 400 + kernel_logs.UNIT_LIMIT
    log = kernel(flood)
    assert len(log.lines) == questions.KEPT
    assert xids(log.lines)[0].number == 79
    assert oom_kills(log.lines)[0].pid == 4712


def test_a_kernel_log_that_cannot_be_read_is_a_problem_and_not_silence() -> None:
    log = questions.kernel_log(60).parse(reply("", 1, "No journal files were opened due to insufficient permissions."))
    assert log.problem == "No journal files were opened due to insufficient permissions."


@pytest.mark.parametrize(
    ("text", "pid", "cgroup", "by_limit", "lines"),
    [
        (kernel_logs.UNIT_LIMIT, 4712, f"/system.slice/{UNIT}", True, 2),
        (kernel_logs.HOST_FULL, 4712, f"/system.slice/{UNIT}", False, 2),
        (kernel_logs.SOMEBODY_ELSE, 4712, "/system.slice/backup.service", False, 2),
        (kernel_logs.BEFORE_LINUX_5, 4711, None, False, 1),
    ],
)
def test_an_oom_kill_is_one_whatever_announces_it(
    text: str, pid: int, cgroup: str | None, lines: int, *, by_limit: bool
) -> None:
    (kill,) = oom_kills(kernel(text).lines)
    assert (kill.pid, kill.cgroup, kill.by_limit, len(kill.lines)) == (pid, cgroup, by_limit, lines)


@pytest.mark.parametrize(
    ("text", "numbers", "cause", "address"),
    [
        (kernel_logs.FELL_OFF, [79, 45], 79, "0000:3b:00"),
        (kernel_logs.FELL_OFF_WITHOUT_XID, [79], 79, ""),
        (kernel_logs.GSP, [119, 119], 119, "0000:c1:00"),
        (kernel_logs.MMU_FAULT, [31, 43], 31, "0000:c1:00"),
        (kernel_logs.DOUBLE_BIT, [48, 63, 45], 48, "0000:c1:00"),
    ],
)
def test_of_several_xids_the_gravest_is_the_cause(text: str, numbers: list[int], cause: int, address: str) -> None:
    found = xids(kernel(text).lines)
    assert [xid.number for xid in found] == numbers
    gravest = worst(found)
    assert gravest is not None
    assert (gravest.number, gravest.address) == (cause, address)


def test_pcie_errors_that_were_not_corrected_come_first() -> None:
    lines = pcie_errors(kernel(kernel_logs.AER).lines)
    assert len(lines) == 3
    assert "Uncorrectable" in lines[0]


@pytest.mark.parametrize(
    ("text", "code", "answering", "lost", "problem"),
    [
        (NVIDIA_SMI, 0, {0: "0000:3b:00", 1: "0000:c1:00"}, 0, None),
        ("Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n", 255, {}, 1, None),
        (NVIDIA_SMI + "Unable to determine the device handle for GPU 0000:C1:00.0: GPU is lost.\n", 15, 2, 1, None),
        ("No devices were found\n", 6, {}, 1, None),
        (NVIDIA_SMI.replace("NVIDIA RTX PRO 6000", "[GPU is lost]", 1), 0, {1: "0000:c1:00"}, 1, None),
        ("0, 00000000:3B:00.0, ERR!\n", 0, {}, 1, None),
        ("", 15, {}, 1, None),
        ("Failed to initialize NVML: Driver/library version mismatch\n", 18, {}, 0, "Failed to initialize NVML: "),
        ("", 127, {}, 0, "there is no nvidia-smi"),
    ],
)
def test_the_gpus_are_what_nvidia_smi_lists(
    text: str, code: int, answering: dict[int, str] | int, lost: int, problem: str | None
) -> None:
    state = gpus(text, code)
    assert (len(state.answering) if isinstance(answering, int) else state.answering) == answering
    assert len(state.lost) == lost
    assert (state.problem is None) == (problem is None)
    assert (state.problem or "").startswith(problem or "")


# --- deciding ------------------------------------------------------------------------------------------------------


def test_nine_kill_alone_is_not_the_hosts_oom_killer() -> None:
    found = judge(KILLED, told(), 2)
    assert (found.name, found.verdict) == ("killed", "unknown")
    assert found.explanation.endswith("the kernel log tells of no process of it killed for memory")


def test_a_kernel_log_that_was_not_read_decides_nothing_and_says_so() -> None:
    found = judge(KILLED, replace(told(), kernel=KernelLog(problem="the host's journal keeps no kernel messages")), 2)
    assert found.name == "killed"
    assert "is not known (the host's journal keeps no kernel messages)" in found.explanation


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (kernel_logs.UNIT_LIMIT, "the unit reached its own memory limit and the kernel killed pid 4712"),
        (kernel_logs.HOST_FULL, "the host's memory ran out and the kernel killed pid 4712 (sglang::schedul)"),
    ],
)
@pytest.mark.parametrize("failure", [KILLED, NCCL], ids=lambda failure: failure.name)
def test_the_kernel_log_decides_that_it_was_memory(failure: Failure, text: str, words: str) -> None:
    found = judge(failure, told(text), 2)
    assert (found.name, found.verdict) == ("host-oom", "environment")
    assert found.explanation.startswith(words)
    assert "Killed process 4712" in found.evidence[0]
    assert found.evidence[-1] == failure.evidence[-1]


def test_a_kill_of_somebody_else_is_shown_and_blamed_on_nobody() -> None:
    found = judge(KILLED, told(kernel_logs.SOMEBODY_ELSE), 2)
    assert found.name == "killed"
    assert "Killed process 4712 (restic)" in found.evidence[0]


@pytest.mark.parametrize(("pid", "name"), [(4711, "host-oom"), (4710, "killed"), (0, "killed")])
def test_an_old_kernel_names_no_cgroup_and_the_main_process_decides(pid: int, name: str) -> None:
    assert judge(KILLED, told(kernel_logs.BEFORE_LINUX_5, main_pid=pid), 2).name == name


def test_a_unit_whose_name_only_begins_alike_is_another() -> None:
    text = kernel_logs.HOST_FULL.replace("sglang-k26-trial.service", "x-sglang-k26-trial.service")
    assert judge(KILLED, told(text), 2).name == "killed"


@pytest.mark.parametrize("name", ["nccl", "watchdog", "generic", "child-died", "cuda-fault", "rejected-combo"])
def test_a_gpu_that_fell_off_the_bus_explains_what_the_journal_only_suffers(name: str) -> None:
    failure = failures.from_end(CASES[name][0], ended(code=2, status=9, result="signal"))
    found = judge(failure, told(kernel_logs.FELL_OFF, gpus("No devices were found\n", 6)), 2)
    assert (found.name, found.verdict) == ("gpu-fell-off", "environment")
    assert found.explanation == "the GPU at 0000:3b:00 has fallen off the bus; 0 of 2 GPUs answer"
    assert "79, pid='<unknown>'" in found.evidence[0]
    assert "nvidia-smi: No devices were found" in found.evidence
    assert any("Uncorrectable (Fatal)" in line for line in found.evidence)


def test_fewer_gpus_than_at_the_survey_are_enough() -> None:
    one = gpus(NVIDIA_SMI.splitlines()[0])
    found = judge(KILLED, told("", one), 2)
    assert (found.name, found.explanation) == ("gpu-fell-off", "a GPU has fallen off the bus; 1 of 2 GPUs answer")
    assert judge(KILLED, told("", one), None).name == "killed"
    assert judge(KILLED, told("", gpus("", 127)), 2).name == "killed"


@pytest.mark.parametrize("name", ["bad-flag", "load-oom", "kv-too-small", "model-missing", "port-in-use"])
def test_a_cause_of_its_own_stands_whatever_else_happened(name: str) -> None:
    failure = failures.from_end(CASES[name][0], ended())
    assert judge(failure, told(kernel_logs.FELL_OFF + kernel_logs.HOST_FULL), 2) == failure


@pytest.mark.parametrize(
    ("text", "verdict", "words"),
    [
        (
            kernel_logs.GSP,
            "environment",
            "GPU 1 (0000:c1:00) reported Xid 119: the GPU's system processor (GSP)",
        ),
        (
            kernel_logs.DOUBLE_BIT,
            "environment",
            "GPU 1 (0000:c1:00) reported Xid 48: a double-bit memory (ECC) error;",
        ),
        (kernel_logs.MMU_FAULT, "unknown", "GPU 1 (0000:c1:00) reported Xid 31: a kernel touched memory that is not"),
    ],
)
def test_an_xid_is_named_with_its_meaning_and_its_card(text: str, verdict: str, words: str) -> None:
    found = judge(KILLED, told(text), 2)
    assert (found.name, found.verdict) == ("gpu-xid", verdict)
    assert found.explanation.startswith(words)
    assert "Xid (PCI:0000:c1:00)" in found.evidence[0]
    assert found.next_step


def test_an_xid_that_echoes_the_engines_own_fault_leaves_its_class() -> None:
    failure = failures.from_end(CASES["cuda-fault"][0], ended(code=2, status=9, result="signal"))
    found = judge(failure, told(kernel_logs.MMU_FAULT), 2)
    assert found.name == "cuda-fault"
    assert "31, pid=4711" in found.evidence[0]
    assert judge(failure, told(kernel_logs.DOUBLE_BIT), 2).name == "gpu-xid"


def test_a_number_nobody_listed_is_still_named() -> None:
    text = kernel_logs.MMU_FAULT.replace("): 31,", "): 171,").splitlines()[0]
    found = judge(KILLED, told(text), 2)
    assert found.explanation.startswith("GPU 1 (0000:c1:00) reported Xid 171: ")


def test_pcie_errors_alone_are_evidence_and_no_class() -> None:
    found = judge(NCCL, told(kernel_logs.AER), 2)
    assert found.name == "nccl"
    assert "severity=Uncorrectable" in found.evidence[0]


def test_the_evidence_stays_short() -> None:
    failure = failures.from_death([*TO_SERVE, *["x"] * 50, WRAPPER], ended(code=2, status=9, result="signal"), "a1")
    found = judge(failure, told(kernel_logs.AER * 30 + kernel_logs.MMU_FAULT * 9), 2)
    assert len(found.evidence) <= 10


def test_run_oom_needs_no_host() -> None:
    assert failures.is_own(failures.from_death([*TO_LOAD[:1], OOM], ended(), "a1"))
