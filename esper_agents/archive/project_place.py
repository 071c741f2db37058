"""Places of a project's certificates: data folder, database and published views."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.status import QuestionType
from esper_agents.paths import project_home
from esper_agents.storage.database_url import database_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from esper_agents.domain.project import Project
    from esper_agents.storage.store import AsyncStore


def all_question_types() -> frozenset[QuestionType]:
    """Return every question type, which is the default for publishing."""
    return frozenset(QuestionType)


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """Project with the places of its certificates.

    Attributes:
        project: The project.
        home: Folder of the project in the data directory.
        store: Database of the ledgers and certificates.
        publish: Whether views may be written into the project.
        published_types: Returns the question types whose certificates the user wants published into projects; called
            when a view is about to be written.
    """

    project: Project
    home: Path
    store: AsyncStore
    publish: bool = True
    published_types: Callable[[], frozenset[QuestionType]] = all_question_types

    @property
    def artifacts(self) -> Path:
        """Folder of the files that tools produced."""
        return self.home / "artifacts"


def has_archive(project: Project) -> bool:
    """Return whether a project has a database; opening a missing one would create it."""
    url = database_url(project_home(project.key) / "esper.db")
    return url.get_backend_name() != "sqlite" or os.path.exists(url.database or "")  # noqa: PTH110 - never raises
