"""Tests of ``orchestrator.core.flags``."""
