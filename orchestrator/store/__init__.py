"""What was measured, in SQL and in files. ``Store`` is the door; nothing else here is for other floors."""

from orchestrator.store.store import Store

__all__ = ["Store"]
