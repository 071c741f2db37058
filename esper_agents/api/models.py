"""Language model settings of a project: reasoner, server and consent."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.service import Service
from esper_agents.domain.reasoner_names import CLAUDE, PLAYBOOK, REASONER
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.domain.task import Task
    from esper_agents.orchestration.consent import Consent
    from esper_agents.reasoning.models import Model, ModelTable
    from esper_agents.storage.model_usage import ModelUsage

AUTO = "auto"
# Environment variables, any of which provides access to a model.
MODEL_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ESPER_MODEL_SERVER")


def has_model_key() -> bool:
    """Return whether the environment provides access to a model."""
    return any(os.environ.get(name) for name in MODEL_VARIABLES)


@dataclass(frozen=True, slots=True)
class ModelCostPreview:
    """Data that would be sent to a model server, and the estimated cost.

    Attributes:
        host: The server.
        model: The model of the first agent.
        files: The files of the task; tools may read other files of the project for it.
        money: Estimated cost of one agent's work, in millionths of a US dollar.
        is_priced: Whether the model's price is known; if not, the price of the most expensive model is used.
        answer: The consent recorded for this project; None if the user has not answered yet.
    """

    host: str
    model: str
    files: tuple[str, ...]
    money: int
    is_priced: bool
    answer: Consent | None = None

    @property
    def is_agreed(self) -> bool:
        """Whether the user has consented."""
        return self.answer is not None and self.answer.is_agreed


class ModelService(Service):
    """Language model operations of an open project."""

    # Models for which the server has accepted the API key.
    _welcome: frozenset[str] = frozenset()

    @property
    def table(self) -> ModelTable:
        """The available models, by the roles in the user's settings."""
        return self._services.models

    @property
    def host(self) -> str:
        """Host of the model server that the environment configures.

        Raises:
            UsageError: There is no API key.
        """
        return self._services.server.host

    def preview(self, task: Task) -> ModelCostPreview:
        """Return the data that would be sent to the model server for a task.

        Raises:
            UsageError: There is no API key.
        """
        from esper_agents.reasoning.cost_estimate import estimate
        from esper_agents.review.discover import discover

        model, host = self._first_model(task), self._services.server.host
        found = discover(self._root, [Path(path) for path in task.paths], notebooks=True) if task.paths else ()
        guess = estimate(model, sum(each.file.stat().st_size for each in found))
        said = next((consent for consent in self.consents() if consent.host == host), None)
        return ModelCostPreview(
            host, model.name, tuple(each.path for each in found), guess.money, model.is_listed, said
        )

    def _first_model(self, task: Task) -> Model:
        from esper_agents.orchestration.routing import route_of

        by_model = replace(task, options={**task.options, REASONER: CLAUDE})
        agent = route_of(self._services, by_model).agent
        return self.table.resolve(self._services.agents.get(agent).model if agent else "")

    async def greet(self, task: Task) -> None:
        """Check that the model server accepts the API key, before a session of the task is created.

        Raises:
            UsageError: The server rejects the key or does not know the model.
            ModelBusyError: The server is unreachable.
        """
        if task.options.get(REASONER) != CLAUDE or (name := self._first_model(task).name) in self._welcome:
            return
        await self._services.server.greet(name)
        self._welcome |= {name}

    @property
    def has_key(self) -> bool:
        """Whether the environment provides access to a model."""
        return has_model_key()

    def with_reasoner(self, task: Task, wanted: str, *, is_plan: bool = False) -> Task:
        """Return a task with the requested reasoner.

        Args:
            task: The task.
            wanted: `playbook`, `claude`, or `auto`, which selects a model if there is an API key and consent.
            is_plan: Whether the task is only planned, which needs no consent for `claude`.

        Raises:
            UsageError: A model is requested and there is no API key.
            ConsentError: A model is requested without consent to send the data.
        """
        chosen = self.choose_reasoner(wanted, lambda: self.preview(task), is_plan=is_plan)
        return replace(task, options={**task.options, REASONER: chosen})

    def choose_reasoner(self, wanted: str, preview: Callable[[], ModelCostPreview], *, is_plan: bool = False) -> str:
        """Return the reasoner for a user's choice: a model, or the playbook.

        Args:
            wanted: See `with_reasoner`.
            preview: Returns the data that would be sent to the model.
            is_plan: See `with_reasoner`.

        Raises:
            UsageError: A model is requested and there is no API key.
            ConsentError: A model is requested without consent to send the data.
        """
        from esper_agents.orchestration import consent

        match wanted:
            case "playbook":
                return PLAYBOOK
            case "claude":
                if not (known := preview()).is_agreed and not is_plan:
                    raise consent.ConsentError(known.host)
                return CLAUDE
            case "auto":
                # Determining the server needs the SDK, which takes a second to import.
                may_be = self.has_key and any(each.is_agreed for each in self.consents())
                return CLAUDE if may_be and preview().is_agreed else PLAYBOOK
            case _:
                remedy = "use --reasoner playbook, --reasoner claude or --reasoner auto"
                raise UsageError(f"no reasoner named {wanted!r}", remedy=remedy)

    async def usage(self, sessions: Sequence[str] | None = None) -> tuple[ModelUsage, ...]:
        """Return the model usage of each agent in each session, oldest session first.

        Args:
            sessions: Only these sessions; all if None.
        """
        from esper_agents.storage.model_usage import expenses

        return await self._store.run(expenses, self._key, sessions)

    def allow(self, host: str, *, is_agreed: bool = True) -> Consent:
        """Record whether the user consents to sending source of the project to a server."""
        from esper_agents.api.current_user import person
        from esper_agents.orchestration import consent

        return consent.agree(self._services.home, host, person(), is_agreed=is_agreed)

    def withdraw(self, host: str) -> bool:
        """Withdraw the recorded consent for a server, and return whether there was one."""
        from esper_agents.orchestration import consent

        return consent.withdraw(self._services.home, host)

    def consents(self) -> tuple[Consent, ...]:
        """Return the recorded consents."""
        from esper_agents.orchestration import consent

        return consent.consents(self._services.home)
