"""The load program: ``python -m orchestrator.bench.load``, a spec on stdin, frames on stdout (``frames``).

It runs as a process of its own and imports the standard library only (and uvloop where it is installed), so that it
starts fast, can run beside the engine, and nothing else of ours delays a stamp. How it keeps its stamps honest:

* connections are opened and requests serialised before the clock starts;
* on a wake-up it stamps, copies the bytes out of one kept buffer and strips the HTTP framing, which says exactly where
  a reply ends; events are split and decoded later, in short slices between wake-ups (``loop``);
* nothing is printed between the first send and the last byte but one progress line a second.
"""
