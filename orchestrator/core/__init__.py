"""Decisions, as functions of values. Nothing here opens a file, a socket or a clock."""
