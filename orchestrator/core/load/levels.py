"""What exactly is sent at each load point: which prompt, how many tokens, in which order.

A config's levels depend on the workload alone, so that every config is asked the very same things. Only the nonce
in front of each prompt differs between runs and launches.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
from dataclasses import replace
from itertools import cycle, islice

from orchestrator.core.load.arrivals import due_times
from orchestrator.core.load.prompts import SAY_OK
from orchestrator.core.load.tokens import random_ids
from orchestrator.core.workload import Arrival, LevelSpec, LoadPoint, Prompt, RequestSpec, Workload

WARM_UP_TOKENS = 48  # long enough that all C of the wave are decoding at once
SAY_OK_TOKENS = 16
WARMED_S, MOST_WARMED = 5.0, 64  # of an open loop: requests of its first seconds, at most so many
FASTEST_TOK_S = 400.0  # of one stream: requests enough for this pace are made ready for a level that ends by the clock
MOST_BY_CLOCK = 20_000  # requests made ready for such a level; it ends early when they are all answered
_BLOCK = 8  # lengths of an open loop are spread evenly over so many neighbours
_SENT_AS = 1  # raise when prompts, order or lengths are built in another way: digests must then differ


def levels(workload: Workload, repeats: int = 1) -> tuple[LevelSpec, ...]:
    """Every load point, concurrency or rate ascending, its ``repeats`` side by side (numbered from 1).

    All repeats of a load point, and all its arrivals, send the same requests, without nonce: see ``with_nonce``.
    Several arrivals take turns in going first, so that what drifts in a launch favours none. Raises ``ValueError`` for
    ``listed`` lengths that lack a concurrency; ``project`` refuses such a file before.
    """
    arrivals = (workload.arrival, *workload.beside)
    loads = [(0.0, c) for c in sorted(set(workload.concurrency))] + [(rate, 0) for rate in sorted(set(workload.rates))]
    return tuple(
        _level(workload, rate, concurrency, arrival, repeat)
        for rate, concurrency in loads
        for repeat in range(1, repeats + 1)
        for arrival in (arrivals if repeat % 2 else arrivals[::-1])
    )


def points(workload: Workload) -> tuple[LoadPoint, ...]:
    """Every load point, in order."""
    return tuple(sorted({level.point for level in levels(workload)}))


def say_ok(workload: Workload) -> LevelSpec | None:
    """The "Say OK" calls made once per launch before the first level, one after the other; None when not asked for."""
    if workload.say_ok <= 0:
        return None
    requests = tuple(
        RequestSpec(index=i, prompt=SAY_OK.name, text=SAY_OK.text, max_tokens=SAY_OK_TOKENS, ignore_eos=False)
        for i in range(workload.say_ok)
    )
    return LevelSpec(
        workload="say-ok",
        concurrency=1,
        repeat=1,
        arrival="burst",
        stagger_s=0.0,
        requests=requests,
        temperature=workload.temperature,
        request_timeout_s=workload.request_timeout_s,
        gap_timeout_s=workload.gap_timeout_s,
        purpose="warm-up",
    )


def warm_up(level: LevelSpec) -> LevelSpec:
    """One short wave at the level's own concurrency, all at once, so that every batch size up to it has been run.

    Sent in a burst whatever the level's arrival: short answers sent one by one would never be in flight together. An
    open loop has no concurrency of its own: as many are sent as are due within the first seconds.
    """
    wave = level.concurrency or min(MOST_WARMED, max(1, round(level.rate * WARMED_S)))
    requests = tuple(
        replace(request, max_tokens=min(request.max_tokens, WARM_UP_TOKENS), due_s=None)
        for request in level.requests[:wave]
    )
    return replace(
        level,
        requests=requests,
        concurrency=len(requests),
        rate=0.0,
        duration_s=None,
        arrival="burst",
        stagger_s=0.0,
        purpose="warm-up",
    )


def with_nonce(level: LevelSpec, salt: str) -> LevelSpec:
    """The level with a nonce at the very front of each prompt, so that no two requests share a prefix.

    Random token ids are themselves the nonce: they are drawn here, for this occasion and request alone. ``salt`` names
    the occasion (run and launch): the same salt gives the same nonces, another one gives others.
    """

    def marked(request: RequestSpec) -> RequestSpec:
        seed = f"{salt}|{level.key}|{level.purpose}|{request.index}"
        if request.random_tokens:
            return replace(request, input_ids=random_ids(seed, request.random_tokens, request.vocabulary))
        nonce = hashlib.sha256(seed.encode()).hexdigest()[:16]
        if request.messages:
            (role, content), *others = request.messages
            return replace(request, messages=((role, f"[{nonce}] {content}"), *others))
        return replace(request, text=f"[{nonce}] {request.text}")

    return replace(level, requests=tuple(marked(request) for request in level.requests))


def digest(workload: Workload) -> str:
    """Twelve hex digits that change with anything sent or with the order and pace of sending.

    Left out: the name; which concurrencies are measured (each level's is recorded beside the digest, and C=16 of one
    sweep may be compared with C=16 of another); time limits; whether lists were assumed.
    """
    lengths = workload.lengths
    listed = {str(c): list(tokens) for c, tokens in sorted((lengths.listed or {}).items())}
    content = {
        "sent-as": _SENT_AS,
        "prompts": [_content(prompt) for prompt in workload.prompts],
        "lengths": {"kind": lengths.kind, "tokens": lengths.tokens, "listed": listed},
        **({"explicit": lengths.explicit} if lengths.explicit else {}),
        **({"requests": workload.requests} if workload.requests else {}),
        **({"duration": workload.duration_s} if workload.duration_s else {}),
        **({"open": True} if workload.rates else {}),
        **({"beside": workload.beside} if workload.beside else {}),
        "requests-per-stream": workload.requests_per_stream,
        "arrival": workload.arrival,
        "stagger": workload.stagger_s,
        "say-ok": workload.say_ok,
        "temperature": workload.temperature,
        "seed": workload.seed,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _content(prompt: Prompt) -> str | dict[str, object]:
    """What of a prompt is sent: everything but its name."""
    more = {
        "messages": prompt.messages,
        "random-tokens": prompt.random_tokens,
        "vocabulary": prompt.vocabulary,
        "output-tokens": prompt.output_tokens,
    }
    said = {name: value for name, value in more.items() if value}
    return {"text": prompt.text, **said} if said else prompt.text


def _level(workload: Workload, rate: float, concurrency: int, arrival: Arrival, repeat: int) -> LevelSpec:
    ignore_eos = workload.lengths.kind != "natural"
    asked = _output_tokens(workload, rate, concurrency)
    due: tuple[float | None, ...] = (None,) * len(asked)
    if rate:
        due = due_times(arrival, rate, len(asked), f"{workload.seed}/{arrival}/{rate:g}")
    requests = tuple(
        _request(index, workload.prompts[index % len(workload.prompts)], tokens, due[index], ignore_eos=ignore_eos)
        for index, tokens in enumerate(asked)
    )
    return LevelSpec(
        workload=workload.name,
        concurrency=concurrency,
        rate=rate,
        repeat=repeat,
        arrival=arrival,
        is_one_of_several=bool(workload.beside),
        stagger_s=workload.stagger_s if arrival == "staggered" else 0.0,
        requests=requests,
        duration_s=None if rate else workload.duration_s,
        temperature=workload.temperature,
        request_timeout_s=workload.request_timeout_s,
        gap_timeout_s=workload.gap_timeout_s,
    )


def _request(index: int, prompt: Prompt, tokens: int, due_s: float | None, *, ignore_eos: bool) -> RequestSpec:
    return RequestSpec(
        index=index,
        prompt=prompt.name,
        text=prompt.text,
        messages=prompt.messages,
        random_tokens=prompt.random_tokens,
        vocabulary=prompt.vocabulary,
        max_tokens=prompt.output_tokens or tokens,
        ignore_eos=ignore_eos,
        due_s=due_s,
    )


def _output_tokens(workload: Workload, rate: float, concurrency: int) -> tuple[int, ...]:
    lengths = workload.lengths
    if lengths.kind == "listed":
        listed = lengths.listed or {}
        if concurrency not in listed:
            raise ValueError(f"no list of output lengths for concurrency {concurrency}")
        return tuple(listed[concurrency])
    streams = concurrency or _BLOCK
    count = requests_of(workload, rate, concurrency)
    if lengths.kind == "around":
        seed = f"{workload.seed}/{concurrency}" if concurrency else f"{workload.seed}/rate {rate:g}"
        return _around(lengths.tokens, -(-count // streams), streams, random.Random(seed))[:count]
    if lengths.kind == "explicit":
        return tuple(islice(cycle(lengths.explicit), count))
    return (lengths.tokens,) * count


def requests_of(workload: Workload, rate: float, concurrency: int) -> int:
    """How many requests are made ready for a load point whose lengths are not listed."""
    if rate:
        return workload.requests or max(1, math.floor(rate * (workload.duration_s or 0.0)))
    if workload.duration_s is None:
        return concurrency * workload.requests_per_stream
    lengths = workload.lengths
    usual = {"explicit": sum(lengths.explicit) / max(1, len(lengths.explicit)), "natural": float(WARM_UP_TOKENS)}
    waves = 1 + math.ceil(workload.duration_s * FASTEST_TOK_S / max(1.0, usual.get(lengths.kind, lengths.tokens)))
    return concurrency * max(1, min(waves, MOST_BY_CLOCK // concurrency))


def _around(tokens: int, waves: int, concurrency: int, rng: random.Random) -> tuple[int, ...]:
    """``waves * concurrency`` lengths, evenly spaced over ``tokens`` x [0.5, 1.5], their mean ``tokens``.

    Each wave holds one length of every stratum (``concurrency`` strata of ``waves`` neighbouring lengths), so that
    waves are alike and a window over any of them is fair; which one, and the order inside a wave, are drawn.
    """
    count = waves * concurrency
    spaced = [max(1, round(tokens * (0.5 + (i + 0.5) / count))) for i in range(count)]
    strata = [spaced[i * waves : (i + 1) * waves] for i in range(concurrency)]
    for stratum in strata:
        rng.shuffle(stratum)
    drawn: list[int] = []
    for wave in range(waves):
        lengths = [stratum[wave] for stratum in strata]
        rng.shuffle(lengths)
        drawn += lengths
    return tuple(drawn)
