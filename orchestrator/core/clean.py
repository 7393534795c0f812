"""What a host, an engine or a file says, made safe to print: it must neither drive a terminal nor misread."""

from __future__ import annotations

import re

# Terminal sequences whole (CSI, OSC, other escapes), then what is left of C0 and C1, and marks that reverse the
# direction of text: what a host says must neither drive the terminal nor read differently from what it is.
_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str) -> str:
    """One line without terminal sequences and control characters; a tab or line break becomes a blank."""
    flat = re.sub(r"[\t\r\n]+", " ", text)
    return _CONTROL.sub("", _SEQUENCES.sub("", flat))


def clean_lines(text: str) -> list[str]:
    """Several lines, each ``clean``."""
    return [clean(line.replace("\t", "    ")) for line in text.splitlines()]
