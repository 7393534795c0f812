"""Facts in, findings out: what is a fault, what a warning, and that each says what to do."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from orchestrator.core.commands import Reply, checkup
from orchestrator.core.doctor import Finding, HostFacts, examine
from orchestrator.core.doctor.facts import (
    Engine,
    Entrance,
    Failure,
    FileSystem,
    GpuHealth,
    Hold,
    Left,
    Level,
    Machine,
    ModelFolder,
    Port,
    Production,
    Service,
)
from orchestrator.core.doctor.gpus import p2p
from orchestrator.report.doctor import doctor_json, doctor_text

GIB = 1 << 30
ROOT = Entrance(login="root", address="10.0.0.7", is_local=False, manager="systemd", helper_version="1")
OPS = replace(ROOT, login="ops")
GPU = GpuHealth(
    index=0,
    name="RTX PRO 6000",
    memory_mib=97887,
    driver="590.48",
    link_width=16,
    link_width_max=16,
    link_gen=1,  # idle
    link_gen_max=5,
    throttle=0x1,
    power_limit_w=600.0,
    power_default_w=600.0,
    ecc_uncorrected=0,
)
CARDS = tuple(replace(GPU, index=index) for index in range(8))
MACHINE = Machine(
    systemd=252,
    python="3.11.2",
    skew_s=0.2,
    file_systems={"/run": FileSystem(mount="/run", size=4 * GIB, free=3 * GIB)},
    memory=768 * GIB,
    cached=500 * GIB,
    segments=(),
    left_files=(),
    left_units=(),
    gpus=CARDS,
    has_nvidia_smi=True,
    no_p2p=(),
)
PRODUCTION = Production(load="loaded", active="active", enabled="enabled", needs_reload=False)
K26 = Service(
    name="k26",
    unit="sglang-k26.service",
    trial_unit="sglang-k26-trial.service",
    port=30000,
    user="sglang",
    is_offline=True,
    model_path="moonshotai/Kimi-K2.6",
    production=PRODUCTION,
    has_user=True,
    listener=Port(pid=812, command="python -m sglang.launch_server", is_ours=True),
    port_asked=True,
    model=ModelFolder(folder="/data/hf/x", has_config=True, size=594 * GIB, files=64),
    engines=(Engine(folder="/opt/sglang", expected="0.5.23", version="0.5.23"),),
    parser_asked=True,
    hold_asked=True,
)
WELL = HostFacts(name="gpu1", gpus_expected=8, entrance=ROOT, machine=MACHINE, services=(K26,))


def troubles(facts: HostFacts) -> list[tuple[Level, str]]:
    """Everything that is not ok; each has to say what to do."""
    found = [finding for finding in examine(facts) if finding.level != "ok"]
    assert all(finding.remedy for finding in found if not finding.text.startswith("not answered"))
    return [(finding.level, finding.text) for finding in found]


def of_service(**changes: object) -> list[tuple[Level, str]]:
    return troubles(replace(WELL, services=(replace(K26, **changes),)))  # type: ignore[arg-type]


def of_machine(**changes: object) -> list[tuple[Level, str]]:
    return troubles(replace(WELL, machine=replace(MACHINE, **changes)))  # type: ignore[arg-type]


def test_a_host_on_which_all_is_well() -> None:
    assert troubles(WELL) == []
    assert doctor_text({"gpu1": examine(WELL)}) == dedent("""\
        gpu1: all is well
          reach
            ok      reached at 10.0.0.7, its host key is known; logged in as root
            ok      helper: the one of this tune (version 1), root's alone
          host
            ok      systemd 252
            ok      Python 3.11.2
            ok      its clock agrees with this machine's
            ok      /run: 3.0 GiB free
            ok      memory 768 GiB, 500 GiB of it cached files
            ok      the 594 GiB of weights of k26 fit the page cache
          GPUs
            ok      8 × RTX PRO 6000, driver 590.48
            ok      PCIe x16, generation 5 at most
            ok      nothing holds the clocks down
            ok      power cap 600 W, the default
            ok      no uncorrected memory errors
            ok      every pair can read each other's memory
          service k26
            ok      sglang-k26.service is active and enabled
            ok      runs as sglang
            ok      engine 0.5.23 in /opt/sglang
            ok      the engine can be imported, and its parser answers
            ok      model moonshotai/Kimi-K2.6: 64 files, 594 GiB, complete
            ok      port 30000 is production's own
            ok      nobody holds it
          leftovers
            ok      nothing of an earlier run

        1 host: all is well. Nothing was changed.""")


@pytest.mark.parametrize(
    ("fact", "step"),
    [
        ("gpu1 (10.0.0.7 port 22): the host key has changed: it presented x", "host key"),
        ("gpu1 (10.0.0.7 port 22): the host key is not known: x is not in y", "host key"),
        ("gpu1: ops was not let in at 10.0.0.7 port 22: 1 key offered, none accepted", "login"),
        ("gpu1: the name nowhere cannot be resolved: Name or service not known", "name"),
        ("gpu1 (10.0.0.7 port 22) cannot be reached: [Errno 113] No route to host", "connection"),
        ("the ssh configuration of host gpu1 asks for what tune cannot do", "ssh configuration"),
    ],
)
def test_a_host_that_is_not_reached_has_one_finding_naming_the_step(fact: str, step: str) -> None:
    facts = HostFacts(name="gpu1", unreached=Failure(fact=fact, remedy="do this"))
    assert examine(facts) == (Finding(group="reach", level="fault", text=f"{step}: {fact}", remedy="do this"),)


def test_a_missing_helper_is_put_there_by_root_and_a_fault_for_others() -> None:
    missing = "/x/tune-helper is not there"
    as_root = troubles(replace(WELL, entrance=replace(ROOT, helper_fault=missing)))
    assert as_root == [("warning", "helper: /x/tune-helper is not there; the next sweep puts it right")]
    as_ops = troubles(replace(WELL, entrance=replace(OPS, helper_fault=missing, sudo_fault="sudo: a password")))
    assert as_ops == [
        ("fault", "helper: /x/tune-helper is not there"),
        ("fault", "sudo does not let ops run the helper: sudo: a password"),
    ]


def test_the_machine() -> None:
    assert of_machine(systemd=219) == [("fault", "systemd 219 is too old")]
    assert of_machine(python="") == [("fault", "/usr/bin/python3 is not there: the helper does not run")]
    assert of_machine(skew_s=-3600.0) == [("warning", "its clock is 3,600 s behind this machine's")]
    full = {"/run": FileSystem(mount="/run", size=GIB, free=4096)}
    assert of_machine(file_systems=full) == [("fault", "/run: 0 MiB free of 1.0 GiB (trial units lie there)")]
    assert of_machine(memory=512 * GIB) == [
        ("warning", "the 594 GiB of weights of k26 do not fit the page cache: every start reads the disk")
    ]
    silent = (Failure(fact="df: not found"),)
    assert of_machine(file_systems=None, unanswered=silent) == [("warning", "not answered: df: not found")]


def test_gpus() -> None:
    def with_first(**changes: object) -> list[tuple[Level, str]]:
        first = replace(GPU, **changes)  # type: ignore[arg-type]
        return of_machine(gpus=(first, *CARDS[1:]))

    assert of_machine(gpus=CARDS[:7]) == [("fault", "7 × RTX PRO 6000, driver 590.48; the inventory says 8")]
    assert with_first(link_width=8) == [("warning", "GPU 0: PCIe x8 of x16")]
    assert with_first(throttle=0x44) == [("warning", "GPU 0: thermal slowdown (hardware)")]
    assert with_first(power_limit_w=450.0) == [("warning", "GPU 0: power cap 450 W, 600 W is the default")]
    assert with_first(ecc_uncorrected=3) == [("fault", "GPU 0: 3 uncorrected memory errors since boot")]
    assert with_first(ecc_uncorrected=None, throttle=None, power_default_w=None, link_width=None) == []
    nothing = {"has_nvidia_smi": False, "gpus": None, "no_p2p": None}
    assert of_machine(**nothing) == [("fault", "there is no nvidia-smi, and the inventory says 8 GPUs")]
    assert of_machine(no_p2p=((0, 1, "CNS"),)) == [
        (
            "warning",
            "no peer-to-peer reads between GPUs 0–1 (chipset not supported): "
            "tensor parallelism goes through host memory",
        )
    ]


def test_pairs_without_peer_to_peer_are_read_from_nvidia_smi() -> None:
    heading = " \t\x1b[4mGPU0\tGPU1\tGPU2\x1b[0m\t\n"
    matrix = heading + " GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tCNS\t\n GPU2\tCNS\tCNS\tX\t\n\nLegend:\n"
    assert p2p(matrix) == ((0, 2, "CNS"), (1, 2, "CNS"))
    assert p2p("") == ()


def test_a_driver_that_does_not_know_a_field_loses_only_that() -> None:
    answers = []
    for fields, text, status in (
        (checkup.gpu_fields()[0], b"0, RTX, 97887, 525.1\n1, RTX, 97887, 525.1\n", 0),
        (("clocks_event_reasons.active",), b'Field "clocks_event_reasons.active" is not a valid field to query.', 6),
        (("clocks_throttle_reasons.active",), b"0x0000000000000008\n[N/A]\n", 0),
    ):
        columns = checkup.gpu_columns(fields).parse(Reply(returncode=status, stdout=text, stderr=b""))
        assert columns is not None
        answers.append(columns)
    assert [gpu.throttle for gpu in checkup.gpu_health(answers)] == [8, None]
    assert checkup.gpu_columns(("index",)).parse(Reply(returncode=127, stdout=b"", stderr=b"")) is None


def test_the_unit() -> None:
    def unit(**changes: object) -> list[tuple[Level, str]]:
        return of_service(production=replace(PRODUCTION, **changes))  # type: ignore[arg-type]

    assert unit(load="not-found") == [("fault", "there is no unit sglang-k26.service (not-found)")]
    assert unit(load="masked") == [("fault", "sglang-k26.service is masked: nothing can start it")]
    assert unit(enabled="disabled") == [("warning", "sglang-k26.service is disabled: a reboot ends without production")]
    assert [level for level, _ in unit(needs_reload=True)] == ["fault"]


def test_port_and_record() -> None:
    foreign = Port(pid=7, command="nginx", is_ours=False)
    assert of_service(listener=foreign) == [("fault", "port 30000 is held by pid 7 (nginx), not by sglang-k26.service")]
    assert [level for level, _ in of_service(listener=None)] == ["warning"]
    assert [level for level, _ in of_service(listener=replace(foreign, pid=0, is_ours=None))] == ["warning"]
    held = Hold(owner="me@box (pid 4)", run="7f3c", until="2026-11-30T07:00:00Z", is_over=False, is_temporary=True)
    assert of_service(hold=held, listener=foreign) == [
        ("warning", "held by me@box (pid 4), run 7f3c until 2026-11-30T07:00:00Z; production is away")
    ]
    assert [level for level, _ in of_service(hold=replace(held, is_over=True))] == ["fault"]
    assert K26.production is not None
    stopped = replace(K26.production, active="inactive")
    assert [level for level, _ in of_service(production=stopped)] == ["warning"]
    assert of_service(hold=held, production=stopped) == of_service(hold=held)


def test_a_hold_that_a_reboot_ended_is_judged_by_what_runs_now() -> None:
    ended = Hold(owner="me", run="7f3c", until="2026-11-30T07:00:00Z", is_over=True, is_temporary=True, rebooted=True)
    words = "a reboot ended the hold of me, run 7f3c"
    assert of_service(hold=ended) == []  # nothing to be done: findings that are well are not shown here
    down = Production(load="loaded", active="inactive", enabled="disabled", needs_reload=False)
    assert ("fault", f"{words}, and sglang-k26.service is inactive") in of_service(hold=ended, production=down)


def test_engine_and_model() -> None:
    engine = K26.engines[0]
    assert of_service(engines=(replace(engine, version="0.5.20"),)) == [
        ("fault", "/opt/sglang has engine 0.5.20, the inventory says 0.5.23")
    ]
    assert of_service(engines=(replace(engine, version=None, fault="No such file"),)) == [
        ("fault", "/opt/sglang: no engine could be asked: No such file")
    ]
    gone = ModelFolder(folder=None, free=100 * GIB)
    assert [level for level, _ in of_service(model=gone)] == ["fault"]
    assert [level for level, _ in of_service(model=gone, is_offline=False)] == ["warning"]
    assert of_service(model=gone, is_offline=False, weights_gib=594.0) == [
        (
            "fault",
            "the model moonshotai/Kimi-K2.6 is not on the host: its 594 GiB do not fit the 100 GiB that are free there",
        )
    ]
    torn = ModelFolder(folder="/m", has_config=False, missing=("a", "b", "c", "d"), size=1, files=9)
    assert of_service(model=torn) == [
        ("fault", "/m has no config.json"),
        ("fault", "/m is not complete: a, b, c and 1 more"),
    ]
    bare = ModelFolder(folder="/m", has_config=True)
    assert of_service(model=bare) == [("fault", "/m has no weights")]
    assert of_service(model=bare, reads_weights=False) == []


def test_what_is_left_is_judged_only_when_nobody_can_need_it() -> None:
    machine = replace(
        MACHINE,
        left_units=(Left(what="sglang-k26-trial.service"),),
        segments=(Left(what="torch_1", size=3 * GIB),),
    )
    stopped = replace(K26, production=replace(PRODUCTION, active="inactive"), listener=None)
    running = troubles(replace(WELL, machine=machine))
    assert running == [("warning", "sglang-k26-trial.service is of a run, and nobody holds the host")]
    idle = troubles(replace(WELL, machine=machine, services=(stopped,)))
    assert idle[-1] == ("warning", "/dev/shm: 1 segment with 3.0 GiB of an engine, and none runs: torch_1")
    hold = Hold(owner="me", run="7f3c", until="2026", is_over=False, is_temporary=True)
    held = troubles(replace(WELL, machine=machine, services=(replace(stopped, hold=hold),)))
    assert not any("trial" in text for _, text in held)


def test_findings_as_json_are_counted() -> None:
    facts = HostFacts(name="gpu1", unreached=Failure(fact="it cannot be reached"))
    assert '"faults": 1' in doctor_json({"gpu1": examine(facts), "gpu2": examine(WELL)})
