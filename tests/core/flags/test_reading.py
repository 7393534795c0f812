"""Command lines back to settings: nothing is guessed, nothing is lost."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.core.config import FlagValue
from orchestrator.core.flags import ParsedArgv, UnknownWords, from_argv
from orchestrator.core.flags.catalogue import FLAGS, OPTIONS
from orchestrator.core.flags.flag import Flag, Option
from orchestrator.core.flags.reading import resolve
from orchestrator.core.flags.versions import within


def _read(text: str, version: str | None = None) -> ParsedArgv:
    return from_argv(shlex.split(text), version)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("--tensor-parallel-size 2", {"tp-size": 2}),
        ("--tp-size=2 --pp-size 4", {"tp-size": 2, "pp-size": 4}),
        ("--ep 8", {"ep-size": 8}),
        ("--disable-cuda-graph", {"cuda-graph": False}),
        ("--disable-decode-cuda-graph", {"decode-cuda-graph": False}),
        ("--cuda-graph-backend-decode disabled", {"decode-cuda-graph": False}),
        ("--cuda-graph-bs 1 2 4 --tp-size 1", {"cuda-graph-bs": (1, 2, 4), "tp-size": 1}),
        ("--cuda-graph-bs-decode=8", {"cuda-graph-bs": (8,)}),
        ("--cuda-graph-max-bs-decode 64", {"cuda-graph-max-bs": 64}),
        ("--dp-size 8 --enable-dp-attention", {"attn-dp-size": 8}),
        ("--enable-dp-attention --dp-size 8", {"attn-dp-size": 8}),
        ("--enable-dp-attention --attn-dp-size 8", {"attn-dp-size": 8}),
        ("--dp-size 8", {"dp-size": 8}),
        ("--chunked-prefill-size -1", {"chunked-prefill-size": -1}),
        ("--mem-fraction-static .92", {"mem-fraction-static": 0.92}),
        ("--context-length 128Ki", {"context-length": 131072}),
        ("--no-lora-strict-loading", {"lora-strict-loading": False}),
        ("--checkpoint-engine-wait-weights-before-ready", {"checkpoint-engine-wait-weights-before-ready": True}),
        ("--model-path m --trust-remote-code", {"model-path": "m", "trust-remote-code": True}),
        ("--model m", {"model-path": "m"}),
    ],
)
def test_understood_without_a_word(text: str, flags: Mapping[str, FlagValue]) -> None:
    read = _read(text)
    assert read == ParsedArgv(flags=flags, deployment={})
    assert list(read.flags) == list(flags)


def test_json_is_kept_byte_for_byte() -> None:
    words = [
        "--json-model-override-args",
        '{"a":  {"b": [1, 2]}}',
        '--model-loader-extra-config={"x":"a=b"}',
        "--lora-paths",
        '{"name":"law","path":"example-org/law-lora"}',
        '{"name":"med","path":"example-org/med-lora"}',
    ]
    assert from_argv(words).flags == {
        "json-model-override-args": '{"a":  {"b": [1, 2]}}',
        "model-loader-extra-config": '{"x":"a=b"}',
        "lora-paths": (
            '{"name":"law","path":"example-org/law-lora"}',
            '{"name":"med","path":"example-org/med-lora"}',
        ),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "--tp 4",
            ParsedArgv(
                flags={"tp-size": 4},
                deployment={},
                warnings=("--tp: an abbreviation of --tp-size, which any new option may make ambiguous",),
            ),
            id="an abbreviation",
        ),
        pytest.param(
            "--tp=4",
            ParsedArgv(
                flags={"tp-size": 4},
                deployment={},
                warnings=("--tp: an abbreviation of --tp-size, which any new option may make ambiguous",),
            ),
            id="an abbreviation with its value",
        ),
        pytest.param(
            "--pp 8 --tp-size 1",
            ParsedArgv(
                flags={"tp-size": 1},
                deployment={},
                unknown=(UnknownWords(position=0, words=("--pp", "8")),),
                warnings=(
                    "--pp: fits more than one option "
                    "(--pp-size, --pp-async-batch-depth, --pp-max-micro-batch-size); kept as it is",
                ),
            ),
            id="an ambiguous abbreviation",
        ),
        pytest.param(
            "--port 8000 --tp-size 1 --port 8010",
            ParsedArgv(
                flags={"tp-size": 1},
                deployment={"port": 8010},
                warnings=("--port: given more than once: 8010 counts, 8000 does not",),
            ),
            id="the later of two",
        ),
        pytest.param(
            "--api-key one --api-key two",
            ParsedArgv(flags={}, deployment={"api-key": "two"}, warnings=("--api-key: given more than once",)),
            id="a secret given twice is not shown",
        ),
        pytest.param(
            "--tp-size 2 --tensor-parallel-size 4",
            ParsedArgv(
                flags={"tp-size": 4},
                deployment={},
                warnings=("--tensor-parallel-size: given more than once: 4 counts, 2 does not",),
            ),
            id="the later of two spellings",
        ),
        pytest.param(
            "--tp-size 2 --house-rule 7 8 --other --pp-size 2",
            ParsedArgv(
                flags={"tp-size": 2, "pp-size": 2},
                deployment={},
                unknown=(
                    UnknownWords(position=2, words=("--house-rule", "7", "8")),
                    UnknownWords(position=5, words=("--other",)),
                ),
                warnings=(
                    "--house-rule: not in the catalogue; kept as it is",
                    "--other: not in the catalogue; kept as it is",
                ),
            ),
            id="unknown options",
        ),
        pytest.param(
            "--hf-overrides={a:1} stray --tp-size 2",
            ParsedArgv(
                flags={"tp-size": 2},
                deployment={},
                unknown=(
                    UnknownWords(position=0, words=("--hf-overrides={a:1}",)),
                    UnknownWords(position=1, words=("stray",)),
                ),
                warnings=(
                    "--hf-overrides: not in the catalogue; kept as it is",
                    '"stray": a word that belongs to no option; kept as it is',
                ),
            ),
            id="unknown with an equals sign, and a bare word",
        ),
        pytest.param(
            "--tp-size many --pp-size 2",
            ParsedArgv(
                flags={"pp-size": 2},
                deployment={},
                unknown=(UnknownWords(position=0, words=("--tp-size", "many")),),
                warnings=('tp-size: read "many", accepted: a whole number, at least 1; kept as it is',),
            ),
            id="a value that does not fit",
        ),
        pytest.param(
            "--trust-remote-code=true --port",
            ParsedArgv(
                flags={},
                deployment={},
                unknown=(
                    UnknownWords(position=0, words=("--trust-remote-code=true",)),
                    UnknownWords(position=1, words=("--port",)),
                ),
                warnings=(
                    '--trust-remote-code: takes no value, read "true"; kept as it is',
                    "--port: expects a value and none follows; kept as it is",
                ),
            ),
            id="a value too many, a value too few",
        ),
        pytest.param(
            "--enable-dp-attention",
            ParsedArgv(
                flags={"attn-dp-size": 1},
                deployment={},
                warnings=("--enable-dp-attention: without --dp-size it does nothing",),
            ),
            id="half of a pair",
        ),
        pytest.param(
            "-tp 2 -- x",
            ParsedArgv(
                flags={},
                deployment={},
                unknown=(
                    UnknownWords(position=0, words=("-tp", "2")),
                    UnknownWords(position=2, words=("--", "x")),
                ),
                warnings=(
                    "-tp: not an option of SGLang's server; kept as it is",
                    "--: not an option of SGLang's server; kept as it is",
                ),
            ),
            id="one dash, and two alone",
        ),
    ],
)
def test_what_is_not_plain_is_said(text: str, expected: ParsedArgv) -> None:
    assert _read(text) == expected


@pytest.mark.parametrize(
    ("text", "version", "flags", "warnings"),
    [
        (
            "--cuda-graph-max-bs 32",
            "0.5.23",
            {"cuda-graph-max-bs": 32},
            ("--cuda-graph-max-bs: SGLang 0.5.23 has no such option",),
        ),
        ("--cuda-graph-max-bs 32", "0.5.18", {"cuda-graph-max-bs": 32}, ()),
        (
            "--enable-piecewise-cuda-graph",
            "0.5.12",
            {},
            ("--enable-piecewise-cuda-graph: accepted, and means nothing in this version; left out",),
        ),
        (
            "--pp-a 8",
            "0.5.23",
            {"pp-async-batch-depth": 8},
            ("--pp-a: an abbreviation of --pp-async-batch-depth, which any new option may make ambiguous",),
        ),
        (
            "--pp 8",
            "0.5.3",
            {"pp-size": 8},
            ("--pp: an abbreviation of --pp-size, which any new option may make ambiguous",),
        ),
    ],
)
def test_the_version_decides(
    text: str, version: str, flags: Mapping[str, FlagValue], warnings: tuple[str, ...]
) -> None:
    read = _read(text, version)
    assert read.flags == flags
    assert read.warnings == warnings


def test_a_unit_somebody_wrote() -> None:
    read = _read(
        "--model-path example-org/chat-14b --tensor-parallel-size 2 --host 0.0.0.0 --port 8100 "
        "--cpu-offload-gb 32 --checkpoint-engine-wait-weights-before-ready --house-rule 7",
        "0.5.23",
    )
    assert read == ParsedArgv(
        flags={
            "model-path": "example-org/chat-14b",
            "tp-size": 2,
            "cpu-offload-gb": 32,
            "checkpoint-engine-wait-weights-before-ready": True,
        },
        deployment={"host": "0.0.0.0", "port": 8100},
        unknown=(UnknownWords(position=11, words=("--house-rule", "7")),),
        warnings=("--house-rule: not in the catalogue; kept as it is",),
    )


_WORDS = st.one_of(
    st.sampled_from([f"--{flag.name}" for flag in FLAGS] + [f"--{option.name}" for option in OPTIONS]),
    st.sampled_from(["8", "-1", "on", "{}", "a b", "--x=1", "-", "--", "", "-q", "--tp=2", "--house-rule"]),
    st.text(max_size=6),
)


@given(words=st.lists(_WORDS, max_size=12))
def test_no_word_is_lost(words: list[str]) -> None:
    read = from_argv(words)
    kept = [word for unknown in read.unknown for word in unknown.words]
    for unknown in read.unknown:
        assert tuple(words[unknown.position : unknown.position + len(unknown.words)]) == unknown.words
    if kept != words:
        assert read.flags or read.deployment or read.warnings


_ROWS: tuple[Flag | Option, ...] = (*(flag for flag in FLAGS if not flag.forms), *OPTIONS)


class _Refused(Exception):
    """argparse would print this and leave with exit code 2."""


class _Judge(argparse.ArgumentParser):
    """Python's own parser over the options of one version: it decides what a prefix means."""

    def __init__(self, version: str) -> None:
        super().__init__(add_help=False)
        self.dest: dict[str, str] = {}
        for row in _ROWS:
            if within(version, row.since, row.removed):
                spellings = (row.name, *row.aliases)
                self.dest.update(dict.fromkeys(spellings, row.name))
                options = [f"--{name}" for name in spellings]
                if row.kind == "switch":
                    self.add_argument(*options, dest=row.name, action="store_true", default=None)
                else:
                    self.add_argument(*options, dest=row.name)

    def error(self, message: str) -> NoReturn:
        raise _Refused(message)

    def meaning(self, option: str) -> str | None:
        """The row that ``option`` sets; None when it sets none or is ambiguous."""
        try:
            known, _ = self.parse_known_args([option, "8"])
        except _Refused:
            return None
        return next((name for name, value in vars(known).items() if value is not None), None)


_JUDGES = {version: _Judge(version) for version in ("0.5.7", "0.5.14", "0.5.23")}
_NAMES = [name for row in _ROWS for name in (row.name, *row.aliases)]
_PREFIXES = sorted({name[:size] for name in _NAMES for size in range(1, len(name) + 1)})


@given(prefix=st.sampled_from(_PREFIXES), version=st.sampled_from(sorted(_JUDGES)))
@settings(max_examples=300, deadline=None)
def test_prefixes_mean_what_argparse_says(prefix: str, version: str) -> None:
    judge = _JUDGES[version]
    option = resolve(f"--{prefix}", version)[0]
    is_there = option is not None and option.name in judge.dest
    assert (judge.dest[option.name] if option and is_there else None) == judge.meaning(f"--{prefix}")
