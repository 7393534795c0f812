"""What each launch answered to the fixed prompts, whole: a config whose answers are broken cannot win."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """A table; launches that were recorded before have nothing in it."""
    op.create_table(
        "sanity",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("run", sa.Text(), nullable=False),
        sa.Column("trial", sa.Text(), nullable=False),
        sa.Column("launch", sa.Text(), nullable=False),
        sa.Column("turn", sa.Integer(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("answers", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_sanity"),
        sa.UniqueConstraint("run", "trial", "launch", "turn", name="uq_sanity_run_trial_launch_turn"),
        sa.ForeignKeyConstraint(
            ["run", "trial", "launch"], ["launch.run", "launch.trial", "launch.launch"], name="fk_sanity_launch"
        ),
    )
