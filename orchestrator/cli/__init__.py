"""The command line: one file per command, ``main`` is the error boundary, ``wiring`` decides what is real."""
