"""A run that tells a made-up night from a process of its own, with the real store, mark, transcript and signals.

``python -m tests.cli.watched FOLDER RUN``: it tells the night up to a kill, says ``ready``, and waits. TERM is heeded
as in a run: production goes back, exit 130. ``wait`` for a line on standard input means the end of the night.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from itertools import count
from pathlib import Path

from orchestrator.cli.living import marked
from orchestrator.cli.signals import heeded
from orchestrator.cli.streams import say
from orchestrator.cli.transcript import Transcript
from orchestrator.core.sweep import Objective
from orchestrator.report.progress import Outlook
from orchestrator.store.store import Store
from tests.store.story import Story, until_killed

OUTLOOK = Outlook(configs=3, launches=3, start_s=900.0, measure_s=1500.0, at=Objective(concurrency=32))


def night(folder: Path, run: str) -> None:
    """Tell it."""
    over = threading.Event()
    seconds = count(0.0, 10.0)  # every sign of progress is due, however fast the night is told

    def listen() -> None:
        sys.stdin.readline()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    with Store.open(folder / ".tune") as store, heeded(say) as signals:
        home = store.run_folder(run)
        with (
            marked(home, run, since=time.time()) as mark,
            Transcript(home, OUTLOOK, wall=seconds.__next__) as transcript,
        ):
            signals.on_stop = mark.stopping
            story = Story(run=run)
            for event in until_killed(story):
                store.tell(event)
                transcript.tell(event)
            say("ready")
            while not signals.cancel.requested and not over.is_set():
                time.sleep(0.02)
            ended = story.ended("interrupted", 130) if signals.cancel.requested else story.ended()
            time.sleep(0.5)
            for event in (*story.restored(), ended):
                store.tell(event)
                transcript.tell(event)


def start(folder: Path, run: str = "7f3c") -> subprocess.Popen[str]:
    """Such a process, the first part of its night told."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.watched", str(folder), run],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line == "ready\n", line
    return process


if __name__ == "__main__":
    night(Path(sys.argv[1]), sys.argv[2])
