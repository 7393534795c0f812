"""Settings written for a version and read back are the same settings."""

from __future__ import annotations

import shlex

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.config import Config, FlagValue, config_from_json
from orchestrator.core.flags import DEPLOYMENT, Flag, argv, canonical, from_argv
from orchestrator.core.flags.catalogue import FLAGS
from orchestrator.core.flags.versions import within
from orchestrator.core.flags.writing import choices_in, form_for

VERSIONS = ("0.5.7", "0.5.9", "0.5.12", "0.5.14", "0.5.20", "0.5.23")
# Before 0.5.14 only all graphs together could be switched off, so this one comes back as the switch of all.
_COARSER = {"decode-cuda-graph"}
# Two settings that share one option: their meeting is tested by itself.
_SHARED = {"dp-size", "cuda-graph-backend-prefill", "cuda-graph-backend-decode", "prefill-graph"}

_TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=12)
_ITEM = _TEXT.filter(lambda text: not text.startswith("-"))  # argparse has no way to say such an item


def _values(flag: Flag, version: str) -> st.SearchStrategy[FlagValue]:
    choices = choices_in(flag, version)
    least = flag.least if flag.least is not None else -(10**6)
    match flag.kind:
        case "switch":
            return st.booleans()
        case "int":
            return st.sampled_from([int(choice) for choice in choices]) if choices else st.integers(least, 10**9)
        case "float":
            return st.floats(0.001, 0.999) if flag.below else st.floats(allow_nan=False, allow_infinity=False)
        case "enum":
            return st.sampled_from(choices) if choices else _TEXT.filter(bool)
        case "str":
            return _TEXT
        case "int-list":
            return st.lists(st.integers(max(least, 0), 10**6), min_size=1, max_size=5).map(tuple)
        case "str-list":
            return st.lists(_ITEM, min_size=1, max_size=4).map(tuple)


@st.composite
def _settings(draw: st.DrawFn, version: str) -> dict[str, FlagValue]:
    there = [flag for flag in FLAGS if form_for(flag, version) is not None and flag.name not in _SHARED]
    if not within(version, "0.5.14", None):
        there = [flag for flag in there if flag.name not in _COARSER]
    chosen = draw(st.lists(st.sampled_from(there), max_size=8, unique_by=lambda flag: flag.name))
    settings: dict[str, FlagValue] = {}
    for flag in chosen:
        words = form_for(flag, version)
        options = list(words.words) if words is not None and words.words is not None else None
        settings[flag.name] = draw(st.sampled_from(options) if options else _values(flag, version))
    return settings


def _said(settings: dict[str, FlagValue]) -> dict[str, FlagValue]:
    """Without the switch positions that need no word."""
    flags = {flag.name: flag for flag in FLAGS}
    return {
        name: value
        for name, value in settings.items()
        if flags[name].paired or not (flags[name].kind == "switch" and value == flags[name].default)
    }


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_written_and_read_back(data: st.DataObject, version: str) -> None:
    settings = data.draw(_settings(version))
    read = from_argv(argv(settings, version), version)
    assert {**read.flags, **read.deployment} == _said(settings)
    assert [*read.flags] == [name for name in _said(settings) if name not in DEPLOYMENT]
    assert read.unknown == ()
    assert read.warnings == ()


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_a_shell_and_json_change_nothing(data: st.DataObject, version: str) -> None:
    settings = data.draw(_settings(version))
    words = argv(settings, version)
    assert tuple(shlex.split(shlex.join(words))) == words
    config = Config(flags=settings)
    assert config_from_json(config.canonical_json()) == config
    assert config_from_json(config.canonical_json()).id == config.id


@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_canonical_settings_stay_as_they_are(data: st.DataObject, version: str) -> None:
    settings = data.draw(_settings(version))
    result = canonical(settings)
    assert result.faults == ()
    assert result.flags == settings


@given(size=st.integers(2, 64), version=st.sampled_from(VERSIONS))
def test_attention_and_replicas_share_an_option_and_come_back_apart(size: int, version: str) -> None:
    assert from_argv(argv({"attn-dp-size": size}, version), version).flags == {"attn-dp-size": size}
    assert from_argv(argv({"dp-size": size}, version), version).flags == {"dp-size": size}


def test_prefill_graphs_come_back_from_either_generation() -> None:
    for version in VERSIONS:
        assert from_argv(argv({"prefill-graph": "on"}, version), version).flags == {"prefill-graph": "on"}
    for version in VERSIONS[2:]:
        assert from_argv(argv({"prefill-graph": "off"}, version), version).flags == {"prefill-graph": "off"}


def test_decode_graphs_alone_come_back_as_all_where_the_version_has_one_switch() -> None:
    assert from_argv(argv({"decode-cuda-graph": False}, "0.5.12"), "0.5.12").flags == {"cuda-graph": False}
    assert from_argv(argv({"decode-cuda-graph": False}, "0.5.14"), "0.5.14").flags == {"decode-cuda-graph": False}
