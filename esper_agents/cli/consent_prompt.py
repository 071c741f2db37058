"""Prompt for consent before source code is sent to a model server, with the estimated cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.cli.terminal import echo, is_interactive, say
from esper_agents.domain.reasoner_names import CLAUDE, REASONER
from esper_agents.domain.usage import dollars

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.api import ModelCostPreview, OpenProject
    from esper_agents.domain.task import Task

_YES, _NO = frozenset(("y", "yes")), frozenset(("n", "no"))
_SHOWN = 5
AUTO = "auto"


def choose_reasoner(project: OpenProject, task: Task, wanted: str, *, is_plan: bool, is_told: bool) -> Task:
    """Return the task with its reasoner selected; on a terminal, ask for consent first.

    Args:
        project: The project.
        task: The task.
        wanted: `playbook`, `claude` or `auto`.
        is_plan: Whether this is a dry run, which asks no question.
        is_told: Whether output is printed for a user; otherwise no question is asked.
    """
    may_ask = wanted == CLAUDE or (wanted == AUTO and project.models.has_key)
    if may_ask and is_told and is_interactive() and not is_plan:
        ask_consent(project, project.models.preview(task), wanted)
    settled = project.models.with_reasoner(task, wanted, is_plan=is_plan)
    if wanted == AUTO and project.models.has_key and settled.options[REASONER] != CLAUDE and is_told and not is_plan:
        say("reasoner", "playbooks; no consent to send source code to a model (esper models allow)")
    return settled


def ask_consent(
    project: OpenProject, sending: ModelCostPreview, wanted: str, tell: Callable[[ModelCostPreview], None] | None = None
) -> None:
    """Ask for consent to send source code; after a refusal, ask again only if a model is requested by name.

    Args:
        project: The project.
        sending: Preview of the data to send.
        wanted: `claude` or `auto`.
        tell: Prints the preview; None for the preview of a task.
    """
    if sending.is_agreed or (sending.answer and wanted == AUTO):
        return
    (tell or _tell)(sending)
    said = yes_or_no(
        f"send source code of this project to {sending.host}? The answer is saved for this project. [y/n] "
    )
    if said is not None:
        project.models.allow(sending.host, is_agreed=said)


def cost(project: OpenProject, task: Task) -> str:
    """Return one line with the data that a task sends and its estimated cost."""
    if task.options.get(REASONER) != CLAUDE:
        return "runs locally; no model, no cost"
    sending = project.models.preview(task)
    missing = "" if sending.is_agreed else f"; no consent yet (esper models allow {sending.host})"
    return f"source goes to {sending.host}; {about(sending)} for each agent{missing}"


def _tell(sending: ModelCostPreview) -> None:
    names = ", ".join(sending.files[:_SHOWN]) or "no file"
    more = f" and {len(sending.files) - _SHOWN} more" if len(sending.files) > _SHOWN else ""
    say("model", f"{sending.model} at {sending.host}")
    say("sends", f"{names}{more}, plus files that tools read during the session")
    say("cost", f"{about(sending)} for each agent; `--budget money=1` stops at a dollar")


def about(sending: ModelCostPreview) -> str:
    """Return the estimated cost as text."""
    known = "" if sending.is_priced else ", the price of this model is not known"
    return f"about {dollars(sending.money)}{known}"


def yes_or_no(question: str) -> bool | None:
    """Return the answer of the user; None if they end the input, which counts as no and is not stored."""
    while True:
        try:
            said = input(question).strip().casefold()
        except EOFError:
            echo()
            return None
        if said in _YES | _NO:
            return said in _YES
