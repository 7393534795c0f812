"""Commands and the parsers of their answers."""
