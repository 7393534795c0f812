"""The `workload` of a sweep file to ``core.workload``: prompts, lengths, levels, arrival."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from orchestrator.core.load.levels import MOST_BY_CLOCK
from orchestrator.core.workload import CLOSED, OPEN, Arrival, Lengths, Prompt, Workload
from orchestrator.project import shapes
from orchestrator.project.checked import missing
from orchestrator.project.document import Document, Place, dotted
from orchestrator.project.faults import Fault, Faults
from orchestrator.project.prompts import read_prompts

Load = TypeVar("Load", int, float)

MAX_REQUESTS = 100_000  # of one level
MAX_IDS = 20_000_000  # token ids sent in one level


def read_workload(
    document: Document, at: Place, shape: shapes.Load, folder: Path, vocabulary: int, faults: Faults
) -> Workload | None:
    """The workload written ``at`` a place, or None when it cannot be built; every fault is added.

    ``folder`` is the sweep file's; ``vocabulary`` the model's, 0 where it is not known.
    """
    before = faults.count
    for key in shape.needed:
        missing(document, at, key, faults)
    prompts = read_prompts(document, (*at, "prompts"), shape.prompts or [], folder, vocabulary, faults)
    concurrency = _several(document, (*at, "concurrency"), shape.concurrency or [], faults)
    rates = _several(document, (*at, "rate"), shape.rate or [], faults)
    lengths = _lengths(document, at, shape.output_tokens, concurrency, faults)
    arrivals = _arrivals(document, at, shape, faults)
    _check_loop(document, at, lengths, faults)
    if faults.count == before:
        _check_size(document, at, shape, prompts, faults)
    if lengths is None or not prompts or not (concurrency or rates):
        return None
    return Workload(
        name=shape.name,
        prompts=prompts,
        lengths=lengths,
        concurrency=concurrency,
        requests_per_stream=shape.requests_per_stream,
        rates=rates,
        requests=shape.requests,
        duration_s=shape.duration,
        arrival=arrivals[0],
        beside=arrivals[1:],
        stagger_s=shape.stagger,
        say_ok=shape.say_ok,
        temperature=shape.temperature,
        request_timeout_s=shape.request_timeout,
        gap_timeout_s=shape.gap_timeout,
        max_failed=shape.max_failed,
        seed=shape.seed,
    )


def _add(document: Document, place: Place, text: str, faults: Faults, hint: str | None = None) -> None:
    faults.add(Fault(document.name, document.line(place), dotted(place), text, hint=hint))


def _arrivals(document: Document, at: Place, shape: shapes.Load, faults: Faults) -> tuple[Arrival, ...]:
    """The arrivals, those of the loop that is asked for; its usual one where nothing is said."""
    place: Place = (*at, "arrival")
    accepted = OPEN if shape.rate else CLOSED
    if document.node(place) == []:
        _add(document, place, f"read an empty list; accepted: {' or '.join(accepted)}", faults)
    asked = shape.arrival or []
    loop = "an open loop (rate)" if shape.rate else "a closed loop (concurrency)"
    for word in dict.fromkeys(asked):
        if word not in accepted:
            _add(document, place, f'read "{word}"; accepted of {loop}: {" or ".join(accepted)}', faults)
        elif asked.count(word) > 1:
            _add(document, place, f"{word} stands here twice", faults)
    found = tuple(each for each in asked if each in accepted)
    return tuple(arrival for word in found for arrival in accepted if arrival == word) or accepted[:1]


def _check_loop(document: Document, at: Place, lengths: Lengths | None, faults: Faults) -> None:
    """What goes with an open loop, what with a closed one, and what ends a level."""
    written = {key for key in ("concurrency", "rate") if document.node((*at, key)) is not None}
    if not written and not any(faults.is_misspelt(document.name, dotted(at), key) for key in ("concurrency", "rate")):
        hint = "or an open loop: rate, in requests a second"
        faults.add(Fault(document.name, document.line(at), dotted(at), 'key "concurrency" is missing', hint=hint))
    if len(written) == 2:
        _add(document, (*at, "rate"), "rate and concurrency are both there; accepted: one of them", faults)
    has_duration, has_requests = (document.node((*at, key)) is not None for key in ("duration", "requests"))
    if "rate" in written and has_duration == has_requests:
        read = "both of them" if has_duration else "none of them"
        text = f"read {read}; accepted: one of requests and duration, which ends each level of an open loop"
        _add(document, (*at, "rate"), text, faults)
    if "rate" not in written and has_requests:
        hint = "did you mean requests-per-stream? A level at C sends that x C requests"
        _add(document, (*at, "requests"), "requests goes with rate only", faults, hint)
    if document.node((*at, "requests-per-stream")) is not None and ("rate" in written or has_duration):
        what = "rate" if "rate" in written else "duration"
        _add(document, (*at, "requests-per-stream"), f"requests-per-stream does not go with {what}", faults)
    if lengths is not None and lengths.kind == "listed" and ("rate" in written or has_duration):
        text = "listed lengths say how many requests a level has"
        _add(document, (*at, "output-tokens"), text, faults, "explicit ones are asked for in turn: {explicit: [N, …]}")


def _several(document: Document, place: Place, levels: Sequence[Load], faults: Faults) -> tuple[Load, ...]:
    """Load points as they are written: at least one, none twice, not too many."""
    if document.node(place) == []:
        _add(document, place, "read an empty list; accepted: at least one level", faults)
    for level in dict.fromkeys(levels):
        if levels.count(level) > 1:
            hint = "to measure a level again, write repeats: {per-level: N}"
            _add(document, place, f"{level:g} stands here twice", faults, hint)
    if len(levels) > 64:
        _add(document, place, f"read {len(levels)} levels; accepted: at most 64", faults)
    return tuple(dict.fromkeys(levels))


def _lengths(
    document: Document, at: Place, shape: shapes.Lengths | None, concurrency: Sequence[int], faults: Faults
) -> Lengths | None:
    if shape is None:
        return None
    place: Place = (*at, "output-tokens")
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
        return _listed(document, at, shape.listed, concurrency, faults, assumed=shape.assumed)
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
    document: Document,
    at: Place,
    raw: dict[str, list[int]],
    concurrency: Sequence[int],
    faults: Faults,
    *,
    assumed: bool,
) -> Lengths | None:
    place: Place = (*at, "output-tokens", "listed")
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


def _check_size(document: Document, at: Place, shape: shapes.Load, prompts: Sequence[Prompt], faults: Faults) -> None:
    """A level must fit into the memory of the machine that sends it."""
    if shape.rate:
        key, requests = "rate", shape.requests or int(max(shape.rate) * (shape.duration or 0.0))
    else:
        key, requests = "requests-per-stream", max(shape.concurrency or [0]) * shape.requests_per_stream
    if shape.rate and not requests:
        _add(document, (*at, key), f"at {max(shape.rate):g}/s nothing is due within {shape.duration:g} s", faults)
    if requests > MAX_REQUESTS:
        _add(document, (*at, key), f"{requests} requests in one level; accepted: at most {MAX_REQUESTS}", faults)
    if shape.duration and not shape.rate:
        requests = MOST_BY_CLOCK
    ids = requests * max((prompt.random_tokens for prompt in prompts), default=0)
    if ids > MAX_IDS:
        text = f"{ids} random token ids in one level; accepted: at most {MAX_IDS}"
        _add(document, (*at, "prompts"), text, faults)
