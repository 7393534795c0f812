"""What a check-up found, as text and as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence

from orchestrator.core.clean import clean
from orchestrator.core.doctor import Finding

WIDTH = 80
_INDENT = " " * 12


def doctor_text(found: Mapping[str, Sequence[Finding]]) -> str:
    """A block for each host, its findings by group, each trouble with its remedy; the count at the end."""
    blocks = [_host(name, findings) for name, findings in found.items()]
    every = [finding for findings in found.values() for finding in findings]
    closing = f"{_count(len(found), 'host')}: {_tally(every)}. Nothing was changed."
    return "\n\n".join([*blocks, closing])


def doctor_json(found: Mapping[str, Sequence[Finding]]) -> str:
    """``{"hosts": {NAME: [{"group", "level", "text", "remedy"}, …]}, "faults": n, "warnings": n}``"""
    every = [finding for findings in found.values() for finding in findings]
    content = {
        "hosts": {
            name: [{"group": one.group, "level": one.level, "text": one.text, "remedy": one.remedy} for one in findings]
            for name, findings in found.items()
        },
        "faults": sum(one.level == "fault" for one in every),
        "warnings": sum(one.level == "warning" for one in every),
    }
    return json.dumps(content, indent=1)


def _host(name: str, findings: Sequence[Finding]) -> str:
    lines = [f"{clean(name)}: {_tally(findings)}"]
    for group in dict.fromkeys(finding.group for finding in findings):
        lines.append(f"  {clean(group)}")
        for finding in findings:
            if finding.group == group:
                lines += _finding(finding)
    return "\n".join(lines)


def _finding(finding: Finding) -> list[str]:
    lines = _folded(clean(finding.text), f"    {finding.level:<7} ")
    if finding.remedy is not None and finding.level != "ok":
        lines += _folded(f"try: {clean(finding.remedy)}", _INDENT)
    return lines


def _folded(text: str, first: str) -> list[str]:
    """At blanks only: a path or a command is never cut."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _tally(findings: Sequence[Finding]) -> str:
    faults = sum(finding.level == "fault" for finding in findings)
    warnings = sum(finding.level == "warning" for finding in findings)
    told = [_count(number, noun) for number, noun in ((faults, "fault"), (warnings, "warning")) if number]
    return ", ".join(told) or "all is well"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
