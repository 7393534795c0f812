"""How the model is split over GPUs, and the pipeline.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.flag import Flag, Form, Option

FLAGS: tuple[Flag, ...] = (
    Flag(
        name="tp-size", kind="int", group="parallel", short="tp", default=1, aliases=("tensor-parallel-size",), least=1
    ),
    Flag(
        name="pp-size",
        kind="int",
        group="parallel",
        short="pp",
        default=1,
        aliases=("pipeline-parallel-size",),
        least=1,
    ),
    Flag(
        name="dp-size",
        kind="int",
        group="parallel",
        short="dp",
        default=1,
        aliases=("data-parallel-size",),
        least=1,
        note="whole replicas of the model: multiplies the GPUs needed",
    ),
    Flag(
        name="attn-dp-size",
        kind="int",
        group="parallel",
        short="adp",
        default=1,
        least=1,
        forms=(
            Form(until="0.5.22", option="dp-size", also=("--enable-dp-attention",)),
            Form(since="0.5.22", option="attn-dp-size"),
        ),
        note="attention data parallelism inside tp: no GPUs beyond tp x pp",
    ),
    Flag(
        name="ep-size",
        kind="int",
        group="parallel",
        short="ep",
        default=1,
        aliases=("expert-parallel-size", "ep"),
        note="forced to tp-size by every a2a backend except none",
        least=1,
    ),
    Flag(
        name="moe-dp-size",
        kind="int",
        group="parallel",
        short="mdp",
        default=1,
        aliases=("moe-data-parallel-size",),
        since="0.5.9",
        least=1,
    ),
    Flag(name="moe-dense-tp-size", kind="int", group="parallel", short="dtp", least=1),
    Flag(
        name="dcp-size",
        kind="int",
        group="parallel",
        short="dcp",
        default=1,
        aliases=("decode-context-parallel-size",),
        since="0.5.15",
        least=1,
    ),
    Flag(
        name="attn-cp-size",
        kind="int",
        group="parallel",
        short="acp",
        default=1,
        aliases=("attention-context-parallel-size",),
        since="0.5.9",
        least=1,
    ),
    Flag(name="enable-dp-lm-head", kind="switch", group="parallel", short="dplm", default=False),
    Flag(
        name="load-balance-method",
        kind="enum",
        group="parallel",
        short="lb",
        default="auto",
        choices=("auto", "round_robin", "follow_bootstrap_room", "total_requests", "total_tokens"),
        choices_since={
            "decode_round_robin": "0.5.7",
            "auto": "0.5.8",
            "follow_bootstrap_room": "0.5.8",
            "total_requests": "0.5.8",
            "total_tokens": "0.5.8",
        },
        choices_gone={"shortest_queue": "0.5.8", "minimum_tokens": "0.5.8", "decode_round_robin": "0.5.8"},
    ),
    Flag(name="nnodes", kind="int", group="parallel", short="nodes", default=1, least=1),
    Flag(name="node-rank", kind="int", group="parallel", short="rank", default=0, least=0),
    Flag(name="dist-init-addr", kind="str", group="parallel", short="init", aliases=("nccl-init-addr",)),
    Flag(name="dist-timeout", kind="int", group="parallel", short="disttmo"),
    Flag(name="nccl-port", kind="int", group="parallel", short="ncclport"),
    Flag(name="base-gpu-id", kind="int", group="parallel", short="gpu0", default=0),
    Flag(name="gpu-id-step", kind="int", group="parallel", short="gpustep", default=1),
    Flag(name="numa-node", kind="int-list", group="parallel", short="numa"),
    Flag(
        name="pp-max-micro-batch-size",
        kind="int",
        group="pipeline",
        short="mb",
        least=1,
        live=True,
        forms=(
            Form(until="0.5.4", option="max-micro-batch-size"),
            Form(since="0.5.4", option="pp-max-micro-batch-size"),
        ),
        note="most requests in one pipeline slot; unset: max(1, max-running-requests // pp-size)",
    ),
    Flag(
        name="pp-async-batch-depth",
        kind="int",
        group="pipeline",
        short="d",
        default=0,
        since="0.5.7",
        least=0,
        note="spare slots beyond pp-size; wrong outputs were reported above 1 (sglang issue 15527)",
    ),
    Flag(name="enable-dynamic-chunking", kind="switch", group="pipeline", short="dyn", default=False, since="0.5.7"),
)

OPTIONS: tuple[Option, ...] = (
    Option(
        name="attn-dp-size",
        kind="int",
        means="attn-dp-size",
        aliases=("attention-data-parallel-size",),
        since="0.5.22",
    ),
    Option(name="pp-max-micro-batch-size", kind="int", means="pp-max-micro-batch-size", since="0.5.4"),
    Option(name="enable-dp-attention", kind="switch", means="attn-dp-size", deprecated="0.5.22"),
    Option(
        name="max-micro-batch-size", kind="int", means="pp-max-micro-batch-size", removed="0.5.4", deprecated="0.5.4"
    ),
)
