"""Common base of a project's services: the project and its database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.api.project import OpenProject


class Service:
    """One group of operations of an open project."""

    def __init__(self, project: OpenProject) -> None:
        """Belong to a project; use the attributes of `OpenProject`."""
        self._project = project
        self._services = project.services
        self._place = self._services.place
        self._root = Path(self._services.project.root)
        self._key = self._services.project.key
        self._store = self._services.store
