"""What was measured, in SQL. The only home of SQLAlchemy and Alembic."""
