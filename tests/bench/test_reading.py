"""Addresses, metrics pages and secrets."""

from __future__ import annotations

import pytest

from orchestrator.bench.endpoint import Endpoint, endpoint
from orchestrator.bench.metrics import total
from orchestrator.bench.redaction import redacted
from orchestrator.errors import InputRefused


@pytest.mark.parametrize(
    ("text", "expected", "url"),
    [
        ("http://10.0.0.5:30000", Endpoint(host="10.0.0.5", port=30000), "http://10.0.0.5:30000"),
        ("localhost:30000", Endpoint(host="localhost", port=30000), "http://localhost:30000"),
        ("http://h:1/v1/", Endpoint(host="h", port=1), "http://h:1"),
        (
            "https://h.example/llm/v1",
            Endpoint(host="h.example", port=443, tls=True, prefix="/llm"),
            "https://h.example:443/llm",
        ),
        ("http://[::1]:30000", Endpoint(host="::1", port=30000), "http://[::1]:30000"),
        ("http://h", Endpoint(host="h", port=80), "http://h:80"),
    ],
)
def test_an_address_is_read(text: str, expected: Endpoint, url: str) -> None:
    assert endpoint(text) == expected
    assert expected.url == url


@pytest.mark.parametrize(
    "text",
    ["ftp://h:1", "http://", "http://h:99999", "http://h:1/?a=b", "http://u:p@h:1", "http://h:1/a b", "http://h:x"],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputRefused) as refused:
        endpoint(text)
    assert len(refused.value.faults) == 1
    assert "accepted: http://HOST:PORT" in refused.value.faults[0]


def test_ranks_on_the_same_requests_are_counted_once_and_replicas_added() -> None:
    page = """
x_total{dp_rank="0",pp_rank="0"} 5
x_total{dp_rank="0",pp_rank="1"} 4
x_total{dp_rank="1",pp_rank="0"} 7 1700000000000
x_total{dp_rank="1",pp_rank="1"} 7
x_total_created{dp_rank="0"} 1000
"""
    assert total(page, "x_total") == 12.0


def test_a_metric_that_is_absent_or_not_a_number_is_none() -> None:
    assert total("", "x") is None
    assert total("x NaN\nx_sum 3\nx +Inf\nx{a=1 2\n", "x") is None
    assert total("x 3\n", "x") == 3.0
    assert total('x{a="b c, d=\\"e\\"",pp_rank="0"} 3\nx{a="other"} 4\n', "x") == 7.0


def test_secrets_are_blotted_by_value_wherever_they_stand() -> None:
    said = {
        "hf_token": "hf_abcdef",
        "max_total_num_tokens": 16384,
        "argv": ["--api-key=sk-12345678", "--hf-token", "hf_abcdef"],
        "nested": {"password": "hunter22", "line": "user:hunter22@host"},
        "short_secret": "ab",
        "words": "ab cab abc ab",
    }
    assert redacted(said, None, "sk-ours-42") == {
        "hf_token": "***",
        "max_total_num_tokens": 16384,
        "argv": ["--api-key=***", "--hf-token", "***"],
        "nested": {"password": "***", "line": "user:***@host"},
        "short_secret": "***",
        "words": "*** cab abc ***",
    }


def test_what_holds_no_secret_is_left_alone() -> None:
    said = {"a": [1, None, True, {"b": "x"}], "skip_tokenizer_init": False, "tokenizer_path": "t", "api_key": None}
    assert redacted(said) == said
