"""Was the client able to measure what it says: a level that it could not keep up with is *client-bound*.

A stamp that is taken late is a wrong TTFT and a wrong gap, and a stream whose next request leaves late is a lower
throughput than the engine's. The load program notes how late it was (``LoadOutcome.client``), in seconds:

receive_lag_*  from the kernel's stamp of the newest bytes to our own, a sample of the reads
away_*         how late a timer's beat was answered, a hundred a second: what a token would have met that came then
send_late_*    from the moment a request was due (its stream's last answer ended) to its send
cpu_share      CPU time of its busiest process / the level's time
ceiling_events_s  not a time: token events a second that one of its processes takes on this machine (the self-check)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from orchestrator.core.results import LevelFigures

CPU_SHARE = 0.85  # of a core: beyond, a process spends its time queueing, and lags grow without bound
CEILING_SHARE = 0.7  # of the token events a second that this machine's self-check reached with every core free
LAG_SHARE = 0.5  # of the median gap between token events: at p99 a gap is then off by as much
SEND_SHARE = 0.05  # of a mean request's time: so much of the throughput may be missing
LEAST_LAG_S = 0.005  # what a busy machine's scheduler does to anybody


def client_bound(level: LevelFigures, client: Mapping[str, float]) -> str | None:
    """Why the client could not keep up with ``level``, in words; None when it could, or noted nothing about itself."""
    share = client.get("cpu_share", 0.0)
    if share > CPU_SHARE:
        return f"client-bound: the load program took {share:.0%} of a core"
    rate = _events_s(level)
    top = client["ceiling_events_s"] * client.get("workers", 1.0) if "ceiling_events_s" in client else None
    if top is not None and rate is not None and rate > CEILING_SHARE * top:
        return f"client-bound: {rate:,.0f} events a second, and this machine's client ends at {top:,.0f}"
    lag = max(client.get("receive_lag_p99_s", 0.0), client.get("away_p99_s", 0.0))
    if level.gaps is not None and lag > max(LEAST_LAG_S, LAG_SHARE * level.gaps.p50):
        return (
            f"client-bound: its stamps were {lag * 1000:.1f} ms late at p99,"
            f" the median gap between tokens is {level.gaps.p50 * 1000:.1f} ms"
        )
    late, busy = client.get("send_late_p99_s", 0.0), _request_s(level)
    if busy is not None and late > max(LEAST_LAG_S, SEND_SHARE * busy):
        return f"client-bound: requests left {late * 1000:.1f} ms late at p99, of {busy:.2f} s that one takes"
    return None


def believed(level: LevelFigures, client: Mapping[str, float]) -> LevelFigures:
    """``level``, or the same as *invalid* with the reason when the client could not keep up with it."""
    why = client_bound(level, client) if level.state == "measured" else None
    return level if why is None else replace(level, state="invalid", reason=why, passing=True)


def _events_s(level: LevelFigures) -> float | None:
    """Token events a second over the level: each answer has one more than it has gaps."""
    if level.gaps is None or level.wall_s <= 0:
        return None
    return (level.gaps.count + level.outcomes.get("ok", 0)) / level.wall_s


def _request_s(level: LevelFigures) -> float | None:
    """Mean time of a request (s), by Little's law."""
    if level.held_concurrency is None or level.requests == 0:
        return None
    return level.held_concurrency * level.wall_s / level.requests
