"""The plan on the screen, whole: 80 columns, no colour, and what happens next."""

from dataclasses import replace
from datetime import UTC, datetime
from textwrap import dedent

from orchestrator.core.inventory import HostEntry
from orchestrator.core.plan.plan import LaunchTimes, Plan, facts_of, plan
from orchestrator.core.sweep import Axis, Budget, Point, Repeats, Sweep
from orchestrator.report.plan import plan_text
from tests.core.sweeps import K26, axis, service, sweep, workload

NOW = datetime(2026, 12, 1, 22, 0, tzinfo=UTC)
DEPTH = axis("pp-async-batch-depth", 0, 8)
SWITCH = axis("cuda-graph", True, False)
PINNED = {"chunked-prefill-size": 8192, "pp-max-micro-batch-size": 16, "cuda-graph-max-bs": 16}


def made(asked: Sweep, recorded: LaunchTimes | None = None) -> Plan:
    return plan(asked, facts_of(asked.service), recorded, now=NOW)


def shown(asked: Sweep, recorded: LaunchTimes | None = None) -> str:
    text = plan_text(made(asked, recorded))
    assert max(len(line) for line in text.splitlines()) <= 80
    return text + "\n"


def test_a_plan_that_fits() -> None:
    asked = sweep(
        axis("pp-size", 8, 1),
        axis("tp-size", 1, 8, 4),
        DEPTH,
        SWITCH,
        where=["pp_size * tp_size >= gpus", "tp_size < 100"],
        flags=PINNED,
        order="as-listed",
        budget=Budget(until="07:00"),
    )
    assert shown(asked) == dedent("""\
        night on box · engine 0.5.23 (assumed) · 8 GPUs

          #  config            pp  tp  depth  graph
          1  pp8.d0            8   1   0      on
          2  pp8.d0.eager      8   1   0      off
          3  pp8.d8            8   1   8      on
          4  pp8.d8.eager      8   1   8      off
          5  pp1.tp8.d0        1   8   0      on
          6  pp1.tp8.d0.eager  1   8   0      off

          refused    8  pp_size * tp_size >= gpus
                     0  tp_size < 100 (rules nothing out)
                     8  tp-size × pp-size × dp-size GPUs must be there; pp8.tp8.d0:
                        tp-size 8 × pp-size 8 needs 64 GPUs: the host has 8, the product
                        must be at most 8 (rule gpus-present)
          aliases    1  pp1.tp8.d8 resolves to pp1.tp8.d0
                     1  pp1.tp8.d8.eager resolves to pp1.tp8.d0.eager
          notes      4  pp-size > 1 switches the overlap scheduler off
                     4  pp-size > 1 leaves prefill graphs out unless they are asked for
                     2  pp-async-batch-depth above one has an open report of wrong
                        outputs
                     2  multimodal models get no prefill graph unless it is asked for
                     2  pp-async-batch-depth needs pp-size > 1: with one stage the
                        engine ignores it

          6 configs · 7 launches (1 of production) · 8 levels (2 of production)
          order: as listed
          about 1 h 47 min: 7 x 15 min to start, 106 s measuring
          assumed: 15 tok/s a stream, a start takes a quarter of startup.timeout
          budget until 07:00: fits
          nothing has been touched. Next: tune sweep sweeps/night.yaml
        """)


def test_a_plan_that_is_blocked() -> None:
    asked = sweep(DEPTH, flags=PINNED, service=service(kind="vllm"))
    assert shown(asked) == dedent("""\
        night on box · engine 0.5.23 (assumed) · 8 GPUs

          #  config  depth
          1  d0      0
          2  d8      8

          notes      2  pp-size > 1 switches the overlap scheduler off
                     2  pp-size > 1 leaves prefill graphs out unless they are asked for
                     1  pp-async-batch-depth above one has an open report of wrong
                        outputs

          2 configs · 3 launches (1 of production) · 4 levels (2 of production)
          order: shuffled, seed 0
          about 46 min: 3 x 15 min to start, 53 s measuring
          assumed: 15 tok/s a stream, a start takes a quarter of startup.timeout
          cannot run: engines of kind vllm are not honoured yet: trials are SGLang
          nothing has been touched
        """)


def test_a_budget_that_is_too_short() -> None:
    asked = sweep(axis("pp-async-batch-depth", *range(4)), flags=PINNED, budget=Budget(hours=1), reference="none")
    assert shown(asked) == dedent("""\
        night on box · engine 0.5.23 (assumed) · 8 GPUs

          #  config  depth  note
          1  d0      0
          2  d1      1
          3  d2      2      no time for it
          4  d3      3      no time for it

          notes      4  pp-size > 1 switches the overlap scheduler off
                     4  pp-size > 1 leaves prefill graphs out unless they are asked for
                     2  pp-async-batch-depth above one has an open report of wrong
                        outputs

          4 configs · 5 launches (1 of production) · 4 levels
          order: shuffled, seed 0
          about 76 min: 5 x 15 min to start, 53 s measuring
          assumed: 15 tok/s a stream, a start takes a quarter of startup.timeout
          budget 1 h: too short by 16 min; left out would be d2, d3
          nothing has been touched. Next: tune sweep sweeps/night.yaml
        """)


def test_recorded_starts() -> None:
    asked = sweep(DEPTH, flags=PINNED, order="as-listed", reference="none")
    assert shown(asked, LaunchTimes(usual_s=412.0)) == dedent("""\
        night on box · engine 0.5.23 (assumed) · 8 GPUs

          #  config  depth
          1  d0      0
          2  d8      8

          notes      2  pp-size > 1 switches the overlap scheduler off
                     2  pp-size > 1 leaves prefill graphs out unless they are asked for
                     1  pp-async-batch-depth above one has an open report of wrong
                        outputs

          2 configs · 3 launches (1 of production) · 2 levels
          order: as listed
          about 21 min: 21 min for 3 launches, 26 s measuring
          assumed: 15 tok/s a stream, starts as recorded
          nothing has been touched. Next: tune sweep sweeps/night.yaml
        """)


def test_nothing_is_left_to_run() -> None:
    asked = sweep(axis("tp-size", 3, 5), flags={**PINNED, "pp-size": 1})
    assert shown(asked) == dedent("""\
        night on box · engine 0.5.23 (assumed) · 8 GPUs

          refused    2  each attention group's share of tp-size must divide the model's
                        attention heads; tp3: tp-size 3: the model has 64 attention
                        heads, tp-size must divide it: 1, 2, 4, 8, 16, 32, 64 (rule
                        heads-divide)

          nothing to run; nothing has been touched
        """)


def test_long_names_and_many_axes_keep_inside_the_width() -> None:
    group = Axis(
        name="layout", points=tuple(Point(flags={"pp-size": 8, "tp-size": 1, "page-size": n}) for n in (32, 64))
    )
    asked = sweep(
        group,
        DEPTH,
        SWITCH,
        axis("chunked-prefill-size", 4096, 8192),
        axis("max-running-requests", 64),
        axis("schedule-conservativeness", 0.3, 1.0),
        axis("attention-backend", "triton"),
        axis("SGLANG_PP_LAYER_PARTITION", "8,8,8,8,8,7,7,7"),
        flags={"pp-max-micro-batch-size": 16, "cuda-graph-max-bs": 16},
        order="as-listed",
    )
    lines = shown(asked).splitlines()
    assert lines[2:4] == [
        "  #   config                                                            pp  tp",
        "  1   pp8.page32.d0.chunk4096.run64.cons0.3.attn-triton.layer.290b22af  8   1",
    ]
    wide = plan_text(made(asked), 200).splitlines()
    assert wide[2].split()[2:] == [
        "pp",
        "tp",
        "page",
        "depth",
        "graph",
        "prefill",
        "requests",
        "conservativeness",
        "backend",
        "partition",
    ]


def test_a_large_plan_is_cut_and_says_where_the_rest_is() -> None:
    asked = sweep(axis("max-prefill-tokens", *range(1, 101)), flags=PINNED, order="as-listed", workload=workload())
    lines = shown(asked).splitlines()
    assert lines[2].split() == ["#", "config", "tokens"]
    assert lines[63] == "  … and 40 more: tune plan sweeps/night.yaml --json has all"


def test_the_last_line_says_what_follows() -> None:
    text = plan_text(made(sweep(DEPTH)), following="the run begins")
    assert text.splitlines()[-1] == "  nothing has been touched. the run begins"
    assert plan_text(made(sweep(DEPTH)), following="").splitlines()[-1] == "  nothing has been touched"


def test_scarce_kv_is_a_note_and_the_span_of_it_a_line() -> None:
    model = replace(K26, weight_gib=575.0, kv_lora_rank=512, rope_dim=64, vocabulary=163840)
    box = HostEntry(name="box", gpus=8, gpu_memory_gib=95.6)
    layout = Axis(name="layout", points=tuple(Point(flags={"pp-size": pp, "tp-size": 8 // pp}) for pp in (8, 4)))
    asked = sweep(layout, flags=PINNED, order="as-listed", service=service(host=box, model=model))
    lines = shown(asked).splitlines()
    assert lines[2:5] == [
        "  #  config   pp  tp  note",
        "  1  pp8      8   1",
        "  2  pp4.tp2  4   2   KV for about 670k tokens",
    ]
    assert "  KV for about 670k to 1.2M tokens; C=4 needs up to 696" in lines


def test_rounds_of_launches_that_have_no_time() -> None:
    asked = sweep(DEPTH, flags=PINNED, budget=Budget(hours=1), reference="none", repeats=Repeats(launches=4))
    assert "left out would be rounds 2 to 4 of launches" in " ".join(shown(asked).split())
    asked = sweep(DEPTH, flags=PINNED, budget=Budget(hours=2), reference="none", repeats=Repeats(launches=4))
    assert "left out would be round 4 of launches" in " ".join(shown(asked).split())
