"""Settings to words: full names, in the spelling of the version."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from orchestrator.core.config import FlagValue
from orchestrator.core.flags import FlagRefused, argv


@pytest.mark.parametrize(
    ("flags", "version", "words"),
    [
        ({"pp-size": 8, "tp-size": 1}, "0.5.23", "--pp-size 8 --tp-size 1"),
        ({"cuda-graph": False}, "0.5.7", "--disable-cuda-graph"),
        ({"cuda-graph": False}, "0.5.23", "--disable-cuda-graph"),
        ({"cuda-graph": True, "enable-mixed-chunk": False}, "0.5.23", ""),
        ({"enable-mixed-chunk": True}, "0.5.23", "--enable-mixed-chunk"),
        ({"decode-cuda-graph": False}, "0.5.13", "--disable-cuda-graph"),
        ({"decode-cuda-graph": False}, "0.5.14", "--disable-decode-cuda-graph"),
        ({"cuda-graph": False, "decode-cuda-graph": False}, "0.5.13", "--disable-cuda-graph"),
        ({"cuda-graph-max-bs": 64}, "0.5.13.post1", "--cuda-graph-max-bs 64"),
        ({"cuda-graph-max-bs": 64}, "0.5.14", "--cuda-graph-max-bs-decode 64"),
        ({"cuda-graph-bs": (1, 2, 4)}, "0.5.9", "--cuda-graph-bs 1 2 4"),
        ({"cuda-graph-bs": (1, 2, 4)}, "0.5.23", "--cuda-graph-bs-decode 1 2 4"),
        ({"attn-dp-size": 8}, "0.5.21", "--dp-size 8 --enable-dp-attention"),
        ({"attn-dp-size": 8}, "0.5.22", "--attn-dp-size 8"),
        ({"attn-dp-size": 8, "dp-size": 1}, "0.5.22", "--attn-dp-size 8 --dp-size 1"),
        ({"attn-dp-size": 8, "dp-size": 1}, "0.5.20", "--dp-size 8 --enable-dp-attention"),
        ({"attn-dp-size": 1, "dp-size": 2}, "0.5.20", "--dp-size 2"),
        ({"dp-size": 2}, "0.5.9", "--dp-size 2"),
        ({"prefill-graph": "on"}, "0.5.9", "--enable-piecewise-cuda-graph"),
        ({"prefill-graph": "off"}, "0.5.9", ""),
        ({"prefill-graph": "on"}, "0.5.10.post1", "--enforce-piecewise-cuda-graph"),
        ({"prefill-graph": "off"}, "0.5.13", "--disable-piecewise-cuda-graph"),
        ({"prefill-graph": "on"}, "0.5.23", "--cuda-graph-backend-prefill breakable"),
        ({"prefill-graph": "off"}, "0.5.23", "--cuda-graph-backend-prefill disabled"),
        ({"prefill-graph": "auto"}, "0.5.23", ""),
        ({"cuda-graph-max-bs-prefill": 4096}, "0.5.12", "--piecewise-cuda-graph-max-tokens 4096"),
        ({"cuda-graph-max-bs-prefill": 4096}, "0.5.14", "--cuda-graph-max-bs-prefill 4096"),
        ({"pp-max-micro-batch-size": 4}, "0.5.3", "--max-micro-batch-size 4"),
        ({"pp-max-micro-batch-size": 4}, "0.5.4", "--pp-max-micro-batch-size 4"),
        ({"flashinfer-allreduce-fusion-backend": "auto"}, "0.5.9", "--enable-flashinfer-allreduce-fusion"),
        ({"flashinfer-allreduce-fusion-backend": "auto"}, "0.5.14", "--flashinfer-allreduce-fusion-backend auto"),
        ({"server-warmup": False}, "0.5.9", "--skip-server-warmup"),
        ({"lora-strict-loading": False}, "0.5.23", "--no-lora-strict-loading"),
        ({"mem-fraction-static": 0.92}, "0.5.23", "--mem-fraction-static 0.92"),
        ({"chunked-prefill-size": -1}, "0.5.23", "--chunked-prefill-size -1"),
        ({"pp-async-batch-depth": 0}, "0.5.6", ""),
        ({"host": "0.0.0.0", "port": 30000}, "0.5.23", "--host 0.0.0.0 --port 30000"),
        ({"pp-size": 2}, "0.7.1", "--pp-size 2"),
    ],
)
def test_words_of_a_version(flags: Mapping[str, FlagValue], version: str, words: str) -> None:
    assert argv(flags, version) == tuple(words.split())


def test_text_is_one_word_and_lists_are_several() -> None:
    flags: dict[str, FlagValue] = {
        "json-model-override-args": '{"a": [1, 2],  "b": "x y"}',
        "uvicorn-access-log-exclude-prefixes": ("/a b", "/c"),
    }
    assert argv(flags, "0.5.23") == (
        "--json-model-override-args",
        '{"a": [1, 2],  "b": "x y"}',
        "--uvicorn-access-log-exclude-prefixes",
        "/a b",
        "/c",
    )


def test_everything_a_version_lacks_is_refused_at_once() -> None:
    flags: dict[str, FlagValue] = {
        "pp-size": 8,
        "pp-async-batch-depth": 8,
        "attn-dp-size": 8,
        "dp-size": 2,
        "flashinfer-allreduce-fusion-backend": "mnnvl",
        "tp": 1,
    }
    with pytest.raises(FlagRefused) as caught:
        argv(flags, "0.5.6")
    assert caught.value.faults == (
        "dp-size 2 with attn-dp-size 8: SGLang 0.5.6 has one flag for both, use one of them",
        "pp-async-batch-depth: SGLang 0.5.6 has no such flag, it is there from 0.5.7",
        "flashinfer-allreduce-fusion-backend mnnvl: SGLang 0.5.6 cannot be told so, accepted: auto",
        'unknown flag "tp", did you mean tp-size?',
    )


def test_a_removed_flag_names_its_replacement() -> None:
    with pytest.raises(FlagRefused) as caught:
        argv({"enable-breakable-cuda-graph": True}, "0.5.20")
    assert caught.value.fact == (
        "enable-breakable-cuda-graph: SGLang 0.5.20 has no such flag, it was removed in 0.5.20; "
        "use --cuda-graph-backend-prefill breakable"
    )
    assert caught.value.exit_code == 2
