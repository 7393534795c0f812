"""One ``tune bench`` from the command line to the last line: the same levels, load program and figures as a sweep."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from orchestrator.bench.ceiling import ceiling_events_s
from orchestrator.bench.driver import ProcessLoad
from orchestrator.bench.endpoint import check_api_key, endpoint
from orchestrator.bench.probe import HttpEngine
from orchestrator.cli.clock import RealClock
from orchestrator.cli.signals import Signals, heeded
from orchestrator.core.judge.client import believed
from orchestrator.core.judge.figures import level_figures
from orchestrator.core.load.levels import digest, levels, say_ok, warm_up, with_nonce
from orchestrator.core.load.prompts import PROMPTS, SAY_OK
from orchestrator.core.nearest import nearest
from orchestrator.core.ports import Load, LoadProgress
from orchestrator.core.results import LevelFigures
from orchestrator.core.units import SIMULATED_SETTING
from orchestrator.core.workload import Lengths, LevelSpec, Prompt, Workload
from orchestrator.errors import BadAnswer, BenchFault, InputRefused
from orchestrator.project import workload_of
from orchestrator.report.level import bench_head, client_words, level_lines, progress_line
from orchestrator.report.text import count

WIDTH = 80
MAX_CONCURRENCY = 4096


@dataclass(frozen=True, kw_only=True)
class Request:
    """The command line of ``tune bench``."""

    url: str
    model: str | None
    concurrency: str
    output_tokens: int
    natural: bool
    requests_per_stream: int
    prompts: tuple[str, ...]
    burst: bool
    workload: str | None  # a file
    given: tuple[str, ...]  # options of the load that were typed
    seed: int
    api_key_env: str | None
    as_json: bool
    plain: bool


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One load point: its figures, and what the load program noted about itself."""

    level: LevelSpec
    figures: LevelFigures
    client: dict[str, float]


def run(request: Request) -> None:
    """Measure and show. Raises ``InputRefused``, ``BenchFault`` when no level has a throughput, ``BadAnswer`` when some
    were not measured as asked, ``Interrupted``."""
    workload, api_key = _read(request)
    url = endpoint(request.url).url
    with HttpEngine(url, api_key=api_key, model=request.model) as engine:
        model = _proven_model(engine, url)
        simulated = SIMULATED_SETTING in (engine.settings() or {})
    load = ProcessLoad(url, RealClock(), model=model, api_key=api_key, self_check=ceiling_events_s)
    if not request.as_json:
        click.echo(bench_head(url, model, workload, width=WIDTH, simulated=simulated))
    results: list[Measured] = []
    with heeded(lambda _: None) as signals:
        calls = say_ok(workload)
        if calls is not None:
            load.run(calls, on_progress=_silent, cancel=signals.cancel)
        for level in levels(workload):
            result = _measure(load, level, signals, max_failed=workload.max_failed, show=not request.plain)
            if not simulated:  # its time may run at a pace of its own, where a lag means nothing
                result = replace(result, figures=believed(result.figures, result.client))
            results.append(result)
            if not request.as_json:
                click.echo("\n".join(level_lines(result.figures, WIDTH, more=client_words(result.client))))
    if request.as_json:
        click.echo(json.dumps(_as_json(url, model, workload, results, simulated=simulated), indent=2))
    _judge(url, [result.figures for result in results])


def _read(request: Request) -> tuple[Workload, str | None]:
    """The workload and the API key; every fault of the command line at once."""
    faults: list[str] = []
    workload = _workload(request, faults)
    api_key = _api_key(request.api_key_env, faults)
    try:
        endpoint(request.url)
        check_api_key(api_key)
    except InputRefused as refused:
        faults += refused.faults
    if faults:
        raise InputRefused("the command line cannot be accepted", faults=faults)
    return workload, api_key


def _workload(request: Request, faults: list[str]) -> Workload:
    if request.workload is not None:
        faults += [f"{option} does not go with --workload" for option in request.given]
        return workload_of(Path(request.workload))
    return Workload(
        name="default",
        prompts=_prompts(request.prompts, faults),
        lengths=Lengths(kind="natural" if request.natural else "around", tokens=request.output_tokens),
        concurrency=_concurrency(request.concurrency, faults),
        requests_per_stream=request.requests_per_stream,
        arrival="burst" if request.burst else "staggered",
        seed=request.seed,
    )


def _prompts(names: tuple[str, ...], faults: list[str]) -> tuple[Prompt, ...]:
    if not names:
        return tuple(prompt for prompt in PROMPTS.values() if prompt is not SAY_OK)
    for name in names:
        if name not in PROMPTS:
            near = nearest(name, PROMPTS)
            hint = f'did you mean "{near}"?' if near else f"accepted: {', '.join(PROMPTS)}"
            faults.append(f'--prompt: unknown prompt "{name}"\n    {hint}')
    return tuple(PROMPTS[name] for name in names if name in PROMPTS)


def _concurrency(text: str, faults: list[str]) -> tuple[int, ...]:
    points: list[int] = []
    for word in text.split(","):
        if word.strip().isdecimal() and 1 <= int(word) <= MAX_CONCURRENCY:
            points.append(int(word))
        else:
            faults.append(f'--concurrency: "{word}" in "{text}"; accepted: whole numbers from 1 to {MAX_CONCURRENCY}')
    return tuple(points)


def _api_key(variable: str | None, faults: list[str]) -> str | None:
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        faults.append(f"--api-key-env: the environment variable {variable} is not set, or empty")
    return key


def _proven_model(engine: HttpEngine, url: str) -> str:
    """The model's name, once the endpoint has generated a token for us."""
    model = engine.model_name()
    if model is None:
        asked = engine.ask_tokens(timeout_s=10.0)
        if asked.status is None:
            raise BenchFault(
                f"{url} does not answer: {asked.detail}",
                cause="no server listens there (any more, or yet), or something between here and it is in the way",
                remedy="check address and port; on the machine itself: ss -ltnp shows who listens",
            )
        raise BenchFault(
            f"{url} does not say which model it serves",
            cause="it is no OpenAI-compatible endpoint, or wants a key: /v1/models lists nothing",
            remedy="check the address and the API key, or name the model with --model",
        )
    probe = engine.ask_tokens(timeout_s=120.0)
    if not probe.answered:
        raise BenchFault(
            f"{url} does not generate: {probe.detail}",
            remedy="ask it by hand: POST /v1/chat/completions with this model and max_tokens 4",
        )
    return model


def _measure(load: Load, level: LevelSpec, signals: Signals, *, max_failed: int, show: bool) -> Measured:
    """Warm up at the level's own concurrency, then measure. A warm-up without one answer is the level's result."""
    salt = secrets.token_hex(8)
    on_progress = _ticker(level) if show else _silent
    try:
        warm = load.run(with_nonce(warm_up(level), salt), on_progress=_silent, cancel=signals.cancel)
        if all(record.error is not None for record in warm.records):
            found = level_figures(level, warm.records)
            return Measured(
                level=level, figures=replace(found, reason=f"in the warm-up, {found.reason}"), client=warm.client
            )
        outcome = load.run(with_nonce(level, salt), on_progress=on_progress, cancel=signals.cancel)
    finally:
        if show:
            click.echo("\r\x1b[K", nl=False, err=True)
    return Measured(
        level=level, figures=level_figures(level, outcome.records, max_failed=max_failed), client=outcome.client
    )


def _silent(_: LoadProgress) -> None:
    """Nobody is looking."""


def _ticker(level: LevelSpec) -> Callable[[LoadProgress], None]:
    def tell(progress: LoadProgress) -> None:
        line = progress_line(level.point.words, progress)
        click.echo(f"\r\x1b[K{line[: WIDTH - 1]}", nl=False, err=True)

    return tell


def _as_json(url: str, model: str, workload: Workload, results: list[Measured], *, simulated: bool) -> dict[str, Any]:
    return {
        "url": url,
        "simulated": simulated,
        "model": model,
        "workload": {"digest": digest(workload), **asdict(workload)},
        "levels": [
            {"level": result.level.key, **asdict(result.figures), "client": result.client} for result in results
        ],
    }


def _judge(url: str, found: list[LevelFigures]) -> None:
    if all(level.whole_tok_s is None for level in found):
        raise BenchFault(f"nothing could be measured at {url}: {found[0].reason}")
    odd = [level.words for level in found if level.state != "measured"]
    if odd:
        raise BadAnswer(
            f"{len(odd)} of {count(len(found), 'level')} not measured as asked: {', '.join(odd)}",
            remedy="see the reason at each level above; an endpoint without ignore_eos needs --natural",
        )
