"""Numbered steps from one layout of the database to the next. A released step is never edited."""
