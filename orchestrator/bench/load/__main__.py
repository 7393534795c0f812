"""``python -m orchestrator.bench.load``: read a spec, run the level, write its records (``frames``).

Ends with 0 after a ``done`` frame; with 130 when told to stop (TERM, INT, or stdin closed by a driver that went away);
with 2 for a spec that cannot be read. Sockets are closed in every case, so the engine aborts what it was doing for us.
"""

from __future__ import annotations

import gc
import os
import sys
from time import monotonic

from orchestrator.bench.load.frames import LoadSpec, NotAFrame, spec_from_line
from orchestrator.bench.load.worker import Stopped, run_share, stop_on_signals
from orchestrator.bench.load.workers import done_frame, run_shares, shares

STOPPED = 130
REFUSED = 2


def main() -> int:
    """Run one level; the exit code."""
    try:
        spec = spec_from_line(sys.stdin.buffer.readline())
    except NotAFrame as wrong:
        sys.stderr.write(f"{wrong}\n")
        return REFUSED
    # Collections would pause every stream for milliseconds; nothing here makes cycles in number.
    gc.disable()
    try:
        stop_on_signals()
        _run(spec)
    except Stopped:
        return STOPPED
    except BrokenPipeError:  # the driver went away: nothing is left to tell, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return STOPPED
    return 0


def _run(spec: LoadSpec) -> None:
    out = sys.stdout.buffer
    dealt = shares(spec)
    if len(dealt) > 1:
        run_shares(dealt, out)
        return
    out.write(done_frame([run_share(dealt[0], out, sys.stdin.fileno(), monotonic)]))
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
