"""Alembic's environment: runs inside the transaction that `esper_agents.storage.migrate` opens, or by itself."""

from __future__ import annotations

from sqlalchemy import Index, text

from alembic import context
from esper_agents.domain.memory import NoteState
from esper_agents.paths import home
from esper_agents.storage.database_url import database_url
from esper_agents.storage.engine import WRITES, open_engine
from esper_agents.storage.postgres_schema import create_schema
from esper_agents.storage.schema_names import FULL_TEXTS
from esper_agents.storage.tables import metadata, note

if not any(index.name == "ix_note_current" for index in note.indexes):
    # What a new note supersedes, without the history of its subject.
    is_current = text(f"state = '{NoteState.CURRENT}'")
    columns = (note.c.project_key, note.c.agent, note.c.kind, note.c.subject)
    Index("ix_note_current", *columns, sqlite_where=is_current, postgresql_where=is_current)


def is_described(name, kind, _parents):
    """Leave out the full text, which each database makes in its own SQL."""
    return not (kind == "table" and name and name.startswith(FULL_TEXTS))


def run(connection):
    if connection.dialect.name == "postgresql" and connection.scalar(text("SELECT current_schema()")) is None:
        create_schema(connection)
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True, include_name=is_described)
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    with open_engine(database_url(home() / "esper.db")).connect().execution_options(**{WRITES: True}) as opened:
        run(opened)
        opened.commit()
