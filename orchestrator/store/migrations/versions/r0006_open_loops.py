"""Levels of open loops: the rate asked for, what was sent and answered; and the arrival where there are several."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Four columns; what was recorded before were closed loops of one arrival."""
    op.add_column("level", sa.Column("rate", sa.Float))
    op.add_column("level", sa.Column("arrival", sa.Text))
    op.add_column("level", sa.Column("sent_rate", sa.Float))
    op.add_column("level", sa.Column("answered_rate", sa.Float))
