"""What a config's whole answers are worth, in words: why it cannot win, and where it parts from the reference."""

from __future__ import annotations

from orchestrator.core.clean import clean
from orchestrator.core.history import RunHistory, SanityRow
from orchestrator.core.judge import standing
from orchestrator.core.judge.sanity import Sanity, defects
from orchestrator.report.text import folded

_SHOWN = 60  # characters of an answer that is held against a config


def barred_lines(history: RunHistory, width: int) -> list[str]:
    """One line a reason, for every config that is barred; then what is worth a look."""
    lines: list[str] = []
    for trial, reasons in standing.barred(history).items():
        lines += folded("cannot win", clean(f"{trial}: {'; '.join(reasons)}"), width)
    said: dict[tuple[str, str], None] = {}
    for row, found in standing.sanity(history):
        said.update(dict.fromkeys((row.trial, warning) for warning in found.warnings))
    for trial, warning in said:
        lines += folded("warning", clean(f"{trial}: {warning}"), width)
    return lines


def launch_lines(history: RunHistory, launch: str, width: int) -> list[str]:
    """What one launch answered, close up; nothing where it was not asked."""
    lines: list[str] = []
    for row, found in standing.sanity(history):
        if row.launch == launch:
            lines += folded("answers", clean(found_words(found)), width)
            for reason in found.barred:
                lines += folded("", clean(f"cannot win: {reason}"), width)
            for warning in found.warnings:
                lines += folded("", clean(f"warning: {warning}"), width)
            lines += _example(row, found, width)
    return lines


def found_words(found: Sanity) -> str:
    """``16 whole; 11 of 16 are the reference's to the letter; they part after 212 characters (median), …``."""
    parts = [f"{found.answers} whole"]
    if found.compared:
        parts.append(f"{found.identical} of {found.compared} are the reference's to the letter")
        own = (
            "" if found.reference_prefix is None else f", the reference from itself after {found.reference_prefix:.0f}"
        )
        parts.append(f"the same for {found.prefix:.0f} characters (median){own}")
    return "; ".join(parts)


def _example(row: SanityRow, found: Sanity, width: int) -> list[str]:
    """The beginning of the first answer with something wrong in itself."""
    if not found.barred:
        return []
    for answer in row.answers:
        if answer.error is None and defects(answer) and answer.text.strip():
            shown = answer.text if len(answer.text) <= _SHOWN else f"{answer.text[:_SHOWN]}…"
            return folded("", clean(f'to "{answer.prompt}" it says: {shown}'), width)
    return []
