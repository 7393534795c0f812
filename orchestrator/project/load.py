"""The `workload` of a sweep file to ``core.workload``: prompts by name or from a file, lengths, levels, arrival."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestrator.core.load.prompts import PROMPTS
from orchestrator.core.nearest import nearest
from orchestrator.core.workload import Lengths, Prompt, Workload
from orchestrator.project import shapes
from orchestrator.project.checked import missing
from orchestrator.project.document import Document, Mention, Place, Scalar, dotted, read_text
from orchestrator.project.faults import Fault, Faults, did_you_mean
from orchestrator.project.words import NOT_YET, shown

MAX_PROMPTS = 10_000
MAX_PROMPT = 400_000  # characters
MAX_REQUESTS = 100_000  # of one level


def read_workload(document: Document, shape: shapes.Load | None, folder: Path, faults: Faults) -> Workload | None:
    """The workload, or None when it cannot be built; every fault is added. ``folder`` is the sweep file's."""
    if shape is None:
        missing(document, (), "workload", faults)
        return None
    for key in shape.needed:
        missing(document, ("workload",), key, faults)
    prompts = _prompts(document, shape.prompts or [], folder, faults)
    concurrency = _concurrency(document, shape.concurrency or [], faults)
    lengths = _lengths(document, shape.output_tokens, concurrency, faults)
    _check_size(document, shape, concurrency, faults)
    if lengths is None or not prompts or not concurrency:
        return None
    return Workload(
        name=shape.name,
        prompts=prompts,
        lengths=lengths,
        concurrency=concurrency,
        requests_per_stream=shape.requests_per_stream,
        arrival="burst" if shape.arrival == "burst" else "staggered",
        stagger_s=shape.stagger,
        say_ok=shape.say_ok,
        temperature=shape.temperature,
        request_timeout_s=shape.request_timeout,
        gap_timeout_s=shape.gap_timeout,
        max_failed=shape.max_failed,
        seed=shape.seed,
    )


def _prompts(document: Document, nodes: Sequence[Any], folder: Path, faults: Faults) -> tuple[Prompt, ...]:
    prompts: list[Prompt] = []
    written = document.node(("workload", "prompts"))
    if written == []:
        faults.add(
            Fault(
                document.name,
                document.line(("workload", "prompts")),
                "workload.prompts",
                "read an empty list; accepted: at least one prompt",
            )
        )
    for index, node in enumerate(nodes):
        place: Place = ("workload", "prompts", index)
        line = document.line(place)
        if not isinstance(node, Scalar) or node.value is None:
            what = (
                f"prompts written as {shown(node)} are {NOT_YET}" if isinstance(node, dict) else f"read {shown(node)}"
            )
            text = f"{what}; accepted: names of prompts, or a .jsonl file"
            faults.add(Fault(document.name, line, dotted(place), text))
        elif node.text.endswith(".jsonl"):
            path = folder / Path(node.text).expanduser()
            prompts += _prompt_file(path, node.text, Mention(document, place), faults)
        elif node.text in PROMPTS:
            prompts.append(PROMPTS[node.text])
        else:
            text = f"unknown prompt {shown(node)}"
            known = f"accepted: {', '.join(PROMPTS)}, or a .jsonl file"
            hint = did_you_mean(nearest(node.text, PROMPTS)) or known
            faults.add(Fault(document.name, line, dotted(place), text, hint=hint))
    return tuple(prompts)


def _prompt_file(path: Path, shown_as: str, mention: Mention, faults: Faults) -> list[Prompt]:
    """Prompts of a file with one JSON object a line: {"prompt": "…"}. They are named FILE:LINE."""
    text = read_text(path, shown_as, faults, limit=16 * 2**20, mention=mention)
    if text is None:
        return []
    prompts: list[Prompt] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        prompt = _prompt_line(line)
        if prompt is None:
            accepted = f'a line such as {{"prompt": "…"}}, at most {MAX_PROMPT} characters'
            faults.add(Fault(shown_as, number, "", f"read {line.strip()[:60]}; accepted: {accepted}"))
            return prompts
        prompts.append(Prompt(name=f"{path.stem}:{number}", text=prompt))
    if not 1 <= len(prompts) <= MAX_PROMPTS:
        faults.add(Fault(shown_as, None, "", f"holds {len(prompts)} prompts; accepted: 1 to {MAX_PROMPTS}"))
    return prompts


def _prompt_line(line: str) -> str | None:
    try:
        content = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        return None
    prompt = content.get("prompt") if isinstance(content, dict) else None
    is_sound = isinstance(prompt, str) and prompt.strip() and len(prompt) <= MAX_PROMPT
    return prompt if is_sound else None


def _concurrency(document: Document, levels: Sequence[int], faults: Faults) -> tuple[int, ...]:
    place: Place = ("workload", "concurrency")
    line = document.line(place)
    if document.node(place) == []:
        faults.add(Fault(document.name, line, dotted(place), "read an empty list; accepted: at least one level"))
    for level in dict.fromkeys(levels):
        if levels.count(level) > 1:
            hint = "to measure a level again, write repeats: {per-level: N}"
            faults.add(Fault(document.name, line, dotted(place), f"{level} stands here twice", hint=hint))
    if len(levels) > 64:
        faults.add(Fault(document.name, line, dotted(place), f"read {len(levels)} levels; accepted: at most 64"))
    return tuple(dict.fromkeys(levels))


def _lengths(
    document: Document, shape: shapes.Lengths | None, concurrency: Sequence[int], faults: Faults
) -> Lengths | None:
    if shape is None:
        return None
    place: Place = ("workload", "output-tokens")
    line = document.line(place)
    kinds = {"around": shape.around, "fixed": shape.fixed, "listed": shape.listed, "natural": shape.natural}
    written = [kind for kind in kinds if document.node((*place, kind)) is not None]
    node = document.node(place)
    is_empty = isinstance(node, dict) and node.keys() <= {"assumed"}
    if len(written) > 1 or is_empty:
        text = f"read {' and '.join(written) or 'none of them'}; accepted: one of {', '.join(kinds)}"
        faults.add(Fault(document.name, line, dotted(place), text))
        return None
    if shape.assumed and shape.listed is None:
        faults.add(Fault(document.name, line, dotted(place), "assumed goes with listed lengths only"))
    if shape.listed is not None:
        return _listed(document, shape.listed, concurrency, faults, assumed=shape.assumed)
    for kind in ("around", "fixed", "natural"):
        tokens = kinds[kind]
        if isinstance(tokens, int):
            return Lengths(kind=kind, tokens=tokens)
    return None  # it was written and is told as misread


def _listed(
    document: Document, raw: dict[str, list[int]], concurrency: Sequence[int], faults: Faults, *, assumed: bool
) -> Lengths | None:
    place: Place = ("workload", "output-tokens", "listed")
    before = faults.count
    listed: dict[int, tuple[int, ...]] = {}
    for key, tokens in raw.items():
        here = (*place, key)
        line = document.line(here)
        if not key.isdecimal() or int(key[:9]) not in concurrency:
            accepted = f"a level of the workload: {', '.join(map(str, concurrency))}"
            faults.add(Fault(document.name, line, dotted(place), f'read "{key}"; accepted: {accepted}'))
        elif len(tokens) < int(key):
            text = f"read {len(tokens)} lengths; accepted: at least {key}, one for each stream"
            faults.add(Fault(document.name, line, dotted(here), text))
        else:
            listed[int(key)] = tuple(tokens)
    for level in concurrency:
        if document.node((*place, str(level))) is None:
            text = f"level {level} is missing: every level of concurrency needs its list"
            faults.add(Fault(document.name, document.line(place), dotted(place), text))
    return Lengths(kind="listed", listed=listed, assumed=assumed) if faults.count == before else None


def _check_size(document: Document, shape: shapes.Load, concurrency: Sequence[int], faults: Faults) -> None:
    requests = max(concurrency, default=0) * shape.requests_per_stream
    if requests > MAX_REQUESTS:
        place: Place = ("workload", "requests-per-stream")
        text = f"{requests} requests in one level; accepted: at most {MAX_REQUESTS}"
        faults.add(Fault(document.name, document.line(place), dotted(place), text))
