"""An event in one line of plain words, for the log file and for a screen that is no terminal."""

from __future__ import annotations

from functools import singledispatch

from orchestrator.core import events
from orchestrator.core.clean import clean
from orchestrator.core.judge.figures import original_line
from orchestrator.report.text import count, phases, rate, watts


@singledispatch
def sentence(event: events.Event) -> str:
    """An event in one line of plain words, cleaned for a terminal."""
    raise TypeError(f"no words for {type(event).__name__}")


@sentence.register
def _run_started(event: events.RunStarted) -> str:
    mark = " · SIMULATED" if event.rehearsal else ""
    verb = "resumed" if event.resumed else "started"
    return clean(f"run {event.run} {verb}: {event.sweep} on {event.host}{mark}")


@sentence.register
def _checking(event: events.Checking) -> str:
    return clean(f"{event.what} …")


@sentence.register
def _surveyed(event: events.Surveyed) -> str:
    mark = "SIMULATED · " if event.simulated else ""
    return clean(mark + " · ".join(f"{name} {value}" for name, value in event.facts.items()))


@sentence.register
def _trial_planned(event: events.TrialPlanned) -> str:
    alias = f", the same as {event.alias_of}: not launched" if event.alias_of else ""
    return clean(f"{event.trial}: config {event.config_id}, {event.role}{alias}")


@sentence.register
def _trial_set_aside(event: events.TrialSetAside) -> str:
    return clean(f"{event.trial}: {event.state.replace('-', ' ')}: {event.reason}")


@sentence.register
def _launch_started(event: events.LaunchStarted) -> str:
    return clean(f"{event.trial}: launch {event.launch}")


@sentence.register
def _launch_phase(event: events.LaunchPhase) -> str:
    detail = f": {event.detail}" if event.detail else ""
    return clean(f"{event.trial}: {event.phase}{detail}")


@sentence.register
def _launch_ready(event: events.LaunchReady) -> str:
    if event.seconds is None:
        return clean(f"{event.trial}: measured as it runs")
    parts = f": {phases(event.phases)}" if event.phases else ""
    return clean(f"{event.trial}: ready after {event.seconds:.0f} s{parts}")


@sentence.register
def _launch_failed(event: events.LaunchFailed) -> str:
    after = f" after {event.seconds:.0f} s" if event.seconds is not None else ""
    return clean(f"{event.trial}: failed{after}: {event.failure_class}: {event.explanation}")


@sentence.register
def _launch_ended(event: events.LaunchEnded) -> str:
    return clean(f"{event.trial}: measured")


@sentence.register
def _sanity_checked(event: events.SanityChecked) -> str:
    parts = [f"{event.trial}: {count(len(event.answers), 'whole answer')}"]
    parts += [f"cannot win: {reason}" for reason in event.barred]
    parts += [f"warning: {warning}" for warning in event.warnings]
    return clean(" · ".join(parts))


@sentence.register
def _level_started(event: events.LevelStarted) -> str:
    warm = ", warm-up" if event.purpose == "warm-up" else ""
    return clean(f"{event.trial} {event.point.words}: {count(event.requests, 'request')}{warm}")


@sentence.register
def _level_progress(event: events.LevelProgress) -> str:
    return clean(f"{event.trial} {event.words}: {stand(event)}")


@sentence.register
def _level_ended(event: events.LevelEnded) -> str:
    figures = event.figures
    parts = [original_line(figures)]
    if figures.state == "measured" and figures.whole_tok_s is not None:
        steady = "no steady window" if figures.steady_tok_s is None else f"steady {rate(figures.steady_tok_s)} tok/s"
        parts.append(steady)
    if event.watts_per_gpu is not None:
        parts.append(f"{watts(event.watts_per_gpu)} W/GPU")
    parts += [f"warning: {warning}" for warning in event.warnings]
    return clean(f"{event.trial} {' · '.join(parts)}")


@sentence.register
def _restore_began(event: events.RestoreBegan) -> str:
    return clean(f"putting production back: {event.why}")


@sentence.register
def _restored(event: events.Restored) -> str:
    what = "production is back" if event.verified else "restored, not verified"
    return clean(f"{what} after {event.seconds:.0f} s: {event.detail}")


@sentence.register
def _note(event: events.Note) -> str:
    about = f"{event.trial}: " if event.trial else ""
    return clean(f"note: {about}{event.text}")


@sentence.register
def _run_ended(event: events.RunEnded) -> str:
    code = f", exit {event.exit_code}" if event.exit_code else ""
    return clean(f"{event.outcome}{code} · {event.host_state}")


def stand(event: events.LevelProgress) -> str:
    """How far a level is: ``61/64 answers · 151 tok/s · 188 W/GPU · 2:10 left``."""
    parts = [f"{event.answered}/{event.requests} answers"]
    if event.tok_s is not None:
        parts.append(f"{rate(event.tok_s)} tok/s")
    if event.watts is not None:
        parts.append(f"{watts(event.watts)} W/GPU")
    if 0 < event.answered < event.requests:
        left = event.elapsed_s * (event.requests - event.answered) / event.answered
        parts.append(f"{int(left) // 60}:{int(left) % 60:02d} left")
    return " · ".join(parts)
