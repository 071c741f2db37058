"""Names of the schema, apart from its tables, which load SQLAlchemy."""

from __future__ import annotations

# The migration that produces the schema of `tables`.
HEAD = "0011"
# The schema of the tables in a PostgreSQL database. The tables do not name it: SQLite has none.
SCHEMA = "esper"
# Full-text tables: FTS5 on SQLite, a tsvector on PostgreSQL; the migrations create them in the SQL of either.
FULL_TEXT = "certificate_text"
NOTE_TEXT = "note_text"
SESSION_TEXT = "session_text"
FULL_TEXTS = (FULL_TEXT, NOTE_TEXT, SESSION_TEXT)
