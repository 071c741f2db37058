"""SQLAlchemy and the tables as `sql` and `tables`, imported when a function uses one of their names.

For modules of which a command that only reads loads some functions: the import takes longer than all of its work.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["sql", "tables"]


class _LazyModule:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = vars(self)[name] = getattr(import_module(self._name), name)
        return found


if TYPE_CHECKING:
    import sqlalchemy as sql

    from esper_agents.storage import tables
else:
    sql = _LazyModule("sqlalchemy")
    tables = _LazyModule("esper_agents.storage.tables")
