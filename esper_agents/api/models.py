"""Language model settings of a project: reasoner, server and consent."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.current_user import person
from esper_agents.domain.certificate import CLAUDE, PLAYBOOK, REASONER
from esper_agents.errors import UsageError
from esper_agents.orchestration import consent
from esper_agents.orchestration.routing import route_of
from esper_agents.review.discover import discover
from esper_agents.storage.model_usage import expenses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.domain.task import Task
    from esper_agents.orchestration.consent import Consent
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.reasoning.models import Model, ModelTable
    from esper_agents.storage.model_usage import ModelUsage
    from esper_agents.storage.store import AsyncStore

AUTO = "auto"
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ESPER_MODEL_SERVER")


@dataclass(frozen=True, slots=True)
class ModelCostPreview:
    """What would leave this machine if a model reasoned.

    Attributes:
        host: Where it goes.
        model: The model of the agent that begins.
        files: The files that the task is about; tools may read others of the project for it.
        money: About what one agent's work costs, in millionths of a US dollar.
        is_priced: Whether the model's price is known; where it is not, the dearest one's is taken.
        answer: What a person has said to it for this project; None where nobody was asked.
    """

    host: str
    model: str
    files: tuple[str, ...]
    money: int
    is_priced: bool
    answer: Consent | None = None

    @property
    def is_agreed(self) -> bool:
        """Whether a person has agreed to it."""
        return self.answer is not None and self.answer.is_agreed


class ModelService:
    """The part of an open project that is about language models."""

    workshop: ProjectServices
    root: Path
    _key: str
    _store: AsyncStore
    # Those of which the server has said that it takes our key for them.
    _welcome: frozenset[str] = frozenset()

    @property
    def models(self) -> ModelTable:
        """The models there are, in the roles that the person gives them."""
        return self.workshop.models

    def sending(self, task: Task) -> ModelCostPreview:
        """Return what would leave this machine if a model reasoned about a task.

        Raises:
            UsageError: There is no key.
        """
        from esper_agents.reasoning.cost_estimate import estimate

        model, host = self._first_model(task), self.workshop.server.host
        found = discover(self.root, [Path(path) for path in task.paths], notebooks=True) if task.paths else ()
        guess = estimate(model, sum(each.file.stat().st_size for each in found))
        said = next((each for each in self.consents() if each.host == host), None)
        return ModelCostPreview(
            host, model.name, tuple(each.path for each in found), guess.money, model.is_listed, said
        )

    def _first_model(self, task: Task) -> Model:
        agent = route_of(self.workshop, task).agent
        return self.models.resolve(self.workshop.agents.get(agent).model if agent else "")

    async def _greet(self, task: Task) -> None:
        """Find out whether the server of a task takes the key, before there is a session of it.

        Raises:
            UsageError: It does not, or knows no such model.
            ModelBusyError: Nobody is there.
        """
        if task.options.get(REASONER) != CLAUDE or (name := self._first_model(task).name) in self._welcome:
            return
        await self.workshop.server.greet(name)
        self._welcome |= {name}

    @property
    def has_model(self) -> bool:
        """Whether the environment leads to a model."""
        return any(os.environ.get(each) for each in _KEYS)

    def reasoned(self, task: Task, wanted: str, *, is_plan: bool = False) -> Task:
        """Return a task whose agents' moves are decided as the person wants.

        Args:
            task: The task.
            wanted: `playbook`, `claude`, or `auto` for a model where there is a key and a person has agreed.
            is_plan: Whether nothing of it is to be run; then nobody needs to have agreed to `claude`.

        Raises:
            UsageError: A model is wanted and there is no key.
            ConsentError: A model is wanted and nobody has agreed to what would be sent.
        """
        chosen = self.decides(wanted, lambda: self.sending(task), is_plan=is_plan)
        return replace(task, options={**task.options, REASONER: chosen})

    def decides(self, wanted: str, sending: Callable[[], ModelCostPreview], *, is_plan: bool = False) -> str:
        """Return what decides where the person wants something to: a model, or what needs none.

        Args:
            wanted: See `reasoned`.
            sending: Returns what a model would be sent.
            is_plan: See `reasoned`.

        Raises:
            UsageError: A model is wanted and there is no key.
            ConsentError: A model is wanted and nobody has agreed to what would be sent.
        """
        match wanted:
            case "playbook":
                return PLAYBOOK
            case "claude":
                if not (known := sending()).is_agreed and not is_plan:
                    raise consent.ConsentError(known.host)
                return CLAUDE
            case "auto":
                # Who the server is takes the SDK to say, and that takes a second to load.
                may_be = self.has_model and any(each.is_agreed for each in self.consents())
                return CLAUDE if may_be and sending().is_agreed else PLAYBOOK
            case _:
                remedy = "write --reasoner playbook, --reasoner claude or --reasoner auto"
                raise UsageError(f"no reasoner named {wanted!r}", remedy=remedy)

    async def expenses(self, sessions: Sequence[str] | None = None) -> tuple[ModelUsage, ...]:
        """Return what models have used for each agent of each session, the oldest session first.

        Args:
            sessions: Only of these; of all where None.
        """
        return await self._store.run(expenses, self._key, sessions)

    def agree(self, host: str, *, is_agreed: bool = True) -> Consent:
        """Keep a person's word on whether source of the project may go to a server."""
        return consent.agree(self.workshop.home, host, person(), is_agreed=is_agreed)

    def withdraw(self, host: str) -> bool:
        """Take that word back, and return whether there was one."""
        return consent.withdraw(self.workshop.home, host)

    def consents(self) -> tuple[Consent, ...]:
        """Return what people have said."""
        return consent.consents(self.workshop.home)
