"""One start of the engine: its unit, is the host free for it, is it ready, why did it fail."""
