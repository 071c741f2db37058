"""Asks a person before source leaves this machine, and says what that costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.cli.live_output import say
from esper_agents.cli.terminal import echo, is_interactive
from esper_agents.domain.certificate import CLAUDE, REASONER
from esper_agents.domain.usage import dollars

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.api import OpenProject
    from esper_agents.api.models import ModelCostPreview
    from esper_agents.domain.task import Task

_YES, _NO = frozenset(("y", "yes")), frozenset(("n", "no"))
_SHOWN = 5
AUTO = "auto"


def choose_reasoner(project: OpenProject, task: Task, wanted: str, *, is_plan: bool, is_told: bool) -> Task:
    """Return a task for which it is settled what decides; where a person is there, they are asked what may be sent.

    Args:
        project: The project.
        task: The task.
        wanted: `playbook`, `claude` or `auto`.
        is_plan: Whether nothing is to be run; then nobody is asked.
        is_told: Whether a person reads what is printed; else they are not asked either.
    """
    may_ask = wanted == CLAUDE or (wanted == AUTO and project.has_model)
    if may_ask and is_told and is_interactive() and not is_plan:
        ask_consent(project, project.sending(task), wanted)
    settled = project.reasoned(task, wanted, is_plan=is_plan)
    if wanted == AUTO and project.has_model and settled.options[REASONER] != CLAUDE and is_told and not is_plan:
        say("reasoner", "playbooks; nobody has agreed that source may go to a model (esper models agree)")
    return settled


def ask_consent(
    project: OpenProject, sending: ModelCostPreview, wanted: str, tell: Callable[[ModelCostPreview], None] | None = None
) -> None:
    """Ask what may be sent. Who has said no is asked again only where they want a model by name.

    Args:
        project: The project.
        sending: What would be sent.
        wanted: `claude` or `auto`.
        tell: Tells the person what it is; as a task's is told where None.
    """
    if sending.is_agreed or (sending.answer and wanted == AUTO):
        return
    (tell or _tell)(sending)
    said = _yes_or_no(f"may source of this project go to {sending.host}? it is remembered for the project [y/n] ")
    if said is not None:
        project.agree(sending.host, is_agreed=said)


def cost(project: OpenProject, task: Task) -> str:
    """Return in a line what a task sends and costs."""
    if task.options.get(REASONER) != CLAUDE:
        return "no model is called: nothing leaves this machine, and nothing is to be paid"
    sending = project.sending(task)
    missing = "" if sending.is_agreed else f"; nobody has agreed to that (esper models agree {sending.host})"
    return f"source goes to {sending.host}; {about(sending)} for each agent{missing}"


def _tell(sending: ModelCostPreview) -> None:
    names = ", ".join(sending.files[:_SHOWN]) or "no file"
    more = f" and {len(sending.files) - _SHOWN} more" if len(sending.files) > _SHOWN else ""
    say("model", f"{sending.model} at {sending.host}")
    say("sends", f"{names}{more}, and what tools read of the project on the way")
    say("cost", f"{about(sending)} for each agent; `--budget money=1` stops at a dollar")


def about(sending: ModelCostPreview) -> str:
    """Return in words what it costs, as far as that can be guessed."""
    known = "" if sending.is_priced else ", the price of this model is not known"
    return f"about {dollars(sending.money)}{known}"


def _yes_or_no(question: str) -> bool | None:
    """Return what a person says; None where they end the input instead, which is no, but not for good."""
    while True:
        try:
            said = input(question).strip().casefold()
        except EOFError:
            echo()
            return None
        if said in _YES | _NO:
            return said in _YES
