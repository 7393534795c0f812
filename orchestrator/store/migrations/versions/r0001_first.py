"""The first layout: run, config, build, trial, launch, level, request file, telemetry, event."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "run",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("sweep", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("rehearsal", sa.Boolean(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Text()),
        sa.Column("last_at", sa.Text(), nullable=False),
        sa.Column("resumes", sa.Integer(), nullable=False),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("host_state", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("restore_state", sa.Text()),
        sa.Column("restore_s", sa.Float()),
        sa.Column("restore_detail", sa.Text()),
        sa.Column("tool_version", sa.Text(), nullable=False),
        sa.Column("sweep_digest", sa.Text(), nullable=False),
        sa.Column("sweep_text", sa.Text(), nullable=False),
        sa.Column("plan", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_run"),
        sa.UniqueConstraint("run", name="uq_run_run"),
        sa.UniqueConstraint("run", "simulated", name="uq_run_run_simulated"),
    )
    op.create_table(
        "config",
        sa.Column("config_id", sa.Text(), nullable=False),
        sa.Column("config_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("config_id", name="pk_config"),
    )
    op.create_table(
        "build",
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("build", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("build_id", name="pk_build"),
    )
    op.create_table(
        "trial",
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text(), nullable=False),
        sa.Column("order", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("alias_of", sa.Text()),
        sa.Column("config_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run", "trial", name="pk_trial"),
        sa.ForeignKeyConstraint(["run"], ["run.run"], name="fk_trial_run"),
        sa.ForeignKeyConstraint(["config_id"], ["config.config_id"], name="fk_trial_config"),
    )
    op.create_index("ix_trial_config_id", "trial", ["config_id"])
    op.create_table(
        "launch",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text()),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("ready_at", sa.Text()),
        sa.Column("ended_at", sa.Text()),
        sa.Column("ready_s", sa.Float()),
        sa.Column("phases", sa.JSON()),
        sa.Column("invocation_id", sa.Text()),
        sa.Column("failure_class", sa.Text()),
        sa.Column("verdict", sa.Text()),
        sa.Column("explanation", sa.Text()),
        sa.Column("next_step", sa.Text()),
        sa.Column("evidence", sa.JSON()),
        sa.Column("failed_after_s", sa.Float()),
        sa.Column("build_id", sa.Text(), nullable=False),
        sa.Column("argv", sa.JSON(), nullable=False),
        sa.Column("unit_text", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON()),
        sa.PrimaryKeyConstraint("number", name="pk_launch"),
        sa.UniqueConstraint("run", "trial", "launch", name="uq_launch_run_trial_launch"),
        sa.ForeignKeyConstraint(["build_id"], ["build.build_id"], name="fk_launch_build"),
        sa.ForeignKeyConstraint(["run", "trial"], ["trial.run", "trial.trial"], name="fk_launch_trial"),
        sa.ForeignKeyConstraint(["run", "simulated"], ["run.run", "run.simulated"], name="fk_launch_run"),
    )
    op.create_table(
        "level",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("started_at", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.Text()),
        sa.Column("workload", sa.Text(), nullable=False),
        sa.Column("workload_digest", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("requests", sa.Integer(), nullable=False),
        sa.Column("requests_ok", sa.Integer()),
        sa.Column("requests_failed", sa.Integer()),
        sa.Column("requests_short", sa.Integer()),
        sa.Column("requests_over_long", sa.Integer()),
        sa.Column("requests_tokens_unknown", sa.Integer()),
        sa.Column("output_tokens", sa.Integer()),
        sa.Column("wall_s", sa.Float()),
        sa.Column("whole_tok_s", sa.Float()),
        sa.Column("steady_tok_s", sa.Float()),
        sa.Column("mean_tokens", sa.Float()),
        sa.Column("held_concurrency", sa.Float()),
        *_spread("ttft"),
        *_spread("tpot"),
        *_spread("gap"),
        *_spread("first_wave_ttft"),
        sa.Column("watts_per_gpu", sa.Float()),
        sa.Column("engine_tokens", sa.Float()),
        sa.Column("client", sa.JSON()),
        sa.PrimaryKeyConstraint("number", name="pk_level"),
        sa.UniqueConstraint(
            "run", "trial", "launch", "level", "purpose", name="uq_level_run_trial_launch_level_purpose"
        ),
        sa.ForeignKeyConstraint(
            ["run", "trial", "launch"], ["launch.run", "launch.trial", "launch.launch"], name="fk_level_launch"
        ),
        sa.ForeignKeyConstraint(["run", "simulated"], ["run.run", "run.simulated"], name="fk_level_run"),
    )
    op.create_table(
        "request_file",
        sa.Column("level_number", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("level_number", name="pk_request_file"),
        sa.UniqueConstraint("path", name="uq_request_file_path"),
        sa.ForeignKeyConstraint(["level_number"], ["level.number"], name="fk_request_file_level"),
    )
    op.create_table(
        "telemetry",
        sa.Column("level_number", sa.Integer(), nullable=False),
        sa.Column("samples", sa.Integer(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("power_w_mean", sa.Float()),
        sa.Column("power_w_max", sa.Float()),
        sa.Column("utilisation_mean", sa.Float()),
        sa.Column("memory_mib_max", sa.Float()),
        sa.Column("sm_clock_mhz_min", sa.Float()),
        sa.Column("temperature_c_max", sa.Float()),
        sa.Column("readings", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level_number", name="pk_telemetry"),
        sa.ForeignKeyConstraint(["level_number"], ["level.number"], name="fk_telemetry_level"),
    )
    op.create_table(
        "event",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text()),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_event"),
        sa.UniqueConstraint("run", "digest", name="uq_event_run_digest"),
        sa.ForeignKeyConstraint(["run"], ["run.run"], name="fk_event_run"),
    )
    op.create_index("ix_event_run_kind", "event", ["run", "kind"])


def _spread(name: str) -> list[sa.Column[float] | sa.Column[int]]:
    times: list[sa.Column[float] | sa.Column[int]] = [
        sa.Column(f"{name}_{figure}_s", sa.Float()) for figure in ("mean", "p50", "p95", "p99")
    ]
    return [*times, sa.Column(f"{name}_count", sa.Integer())]
