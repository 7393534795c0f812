"""The model's own oracle: throughput of one wave without walking ticks, and the assumed lengths of such a wave.

Written apart from ``model`` on purpose, so that one can catch a mistake in the other. Request i sits in slot i mod L;
prompts cost their ticks up front; after that rounds are summed between finishes. It agrees with ``model`` to a few
tenths of a percent.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

from orchestrator.sim.dimensions import Dimensions
from orchestrator.sim.settings import Settings
from orchestrator.sim.stage_costs import EMPTY_VISIT, STALL_DEPTH, STALL_DEPTH_0, StageCosts

SHORTEST, LONGEST, SPREAD = 64, 4096, 2000.0


def evaluate(
    settings: Settings, lengths: Sequence[int], *, dimensions: Dimensions | None = None, prompt_tokens: int = 200
) -> float:
    """Aggregate output tok/s (all tokens over the wall) of one wave, all sent at once, one request per length."""
    return sum(lengths) / wall(settings, lengths, dimensions=dimensions, prompt_tokens=prompt_tokens)


def wall(
    settings: Settings, lengths: Sequence[int], *, dimensions: Dimensions | None = None, prompt_tokens: int = 200
) -> float:
    """Seconds from the burst to the last token of such a wave."""
    costs = StageCosts(dimensions or Dimensions(), settings)
    loop = settings.slots
    members: list[list[int]] = [[] for _ in range(loop)]  # round in which each request's last token is computed
    passes = -(-len(lengths) // loop)
    for index, length in enumerate(lengths):
        if settings.pp == 1:
            members[0].append(length - 1)
            continue
        slot, turn = index % loop, index // loop
        later = (len(lengths) - 1 - index) // loop  # prompts that enter this slot afterwards and take a round each
        members[slot].append(turn + later + length - 1)
    elapsed = _prefill_time(costs, len(lengths), prompt_tokens)
    start = passes if settings.pp > 1 else 0
    for end in sorted({last for slot in members for last in slot}):
        rounds = end - max(start, 0)
        if rounds <= 0:
            continue
        batches = [sum(last >= end for last in slot) for slot in members]
        elapsed += rounds * _round_time(costs, batches, prompt_tokens + (start + end) / 2)
        start = end
    return elapsed


def _prefill_time(costs: StageCosts, requests: int, prompt_tokens: int) -> float:
    """All prompts one behind the other through the stages; the last few ticks overlap with decoding."""
    stages = len(costs.stages)
    if stages == 1:
        chunk = max(1, costs.settings.chunk // max(1, prompt_tokens))
        full, rest = divmod(requests, chunk)
        sizes = [chunk] * full + ([rest] if rest else [])
        return sum(costs.prefill(0, prompt_tokens * size).time for size in sizes)
    times = [costs.prefill(r, prompt_tokens).time for r in range(stages)]
    ticks = requests + stages - 1
    return sum(max(times[max(0, i - requests + 1) : i + 1]) + _prefill_stall(costs) for i in range(ticks))


def _prefill_stall(costs: StageCosts) -> float:
    return STALL_DEPTH if costs.settings.depth else STALL_DEPTH_0


def _round_time(costs: StageCosts, batches: Sequence[int], context: float) -> float:
    """One round of the loop with ``batches[j]`` requests in slot j."""
    stages, loop = len(costs.stages), len(batches)
    if stages == 1:
        return costs.decode(0, batches[0], batches[0] * context).time
    table = [[costs.decode(r, b, b * context).time if b else 0.0 for b in batches] for r in range(stages)]
    total = 0.0
    for tick in range(loop):
        on = [batches[(tick - r) % loop] > 0 for r in range(stages)]
        total += max(table[r][(tick - r) % loop] for r in range(stages))
        if not on[0]:
            total += EMPTY_VISIT
        if costs.settings.depth:
            total += STALL_DEPTH if sum(on) >= 2 else 0.0
        else:
            total += STALL_DEPTH_0 if on[0] and on[-1] else 0.0
    return total


def wave_lengths(count: int, mean: float) -> tuple[int, ...]:
    """``count`` output lengths hitting ``mean``: stratified quantiles of a clipped normal, dealt out in strides of 5.

    The order scatters long answers over the slots; with few requests it matters (config B at C=8 moves by a fifth).
    """
    quantiles = [NormalDist().inv_cdf((i + 0.5) / count) * SPREAD for i in range(count)]

    def clipped(location: float) -> list[float]:
        return [min(float(LONGEST), max(float(SHORTEST), location + q)) for q in quantiles]

    low, high = -4 * SPREAD, LONGEST + 4 * SPREAD
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(clipped(middle)) / count < mean else (low, middle)
    ordered = [round(x) for x in clipped((low + high) / 2)]
    if count % 5 == 0:
        return tuple(ordered)
    return tuple(ordered[i * 5 % count] for i in range(count))
