"""SGLang's command line as the simulated server reads it: argparse, its words and its exit status 2.

Options, choices and defaults of a version come from the flag catalogue. Like SGLang's parser it takes any unique
prefix of an option, so a misspelt prefix may pass and a renamed option may turn ambiguous.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from orchestrator.core.flags.catalogue import FLAGS, OPTIONS
from orchestrator.core.flags.flag import Flag, Option
from orchestrator.core.flags.versions import within
from orchestrator.core.flags.writing import choices_in
from orchestrator.sim.settings import Settings

PROGRAM = "launch_server.py"

_SUFFIXED = re.compile(r"(\d+(?:\.\d+)?)([kKmMgG]?)(i?)")
_UNITS = {"": 0, "k": 1, "m": 2, "g": 3}
_BY_NAME = {flag.name: flag for flag in FLAGS}
_REQUIRED = frozenset({"model-path"})


class ArgumentsRefused(Exception):
    """The words are not accepted. ``text`` is what argparse prints; the exit status is 2."""

    exit_status = 2

    def __init__(self, text: str) -> None:
        super().__init__(text.rstrip().splitlines()[-1])
        self.text = text


class _Parser(argparse.ArgumentParser):
    """argparse that raises instead of leaving the process."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentsRefused(f"{self.format_usage()}{self.prog}: error: {message}\n")


@dataclass(frozen=True, kw_only=True)
class ServerArguments:
    """One parsed command line: every option by SGLang's field name, and what the model makes of them."""

    version: str
    words: tuple[str, ...]
    values: Mapping[str, Any]
    settings: Settings

    def text(self, name: str) -> str | None:
        """A text option, or None."""
        value = self.values.get(name)
        return None if value is None else str(value)

    @property
    def host(self) -> str:
        """Where it listens."""
        return str(self.values["host"])

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.values["port"])

    @property
    def model_name(self) -> str:
        """What clients may call the model."""
        return self.text("served_model_name") or str(self.values["model_path"])


def build_parser(version: str, *, epilog: str | None = None) -> argparse.ArgumentParser:
    """The parser of ``launch_server.py`` of this version; parsing raises ``ArgumentsRefused``."""
    parser = _Parser(
        prog=PROGRAM,
        description="An SGLang-compatible server over a simulated engine.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, version)
    return parser


def add_arguments(parser: argparse.ArgumentParser, version: str) -> None:
    """Declare every option that this version of the catalogue has."""
    taken: set[str] = set()
    rows: tuple[Flag | Option, ...] = (*FLAGS, *OPTIONS)
    for row in rows:
        if isinstance(row, Flag) and row.forms:
            continue  # its spellings are options of their own
        if within(version, row.since, row.removed):
            _add(parser, row, version, taken)


def _add(parser: argparse.ArgumentParser, row: Flag | Option, version: str, taken: set[str]) -> None:
    spellings = [f"--{name}" for name in (row.name, *row.aliases) if name not in taken]
    taken.update((row.name, *row.aliases))
    if not spellings:
        return
    dest = row.name.replace("-", "_")
    if row.kind == "switch":
        parser.add_argument(*spellings, dest=dest, action="store_true")
        return
    meaning = row if isinstance(row, Flag) else _BY_NAME[row.means]
    parser.add_argument(
        *spellings,
        dest=dest,
        type=_TYPES[row.kind.removesuffix("-list")] if not meaning.suffixes else _human_readable_int,
        nargs="+" if row.kind.endswith("-list") else None,
        choices=choices_in(meaning, version) or None,
        default=meaning.default if not isinstance(meaning.default, bool) else None,
        required=row.name in _REQUIRED,
        help=(meaning.note or None) and meaning.note.replace("%", "%%"),
    )


def _human_readable_int(text: str) -> int:
    """SGLang's own type: 1k is 1000, 1Ki is 1024."""
    match = _SUFFIXED.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"Invalid value: {text}")
    digits, unit, binary = match.groups()
    return int(float(digits) * (1024 if binary else 1000) ** _UNITS[unit.lower()])


_TYPES: Mapping[str, Callable[[str], Any]] = {"int": int, "float": float, "str": str, "enum": str}


def parse(
    words: Sequence[str],
    *,
    version: str,
    environment: Mapping[str, str],
    lenient: bool = False,
    epilog: str | None = None,
) -> ServerArguments:
    """The words after ``launch_server``. Raises ``ArgumentsRefused``; ``lenient`` lets unknown words pass.

    ``epilog`` ends what ``--help`` shows.
    """
    parser = build_parser(version, epilog=epilog)
    if lenient:
        namespace, _ = parser.parse_known_args(list(words))
    else:
        namespace = parser.parse_args(list(words))
    values = vars(namespace)
    return ServerArguments(version=version, words=tuple(words), values=values, settings=_settings(values, environment))


def _settings(values: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    """What the model reacts to. Graphs: off altogether, or for decoding only, in either version's spelling."""
    off = any(values.get(name) for name in ("disable_cuda_graph", "disable_decode_cuda_graph"))
    off = off or values.get("cuda_graph_backend_decode") == "disabled"
    sizes = values.get("cuda_graph_bs_decode") or values.get("cuda_graph_bs") or ()
    largest = values.get("cuda_graph_max_bs_decode") or values.get("cuda_graph_max_bs")
    pp = values["pp_size"]
    return Settings(
        pp=pp,
        tp=values["tp_size"],
        ep=values["ep_size"],
        depth=values.get("pp_async_batch_depth") or 0,
        graph=not off,
        graph_max_batch=max(sizes) if sizes else largest,
        micro_batch_cap=values.get("pp_max_micro_batch_size"),
        max_running=values.get("max_running_requests"),
        memory_fraction=values.get("mem_fraction_static"),
        chunked_prefill=values.get("chunked_prefill_size"),
        max_total_tokens=values.get("max_total_tokens"),
        context_length=values.get("context_length") or 262_144,
        kv_value_bytes=1.0 if str(values.get("kv_cache_dtype", "auto")).startswith("fp8") else 2.0,
        partition=_partition(environment.get("SGLANG_PP_LAYER_PARTITION")) if pp > 1 else (),
    )


def _partition(text: str | None) -> tuple[int, ...]:
    """Layers by stage; a text that is no list of counts becomes one that fits no model."""
    if not text:
        return ()
    counts = text.split(",")
    return tuple(int(part) for part in counts) if all(part.strip().isdigit() for part in counts) else (0,)
