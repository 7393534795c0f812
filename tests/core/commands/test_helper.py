"""What the helper is told, and what each of its answers becomes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.core.commands import Command, Reply
from orchestrator.core.commands.helper import HELPER_PATH, HelperCalls, sudoers_line
from orchestrator.core.units import (
    Holder,
    Lease,
    Listener,
    Observation,
    Progress,
    RestoreState,
    Teardown,
    TrialUnit,
    UnitState,
)
from orchestrator.errors import HostFault, LeaseLost, Locked, TuneError, UnitRefused
from orchestrator.hosts.helper import tune_helper

CALLS = HelperCalls(host="k26", service="k26", unit="sglang-k26.service", port=30000)
SUDO = HelperCalls(host="k26", service="k26", unit="sglang-k26.service", port=30000, prefix=("sudo", "-n"))
LEASE = Lease(service="k26", run="7f3c", token="a" * 32)
STATE = {
    "LoadState": "loaded",
    "ActiveState": "failed",
    "SubState": "failed",
    "Result": "exit-code",
    "InvocationID": "ab",
    "MainPID": "0",
    "NRestarts": "",
    "ExecMainCode": "1",
    "ExecMainStatus": "2",
}
UNIT = UnitState(
    load_state="loaded",
    active_state="failed",
    sub_state="failed",
    result="exit-code",
    invocation_id="ab",
    main_pid=0,
    n_restarts=0,
    exec_main_code=1,
    exec_main_status=2,
)


def reply(told: dict[str, Any] | None, *, code: int = 0, stderr: str = "") -> Reply:
    return Reply(
        returncode=code, stdout=json.dumps(told).encode() + b"\n" if told is not None else b"", stderr=stderr.encode()
    )


def refused(kind: str, **more: Any) -> Reply:
    return reply({"ok": False, "kind": kind, "fact": "the fact", "evidence": ["a line"], **more}, code=6)


def test_the_token_goes_over_standard_input_alone() -> None:
    command = SUDO.stop(LEASE, "production", deadline_s=30)
    assert command.argv == ("sudo", "-n", HELPER_PATH, "stop")
    assert json.loads(command.stdin) == {"service": "k26", "token": "a" * 32, "role": "production", "deadline_s": 30}


def test_every_verb_is_told_exactly_the_fields_it_needs() -> None:
    unit = TrialUnit(
        name="sglang-k26-trial.service",
        text="# tune: trial",
        argv=("/x",),
        environment={"A": "1"},
        user=None,
        working_directory=None,
    )
    verbs = {**tune_helper.QUESTIONS, **tune_helper.ACTS}
    commands: list[Command[Any]] = [
        CALLS.record(),
        CALLS.survey(),
        CALLS.take(owner="me@box", run="7f3c", purpose="sweep", ttl_s=60),
        CALLS.renew(LEASE, ttl_s=60),
        CALLS.free(LEASE),
        CALLS.verify(unit),
        CALLS.ask(Command(argv=("id", "-u"), parse=lambda reply: reply.text), user="ann", deadline_s=5),
        CALLS.install(LEASE, unit, {}),
        CALLS.stop(LEASE, "trial", deadline_s=30),
        CALLS.start(LEASE, "trial"),
        CALLS.teardown(),
        CALLS.watch("trial", ""),
        CALLS.restore(LEASE),
        CALLS.restoring(),
    ]
    for command in commands:
        fields = json.loads(command.stdin)
        assert set(fields) == set(verbs[command.argv[-1]][1].split())
        assert all(tune_helper.check_field(name, value) for name, value in fields.items())


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (refused("locked", record={"service": "k26"}), Locked, "k26: the fact"),
        (refused("lease-lost"), LeaseLost, "k26: the fact"),
        (refused("unit"), UnitRefused, "k26: the fact"),
        (refused("host"), HostFault, "k26: the fact"),
        (refused("temporary"), HostFault, "k26: the fact"),
        (refused("bad-request"), HostFault, "do not understand each other"),
        (reply(None, code=127, stderr="sh: not found"), HostFault, "gave no answer to restoring"),
        (reply(None, code=1, stderr="Traceback\nKeyError: 1"), HostFault, "gave no answer"),
    ],
)
def test_refusals_become_errors_of_their_kind(answer: Reply, error: type[TuneError], says: str) -> None:
    with pytest.raises(error, match=says) as raised:
        CALLS.restoring().parse(answer)
    assert type(raised.value) is error


def test_who_is_locked_out_is_told_how_to_end_it() -> None:
    with pytest.raises(Locked) as raised:
        CALLS.restoring().parse(refused("locked", record={"service": "other"}))
    assert raised.value.remedy == (
        f"wait for it, or end it (production comes back first): ssh k26 sudo {HELPER_PATH} break other"
    )


def test_sudo_that_says_no_is_told_from_a_helper_that_is_broken() -> None:
    with pytest.raises(HostFault, match="sudo does not let this login") as raised:
        SUDO.record().parse(reply(None, code=1, stderr="sudo: a password is required\n"))
    assert raised.value.remedy == f"as root there, in a file of /etc/sudoers.d: {sudoers_line('USER')}"


def test_a_look_at_a_unit() -> None:
    told = {
        "ok": True,
        "state": STATE,
        "lines": ["é", "b"],
        "cursor": "s=1",
        "progress": {"cpu_ns": 5, "io_bytes": 6, "gpu_memory_mib": None},
        "listener": {"pid": 7, "command": "python", "ours": False},
        "argv": ["/x", ""],
    }
    assert CALLS.watch("trial", "").parse(reply(told)) == Observation(
        unit=UNIT,
        lines=("é", "b"),
        cursor="s=1",
        progress=Progress(cpu_ns=5, io_bytes=6, journal_bytes=4, gpu_memory_mib=None),
        listener=Listener(pid=7, command="python", ours=False),
        argv=("/x", ""),
    )


def test_a_proof_of_teardown() -> None:
    app = {"what": "gpu", "pid": 4242, "began": "", "command": "sglang::scheduler", "gpu": 3, "memory_mib": 71002}
    told = {"ok": True, "holders": [app, {"what": "port", "pid": 0, "command": "unknown"}], "gpu_memory_mib": [4, 5]}
    assert CALLS.teardown().parse(reply(told)) == Teardown(
        holders=(
            Holder(what="gpu", pid=4242, command="sglang::scheduler", gpu=3, memory_mib=71002),
            Holder(what="port", pid=0, command="unknown"),
        ),
        gpu_memory_mib=(4, 5),
    )


def test_nobody_holds_it() -> None:
    assert CALLS.record().parse(reply({"ok": True, "record": None})) is None


def test_a_restore_that_never_was() -> None:
    told = {"ok": True, "phase": "nothing-to-restore", "detail": "", "state": None}
    assert CALLS.restoring().parse(reply(told)) == RestoreState(phase="nothing-to-restore")
