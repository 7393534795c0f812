"""The scheduler model against the table it was fitted on, the grid it predicts, and its own oracle."""

from __future__ import annotations

from itertools import pairwise

import pytest

from orchestrator.core.inventory import Model
from orchestrator.sim.dimensions import Dimensions, from_json, from_model
from orchestrator.sim.evaluate import evaluate, wave_lengths
from orchestrator.sim.model import PipelineEngine, Request
from orchestrator.sim.settings import Settings
from tests.sim.published import LENGTHS, A, B


def wave(settings: Settings, lengths: tuple[int, ...]) -> tuple[float, float, PipelineEngine]:
    """(tok/s, wall s, engine) of one wave of 200-token prompts, all at once."""
    engine = PipelineEngine(Dimensions(), settings)
    requests = [engine.submit(prompt_tokens=200, tokens=tokens) for tokens in lengths]
    engine.run_until_idle()
    wall = max(request.stamps()[-1] for request in requests)
    return sum(lengths) / wall, wall, engine


@pytest.mark.parametrize(
    ("settings", "concurrency", "tok_s", "wall_s", "busy"),
    [
        (A, 1, 25.3, None, 0.08),
        (A, 4, 63.7, 185.0, 0.19),
        (A, 8, 100.7, 201.6, 0.30),
        (B, 1, 34.0, None, 0.10),
        (B, 4, 65.4, 180.1, 0.19),
        (B, 8, 84.6, 240.0, 0.25),
        (B, 16, 148.6, 321.9, 0.44),
        (B, 32, 250.9, 374.3, 0.60),
    ],
)
def test_the_published_levels_come_out_as_the_model_says(
    settings: Settings, concurrency: int, tok_s: float, wall_s: float | None, busy: float
) -> None:
    found, wall, engine = wave(settings, LENGTHS[concurrency])
    assert found == pytest.approx(tok_s, rel=0.01)
    assert found == pytest.approx(evaluate(settings, LENGTHS[concurrency]), rel=0.002)
    if wall_s is not None:
        assert wall == pytest.approx(wall_s, rel=0.01)
    seconds = range(int(wall) + 1)
    decode = sum(engine.log.reading(s, rank).decode for s in seconds for rank in range(8)) / 8 / wall
    assert decode == pytest.approx(busy, abs=0.012)


GRID = [
    (Settings(pp=8, graph=False), (25.3, 34.7, 62.9, 110, 192, 348, 513)),
    (Settings(pp=8, graph=False, depth=2), (24.8, 31.4, 50.1, 87, 168, 313, 484)),
    (Settings(pp=8, graph=False, depth=4), (24.4, 30.9, 48.9, 75, 141, 269, 417)),
    (Settings(pp=8, graph=False, depth=8), (23.6, 29.9, 47.7, 68, 107, 205, 373)),
    (Settings(pp=8, graph=False, depth=16), (22.1, 28.2, 45.5, 65, 83, 141, 270)),
    (Settings(pp=8), (37.7, 51.1, 89.6, 152, 230, 359, 513)),
    (Settings(pp=8, depth=2), (36.7, 44.9, 69.0, 119, 203, 336, 485)),
    (Settings(pp=8, depth=4), (35.7, 43.9, 67.0, 103, 178, 288, 417)),
    (Settings(pp=8, depth=8), (34.0, 42.0, 64.8, 93, 145, 249, 386)),
    (Settings(pp=8, depth=16), (30.9, 38.7, 60.8, 88, 114, 181, 292)),
    (Settings(pp=8, partition=(8, 8, 8, 8, 8, 8, 8, 5)), (37.7, 52.3, 97.5, 178, 266, 406, 560)),
    (Settings(pp=8, depth=8, partition=(8, 8, 8, 8, 8, 8, 8, 5)), (34.0, 42.6, 67.8, 99, 170, 293, 441)),
    (Settings(pp=4, tp=2, graph=False), (25.2, 34.9, 63.9, 119, 234, 437, 609)),
    (Settings(pp=4, tp=2), (55, 75, 128, 205, 323, 464, 609)),
    (Settings(pp=4, tp=2, depth=4), (51, 63, 90, 127, 219, 345, 485)),
    (Settings(pp=2, tp=4, graph=False), (25.0, 34.2, 65.4, 130, 257, 480, 666)),
    (Settings(pp=2, tp=4), (69, 89, 149, 245, 371, 511, 666)),
    (Settings(pp=2, tp=4, depth=4), (62, 73, 93, 117, 194, 308, 441)),
    (Settings(tp=8, graph=False), (23.5, 33.2, 66.1, 131, 256, 480, 693)),
    (Settings(tp=8), (63.3, 85.9, 151, 246, 365, 508, 693)),
    (Settings(tp=8, all_reduce_s=240e-6), (26, 37, 69, 125, 213, 338, 515)),
    (Settings(tp=8, all_reduce_s=9e-6), (102, 135, 222, 333, 453, 587, 763)),
    (Settings(pp=4, tp=2, ep=2), (50, 68, 118, 188, 298, 433, 579)),
    (Settings(pp=2, tp=4, ep=4), (62, 81, 136, 223, 342, 483, 648)),
    (Settings(tp=8, ep=8), (59, 80, 139, 228, 344, 493, 692)),
]


@pytest.mark.parametrize(("settings", "row"), GRID)
def test_the_predicted_grid_is_reproduced(settings: Settings, row: tuple[float, ...]) -> None:
    for concurrency, expected in zip((1, 2, 4, 8, 16, 32, 64), row, strict=True):
        lengths = wave_lengths(concurrency, 2900)
        assert wave(settings, lengths)[0] == pytest.approx(expected, rel=0.025), concurrency
        assert evaluate(settings, lengths) == pytest.approx(expected, rel=0.025), concurrency


def test_a_cap_of_one_per_slot_makes_config_a_level_off() -> None:
    capped = Settings(pp=8, graph=False, micro_batch_cap=1)
    found = [wave(capped, wave_lengths(c, 2900))[0] for c in (8, 16, 32)]
    assert found == [pytest.approx(110, rel=0.01), pytest.approx(108, rel=0.01), pytest.approx(121, rel=0.01)]


@pytest.mark.parametrize(("concurrency", "mean"), [(4, 2945), (8, 2538), (16, 2989)])
def test_the_assumed_lengths_are_the_stratified_wave_of_the_published_mean(concurrency: int, mean: float) -> None:
    assert wave_lengths(concurrency, mean) == LENGTHS[concurrency]


def test_skipping_rounds_gives_the_stamps_of_walking_every_tick() -> None:
    settings = Settings(pp=4, tp=2, depth=2)

    def stamps(chunk: int) -> list[tuple[float, ...]]:
        engine = PipelineEngine(Dimensions(), settings, chunk_rounds=chunk)
        requests = [engine.submit(prompt_tokens=100, tokens=150 + 37 * i, at=0.03 * i) for i in range(9)]
        engine.run_until_idle()
        return [request.stamps() for request in requests]

    walked, skipped = stamps(0), stamps(128)
    assert [len(row) for row in skipped] == [len(row) for row in walked] == [150 + 37 * i for i in range(9)]
    for slow, fast in zip(walked, skipped, strict=True):
        assert fast == pytest.approx(slow, rel=2e-4)


def test_stamps_rise_and_every_token_is_counted_once() -> None:
    engine = PipelineEngine(Dimensions(), Settings(pp=8, depth=8))
    lengths = [3, 1, 200, 77, 5, 410]
    waiting = list(lengths)
    done: list[Request] = []

    def next_one(request: Request) -> None:
        done.append(request)
        if waiting:
            engine.submit(prompt_tokens=30, tokens=waiting.pop(0), on_finish=next_one)

    for _ in range(2):
        engine.submit(prompt_tokens=30, tokens=waiting.pop(0), on_finish=next_one)
    engine.run_until_idle()
    assert sorted(request.emitted for request in done) == sorted(lengths)
    assert engine.generated == sum(lengths)
    assert all(a < b for request in done for a, b in pairwise(request.stamps()))
    assert all(request.stamps()[-1] == request.finished for request in done)
    assert engine.is_idle
    assert engine.kv_held == 0


def test_depth_thins_batches_and_pp_1_ignores_it() -> None:
    lengths = wave_lengths(8, 500)
    assert wave(Settings(tp=8, depth=0), lengths)[0] == wave(Settings(tp=8, depth=8), lengths)[0]
    assert wave(Settings(pp=8, depth=0), lengths)[0] > 1.3 * wave(Settings(pp=8, depth=8), lengths)[0]


def test_a_batch_beyond_the_captured_sizes_runs_eager() -> None:
    lengths = (400,) * 16
    small = Settings(tp=8, graph_max_batch=8)
    _, _, engine = wave(small, lengths)
    assert engine.decode_passes["eager"] > 300
    assert wave(small, lengths)[0] < 0.85 * wave(Settings(tp=8, graph_max_batch=16), lengths)[0]


def test_an_abort_frees_its_place_at_once() -> None:
    engine = PipelineEngine(Dimensions(), Settings(pp=4, tp=2, max_running=1))
    first = engine.submit(prompt_tokens=50, tokens=1000)
    second = engine.submit(prompt_tokens=50, tokens=10)
    engine.advance(2.0, exact=True)
    assert (engine.running, engine.queued) == (1, 1)
    seen = first.emitted
    engine.abort(first)
    engine.run_until_idle()
    assert first.emitted == seen
    assert second.emitted == 10
    assert engine.kv_held == 0


def test_requests_wait_when_the_kv_cache_is_promised_away() -> None:
    engine = PipelineEngine(Dimensions(), Settings(pp=8), kv_tokens=1000)
    for _ in range(3):
        engine.submit(prompt_tokens=100, tokens=400)
    engine.advance(1.0)
    assert (engine.running, engine.queued) == (2, 1)
    engine.run_until_idle()
    assert engine.generated == 1200


def test_an_idle_engine_waits_for_an_arrival_without_work() -> None:
    engine = PipelineEngine(Dimensions(), Settings(pp=8))
    request = engine.submit(prompt_tokens=20, tokens=2, at=3600.0)
    engine.run_until_idle()
    assert request.first is not None
    assert 3600.0 < request.first < 3601.5


def test_power_is_low_and_utilisation_high_in_an_eager_single_stream() -> None:
    _, _, engine = wave(A, (2000,))
    reading = engine.log.reading(40, 0)
    assert 78 < reading.power_w < 90
    assert reading.utilisation == 100
    assert engine.log.reading(10_000, 0).power_w == 66


def test_prefill_takes_more_power_than_decoding_and_600_w_is_the_limit() -> None:
    engine = PipelineEngine(Dimensions(), Settings(pp=8))
    engine.submit(prompt_tokens=60_000, tokens=2)
    engine.run_until_idle()
    assert engine.log.reading(1, 0).power_w == pytest.approx(600, abs=0.1)


def test_dimensions_are_those_of_the_mixed_checkpoint() -> None:
    k26 = Dimensions()
    assert k26.active_parameters / 1e9 == pytest.approx(31.7, abs=0.05)
    parameters = 60 * 384 * k26.expert_parameters + sum(map(k26.fixed_parameters, range(61))) + 2 * k26.head_parameters
    assert parameters / 1e12 == pytest.approx(1.026, abs=0.001)
    assert [round(k26.distinct_experts(b), 1) for b in (1, 2, 8)] == [8.0, 15.8, 59.5]
    assert k26.weight_bytes / 2**30 == pytest.approx(553, abs=1)
    assert from_model(None) == k26


def test_an_inventorys_model_that_is_dense_has_no_experts() -> None:
    small = from_model(Model(name="small", layers=4, attention_heads=8, hidden_size=512))
    assert small.distinct_experts(8) == 0
    assert small.weight_bytes < 2e9
    engine = PipelineEngine(small, Settings(tp=2))
    request = engine.submit(prompt_tokens=10, tokens=50)
    engine.run_until_idle()
    assert request.emitted == 50


def test_a_config_json_with_a_text_config_is_read() -> None:
    text = '{"text_config": {"num_hidden_layers": 4, "n_routed_experts": 16, "hidden_size": 512}, "vision_config": {}}'
    found = from_json(text)
    assert (found.layers, found.experts, found.hidden, found.heads) == (4, 16, 512, 64)


def test_the_micro_batch_cap_can_be_changed_while_requests_run() -> None:
    engine = PipelineEngine(Dimensions(), Settings(pp=2, max_running=8))
    assert engine.micro_batch_cap == 4
    assert [engine.set_micro_batch_cap(cap) for cap in (0, 5, 1)] == [False, False, True]
    assert engine.micro_batch_cap == 1
    requests = [engine.submit(prompt_tokens=10, tokens=500) for _ in range(4)]
    engine.advance(2.0)
    assert (engine.running, engine.queued, engine.largest_batch) == (2, 2, 1)
    assert engine.set_micro_batch_cap(2)
    engine.advance(4.0)
    assert (engine.running, engine.queued, engine.largest_batch) == (4, 0, 2)
    assert engine.set_micro_batch_cap(1)
    engine.run_until_idle()
    assert all(request.emitted == 500 for request in requests)
