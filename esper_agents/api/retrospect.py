"""Looking back over a project's sessions: the report, and the skills that it proposes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.learning.proposals import accept, find_proposal, write_proposals
from esper_agents.learning.rendering import render_skill
from esper_agents.learning.retrospect import LEAST_SESSIONS, Retrospect, retrospect
from esper_agents.learning.seen import Seen, seen_in_certificate, seen_in_ledger
from esper_agents.review.catalogue import catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.api.project import OpenProject
    from esper_agents.domain.session import SessionSummary
    from esper_agents.learning.proposals import Proposal


async def look_back(project: OpenProject, *, limit: int = 200, least: int = LEAST_SESSIONS) -> Retrospect:
    """Return what the newest sessions of a project show together, and keep the skills it proposes; asks no model.

    Args:
        project: The project.
        limit: At most so many sessions.
        least: In how many sessions something has to be seen before it counts as repeated.
    """
    summaries = await project.sessions(limit=limit)
    seen = [await _seen(project, each) for each in summaries]
    workshop = project.workshop
    found = retrospect(workshop.project.name, seen, catalogue(workshop.additions.rules), least=least)
    write_proposals(workshop.home, {each.name: render_skill(each) for each in found.suggestions})
    return found


async def _seen(project: OpenProject, summary: SessionSummary) -> Seen:
    history = await project.history(summary.id)
    if history.pruned and summary.certificate:
        return seen_in_certificate(await project.read(summary.certificate))
    return seen_in_ledger(history)


def proposal(project: OpenProject, name: str) -> Proposal:
    """Return a skill that was proposed.

    Raises:
        NotFoundError: There is none of that name.
    """
    return find_proposal(project.workshop.home, name)


def take(project: OpenProject, agreed: Proposal) -> Path:
    """Move a proposed skill into the project, as the person has seen it; see `learning.proposals.accept`."""
    return accept(project.workshop.home, project.root, agreed)
