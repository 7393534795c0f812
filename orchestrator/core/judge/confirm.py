"""Is the highest config the best one? Decided on fresh launches; says which launches to buy next, or what came out.

Whatever was picked because its figure was high has a figure that is too high. So the screening (the grid, measured)
only names the *finalists*; what is claimed of them rests on launches made afterwards, every one of which counts.

1. Finalists: the configs whose screening is within reach of the highest, i.e. nearer to it than ``REACH`` standard
   deviations of the difference of two launches; at most ``most_finalists``.
2. A block is one fresh launch of every finalist still followed and of the reference. Differences of logarithms are
   taken inside blocks, so what drifts over a night cancels. The noise of a launch is the residual of the additive
   model config + block over all fresh launches, with its degrees of freedom; never below ``FLOOR``.
3. After the blocks in ``looks`` everything is compared. All intervals of all looks hold together with probability
   1 - ``error``: each is a Student interval at ``error`` / (looks x finalists) (union bound), half of it on either
   side. A finalist whose difference to the leader is wholly below 0 is beaten.
4. ``keep`` follows only so many after a look, by the mean of screening and fresh launches. Those *set aside* are not
   claimed to be worse; nothing is claimed of them.

It ends with a *winner* (beat every rival followed and is above the reference), with *nothing better* (no finalist
followed can be above the reference by ``zone``), with *no clear winner* (they are within ``zone`` of each other, or
the last look is over), or is still *open* when the budget ended before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from types import MappingProxyType
from typing import Literal

from orchestrator.core.judge.stats import mean
from orchestrator.core.judge.student import t_quantile

REACH = 2.0  # equal configs are further apart than this in 1 of 20 pairs
PATIENCE = 8  # blocks before a race may be given up
FLOOR = 0.001  # of a launch's figure: nothing is repeated more exactly than to 0.1 %
LAUNCH_NOISE = 0.03  # assumed while nothing was recorded: starts of one config differ by 1 to 3 %

Outcome = Literal["winner", "no clear winner", "nothing better", "open"]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How a winner is confirmed. ``looks``: numbers of blocks; the last is the most that is bought."""

    looks: tuple[int, ...] = (2, 3, 4, 6, 8, 12, 16, 24, 48)
    most_finalists: int = 20
    keep: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({2: 10, 4: 5, 8: 2}))
    zone: float = 0.02
    error: float = 0.05

    def share(self, look: int) -> float:
        """The part of ``error`` that one look may use up: later looks, which decide the close cases, have more."""
        return self.error * look / sum(self.looks)


def fixed(blocks: int) -> Rules:
    """Exactly so many fresh launches of each finalist, looked at once. Raises ``ValueError`` below two."""
    if blocks < 2:
        raise ValueError("one fresh launch shows no spread: at least two are needed")
    return Rules(looks=(blocks,), most_finalists=4, keep=MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class Contest:
    """What is known at the objective's load point, in tok/s. ``reference`` is a name among both, or None.

    ``fresh``: config -> number of the block, from 1 -> figure of its launch. ``left``: the block in which a config
    failed, or broke a limit. ``noise``: relative standard deviation of a launch's figure, as far as it is known.
    """

    screening: Mapping[str, float]
    fresh: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    reference: str | None = None
    left: Mapping[str, int] = field(default_factory=dict)
    noise: float = LAUNCH_NOISE


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A ratio less 1 (0.05: 5 % more), with the interval that holds for all such gains together."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Buy:
    """Launch these next: they belong to one block. The order inside it is the caller's to shuffle."""

    block: int
    configs: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What came out so far. ``best``: the winner, or those that nothing tells apart, the highest first.

    ``gains`` over the reference are of the last look, of every config followed until then; empty without a reference
    and before the first look. ``ahead``: the leader over each rival it was compared with. ``buy`` is None at the end.
    """

    outcome: Outcome
    best: tuple[str, ...]
    reason: str
    finalists: tuple[str, ...]
    beaten: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    blocks: int = 0  # that the last look rests on
    gains: Mapping[str, Gain] = field(default_factory=dict)
    ahead: Mapping[str, Gain] = field(default_factory=dict)
    noise: float | None = None  # relative standard deviation of a fresh launch, as found
    buy: Buy | None = None


def confirm(contest: Contest, rules: Rules | None = None) -> Confirmation:
    """Replay the contest from its data: the same data give the same answer, whoever asks and however often."""
    rules = rules or Rules()
    chosen = finalists(contest, rules)
    if not chosen:
        return Confirmation(
            outcome="nothing better" if contest.reference else "open",
            best=(),
            reason="no config was measured within reach of the reference"
            if contest.reference
            else "nothing to confirm",
            finalists=(),
        )
    return _Replay(contest, rules, chosen).run()


def finalists(contest: Contest, rules: Rules) -> tuple[str, ...]:
    """Configs that may be best after the screening, the highest first. Once launched afresh, a config stays one."""
    logs = {name: math.log(value) for name, value in contest.screening.items() if value > 0}
    begun = {name for name, blocks in contest.fresh.items() if 1 in blocks}
    rivals = sorted((name for name in logs if name != contest.reference), key=lambda name: (-logs[name], name))
    reach = REACH * math.sqrt(2) * max(contest.noise, FLOOR)
    top = max(logs.values(), default=0.0)
    near = [name for name in rivals if top - logs[name] <= reach][: rules.most_finalists]
    if contest.reference is None and len(near) == 1:
        near = rivals[:2]  # a gain is over something
    if any(2 in blocks for blocks in contest.fresh.values()):  # what the grid gained since comes too late
        near = [name for name in near if name in contest.left]
    return tuple(name for name in rivals if name in near or name in begun)


class _Replay:
    """The looks, one after the other, as far as the data go."""

    def __init__(self, contest: Contest, rules: Rules, chosen: Sequence[str]) -> None:
        self._contest = contest
        self._rules = rules
        self._finalists = tuple(chosen)
        self._alive = list(chosen)
        self._beaten: list[str] = []
        self._aside: list[str] = []
        self._logs = {
            name: {block: math.log(value) for block, value in blocks.items() if value > 0}
            for name, blocks in contest.fresh.items()
        }
        self._seen: dict[str, object] = {}  # of the last look

    def run(self) -> Confirmation:
        rules, reference = self._rules, self._contest.reference
        for look in rules.looks:
            buy = self._missing(look)
            if buy is not None:
                return self._end("open", self._alive, "it was not decided yet", buy)
            self._alive = [name for name in self._alive if self._stays(name, look)]
            if not self._alive:
                return self._end("nothing better", (), "every finalist failed, or broke a limit, on a fresh launch")
            if reference is not None and not self._stays(reference, look):
                return self._end("open", self._alive, f"{reference} failed on a fresh launch: nothing to compare with")
            ended = self._look(look)
            if ended is not None:
                return ended
            self._follow(look)
        return self._last()

    def _stays(self, name: str, look: int) -> bool:
        return self._contest.left.get(name, look + 1) > look

    def _missing(self, look: int) -> Buy | None:
        """The first block that is not whole."""
        for block in range(1, look + 1):
            arms = [*self._alive, *([self._contest.reference] if self._contest.reference else [])]
            wanted = [name for name in arms if self._stays(name, block) and block not in self._logs.get(name, {})]
            if wanted:
                return Buy(block=block, configs=tuple(wanted))
        return None

    def _look(self, look: int) -> Confirmation | None:
        reference, rules = self._contest.reference, self._rules
        noise, df = self._noise(look)
        if df < 1:  # one arm alone: nothing to compare it with
            return self._end("open", self._alive, "a single config and no reference: nothing to compare with")
        half = self._half(look, noise, df)
        means = {name: mean([self._logs[name][block] for block in range(1, look + 1)]) for name in self._alive}
        self._alive.sort(key=lambda name: -means[name])
        leader = self._alive[0]
        ahead = {name: means[leader] - means[name] for name in self._alive[1:]}
        over: dict[str, float] = {}
        if reference is not None:
            base = mean([self._logs[reference][block] for block in range(1, look + 1)])
            over = {name: value - base for name, value in means.items()}
        self._seen = {
            "blocks": look,
            "noise": noise,
            "gains": {name: _gain(value, half) for name, value in over.items()},
            "ahead": {name: _gain(value, half) for name, value in ahead.items()},
        }
        self._beaten += [name for name in self._alive[1:] if ahead[name] - half > 0]
        self._alive = [name for name in self._alive if name not in self._beaten]
        zone = math.log1p(rules.zone)
        if over and all(over[name] + half < zone for name in self._alive):
            words = f"none of those followed is better than {reference} by {100 * rules.zone:g} %"
            return self._end("nothing better", (), words)
        is_better = not over or over[leader] - half > 0
        if is_better and len(self._alive) == 1:
            return self._end("winner", self._alive, f"beat every rival followed, on {look} fresh launches each")
        if (
            not is_better
            and look >= PATIENCE
            and over[leader] + noise * math.sqrt(2 / look) < self._half(rules.looks[-1], noise, df)
        ):
            assert reference is not None
            words = f"a gain over {reference}, if there is one, is smaller than {rules.looks[-1]} launches could show"
            return self._end("no clear winner", [*self._alive, reference], words)
        apart = max((abs(means[a] - means[b]) for a, b in combinations(self._alive, 2)), default=0.0)
        if is_better and apart + half < zone:
            return self._end("no clear winner", self._alive, f"they are within {100 * rules.zone:g} % of each other")
        return None

    def _half(self, look: int, noise: float, df: int) -> float:
        """Half of the interval of a difference at a look."""
        level = self._rules.share(look) / len(self._finalists)
        return t_quantile(1 - level / 2, df) * noise * math.sqrt(2 / look)

    def _noise(self, look: int) -> tuple[float, int]:
        arms = {*self._finalists, *([self._contest.reference] if self._contest.reference else [])}
        rows = {
            name: {block: value for block, value in self._logs.get(name, {}).items() if block <= look} for name in arms
        }
        noise, df = residual_noise({name: row for name, row in rows.items() if row})
        return max(noise, FLOOR), df

    def _follow(self, look: int) -> None:
        """Go on with the most promising only."""
        most = self._rules.keep.get(look)
        if most is None or len(self._alive) <= most:
            return
        screening = self._contest.screening

        def promise(name: str) -> float:
            return mean([math.log(screening[name]), *(self._logs[name][block] for block in range(1, look + 1))])

        ranked = sorted(self._alive, key=lambda name: (-promise(name), name))
        self._aside += ranked[most:]
        self._alive = [name for name in self._alive if name in ranked[:most]]

    def _last(self) -> Confirmation:
        reference, gains = self._contest.reference, self._seen["gains"]
        assert isinstance(gains, dict)
        most = f"{self._rules.looks[-1]} fresh launches each do not tell them apart"
        same = [reference] if reference and not gains[self._alive[0]].low > 0 else []
        return self._end("no clear winner", [*self._alive, *same], most)

    def _end(self, outcome: Outcome, best: Sequence[str], reason: str, buy: Buy | None = None) -> Confirmation:
        return Confirmation(
            outcome=outcome,
            best=tuple(best),
            reason=reason,
            finalists=self._finalists,
            beaten=tuple(self._beaten),
            set_aside=tuple(self._aside),
            buy=buy,
            **self._seen,  # type: ignore[arg-type]
        )


def _gain(difference: float, half: float) -> Gain:
    return Gain(value=math.expm1(difference), low=math.expm1(difference - half), high=math.expm1(difference + half))


def residual_noise(rows: Mapping[str, Mapping[int, float]]) -> tuple[float, int]:
    """Standard deviation and degrees of freedom of what the model row + column leaves unexplained.

    0 degrees (and 0.0) when there is nothing left to judge by.
    """
    return _residual_noise(tuple(tuple(sorted(row.items())) for _, row in sorted(rows.items())))


@lru_cache(maxsize=256)  # a contest is replayed from its beginning whenever it is asked
def _residual_noise(rows: tuple[tuple[tuple[int, float], ...], ...]) -> tuple[float, int]:
    """Least squares by turns: rows and columns are centred until nothing moves."""
    lines: list[list[int]] = []
    columns: dict[int, list[int]] = {}
    cells: list[float] = []
    for row in rows:
        lines.append(list(range(len(cells), len(cells) + len(row))))
        for number, (column, value) in enumerate(row, start=len(cells)):
            columns.setdefault(column, []).append(number)
            cells.append(value)
    df = len(cells) - len(rows) - len(columns) + 1
    if df < 1:
        return 0.0, 0
    lines += columns.values()
    for _ in range(1000):
        if _centre(cells, lines) < 1e-9:
            break
    return math.sqrt(math.fsum(value * value for value in cells) / df), df


def _centre(cells: list[float], lines: Sequence[Sequence[int]]) -> float:
    """Take each line's mean out of it; the largest that was."""
    moved = 0.0
    for line in lines:
        middle = sum([cells[i] for i in line]) / len(line)
        moved = max(moved, abs(middle))
        for i in line:
            cells[i] -= middle
    return moved
