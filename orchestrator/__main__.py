"""``python -m orchestrator``: the same as the ``tune`` command."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from orchestrator.cli.main import run  # noqa: PLC0415 - `bench.load` must start without the command line

    sys.exit(run())


if __name__ == "__main__":
    main()
