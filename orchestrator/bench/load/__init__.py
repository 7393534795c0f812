"""The load program: ``python -m orchestrator.bench.load``, a spec on stdin, frames on stdout (``frames``).

It runs as a process of its own (for very many streams as several: ``workers``) and imports only the standard library:
it starts fast, can run beside the engine, and nothing else of ours delays a stamp. What keeps its stamps honest:

* connections are opened and requests serialised before the clock starts;
* on a wake-up it stamps, copies the bytes out of one kept buffer and looks for the end; framing is stripped and events
  are decoded later, in short slices when no socket is ready (``loop``);
* the kernel stamps what arrives, and a sample of the reads asks it: how late we were is known (``lag``);
* nothing is printed between the first send and the last byte but one progress line a second.
"""
