"""When two starts ran with the same settings, and when that cannot be said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.core.config import Config, FlagValue
from orchestrator.core.plan.twins import twin

VERSION = "0.5.23"


def config(environment: dict[str, str] | None = None, **flags: FlagValue) -> Config:
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return Config(flags={"pp-size": 8, **named}, environment=environment or {})


def settings(**changes: Any) -> dict[str, Any]:
    state = {"effective_max_running_requests_per_dp": 2048, "pp_max_micro_batch_size": 256, "num_running_reqs": 1}
    return {
        "pp_size": 8,
        "chunked_prefill_size": 8192,
        "disable_cuda_graph": False,
        "max_running_requests": None,
        "random_seed": 17,
        "launch_command": "a",
        "max_total_num_tokens": 1000,
        "internal_states": [state],
        **changes,
    }


def same(one: Config, other: Config, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    return twin(one, ours, {"first": (other, theirs)}, VERSION) == "first"


def test_what_differs_between_any_two_starts_does_not_count() -> None:
    again = settings(random_seed=4, launch_command="b", max_total_num_tokens=1003)
    assert same(config(chunked_prefill_size=8192), config(), again, settings())


@pytest.mark.parametrize("changes", [{"chunked_prefill_size": 4096}, {"disable_cuda_graph": True}, {"new_thing": 1}])
def test_one_setting_that_differs_is_enough(changes: dict[str, Any]) -> None:
    assert not same(config(chunked_prefill_size=8192), config(), settings(**changes), settings())


def test_the_schedulers_effective_sizes_count_not_what_was_asked() -> None:
    asked = settings(max_running_requests=4096)
    assert same(config(max_running_requests=4096), config(), asked, settings())
    state = {"effective_max_running_requests_per_dp": 64, "pp_max_micro_batch_size": 8}
    assert not same(config(max_running_requests=64), config(), settings(internal_states=[state]), settings())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (config(environment={"SGLANG_PP_LAYER_PARTITION": "8,8,8,8,8,7,7,7"}), config()),
        (config(cuda_graph_max_bs=16), config()),  # not among the settings above
    ],
)
def test_what_the_engine_does_not_show_is_not_compared(one: Config, other: Config) -> None:
    assert not same(one, other, settings(), settings())


def test_an_engine_that_says_nothing_has_no_twin() -> None:
    assert not same(config(chunked_prefill_size=8192), config(), {}, {})


def test_the_first_of_several_is_named() -> None:
    others = {"other": (config(), settings(pp_size=4)), "a": (config(), settings()), "b": (config(), settings())}
    assert twin(config(), settings(), others, VERSION) == "a"
