"""What is asked when whole answers are compared: fixed prompts without a nonce, at temperature 0, all at once.

The same for every sweep and every config, whatever its workload sends, so that answers of two launches are answers to
the same question. Every prompt is sent twice: one that is answered in two ways has been so inside one launch.
"""

from __future__ import annotations

from orchestrator.core.workload import LevelSpec, RequestSpec, Workload

CONCURRENCY = 16  # under load: what goes wrong between requests of one batch shows in no single one
TOKENS = 96  # at most; long enough for two layouts to part ways, some ten seconds of the slowest model
_PROMPTS = (
    ("primes", "List the first twenty prime numbers, then explain in two sentences why 1 is not one of them."),
    ("water-cycle", "Describe the water cycle in one paragraph for a ten-year-old child."),
    ("binary-search", "Write a Python function that finds a number in a sorted list by binary search."),
    ("planets", "Name the planets of the solar system in order of their distance from the sun, with one fact each."),
    ("handshake", "Explain the three-way handshake of TCP step by step."),
    ("leap-years", "State the rule for leap years in the Gregorian calendar and apply it to 1900, 2000 and 2024."),
    ("bread", "Give a recipe for a simple white bread, with amounts in grams."),
    ("translation", "Translate into French and then into German: The train to the coast leaves at half past seven."),
)


def whole_answers(workload: Workload, concurrency: int = CONCURRENCY) -> LevelSpec:
    """``concurrency`` requests at once, the prompts in turn. Time limits are the workload's."""
    asked = [_PROMPTS[index % len(_PROMPTS)] for index in range(concurrency)]
    return LevelSpec(
        workload="sanity",
        concurrency=concurrency,
        repeat=1,
        arrival="burst",
        stagger_s=0.0,
        requests=tuple(
            RequestSpec(index=index, prompt=name, text=text, max_tokens=TOKENS, ignore_eos=False)
            for index, (name, text) in enumerate(asked)
        ),
        temperature=0.0,
        request_timeout_s=workload.request_timeout_s,
        gap_timeout_s=workload.gap_timeout_s,
        purpose="warm-up",
        keep_text=True,
    )
