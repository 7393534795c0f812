"""What is last-good, what a deploy changes, what a rollback goes back to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.core import release
from orchestrator.core.config import Config, FlagValue
from orchestrator.core.inventory import HostEntry, ServiceEntry
from orchestrator.core.release import Asked, Found, Outcome, Release
from orchestrator.core.units import UnitState
from orchestrator.errors import InputRefused

FLAGS: dict[str, FlagValue] = {"model-path": "m/K2", "pp-size": 8}
UP = UnitState(
    load_state="loaded",
    active_state="active",
    sub_state="running",
    result="success",
    invocation_id="aa",
    main_pid=7,
    n_restarts=0,
    exec_main_code=0,
    exec_main_status=0,
)
ENTRY = ServiceEntry(
    name="k26",
    host=HostEntry(name="k26"),
    unit="sglang-k26.service",
    template="sglang.service.j2",
    template_text="",
    engines={"0.5.20": "/opt/20", "0.5.23": "/opt/23"},
    engine="0.5.23",
    port=30000,
    flags={**FLAGS, "host": "0.0.0.0"},
)


def one(number: int, outcome: Outcome, text: str = "", copy_of: int | None = None, depth: int = 0) -> Release:
    config = Config(flags={**FLAGS, "pp-async-batch-depth": depth})
    text = text or f"unit {number}"
    return Release(
        number=number,
        at="2026-11-30T20:00:00Z",
        outcome=outcome,
        engine="0.5.20",
        config=config,
        text=text,
        digest=release.digest(text),
        argv=("python", str(number)),
        copy_of=copy_of,
    )


def found(*releases: Release, text: str = "", **changes: object) -> Found:
    current = release.in_place(releases)
    text = text or (current.text if current else "by hand")
    stands = Found(
        releases=releases,
        unit=UP,
        path="/etc/systemd/system/sglang-k26.service",
        text=text,
        digest=release.digest(text),
        drop_ins={},
        needs_reload=False,
        enabled="enabled",
        since="",
        commands=(),
        running=current.argv if current else (),
        record=None,
        restored=None,
    )
    return replace(stands, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcomes", "good", "place"),
    [
        ((), None, None),
        (("adopted",), 1, 1),
        (("adopted", "deployed"), 2, 2),
        (("adopted", "deployed", "rolled back"), 2, 2),
        (("adopted", "deployed", "abandoned", "deploying"), 2, 2),
        (("adopted", "deployed", "failed"), 2, 3),  # it was left in place on demand
        (("adopted", "failed", "deployed"), 3, 3),
    ],
)
def test_last_good_passed_the_gate_and_what_is_in_place_may_not_have(
    outcomes: tuple[Outcome, ...], good: int | None, place: int | None
) -> None:
    known = [one(number, outcome) for number, outcome in enumerate(outcomes, start=1)]
    last, there = release.last_good(known), release.in_place(known)
    assert (last and last.number, there and there.number) == (good, place)


def test_a_return_by_the_host_alone_is_not_verified_until_a_gate_has_run() -> None:
    alone = replace(one(2, "rolled back"), detail="returned to release 1: it was started; not verified")
    assert release.is_unverified([one(1, "adopted"), alone])
    assert not release.is_unverified([one(1, "adopted"), replace(alone, detail="returned, which passed the gate")])
    assert not release.is_unverified([one(1, "adopted"), alone, one(3, "deployed")])
    assert not release.is_unverified([])


def test_rolling_back_twice_goes_back_twice() -> None:
    known = [one(1, "adopted"), one(2, "deployed"), one(3, "deployed")]
    assert release.rollback_target(known).number == 2
    known.append(one(4, "deployed", "unit 2", copy_of=2))
    assert release.rollback_target(known).number == 1
    known.append(one(5, "deployed", "unit 1", copy_of=1))
    with pytest.raises(InputRefused, match="no earlier release"):
        release.rollback_target(known)


def test_a_failure_that_was_left_in_place_is_rolled_back_to_the_last_good_one() -> None:
    assert release.rollback_target([one(1, "adopted"), one(2, "deployed"), one(3, "failed")]).number == 2


def test_a_change_is_made_to_what_runs_and_nothing_said_means_the_inventory() -> None:
    stands = found(one(1, "adopted"), one(2, "deployed", depth=8))
    config, engine = release.wanted(ENTRY, stands, Asked(flags={"mem-fraction-static": 0.9}))
    assert (config.flags, engine) == (
        {**FLAGS, "mem-fraction-static": 0.9, "pp-async-batch-depth": 8},
        "0.5.20",
    )
    assert release.wanted(ENTRY, stands, Asked()) == (Config(flags=FLAGS), "0.5.23")
    unset, _ = release.wanted(ENTRY, stands, Asked(unset=("pp-async-batch-depth",)))
    assert unset.flags == FLAGS


def test_the_same_settings_make_the_same_command_line_whatever_they_were_said_in() -> None:
    stands = found(one(1, "deployed", depth=8))
    again, _ = release.wanted(ENTRY, stands, Asked(flags={"pp-async-batch-depth": 8, "pp-size": 8}))
    other, _ = release.wanted(ENTRY, stands, Asked(flags={"pp-size": 8}))
    assert list(again.flags) == list(other.flags)


def test_unsetting_what_is_not_set_is_refused() -> None:
    with pytest.raises(InputRefused) as refused:
        release.wanted(ENTRY, found(one(1, "deployed")), Asked(unset=("tp-size",)))
    assert refused.value.faults == ("--unset tp-size: it is not set now",)


def test_only_what_runs_passed_the_gate_and_has_not_drifted_needs_no_deploy() -> None:
    stands = found(one(1, "adopted"), one(2, "deployed"))
    assert release.runs_already(stands, release.digest("unit 2"))
    assert not release.runs_already(stands, release.digest("unit 1"))
    assert not release.runs_already(replace(stands, unit=replace(UP, active_state="failed")), release.digest("unit 2"))
    assert not release.runs_already(replace(stands, running=("python", "9")), release.digest("unit 2"))
    failed = found(one(1, "adopted"), one(2, "failed"))
    assert not release.runs_already(failed, release.digest("unit 2"))


def test_every_way_to_drift_is_named() -> None:
    before = replace(one(2, "deployed", depth=8), drop_ins={"/etc/a.conf": release.digest("a")})
    stands = found(
        before,
        text="edited",
        needs_reload=True,
        drop_ins={"/etc/b.conf": "b"},
        running=("python", "9"),
    )
    assert release.drift(stands, {"pp_async_batch_depth": 0}) == (
        "/etc/systemd/system/sglang-k26.service was edited since release 2",
        "the unit was changed on disk and not reloaded: systemctl daemon-reload",
        "drop-in /etc/b.conf was added since release 2",
        "drop-in /etc/a.conf is gone",
        "the running command line is another one than release 2's: 9 instead of 2",
        "effective pp-async-batch-depth: asked 8, effective 0",
    )
    assert release.drift(found(before, drop_ins={"/etc/a.conf": "a"}), None) == ()
