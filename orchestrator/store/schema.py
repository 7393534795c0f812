"""The tables. A column has the name its value has everywhere else; keys are the ids of plan, log and file names.

Changed only together with a numbered migration: a test compares the two. Rows are opened when work starts and
closed when it ends, so an interruption is visible as a row that was never closed.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)

run = Table(
    "run",
    metadata,
    Column("number", Integer, primary_key=True),  # order of creation: simulated clocks say nothing about it
    Column("run", Text, nullable=False, unique=True),
    Column("sweep", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("host", Text, nullable=False),
    Column("rehearsal", Boolean, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("last_at", Text, nullable=False),
    Column("resumes", Integer, nullable=False),
    Column("exit_code", Integer),
    Column("host_state", Text),
    Column("reason", Text),
    Column("restore_state", Text),
    Column("restore_s", Float),
    Column("restore_detail", Text),
    Column("tool_version", Text, nullable=False),
    Column("sweep_digest", Text, nullable=False),
    Column("sweep_text", Text, nullable=False),
    Column("plan", JSON, nullable=False),
    UniqueConstraint("run", "simulated"),  # what launches and levels refer to: pretended and real never mix
)

config = Table(
    "config",
    metadata,
    Column("config_id", Text, primary_key=True),
    Column("config_json", Text, nullable=False),
)

build = Table(
    "build",
    metadata,
    Column("build_id", Text, primary_key=True),
    Column("build", JSON, nullable=False),
)

trial = Table(
    "trial",
    metadata,
    Column("run", Text, ForeignKey("run.run"), primary_key=True),
    Column("trial", Text, primary_key=True),
    Column("order", Integer, nullable=False),
    Column("role", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("alias_of", Text),
    Column("because", Text),
    Column("reason", Text),
    Column("config_id", Text, ForeignKey("config.config_id"), nullable=False, index=True),
)

launch = Table(
    "launch",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("run", Text, nullable=False),
    Column("trial", Text, nullable=False),
    Column("launch", Text, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("phase", Text),
    Column("started_at", Text, nullable=False),
    Column("ready_at", Text),
    Column("ended_at", Text),
    Column("ready_s", Float),
    Column("phases", JSON(none_as_null=True)),
    Column("invocation_id", Text),
    Column("failure_class", Text),
    Column("verdict", Text),
    Column("explanation", Text),
    Column("next_step", Text),
    Column("evidence", JSON(none_as_null=True)),
    Column("failed_after_s", Float),
    Column("build_id", Text, ForeignKey("build.build_id"), nullable=False),
    Column("argv", JSON, nullable=False),
    Column("unit_text", Text, nullable=False),
    Column("settings", JSON(none_as_null=True)),
    UniqueConstraint("run", "trial", "launch"),
    ForeignKeyConstraint(["run", "trial"], ["trial.run", "trial.trial"]),
    ForeignKeyConstraint(["run", "simulated"], ["run.run", "run.simulated"]),
)


def _spread(name: str) -> list[Column[float] | Column[int]]:
    times: list[Column[float] | Column[int]] = [
        Column(f"{name}_{figure}_s", Float) for figure in ("mean", "p50", "p95", "p99")
    ]
    return [*times, Column(f"{name}_count", Integer)]


level = Table(
    "level",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("run", Text, nullable=False),
    Column("trial", Text, nullable=False),
    Column("launch", Text, nullable=False),
    Column("level", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("started_at", Text, nullable=False),
    Column("ended_at", Text),
    Column("workload", Text, nullable=False),
    Column("workload_digest", Text, nullable=False),
    Column("concurrency", Integer, nullable=False),  # 0: an open loop
    Column("rate", Float),
    Column("arrival", Text),
    Column("repeat", Integer, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("requests_ok", Integer),
    Column("requests_failed", Integer),
    Column("requests_short", Integer),
    Column("requests_over_long", Integer),
    Column("requests_tokens_unknown", Integer),
    Column("output_tokens", Integer),
    Column("wall_s", Float),
    Column("whole_tok_s", Float),
    Column("steady_tok_s", Float),
    Column("mean_tokens", Float),
    Column("held_concurrency", Float),
    Column("sent_rate", Float),
    Column("answered_rate", Float),
    *_spread("ttft"),
    *_spread("tpot"),
    *_spread("gap"),
    *_spread("first_wave_ttft"),
    Column("watts_per_gpu", Float),
    Column("engine_tokens", Float),
    Column("client", JSON(none_as_null=True)),
    Column("conditions", JSON(none_as_null=True)),  # ``core.conditions``
    Column("warnings", JSON(none_as_null=True)),
    Column("passing", Boolean),  # of an invalid one: a resumed run measures it again
    UniqueConstraint("run", "trial", "launch", "level", "purpose"),
    ForeignKeyConstraint(["run", "trial", "launch"], ["launch.run", "launch.trial", "launch.launch"]),
    ForeignKeyConstraint(["run", "simulated"], ["run.run", "run.simulated"]),
)

sanity = Table(
    "sanity",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("run", Text, nullable=False),
    Column("trial", Text, nullable=False),
    Column("launch", Text, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("at", Text, nullable=False),
    Column("answers", JSON, nullable=False),  # ``core.judge.sanity.Said``, in the order they were asked
    UniqueConstraint("run", "trial", "launch", "turn"),
    ForeignKeyConstraint(["run", "trial", "launch"], ["launch.run", "launch.trial", "launch.launch"]),
)

request_file = Table(
    "request_file",
    metadata,
    Column("level_number", Integer, ForeignKey("level.number"), primary_key=True),
    Column("path", Text, nullable=False, unique=True),
    Column("sha256", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("bytes", Integer, nullable=False),
)

telemetry = Table(
    "telemetry",
    metadata,
    Column("level_number", Integer, ForeignKey("level.number"), primary_key=True),
    Column("samples", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("power_w_mean", Float),
    Column("power_w_max", Float),
    Column("utilisation_mean", Float),
    Column("memory_mib_max", Float),
    Column("sm_clock_mhz_min", Float),
    Column("temperature_c_max", Float),
    Column("readings", LargeBinary, nullable=False),  # every reading: ``store.telemetry``
)

event = Table(
    "event",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("run", Text, ForeignKey("run.run"), nullable=False),
    Column("at", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("trial", Text),
    Column("body", JSON, nullable=False),
    Column("digest", Text, nullable=False),
    UniqueConstraint("run", "digest"),  # an event told twice is one event
    Index(None, "run", "kind"),
)
