"""Alembic's environment: runs inside the transaction that `esper_agents.storage.migrate` opens, or by itself."""

from __future__ import annotations

from alembic import context
from esper_agents.paths import home
from esper_agents.storage.engine import WRITES, database_url, open_engine
from esper_agents.storage.tables import FULL_TEXTS, metadata


def is_described(name, kind, _parents):
    """Leave out the full text, which each database makes in its own SQL."""
    return not (kind == "table" and name and name.startswith(FULL_TEXTS))


def run(connection):
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
