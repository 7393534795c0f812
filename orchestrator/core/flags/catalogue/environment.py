"""Environment variables that tune the engine, and those that only the simulated engine knows.

Facts read from SGLang's environment declarations, 0.5.7 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.flag import Tunable

TUNABLES: tuple[Tunable, ...] = (
    Tunable(
        name="SGLANG_PP_LAYER_PARTITION",
        kind="str",
        short="layers",
        example="8,8,8,8,8,7,7,7",
        note="layers per pipeline stage: as many counts as pp-size, summing to the model's layers",
    ),
    Tunable(
        name="SGLANG_PP_COMM_OVERLAP",
        kind="switch",
        short="ppoverlap",
        default="0",
        since="0.5.21",
        note="stage-to-stage sends on a CUDA stream of their own",
    ),
    Tunable(
        name="SGLANG_PP_SKIP_PURE_CHUNKED_OUTPUT_COMM",
        kind="switch",
        short="ppskip",
        default="0",
        since="0.5.13",
        note="no output exchange for batches that hold only prompt chunks",
    ),
    Tunable(
        name="SGLANG_ENABLE_PP_SPEC",
        kind="switch",
        short="ppspec",
        default="0",
        since="0.5.21",
        note="speculative decoding together with pp-size > 1",
    ),
    Tunable(
        name="SGLANG_WARMUP_TIMEOUT",
        kind="float",
        short="warmtmo",
        default="-1",
        note="s for the start-up request; -1 means 600",
    ),
    Tunable(
        name="SGLANG_HEALTH_CHECK_TIMEOUT",
        kind="int",
        short="healthtmo",
        default="20",
        note="s that /health waits for the scheduler",
    ),
    Tunable(
        name="SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION",
        kind="switch",
        short="healthgen",
        default="1",
        note="off: /health is 200 once started, without making a token",
    ),
    Tunable(
        name="SGLANG_CACHE_DIR",
        kind="str",
        short="cachedir",
        since="0.5.11",
        note="root of the compiled kernel caches",
    ),
    Tunable(
        name="SGL_FORCE_SHUTDOWN",
        kind="switch",
        short="forcestop",
        default="0",
        note="SIGTERM ends without answering the requests under way",
    ),
    Tunable(
        name="TUNE_SIM_FAULT",
        kind="str",
        short="fault",
        simulated_only=True,
        example="dies-at-start",
        note="failures on demand: tune sim faults",
    ),
    Tunable(
        name="TUNE_SIM_SPEED",
        kind="float",
        short="speed",
        default="1",
        simulated_only=True,
        example="20",
        note="factor by which the simulated engine runs faster than real time",
    ),
)
