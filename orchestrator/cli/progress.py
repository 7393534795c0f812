"""What a person sees while a run goes on: a live board on a terminal, one line an event anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import tzinfo
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from orchestrator.cli.streams import let_go
from orchestrator.core import events
from orchestrator.report.failure import below
from orchestrator.report.progress import Board, Outlook
from orchestrator.report.sentences import sentence
from orchestrator.report.text import in_ascii, moment

LINE_EVERY_S = 30.0  # a running level, as a line
REDRAW_EVERY_S = 0.1  # the live board, at most

_STYLES = {"✓": "green", "✗": "red", "▶": "bold"}

# Spoken about in the plan, before the run.
_UNSAID = (events.TrialPlanned,)


class _Console(Console):
    """A console whose reader may go away: the run goes on, unseen, and still puts production back."""

    def on_broken_pipe(self) -> None:
        """Say nothing more."""
        self.quiet = True


class Progress:
    """Satisfies ``ports.Listen``; a context manager that puts the terminal back.

    ``plain``, a stream that is no terminal and a dumb terminal mean lines. ``wall`` is real time (s): it only
    limits how often something is drawn, so that a simulated night, over in a moment, does not fill the screen.
    """

    def __init__(
        self,
        outlook: Outlook,
        *,
        plain: bool = False,
        stream: TextIO | None = None,
        width: int | None = None,
        zone: tzinfo | None = None,
        wall: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream if stream is not None else sys.stdout
        self._board = Board(outlook=outlook, zone=zone)
        self._zone = zone
        self._wall = wall
        self._console = _Console(file=self._stream, width=width, highlight=False, markup=False, emoji=False)
        self._lines = plain or not self._console.is_terminal or self._console.is_dumb_terminal
        self._live: Live | None = None
        self._drawn_at = float("-inf")
        self._said_at: dict[str, tuple[float, float]] = {}
        self._last_phase = ""
        self._unseen = False
        self._recalling = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the live board away; twice is harmless."""
        if self._live is not None:
            live, self._live = self._live, None
            with suppress(OSError):  # the terminal is gone: nothing to put back
                live.stop()

    @contextmanager
    def recalling(self) -> Iterator[None]:
        """What is told within it happened before anybody watched: what stays on screen is shown, then the board."""
        self._recalling = True
        try:
            yield
        finally:
            self._recalling = False
        if not self._lines and not self._unseen and self._board.is_under_way:
            self._show()

    def tell(self, event: events.Event) -> None:
        """Show it. A reader or terminal that went away never ends a run: it goes on unseen."""
        finished = self._board.hear(event)
        if self._unseen:
            return
        try:
            if self._lines:
                self._say(event, finished)
            else:
                self._draw(event, finished)
        except OSError:
            self._unseen = True
            let_go(self._stream)

    def _say(self, event: events.Event, finished: str | None) -> None:
        warm_up = isinstance(event, events.LevelEnded) and not self._board.measuring
        if warm_up or isinstance(event, _UNSAID) or not self._is_due(event):
            return
        words = finished.strip() if finished and isinstance(event, events.LaunchEnded) else sentence(event)
        at = moment(event.at, self._zone)
        lines = [words]
        if isinstance(event, events.LaunchFailed):
            lines += [f"  {line}" for line in below(event)[1:]]
        self._stream.write("".join(f"{at:%H:%M:%S} {self._fit(line)}\n" for line in lines))
        self._stream.flush()

    def _is_due(self, event: events.Event) -> bool:
        """A phase when it changes, a running level now and then, everything else always."""
        if isinstance(event, events.LaunchPhase):
            phase = f"{event.launch} {event.phase} {event.detail}"
            fresh, self._last_phase = phase != self._last_phase, phase
            return fresh
        if isinstance(event, events.LevelStarted):
            self._said_at[event.trial] = (moment(event.at).timestamp(), self._wall())
        if not isinstance(event, events.LevelProgress):
            return True
        now, wall = moment(event.at).timestamp(), self._wall()
        said, said_wall = self._said_at.get(event.trial, (now, wall))
        if now - said < LINE_EVERY_S or wall - said_wall < 1.0:
            self._said_at.setdefault(event.trial, (now, wall))
            return False
        self._said_at[event.trial] = (now, wall)
        return True

    def _draw(self, event: events.Event, finished: str | None) -> None:
        if isinstance(event, events.RunEnded):
            self.close()
            return
        self._redraw(event)  # first, so that what stays on screen does not push an old board up
        if isinstance(event, events.Surveyed):
            self._print(self._board.title)
        if finished is not None:
            self._print(finished)
        if isinstance(event, events.Checking | events.Note | events.Restored):
            self._print(f"  {sentence(event)}")

    def _redraw(self, event: events.Event) -> None:
        if self._recalling:
            return
        if self._live is None and not isinstance(event, events.LaunchStarted | events.RestoreBegan):
            return  # nothing runs yet, and a question may still be asked on this terminal
        wall = self._wall()
        if isinstance(event, events.LevelProgress | events.LaunchPhase) and wall - self._drawn_at < REDRAW_EVERY_S:
            return
        self._drawn_at = wall
        self._show()

    def _show(self) -> None:
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        lines = [self._styled(line, no_wrap=True) for line in self._board.lines(self._width)]
        self._live.update(Group(*lines), refresh=True)

    @property
    def _width(self) -> int:
        return max(40, self._console.width)

    def _print(self, line: str) -> None:
        self._console.print(self._styled(line), soft_wrap=True)

    def _styled(self, line: str, *, no_wrap: bool = False) -> Text:
        """Colour says nothing that the marks do not; rich leaves it out where NO_COLOR or the terminal says so."""
        style = next((style for mark, style in _STYLES.items() if line.lstrip().startswith(mark)), "")
        return Text(self._fit(line), style=style, no_wrap=no_wrap, overflow="ellipsis" if no_wrap else None)

    def _fit(self, text: str) -> str:
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        try:
            text.encode(encoding)
        except (UnicodeEncodeError, LookupError):
            return in_ascii(text)
        return text
