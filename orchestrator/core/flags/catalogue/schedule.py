"""Which requests run together: batching, memory for KV, prefix caching.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.flag import INVERTED, Flag, Form, Option

FLAGS: tuple[Flag, ...] = (
    Flag(
        name="chunked-prefill-size",
        kind="int",
        group="schedule",
        short="chunk",
        least=-1,
        off_value=-1,
        note="tokens; unset: 8192 on cards of 60 to 160 GiB; divided by attn-dp-size; a multiple of page-size",
    ),
    Flag(name="max-prefill-tokens", kind="int", group="schedule", short="prefill", default=16384, least=1),
    Flag(name="prefill-max-requests", kind="int", group="schedule", short="preq", since="0.5.7"),
    Flag(name="prefill-decode-interval", kind="int", group="schedule", short="pdi", since="0.5.19"),
    Flag(
        name="max-running-requests",
        kind="int",
        group="schedule",
        short="run",
        least=1,
        note="unset: 2048 to 4096; lowered to half the KV tokens without a word before 0.5.23",
    ),
    Flag(name="max-queued-requests", kind="int", group="schedule", short="queue"),
    Flag(name="max-total-tokens", kind="int", group="schedule", short="kvtok", least=1),
    Flag(
        name="mem-fraction-static",
        kind="float",
        group="schedule",
        short="mem",
        below=1.0,
        note="share of GPU memory for weights and KV; unset: computed, then cut for multimodal models",
    ),
    Flag(
        name="schedule-policy",
        kind="enum",
        group="schedule",
        short="policy",
        default="fcfs",
        choices=(
            "lpm",
            "random",
            "fcfs",
            "dfs-weight",
            "lof",
            "priority",
            "routing-key",
            "hrrn",
            "shortest-prefill-first",
        ),
        choices_since={"routing-key": "0.5.8", "hrrn": "0.5.20", "shortest-prefill-first": "0.5.21"},
    ),
    Flag(name="schedule-conservativeness", kind="float", group="schedule", short="cons", default=1.0),
    Flag(name="page-size", kind="int", group="schedule", short="page", least=1),
    Flag(
        name="overlap-schedule",
        kind="switch",
        group="schedule",
        short="nooverlap",
        default=True,
        forms=(Form(option="disable-overlap-schedule", when=False),),
    ),
    Flag(name="enable-mixed-chunk", kind="switch", group="schedule", short="mixed", default=False),
    Flag(name="num-continuous-decode-steps", kind="int", group="schedule", short="steps", default=1, least=1),
    Flag(name="scheduler-recv-interval", kind="int", group="schedule", short="recv", default=1),
    Flag(
        name="radix-cache",
        kind="switch",
        group="schedule",
        short="noradix",
        default=True,
        forms=(Form(option="disable-radix-cache", when=False),),
    ),
    Flag(
        name="radix-eviction-policy",
        kind="enum",
        group="schedule",
        short="evict",
        default="lru",
        choices=("lru", "lfu", "slru", "priority", "tlru"),
        choices_since={"slru": "0.5.10", "priority": "0.5.11", "tlru": "0.5.21"},
    ),
    Flag(
        name="chunked-prefix-cache",
        kind="switch",
        group="schedule",
        short="noprefix",
        default=True,
        forms=(Form(option="disable-chunked-prefix-cache", when=False),),
    ),
    Flag(
        name="enable-hierarchical-cache",
        kind="switch",
        group="schedule",
        short="hicache",
        default=False,
        aliases=("enable-hicache",),
    ),
    Flag(name="stream-interval", kind="int", group="schedule", short="stream", default=1, least=1),
    Flag(name="tokenizer-worker-num", kind="int", group="schedule", short="tok", default=1, least=1),
    Flag(name="sleep-on-idle", kind="switch", group="schedule", short="sleep", default=False),
    Flag(name="enable-prefill-delayer", kind="switch", group="schedule", short="delayer", default=False, since="0.5.8"),
    Flag(name="min-free-slots-delay", kind="int", group="schedule", short="slots", since="0.5.15"),
)

OPTIONS: tuple[Option, ...] = (
    Option(name="disable-overlap-schedule", kind="switch", means="overlap-schedule", becomes=INVERTED),
    Option(name="disable-radix-cache", kind="switch", means="radix-cache", becomes=INVERTED),
    Option(name="disable-chunked-prefix-cache", kind="switch", means="chunked-prefix-cache", becomes=INVERTED),
)
