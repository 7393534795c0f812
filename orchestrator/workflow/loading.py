"""How a load is sent, and the loads of a launch that are not measured: greetings, and whole answers to be judged."""

from __future__ import annotations

from collections.abc import Callable

from orchestrator.core import events
from orchestrator.core.judge.sanity import said
from orchestrator.core.load.levels import say_ok, with_nonce
from orchestrator.core.ports import LoadProgress
from orchestrator.core.results import LoadOutcome
from orchestrator.core.workload import LevelSpec
from orchestrator.errors import BenchFault
from orchestrator.workflow.launches import Bench, Launch


def load(bench: Bench, level: LevelSpec, salt: str | None, on_progress: Callable[[LoadProgress], None]) -> LoadOutcome:
    """Send a level; each prompt has a nonce made of ``salt``, or stays as it is without one.

    A load that could not be made at all is made once more, when the host is reached again: the link that carries our
    questions to the host carries the load to its engine too.
    """

    def run(again: str) -> LoadOutcome:
        sent = level if salt is None else with_nonce(level, f"{salt}{again}")
        return bench.doors.load.run(sent, on_progress=on_progress, cancel=bench.cancel)

    try:
        return run("")
    except BenchFault as fault:
        bench.held.prove(bench.cancel)
        bench.tell(events.Note, text=f"a load could not be made, and is made once more: {fault.fact}")
        return run(".again")


def phase(bench: Bench, launch: Launch, name: str, elapsed_s: float = 0.0) -> None:
    """Tell where the launch stands."""
    bench.tell(events.LaunchPhase, trial=launch.trial, launch=launch.launch, phase=name, elapsed_s=elapsed_s)


def greet(bench: Bench, launch: Launch) -> bool:
    """The workload's "Say OK" calls, once per launch; their numbers are thrown away. Whether all were answered."""
    calls = say_ok(bench.workload)
    if calls is None:
        return True
    phase(bench, launch, "say-ok")
    outcome = load(bench, calls, f"{bench.tell.run}.{launch.launch}.say-ok", lambda _: bench.held.beat())
    return all(record.error is None for record in outcome.records)


def whole_answers(bench: Bench, launch: Launch) -> bool:
    """The fixed prompts, once per launch: what it says is told, and judged by what the reference says.

    Whether all were answered.
    """
    level, ok = bench.answers.level, True
    for turn in range(1, 1 + bench.answers.turns(launch.trial, is_reference=launch.is_reference)):
        assert level is not None
        phase(bench, launch, f"whole answers C={level.concurrency}")
        answers = tuple(said(record) for record in load(bench, level, None, lambda _: bench.held.beat()).records)
        found = bench.answers.hear(launch.trial, answers, is_reference=launch.is_reference)
        bench.tell(
            events.SanityChecked,
            trial=launch.trial,
            launch=launch.launch,
            turn=turn,
            answers=answers,
            barred=found.barred,
            warnings=found.warnings,
        )
        ok = ok and all(answer.error is None for answer in answers)
    return ok
