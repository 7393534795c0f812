"""How wide the terminal is."""

from __future__ import annotations

import shutil

LEAST = 80


def width() -> int:
    """Columns to write in: the terminal's (or ``COLUMNS``), at least 80; 80 where there is no terminal."""
    return max(LEAST, shutil.get_terminal_size((LEAST, 24)).columns)
