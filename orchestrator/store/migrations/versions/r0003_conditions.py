"""Levels tell what they were measured under, and what to know of their number."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Two columns; what was recorded before has neither."""
    op.add_column("level", sa.Column("conditions", sa.JSON(none_as_null=True)))
    op.add_column("level", sa.Column("warnings", sa.JSON(none_as_null=True)))
