"""SGLang's ``--config FILE``: its settings become words in front of the others, so that the command line wins.

Read like the simple part of YAML that such files consist of: ``name: value`` lines, values plain or in quotes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from orchestrator.sim.arguments import ArgumentsRefused

OPTION = "--config"


class ConfigRefused(ArgumentsRefused):
    """The file is not there or not what SGLang takes: it dies of a Python exception, with exit status 1."""

    exit_status = 1


def with_config(words: Sequence[str]) -> list[str]:
    """The words with those of the file in place of ``--config FILE``. Raises ``ConfigRefused``."""
    if OPTION not in words:
        return list(words)
    at = list(words).index(OPTION)
    if OPTION in words[at + 1 :]:
        raise ConfigRefused("ValueError: Multiple config files specified! Only one allowed.\n")
    if at + 1 == len(words):
        raise ConfigRefused("ValueError: No config file specified after --config flag!\n")
    path = Path(words[at + 1])
    if path.suffix.lower() not in {".yaml", ".yml"}:
        raise ConfigRefused(f"ValueError: Config file must be YAML format, got: {path.suffix}\n")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigRefused(f"ValueError: Config file not found: {path}\n") from None
    except OSError as error:
        raise ConfigRefused(f"{type(error).__name__}: {error}\n") from error
    return [*_words(text), *words[:at], *words[at + 2 :]]


def _words(text: str) -> Iterator[str]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        value = value.strip()
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not colon or not value:
            raise ConfigRefused("ValueError: Config file must contain a dictionary at root level\n")
        if value in {"true", "false"}:
            yield from (f"--{name.strip()}",) if value == "true" else ()
            continue
        yield f"--{name.strip()}"
        yield json.loads(value) if value.startswith('"') else value
