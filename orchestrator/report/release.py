"""Deploys, releases and the state of a service as text and as JSON. Strings only."""

from __future__ import annotations

import json
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from orchestrator.core import events, release
from orchestrator.core.clean import clean
from orchestrator.core.ports import Activity
from orchestrator.core.release import Found, Release

WIDTH = 80


def proposal_text(
    *,
    name: str,
    unit: str,
    before: int | None,
    after: int,
    changes: Sequence[release.FlagChange],
    diff: Sequence[str],
    drop_ins: Sequence[str],
    notes: Sequence[str],
    activity: Activity | None,
    starts_s: Sequence[float],
    healthy_s: float,
    returns_to: int,
    engine: str,
    engine_before: str,
) -> str:
    """What a deploy would change, what it costs, and what happens when it fails."""
    lines = [f"{clean(name)} · {clean(unit)} · release {before or 'found'} → {after}"]
    if engine_before and engine != engine_before:
        lines += [f"  - engine {clean(engine_before)}", f"  + engine {clean(engine)}"]
    lines += [f"  {clean(line)}" for change in changes for line in release.change_in_words(change)]
    if not changes:
        lines.append("  no flag changes")
    if diff:
        lines += ["  unit", *(f"    {clean(line)}" for line in diff)]
    if drop_ins:
        lines += _folded(f"drop-ins stay in force: {', '.join(drop_ins)}")
    for note in notes:
        lines += _folded(f"note: {note}")
    lines += _folded(traffic_words(activity))
    lines += _folded(downtime_words(starts_s))
    lines += _folded(
        f"the gate: its own answer to a request of ours, then {healthy_s:.0f} s up; back to release {returns_to} by "
        "itself if not"
    )
    return "\n".join(lines)


def traffic_words(activity: Activity | None) -> str:
    """What production serves now; None: it does not run."""
    if activity is None:
        return "production does not run now: nobody is cut off"
    if activity.is_idle:
        return "now serving nothing: no request running, none queued"
    running = "an unknown number of" if activity.running is None else str(activity.running)
    queued = "an unknown number" if activity.queued is None else str(activity.queued)
    return f"now serving {running} requests, {queued} queued"


def downtime_words(starts_s: Sequence[float]) -> str:
    """From recorded starts of this service; without any, that is said."""
    if not starts_s:
        return "down until it is ready: no start of it was recorded, so how long is not known"
    usual, worst = statistics.median(starts_s), max(starts_s)
    return f"down for about {_time(usual)} (worst seen {_time(worst)})"


def event_text(event: events.Event) -> str | None:
    """What happens in a deploy, one line each; None for what is not worth one."""
    match event:
        case events.Checking():
            return f"  {clean(event.what)}"
        case events.Note():
            return f"  {clean(event.text)}"
        case events.LaunchPhase():
            return f"  {clean(event.launch)}: {clean(event.phase)} ({event.elapsed_s:.0f} s)"
        case events.RestoreBegan():
            return f"  returning: {clean(event.why)}"
        case events.Restored():
            return f"  {clean(event.detail)}{'' if event.verified else ' (not verified)'}"
        case _:
            return None


def releases_text(name: str, found: Found) -> str:
    """The releases of a service, the newest first."""
    if not found.releases:
        return f"{clean(name)}: nothing was deployed so far; {clean(found.path) or 'no unit'} is as it was found"
    current, good = release.in_place(found.releases), release.last_good(found.releases)
    lines = [f"{clean(name)} · {len(found.releases)} release{'s' if len(found.releases) != 1 else ''}"]
    for one in reversed(found.releases):
        marks = [word for word, at in (("in place", current), ("last good", good)) if at is one]
        marked = f"  ({', '.join(marks)})" if marks else ""
        lines.append(f"  {one.number:>3}  {one.at}  {outcome_words(one)}{marked}")
        said = [clean(part) for part in (one.who, one.engine and f"engine {one.engine}", one.source, one.why) if part]
        lines += _folded(" · ".join(said), 7)
        if one.detail and one.outcome != "adopted":
            lines += _folded(clean(one.detail), 7)
    return "\n".join(lines)


def outcome_words(one: Release) -> str:
    """``deployed``, ``failed: rolled back`` …, and what it is a copy of."""
    words = {"rolled back": "failed: rolled back", "failed": "failed: left in place"}.get(one.outcome, one.outcome)
    return f"{words}{f', a copy of {one.copy_of}' if one.copy_of else ''}"


def status_text(name: str, host: str, unit: str, found: Found, drift: Sequence[str], activity: Activity | None) -> str:
    """One service: what runs since when, which release, what differs from it, who holds it."""
    current = release.in_place(found.releases)
    state = found.unit.active_state
    since = f" since {clean(found.since)}" if found.since and found.unit.is_running else ""
    lines = [f"{clean(name)} · {clean(unit)} on {clean(host)}", f"  unit      {clean(state)}{since}"]
    if found.enabled == "disabled":
        lines.append("  boot      not enabled: a reboot leaves the host without it")
    lines.append(f"  release   {f'{current.number}, {outcome_words(current)}' if current else 'none: as it was found'}")
    if release.is_unverified(found.releases):
        lines.append("  verified  no: the host returned to it by itself, and no gate has run since")
    verdict = list(drift) if current else ["not known: nothing was deployed so far"]
    lines += [f"  {'drift' if index == 0 else '':<9} {clean(line)}" for index, line in enumerate(verdict or ["none"])]
    if found.unit.is_running:
        lines.append(f"  requests  {traffic_words(activity)}")
    lines.append(f"  held      {record_words(found)}")
    word = found.restored
    if word is not None and word.get("phase") in {"restored", "failed", "restoring"}:
        lines += _folded(f"the host's last word: {word['at']}: {word['phase']}: {clean(str(word['detail']))}", 2)
    return "\n".join(lines)


def record_words(found: Found) -> str:
    """Who holds the service."""
    held = found.record
    if held is None:
        return "by nobody"
    ended = " (a reboot has ended that)" if held.rebooted else ""
    return (
        f"by {clean(held.owner)}, run {held.run} ({clean(held.purpose)}), since {held.since} until {held.deadline}, "
        f"production {'is away' if held.state == 'temporary' else 'is in place'}{ended}"
    )


def diff_text(name: str, found: Found) -> str:
    """Unit file against the release in place."""
    current = release.in_place(found.releases)
    if current is None:
        return f"{clean(name)}: nothing was deployed so far, so there is nothing to compare with"
    lines = release.text_diff(current.text, found.text)
    if current.digest == found.digest:
        return f"{clean(name)}: {clean(found.path)} is release {current.number}"
    shown = [f"  {clean(line)}" for line in lines] or ["  only comments, or values that are not shown, differ"]
    return "\n".join([f"{clean(name)}: {clean(found.path)} is not release {current.number}", *shown])


def as_json(found: Found, **more: Any) -> str:
    """The service as it stands: fields of ``Found`` and ``Release`` by their names, and ``more``."""
    good, current = release.last_good(found.releases), release.in_place(found.releases)
    content = asdict(found)
    content["audit"] = [_line(line) for line in found.audit]
    content["last_good"] = good.number if good else None
    content["in_place"] = current.number if current else None
    return json.dumps({**content, **more}, indent=1, default=_plain)


def _line(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:  # torn by a full disk
        return text


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _folded(text: str, indent: int = 2) -> list[str]:
    return textwrap.wrap(
        clean(text),
        WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
