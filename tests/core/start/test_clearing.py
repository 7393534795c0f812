"""Free for the next start, or who is in the way."""

from __future__ import annotations

from orchestrator.core.start.clearing import judge
from orchestrator.core.units import Holder, Teardown


def test_an_empty_host_becomes_the_ground_that_later_looks_are_held_against() -> None:
    seen = judge(Teardown(gpu_memory_mib=(4, 410)), None)
    assert seen.obstacles == ()
    assert seen.ground_mib == (4, 410)


def test_holders_are_named_in_words() -> None:
    holders = (
        Holder(what="gpu", pid=4242, command="sglang::scheduler", gpu=3, memory_mib=71002),
        Holder(what="port", pid=7, command="nginx"),
        Holder(what="process", pid=8, command="python"),
        Holder(what="gpu", pid=9, command="x"),
    )
    assert judge(Teardown(holders=holders), None).obstacles == (
        "pid 4242 (sglang::scheduler) holds 71,002 MiB of GPU 3",
        "pid 7 (nginx) listens on the service's port",
        "pid 8 (python) is still in the unit's cgroup",
        "pid 9 (x) holds GPU ?",
    )


def test_memory_that_nobody_explains_is_in_the_way() -> None:
    first = judge(Teardown(gpu_memory_mib=(4, 30_000)), None)
    assert first.obstacles == ("GPU 1 has 30,000 MiB in use that no process of the service explains",)
    assert first.ground_mib is None
    later = judge(Teardown(gpu_memory_mib=(4, 900)), (4, 410))
    assert later.obstacles == ("GPU 1 has 900 MiB in use that no process of the service explains",)
    assert judge(Teardown(gpu_memory_mib=(4, 600)), (4, 410)).obstacles == ()


def test_a_host_that_does_not_say_is_judged_by_its_holders_alone() -> None:
    assert judge(Teardown(), (4, 4)) == judge(Teardown(gpu_memory_mib=None), (4, 4))
    assert judge(Teardown(), None).obstacles == ()
