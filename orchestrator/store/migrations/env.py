"""How Alembic runs our steps: on the connection it is handed, in the transaction that is already open."""

from __future__ import annotations

from alembic import context

from orchestrator.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,  # SQLite can, once Python's own implicit transactions are off
)
with context.begin_transaction():
    context.run_migrations()
