"""Configs that were not measured say why, and which other config decided it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two columns; what was recorded before has neither."""
    op.add_column("trial", sa.Column("because", sa.Text()))
    op.add_column("trial", sa.Column("reason", sa.Text()))
