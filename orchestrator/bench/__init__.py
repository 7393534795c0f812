"""Doors to the engine over HTTP: one question (``probe``) and the load program (``load``)."""
