"""How numbers, times and tables look in text. Nothing from a host or an engine reaches a terminal uncleaned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from rich.cells import cell_len

from orchestrator.core.clean import clean
from orchestrator.core.config import FlagValue

ABSENT = "–"


def rate(tok_s: float | None) -> str:
    """tok/s to three figures: 8.34, 37.6, 362."""
    if tok_s is None:
        return ABSENT
    return f"{tok_s:.2f}" if tok_s < 9.995 else f"{tok_s:.1f}" if tok_s < 99.95 else f"{tok_s:,.0f}"


def watts(value: float | None) -> str:
    """Whole watts."""
    return ABSENT if value is None else f"{value:.0f}"


def change(value: float, reference: float) -> str:
    """``value`` over ``reference`` as ``+43.6 %``. ``reference`` must not be 0."""
    return f"{percent(value / reference - 1)} %"


def percent(ratio: float) -> str:
    """A ratio less 1 as ``+5.1``; nought has no sign."""
    said = f"{100 * ratio:+.1f}"
    return "0.0" if said in {"+0.0", "-0.0"} else said


def seconds(value: float | None) -> str:
    """Seconds as one reads them off a result: 0.043, 1.52, 371."""
    if value is None:
        return ABSENT
    return f"{value:.3f}" if value < 0.9995 else f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def span(value: float) -> str:
    """A length of time for people: ``48 s``, ``6 min 52 s``, ``24 min``, ``6 h 10 min``."""
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 3600:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: int, noun: str) -> str:
    """``1 config``, ``8 configs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def value_text(value: FlagValue) -> str:
    """A setting's value as one writes it: switches as on and off, lists with commas."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return str(value)


def moment(at: str, zone: tzinfo | None = None) -> datetime:
    """An event's or a row's time of day in ``zone`` (None: this machine's)."""
    return datetime.fromisoformat(at).astimezone(zone)


def phases(parts: Mapping[str, float] | None) -> str:
    """``load 371 · graphs 33 · warm-up 8`` (s)."""
    return " · ".join(f"{clean(name)} {value:.0f}" for name, value in (parts or {}).items())


def pad(text: str, width: int) -> str:
    """Left-aligned in ``width`` columns; longer text is kept whole."""
    return text + " " * (width - cell_len(text))


def pad_left(text: str, width: int) -> str:
    """Right-aligned in ``width`` columns; longer text is kept whole."""
    return " " * (width - cell_len(text)) + text


def with_mark(text: str, mark: str, width: int) -> list[str]:
    """``text`` with ``mark`` at the right edge; on a line of its own when both do not fit."""
    if not mark:
        return [text]
    if cell_len(text) + 2 + cell_len(mark) <= width:
        return [pad(text, width - cell_len(mark)) + mark]
    return [text, pad_left(mark, width)]


def folded(label: str, text: str, width: int, *, indent: int = 2, hang: int = 17) -> list[str]:
    """``label`` and ``text`` beside it, the text folded between words inside ``width``."""
    lines: list[str] = []
    start = pad(" " * indent + label, hang)
    room = max(20, width - max(hang, cell_len(start)))
    for line in _fold(text, room):
        lines.append(((start if not lines else " " * cell_len(start)) + line).rstrip())
    return lines


def _fold(text: str, room: int) -> list[str]:
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def listed(parts: Sequence[str], width: int, *, indent: int) -> list[str]:
    """``one · two · three``, folded between parts, never inside one."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + 3 + cell_len(part) <= width:
            lines[-1] += f" · {part}"
        else:
            lines.append(" " * indent + part)
    return lines


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table: a cell for each column, each of one or more lines; or ``instead``, over all columns."""

    label: str
    cells: tuple[tuple[str, ...], ...] = ()
    instead: str | None = None


def table(head: str, columns: Sequence[str], rows: Sequence[Row], width: int) -> list[str]:
    """A table of right-aligned columns. Columns that do not fit into ``width`` follow as a second whole block.

    A label too long for its column stands on a line of its own. Nothing is ever cut.
    """
    sizes = [_size(name, [row.cells[i] for row in rows if row.cells]) for i, name in enumerate(columns)]
    label = 2 + max(cell_len(text) for text in (head, *(row.label for row in rows)))
    if 2 + label + sum(sizes) > width:
        label = min(label, max(26, width // 3))
    lines: list[str] = []
    for chosen in _blocks(sizes, width - label - 2):
        if lines:
            lines.append("")
        titles = "".join(pad_left(columns[i], sizes[i]) for i in chosen)
        lines += [f"  {line}".rstrip() for line in _beside(head, [titles], label)]
        for row in rows:
            lines += [f"  {line}".rstrip() for line in _beside(row.label, _cells(row, chosen, sizes), label)]
    return lines


def _size(name: str, cells: Sequence[tuple[str, ...]]) -> int:
    return 2 + max(cell_len(text) for text in (name, *(line for cell in cells for line in cell)))


def _blocks(sizes: Sequence[int], room: int) -> list[list[int]]:
    blocks: list[list[int]] = [[]]
    for index, size in enumerate(sizes):
        if blocks[-1] and sum(sizes[i] for i in blocks[-1]) + size > room:
            blocks.append([])
        blocks[-1].append(index)
    return blocks


def _cells(row: Row, chosen: Sequence[int], sizes: Sequence[int]) -> list[str]:
    if row.instead is not None:
        return [f"  {row.instead}"]
    height = max(len(row.cells[i]) for i in chosen)
    return [
        "".join(pad_left(row.cells[i][number] if number < len(row.cells[i]) else "", sizes[i]) for i in chosen)
        for number in range(height)
    ]


def _beside(label: str, lines: Sequence[str], size: int) -> list[str]:
    """``label`` left of the lines, or above them when it is longer than its column."""
    if cell_len(label) + 2 > size:
        return [label, *(" " * size + line for line in lines)]
    return [pad("" if number else label, size) + line for number, line in enumerate(lines)]


_ASCII: Mapping[str, str] = {"✓": "+", "✗": "x", "▶": ">", "·": "|", "–": "-", "×": "x", "…": "..."}


def in_ascii(text: str) -> str:
    """For a terminal that cannot show more."""
    for mark, plain in _ASCII.items():
        text = text.replace(mark, plain)
    return text.encode("ascii", "replace").decode()
