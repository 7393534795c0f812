"""``--until`` and ``--hours``: tonight's budget instead of the sweep file's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from orchestrator.core.sweep import Sweep

_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")
LONGEST_H = 1000.0


def budget_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Both options, for a command's ``until`` and ``hours``."""
    until = click.option(
        "--until", metavar="HH:MM", help="Production serves again by then; replaces the file's budget."
    )
    hours = click.option(
        "--hours", metavar="N", help="The run takes at most N hours, restore included; replaces the file's budget."
    )
    return until(hours(command))


def within(sweep: Sweep, until: str | None, hours: str | None) -> Sweep:
    """The sweep with the budget of the command line, if that has one. Raises ``InputRefused``."""
    from orchestrator.core.sweep import Budget  # noqa: PLC0415 - start-up time of `tune --help`, here and below
    from orchestrator.errors import InputRefused  # noqa: PLC0415

    if until is None and hours is None:
        return sweep
    faults = []
    if until is not None and hours is not None:
        faults.append("--until and --hours: accepted: one of them")
    if until is not None and not _TIME_OF_DAY.fullmatch(until):
        faults.append(f'--until: read "{until}"; accepted: a time of day such as 07:00')
    length = None if hours is None else _length(hours)
    if hours is not None and length is None:
        faults.append(f'--hours: read "{hours}"; accepted: a number from 0.01 to {LONGEST_H:g}')
    if faults:
        raise InputRefused("the budget cannot be read", faults=faults)
    return replace(sweep, budget=Budget(until=until, hours=length))


def _length(text: str) -> float | None:
    try:
        hours = float(text)
    except ValueError:
        return None
    return hours if 0.01 <= hours <= LONGEST_H else None
