"""A process to be killed: tells the same endless night, run after run, and says on stdout what is durable.

``python -m tests.store.telling FOLDER``. Each line ``RUN TRIAL LEVEL`` is printed after ``tell`` returned.
"""

from __future__ import annotations

import sys
from pathlib import Path

from orchestrator.core import events
from orchestrator.store import Store
from tests.store.story import Story, whole_night


def say(line: str) -> None:
    """One line, gone to the reader before anything else happens."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Tell until killed."""
    with Store.open(Path(sys.argv[1])) as store:
        say("open")
        for number in range(10_000):
            measuring = False
            for event in whole_night(Story(run=f"{number:04x}")):
                store.tell(event)
                if isinstance(event, events.LevelStarted):
                    measuring = event.purpose == "measure"
                if isinstance(event, events.LevelEnded) and measuring:
                    say(f"{event.run} {event.trial} {event.level}")


if __name__ == "__main__":
    main()
