"""What the published table of the original run can tell, and what would: the verdict at every level, the experiment.

    python benchmarks/original_judged.py

Two configurations of Kimi K2.6, pp 8 tp 1, each level run once as one wave of answers as long as the model liked. Below
it a constructed example (made up, not measured) of whole throughput falling while steady throughput rises.
"""

from __future__ import annotations

import sys

from orchestrator.core.judge.figures import figures
from orchestrator.core.judge.variance import Noise
from orchestrator.core.judge.verdict import Compared, Sample, compare
from orchestrator.core.results import LevelFigures, RequestRecord

# Output tok/s of all tokens / wall: concurrency -> before (graphs off, depth 0), after (graphs on, depth 8).
PUBLISHED: dict[int, tuple[float | None, float]] = {
    1: (24.7, 34.6),
    4: (68.3, 64.0),
    8: (95.6, 81.7),
    16: (None, 156.4),
    32: (None, 248.1),
}
WALL_S = {4: 184.1, 8: 248.6, 16: 305.8, 32: 378.7}  # of the second configuration
MOST_TOKENS = 4096  # an answer was cut there
BEFORE, AFTER = {"cuda-graph": False, "pp-async-batch-depth": 0}, {"cuda-graph": True, "pp-async-batch-depth": 8}
UNKNOWN = Noise(between=None, within=None)  # nothing was launched twice


def published() -> None:
    """The table, the range in which the live streams' rate may have been, the verdict."""
    print("The original run: Kimi K2.6, pp 8 tp 1, output tok/s (all tokens / wall).")
    print("before: graphs off, depth 0. after: graphs on, depth 8. live: what the streams made while all ran, from")
    print("equally long answers to one that ran to its 4096th token.\n")
    print(f"{'C':>3}{'before':>9}{'after':>8}{'change':>9}{'live (after)':>16}   verdict")
    reason, wanted = "", ""
    for concurrency, (before, after) in PUBLISHED.items():
        wall = WALL_S.get(concurrency)
        live = "" if wall is None else f"{after:.0f} to {concurrency * MOST_TOKENS / wall:.0f}"
        if before is None:
            print(f"{concurrency:>3}{'not run':>9}{after:>8.1f}{'':>9}{live:>16}   no comparison")
            continue
        found = compare(
            Sample(name="after", whole=((after,),), settings=AFTER),
            Sample(name="before", whole=((before,),), settings=BEFORE),
            UNKNOWN,
            UNKNOWN,
        )
        reason, wanted = found.whole.reason, found.experiment or ""
        said = f"{after / before - 1:+.1%}"
        print(f"{concurrency:>3}{before:>9.1f}{after:>8.1f}{said:>9}{live:>16}   {found.whole.word}")
    print("\nwhy: " + ";\n     ".join(reason.split("; ")))
    print(f"what would tell: {wanted}\n")


def constructed(gap_full_s: float, gap_alone_s: float) -> LevelFigures:
    """Made up: four streams, eight answers of 100 tokens, but the last one of 400 that ends alone."""
    records = []
    for index in range(8):
        wave, tokens = index // 4, 400 if index == 7 else 100
        began = wave * 100 * gap_full_s
        full = [began + gap_full_s * number for number in range(1, 101)]
        stamps = (*full, *(full[-1] + gap_alone_s * number for number in range(1, tokens - 99)))
        records.append(
            RequestRecord(
                index=index,
                prompt="constructed",
                max_tokens=tokens,
                sent_s=began,
                end_s=stamps[-1],
                stamps=stamps,
                output_tokens=tokens,
            )
        )
    return figures(4, records)


def example() -> bool:
    """Whole falls while steady rises; whether it came out so."""
    before, after = constructed(0.040, 0.030), constructed(0.036, 0.040)
    noise = Noise(between=4e-4, within=0.0, launch=4e-4, between_df=20, source="an assumed 2 % a launch")
    sides = [
        Sample(name=name, steady=((level.steady_tok_s or 0,),), whole=((level.whole_tok_s or 0,),), lengths="same")
        for name, level in (("after", after), ("before", before))
    ]
    found = compare(sides[0], sides[1], noise, noise)
    print("CONSTRUCTED, not measured: four streams, eight answers, the last four times as long as the others.")
    print("after: a tenth less between tokens while all streams run, a third more when one is left.\n")
    for name, one in (("steady", found.steady), ("whole", found.whole)):
        print(f"{name:>7}  {_said(one)}")
    print(f"\nholds in both: {'yes' if found.holds_in_both else 'no'}; noise: {noise.source}")
    return (found.steady.word, found.whole.word) == ("better", "worse")


def _said(found: Compared) -> str:
    if found.gain is None:
        return found.word
    return f"{found.gain.value:+.1%} (95 %: {found.gain.low:+.1%} … {found.gain.high:+.1%})  {found.word}"


def main() -> int:
    """Print both; 1 when the constructed example does not show what it was made for."""
    published()
    return 0 if example() else 1


if __name__ == "__main__":
    sys.exit(main())
