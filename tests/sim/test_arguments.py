"""The simulated server's command line: argparse's words, one parser a version."""

from __future__ import annotations

import pytest

from orchestrator.sim.arguments import ArgumentsRefused, parse


@pytest.mark.parametrize(
    ("words", "last"),
    [
        ("--model-path m --foo", "launch_server.py: error: unrecognized arguments: --foo"),
        (
            "--pp-size 8",
            "launch_server.py: error: the following arguments are required: --model-path/--model",
        ),
        (
            "--model-path m --tp-size two",
            "launch_server.py: error: argument --tp-size/--tensor-parallel-size: invalid int value: 'two'",
        ),
        (
            "--model-path m --tp-size",
            "launch_server.py: error: argument --tp-size/--tensor-parallel-size: expected one argument",
        ),
    ],
)
def test_refusals_are_in_the_words_of_argparse(words: str, last: str) -> None:
    with pytest.raises(ArgumentsRefused) as refused:
        parse(words.split(), version="0.5.23", environment={})
    assert refused.value.text.startswith("usage: launch_server.py [-h]")
    assert refused.value.text.splitlines()[-1] == last
    assert refused.value.exit_status == 2


def test_a_flag_renamed_since_turns_ambiguous() -> None:
    old = parse(["--model-path", "m", "--cuda-graph-max-bs", "16"], version="0.5.18", environment={})
    assert old.settings.captured_batch == 16
    with pytest.raises(ArgumentsRefused, match="ambiguous option: --cuda-graph-max-bs could match"):
        parse(["--model-path", "m", "--cuda-graph-max-bs", "16"], version="0.5.23", environment={})


def test_a_flag_of_a_later_version_is_unknown_before() -> None:
    words = ["--model-path", "m", "--pp-size", "8", "--pp-async-batch-depth", "8"]
    assert parse(words, version="0.5.7", environment={}).settings.slots == 16
    with pytest.raises(ArgumentsRefused, match="unrecognized arguments: --pp-async-batch-depth 8"):
        parse(words, version="0.5.6", environment={})


def test_a_misspelt_prefix_passes_as_it_does_for_sglang() -> None:
    found = parse(["--model", "m", "--pp-as", "2", "--pp-size=4"], version="0.5.23", environment={})
    assert (found.settings.pp, found.settings.depth) == (4, 2)


def test_settings_come_from_flags_and_environment() -> None:
    words = (
        "--model-path m --served-model-name kimi --pp-size 2 --tp-size 4 --disable-cuda-graph --port 8100 "
        "--mem-fraction-static 0.9 --pp-max-micro-batch-size 4 --max-total-tokens 128000 --kv-cache-dtype fp8_e4m3"
    )
    found = parse(words.split(), version="0.5.23", environment={"SGLANG_PP_LAYER_PARTITION": "31,30"})
    assert found.settings.partition == (31, 30)
    assert not found.settings.graph
    assert (found.settings.micro_batch_cap, found.settings.max_total_tokens) == (4, 128_000)
    assert found.settings.kv_value_bytes == 1.0
    assert (found.model_name, found.port) == ("kimi", 8100)
