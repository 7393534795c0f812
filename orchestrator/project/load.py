"""The `workload` of a sweep file to ``core.workload``: prompts, lengths, levels, arrival."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestrator.core.workload import Lengths, Prompt, Workload
from orchestrator.project import shapes
from orchestrator.project.checked import missing
from orchestrator.project.document import Document, Place, dotted
from orchestrator.project.faults import Fault, Faults
from orchestrator.project.prompts import read_prompts

MAX_REQUESTS = 100_000  # of one level
MAX_IDS = 20_000_000  # token ids sent in one level


def read_workload(
    document: Document, shape: shapes.Load | None, folder: Path, vocabulary: int, faults: Faults
) -> Workload | None:
    """The workload, or None when it cannot be built; every fault is added.

    ``folder`` is the sweep file's; ``vocabulary`` the model's, 0 where it is not known.
    """
    if shape is None:
        missing(document, (), "workload", faults)
        return None
    for key in shape.needed:
        missing(document, ("workload",), key, faults)
    prompts = read_prompts(document, ("workload", "prompts"), shape.prompts or [], folder, vocabulary, faults)
    concurrency = _concurrency(document, shape.concurrency or [], faults)
    lengths = _lengths(document, shape.output_tokens, concurrency, faults)
    _check_size(document, shape, prompts, concurrency, faults)
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
    kinds = {
        "around": shape.around,
        "fixed": shape.fixed,
        "explicit": shape.explicit,
        "listed": shape.listed,
        "natural": shape.natural,
    }
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
    if shape.explicit is not None:
        if not shape.explicit:
            text = "read an empty list; accepted: at least one length"
            faults.add(Fault(document.name, line, dotted((*place, "explicit")), text))
            return None
        return Lengths(kind="explicit", explicit=tuple(shape.explicit))
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


def _check_size(
    document: Document, shape: shapes.Load, prompts: Sequence[Prompt], concurrency: Sequence[int], faults: Faults
) -> None:
    requests = max(concurrency, default=0) * shape.requests_per_stream
    if requests > MAX_REQUESTS:
        place: Place = ("workload", "requests-per-stream")
        text = f"{requests} requests in one level; accepted: at most {MAX_REQUESTS}"
        faults.add(Fault(document.name, document.line(place), dotted(place), text))
    ids = requests * max((prompt.random_tokens for prompt in prompts), default=0)
    if ids > MAX_IDS:
        place = ("workload", "prompts")
        text = f"{ids} random token ids in one level; accepted: at most {MAX_IDS}"
        faults.add(Fault(document.name, document.line(place), dotted(place), text))
