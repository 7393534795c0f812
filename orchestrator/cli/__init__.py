"""The command line: one file per command, ``main`` is the error boundary, ``wiring`` decides what is real.

A command's file declares its words and imports next to nothing. Where the work behind it needs much, that stands in a
file of its own, imported when the command runs: ``sweep`` and ``running``, ``bench`` and ``benching``, ``adopt`` and
``adopting``.
"""
