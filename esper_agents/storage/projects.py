"""The projects known to a database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.storage.compiled_statements import Prepared

if TYPE_CHECKING:
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Transaction

# Two processes may insert the same project at the same moment.
_NOTE = Prepared(
    "INSERT INTO project (key, root, name, opened_at) VALUES (:key, :root, :name, :at) ON CONFLICT (key) DO NOTHING"
)


def note_project(transaction: Transaction, project: Project) -> None:
    """Insert the row of a project unless it exists."""
    given = {"key": project.key, "root": project.root, "name": project.name, "at": transaction.at}
    _NOTE.rows(transaction.connection, given)
