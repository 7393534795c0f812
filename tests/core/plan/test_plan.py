"""What runs, in which order, what is refused and what collapses, and what the budget leaves out."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from orchestrator.core.config import Config
from orchestrator.core.flags import Facts
from orchestrator.core.inventory import HostEntry, SecretRef, Startup
from orchestrator.core.plan.estimate import STREAM_TOK_S, pass_seconds
from orchestrator.core.plan.plan import LaunchTimes, Plan, facts_of, plan
from orchestrator.core.sweep import Axis, Budget, Objective, Point, Repeats, Sweep
from orchestrator.core.workload import Lengths
from tests.core.sweeps import K26, axis, service, sweep, workload

NOW = datetime(2026, 12, 1, 22, 0, tzinfo=UTC)
DEPTH = axis("pp-async-batch-depth", 0, 8)
SWITCH = axis("cuda-graph", True, False)


def planned(asked: Sweep, recorded: LaunchTimes | None = None, *, now: datetime | None = NOW) -> Plan:
    return plan(asked, facts_of(asked.service), recorded, now=now)


def test_rules_refuse_before_anything_starts() -> None:
    made = planned(sweep(axis("pp-size", 8, 4), axis("tp-size", 1, 2)))
    assert {trial.slug for trial in made.trials} == {"pp8", "pp4", "pp4.tp2"}
    assert [(group.rule, group.slugs) for group in made.refused] == [("gpus-present", ("pp8.tp2",))]


def test_a_flag_that_the_version_does_not_have_is_refused() -> None:
    old = service(engines={"0.5.3": "/opt/old"}, engine="0.5.3", model=None)
    made = planned(sweep(axis("pp-async-batch-depth", 4, 8), service=old))
    assert made.trials == ()
    assert [group.slugs for group in made.refused] == [("d4", "d8")]
    assert "pp-async-batch-depth" in made.refused[0].example


def test_equal_effective_settings_make_the_later_one_an_alias() -> None:
    made = planned(sweep(axis("pp-size", 1), axis("tp-size", 8), DEPTH, order="as-listed"))
    assert [(trial.slug, trial.order, trial.alias_of) for trial in made.trials] == [
        ("pp1.tp8.d0", 1, None),
        ("pp1.tp8.d8", 2, "pp1.tp8.d0"),
    ]
    assert [trial.slug for trial in made.launchable] == ["pp1.tp8.d0"]
    assert made.launches == 2


def test_the_trial_that_production_is() -> None:
    made = planned(sweep(DEPTH, SWITCH))
    assert [trial.slug for trial in made.trials if trial.is_production] == ["d0.eager"]
    assert made.production == Config(
        flags={"model-path": "moonshotai/Kimi-K2.6", "pp-size": 8, "cuda-graph": False, "mem-fraction-static": 0.92}
    )


def test_the_order_is_drawn_by_the_seed_anew_in_each_block() -> None:
    asked = sweep(axis("pp-async-batch-depth", *range(8)), repeats=Repeats(launches=3), seed=1)
    made = planned(asked)
    listed = [f"d{depth}" for depth in range(8)]
    assert all(sorted(block) == listed for block in made.blocks)
    assert len(set(made.blocks)) == 3
    assert listed not in [list(block) for block in made.blocks]
    assert tuple(trial.slug for trial in made.trials) == made.blocks[0]
    assert planned(asked).blocks == made.blocks
    other = sweep(axis("pp-async-batch-depth", *range(8)), repeats=Repeats(launches=3), seed=2)
    assert planned(other).blocks != made.blocks


def test_as_listed_keeps_the_order_of_the_file() -> None:
    made = planned(sweep(axis("pp-async-batch-depth", *range(8)), order="as-listed", repeats=Repeats(launches=2)))
    assert made.blocks == (tuple(f"d{depth}" for depth in range(8)),) * 2
    assert not made.shuffled


def test_launches_and_levels_are_counted_with_those_of_production() -> None:
    load = workload(concurrency=(1, 4, 8))
    made = planned(sweep(DEPTH, workload=load, repeats=Repeats(per_level=2, launches=3)))
    assert (made.launches, made.levels, made.reference_levels) == (2 * 3 + 1, 2 * 3 * 3 * 2 + 12, 12)
    alone = planned(sweep(DEPTH, workload=load, repeats=Repeats(per_level=2, launches=3), reference="none"))
    assert (alone.launches, alone.levels, alone.reference_levels) == (7, 36, 0)


def test_time_is_starts_and_tokens_at_a_stated_speed() -> None:
    # One wave of four answers, 150 tokens at 15 tok/s: 10 s; its warm-up of 48 tokens: 3.2 s.
    assert pass_seconds(workload(), 1) == pytest.approx(13.2)
    # Two waves; five requests on four streams take two turns.
    assert pass_seconds(workload(requests_per_stream=2), 1) == pytest.approx(23.2)
    listed = workload(lengths=Lengths(kind="listed", listed={4: (150, 150, 150, 300, 30)}))
    assert pass_seconds(listed, 1) == pytest.approx(20 + 3.2)
    assert pass_seconds(workload(arrival="staggered", stagger_s=1.0), 1) == pytest.approx(13 + 3.2)
    assert pass_seconds(workload(say_ok=3), 1) == pytest.approx(13.2 + 3 * 16 / STREAM_TOK_S)
    made = planned(sweep(DEPTH, repeats=Repeats(launches=2)))
    assert made.estimate.start_s == 5 * 900  # a quarter of an hour each: startup.timeout is 60 min
    assert made.estimate.measure_s == pytest.approx((2 * 2 + 2) * 13.2)
    assert made.estimate.total_s == pytest.approx(4500 + 79.2)
    assert not made.estimate.is_recorded


def test_the_assumed_start_follows_the_services_limit() -> None:
    made = planned(sweep(DEPTH, service=service(startup=Startup(timeout_s=120))))
    assert made.estimate.usual_start_s == 30


def test_recorded_starts_replace_the_assumed_ones() -> None:
    asked = sweep(DEPTH, reference="none", order="as-listed")
    first = planned(asked).trials[0].config
    made = planned(asked, LaunchTimes(by_config={first.id: 100.0}, usual_s=400.0))
    assert made.estimate.start_s == 100 + 400 + 400
    assert made.estimate.usual_start_s == 400
    assert made.estimate.is_recorded
    only_one = planned(asked, LaunchTimes(by_config={first.id: 100.0}))
    assert only_one.estimate.start_s == 100 + 900 + 900
    assert not only_one.estimate.is_recorded


@pytest.mark.parametrize(
    ("budget", "now", "allowed_s", "text"),
    [
        (Budget(until="07:00"), NOW, 9 * 3600, "until 07:00"),
        (Budget(until="07:00"), NOW.replace(hour=6), 3600, "until 07:00"),
        (Budget(until="22:00"), NOW, 24 * 3600, "until 22:00"),
        (Budget(until="22:01"), NOW, 60, "until 22:01"),
        (Budget(until="07:00"), NOW.astimezone(timezone(timedelta(hours=2))), 7 * 3600, "until 07:00"),
        (Budget(hours=1.5), NOW, 5400, "1.5 h"),
        (Budget(hours=1.5), None, 5400, "1.5 h"),
    ],
)
def test_what_a_budget_allows(budget: Budget, now: datetime | None, allowed_s: float, text: str) -> None:
    verdict = planned(sweep(DEPTH, budget=budget), now=now).budget
    assert verdict is not None
    assert (verdict.allowed_s, verdict.text) == (allowed_s, text)


def test_no_budget_and_pretended_time_are_not_judged() -> None:
    assert planned(sweep(DEPTH)).budget is None
    assert planned(sweep(DEPTH, budget=Budget(until="07:00")), now=None).budget is None


def test_whole_configs_are_left_out_and_never_one_end_of_the_grid() -> None:
    # Each config takes 913 s, the restore 900 s: an hour has room for two of eight.
    axes = (axis("pp-size", 8, 4), axis("pp-async-batch-depth", 0, 2, 4, 8))
    made = planned(sweep(*axes, budget=Budget(hours=1), reference="none", order="as-listed"))
    kept = [trial.slug for trial in made.launchable]
    assert len(kept) == 2
    assert len(made.left_out) == 6
    assert {slug.split(".")[0] for slug in kept} == {"pp8", "pp4"}
    assert made.budget is not None
    assert not made.budget.fits
    assert made.budget.over_s == pytest.approx(8 * 913.2 + 900 - 3600)


def test_the_first_of_a_shuffled_order_are_kept() -> None:
    made = planned(sweep(axis("pp-async-batch-depth", *range(8)), budget=Budget(hours=1), reference="none"))
    assert tuple(trial.slug for trial in made.launchable) == made.blocks[0][:2]


def test_a_budget_too_short_for_anything_leaves_everything_out() -> None:
    made = planned(sweep(DEPTH, budget=Budget(hours=0.1)))
    assert made.launchable == ()
    assert len(made.left_out) == 2


def test_what_a_trial_could_not_be_given_yet_blocks_the_run() -> None:
    key = SecretRef(name="KEY", env="KEY", flag="api-key")
    assert planned(sweep(DEPTH, service=service(secrets=(key,)))).blocked == ()
    made = planned(sweep(DEPTH, service=service(secrets=(key,), flags={"config": "/srv/more.yaml"})))
    assert made.blocked == (
        "secrets (KEY) of flags go into a --config file, and SGLang takes one: flags has config already",
    )
    nothing = planned(sweep(DEPTH, service=service(flags={"pp-size": 8})))
    assert nothing.blocked == ("model-path is not set: services.k26.flags in inventory.yaml says what to serve",)
    other = planned(sweep(DEPTH, service=service(kind="vllm")))
    assert other.blocked == ("engines of kind vllm are not honoured yet: trials are SGLang",)


def test_levels_beyond_the_captured_graphs_are_noted() -> None:
    made = planned(
        sweep(axis("cuda-graph-max-bs", 2, 64), flags={"cuda-graph": True}, workload=workload(concurrency=(1, 4)))
    )
    assert [group.slugs for group in made.notes if group.rule == "load-beyond-graphs"] == [("gmax2",)]


def test_the_digest_changes_with_what_is_measured_and_only_then() -> None:
    base = planned(sweep(DEPTH)).digest
    same = [
        sweep(DEPTH, objective=Objective(maximize="whole_tok_s")),
        sweep(DEPTH, budget=Budget(hours=99)),
        sweep(DEPTH, name="other", path="elsewhere.yaml", text="# a comment"),
        sweep(DEPTH, service=service(startup=Startup(timeout_s=7))),
    ]
    flags = {**service().flags, "pp-async-batch-depth": 4}
    changed = [
        sweep(axis("pp-async-batch-depth", 0, 4)),
        sweep(DEPTH, flags={"page-size": 64}),
        sweep(DEPTH, workload=workload(concurrency=(8,))),
        sweep(DEPTH, workload=workload(seed=3, lengths=Lengths(kind="around", tokens=150))),
        sweep(DEPTH, repeats=Repeats(per_level=2)),
        sweep(DEPTH, seed=1),
        sweep(DEPTH, reference="none"),
        sweep(DEPTH, service=service(template_text="[Service]\nNice=5\n")),
        sweep(DEPTH, service=service(environment={"HF_HOME": "/other"})),
        sweep(DEPTH, service=service(host=HostEntry(name="other", gpus=8))),
        sweep(DEPTH, service=service(flags=flags)),  # of the reference only
        sweep(DEPTH, service=service(model=replace(K26, layers=60))),
    ]
    assert [planned(one).digest for one in same] == [base] * len(same)
    digests = [planned(one).digest for one in changed]
    assert base not in digests
    assert len(set(digests)) == len(digests)


def test_facts_are_the_inventorys() -> None:
    assert facts_of(service()) == Facts(version="0.5.23", gpus=8, model=K26)


def test_cards_as_a_run_saw_them_count_where_the_inventory_does_not_say() -> None:
    assert facts_of(service(), (98304, 97280)).gpu_memory_gib == 95.0
    said = replace(service(), host=replace(service().host, gpu_memory_gib=80.0))
    assert facts_of(said, (98304,)).gpu_memory_gib == 80.0


def test_as_json_is_plain_and_whole() -> None:
    group = Axis(name="layout", points=(Point(flags={"pp-size": 8, "cuda-graph-bs": (1, 2)}),))
    content = planned(sweep(group, budget=Budget(hours=9))).as_json()
    assert json.loads(json.dumps(content)) == content
    assert content["trials"][0]["settings"] == {"pp-size": 8, "cuda-graph-bs": [1, 2]}
    assert len(content["trials"][0]["config_id"]) == 12
    assert content["fits"] is True
    assert content["estimate"]["total_s"] == pytest.approx(2 * 900 + 3 * 13.2)


def test_how_much_kv_fits_is_said_of_each_config_once_the_card_is_known() -> None:
    model = replace(K26, weight_gib=575.0, kv_lora_rank=512, rope_dim=64, vocabulary=163840)
    box = HostEntry(name="box", gpus=8, gpu_memory_gib=95.6)
    layouts = (axis("pp-size", 8, 1), axis("tp-size", 1, 8))
    load = workload(concurrency=(4, 64), lengths=Lengths(kind="fixed", tokens=4096))
    made = planned(sweep(*layouts, service=service(host=box, model=model), workload=load))
    assert {trial.slug: trial.kv_tokens for trial in made.trials} == {"pp8": 1208942, "pp1": None, "pp1.tp8": 237218}
    assert made.kv_needed == {4: 4 * (4096 + 24), 64: 64 * (4096 + 24)}
    warned = {group.rule: group.slugs for group in made.notes}
    assert (warned["weights-fit"], warned["load-beyond-kv"]) == (("pp1",), ("pp1.tp8",))
    assert all(trial.kv_tokens is None for trial in planned(sweep(*layouts)).trials)


def test_whole_rounds_of_launches_are_left_out_before_any_config() -> None:
    # A round of two configs takes 2 x 913 s, the restore 900 s: an hour has room for one round, two hours for three.
    asked = sweep(DEPTH, budget=Budget(hours=1), reference="none", repeats=Repeats(launches=4))
    made = planned(asked)
    assert (made.rounds, made.left_out, len(made.blocks)) == (1, (), 4)
    assert planned(replace(asked, budget=Budget(hours=2))).rounds == 3
    assert planned(replace(asked, budget=Budget(hours=3))).rounds == 4
    short = planned(replace(asked, budget=Budget(hours=0.6)))
    assert (short.rounds, len(short.left_out)) == (1, 1)
    assert planned(replace(asked, budget=Budget())).rounds == 4
