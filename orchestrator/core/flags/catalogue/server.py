"""HTTP server, watchdogs, logs and metrics.

Facts read from SGLang's argument declarations, 0.5.3 to 0.5.23.
"""

from __future__ import annotations

from orchestrator.core.flags.flag import INVERTED, Flag, Form, Option

FLAGS: tuple[Flag, ...] = (
    Flag(name="host", kind="str", group="server", short="host", default="127.0.0.1"),
    Flag(
        name="port",
        kind="int",
        group="server",
        short="port",
        default=30000,
        note="DP attention also takes port+233.. ; metrics and HTTP share this port",
        least=1,
    ),
    Flag(name="api-key", kind="str", group="server", short="key"),
    Flag(name="admin-api-key", kind="str", group="server", short="adminkey", since="0.5.8"),
    Flag(
        name="server-warmup",
        kind="switch",
        group="server",
        short="nowarm",
        default=True,
        forms=(Form(option="skip-server-warmup", when=False),),
    ),
    Flag(name="warmups", kind="str", group="server", short="warmups"),
    Flag(
        name="watchdog-timeout",
        kind="float",
        group="server",
        short="wd",
        default=300.0,
        note="seconds; a stuck forward makes the scheduler SIGQUIT the parent",
    ),
    Flag(name="soft-watchdog-timeout", kind="float", group="server", short="swd", since="0.5.7"),
    Flag(
        name="config",
        kind="str",
        group="server",
        short="config",
        note="YAML file; CLI wins over file; list-valued/positional-action flags unsupported",
    ),
    Flag(name="crash-dump-folder", kind="str", group="server", short="dump"),
    Flag(name="random-seed", kind="int", group="server", short="seed"),
    Flag(
        name="sampling-defaults",
        kind="enum",
        group="server",
        short="sdef",
        default="model",
        choices=("openai", "model"),
        since="0.5.4",
    ),
    Flag(
        name="stream-response-default-include-usage",
        kind="switch",
        group="server",
        short="usage",
        default=False,
        since="0.5.10",
    ),
    Flag(
        name="incremental-streaming-output", kind="switch", group="server", short="incr", default=False, since="0.5.10"
    ),
    Flag(name="enable-cache-report", kind="switch", group="server", short="creport", default=False),
    Flag(name="delete-ckpt-after-loading", kind="switch", group="server", short="delckpt", default=False),
    Flag(name="log-level", kind="str", group="observability", short="log", default="info"),
    Flag(name="log-level-http", kind="str", group="observability", short="loghttp"),
    Flag(name="log-requests", kind="switch", group="observability", short="logreq", default=False),
    Flag(
        name="log-requests-level",
        kind="int",
        group="observability",
        short="logreqlevel",
        default=2,
        choices=("0", "1", "2", "3"),
    ),
    Flag(
        name="uvicorn-access-log-exclude-prefixes",
        kind="str-list",
        group="observability",
        short="accesslog",
        since="0.5.8",
    ),
    Flag(name="enable-metrics", kind="switch", group="observability", short="metrics", default=False),
    Flag(
        name="enable-metrics-for-all-schedulers",
        kind="switch",
        group="observability",
        short="allmetrics",
        default=False,
    ),
    Flag(name="enable-mfu-metrics", kind="switch", group="observability", short="mfu", default=False, since="0.5.10"),
    Flag(name="decode-log-interval", kind="int", group="observability", short="dlog", default=40, least=1),
    Flag(name="show-time-cost", kind="switch", group="observability", short="timecost", default=False),
    Flag(
        name="enable-request-time-stats-logging", kind="switch", group="observability", short="timestats", default=False
    ),
)

OPTIONS: tuple[Option, ...] = (
    Option(name="skip-server-warmup", kind="switch", means="server-warmup", becomes=INVERTED),
)
