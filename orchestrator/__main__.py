"""``python -m orchestrator``: the same as the ``tune`` command."""

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    try:
        from orchestrator.cli.main import run  # noqa: PLC0415 - `bench.load` must start without the command line
    except KeyboardInterrupt:  # before there is anybody to say more
        sys.exit(130)
    sys.exit(run())


if __name__ == "__main__":
    main()
