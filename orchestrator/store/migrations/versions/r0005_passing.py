"""Invalid levels tell whether their reason passes: a resumed run measures those again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """One column; what was recorded before does not tell, and stays as it is."""
    op.add_column("level", sa.Column("passing", sa.Boolean()))
