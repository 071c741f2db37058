"""Retrospect operations of an open project: report, model wording, proposed skills."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.api.models import ModelCostPreview
from esper_agents.api.service import Service
from esper_agents.certificates.redaction import redacted, secrets_of
from esper_agents.domain.origin import OriginKind
from esper_agents.domain.usage import expense_of
from esper_agents.learning.facts import facts_of
from esper_agents.learning.model_request import asked, wording_request
from esper_agents.learning.model_wording import checked_wording, handed_in
from esper_agents.learning.proposals import write_proposals
from esper_agents.learning.rendering import render_report, render_skill, render_worded_skill
from esper_agents.learning.retrospect import LEAST_SESSIONS, retrospect
from esper_agents.learning.session_summary import SessionFacts, seen_in_certificate, seen_in_ledger
from esper_agents.orchestration.consent import ConsentError, is_agreed
from esper_agents.reasoning.models import Usage
from esper_agents.review.catalogue import catalogue
from esper_agents.storage.model_requests import ModelRequest, exchanges, keep_exchange

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.domain.session import SessionSummary
    from esper_agents.learning.facts import Fact
    from esper_agents.learning.report import Retrospect
    from esper_agents.reasoning.reasoner import Say

_PURPOSE = "retrospect"
# Characters per token, and tokens of a model's answer; both are estimates.
_CHARACTERS, _SPOKEN = 3, 3_000


class RetrospectService(Service):
    """Retrospect operations of an open project."""

    async def report(self, *, limit: int = 200, least: int = LEAST_SESSIONS) -> Retrospect:
        """Return the patterns of the newest sessions, and store the proposed skills; no model is called.

        Args:
            limit: Maximum number of sessions.
            least: Minimum number of sessions for a pattern to count as recurring.
        """
        summaries = await self._project.sessions.list(limit=limit)
        before = {
            summary.id: summary.origin.session for summary in summaries if summary.origin.kind is OriginKind.FORKED
        }
        seen = [await self._seen(summary, _root(summary.id, before)) for summary in summaries]
        services = self._services
        found = retrospect(services.project.name, seen, catalogue(services.additions.rules), least=least)
        write_proposals(services.home, {suggestion.name: render_skill(suggestion) for suggestion in found.suggestions})
        return found

    async def _seen(self, summary: SessionSummary, forked_from: str) -> SessionFacts:
        history = await self._project.sessions.history(summary.id)
        if history.pruned and summary.certificate:
            return seen_in_certificate(await self._project.certificates.read(summary.certificate), forked_from)
        return seen_in_ledger(history, forked_from)

    def markdown(self, found: Retrospect) -> str:
        """Return a report as Markdown."""
        return render_report(found)

    def preview(self, found: Retrospect) -> ModelCostPreview:
        """Return the data that would be sent to a model to word a report: its facts, and no files.

        Raises:
            UsageError: There is no API key.
        """
        models = self._project.models
        model, host = models.table.resolve(""), self._services.server.host
        length = len(wording_request(_facts(found), model))
        used = Usage(fresh=-(-length // _CHARACTERS), output=_SPOKEN)
        said = next((consent for consent in models.consents() if consent.host == host), None)
        return ModelCostPreview(host, model.name, (), model.cost(used), model.is_listed, said)

    async def reword(self, found: Retrospect, say: Say = lambda _: None) -> Retrospect:
        """Return a report with a model's wording, and store the skills it proposes; a recorded answer is reused.

        If the model fails, the report keeps its own wording and states the problem.

        Args:
            found: The report.
            say: Receives the model's text as it is generated.

        Raises:
            UsageError: There is no API key.
            ConsentError: The user has not consented to sending the data.
        """
        facts = _facts(found)
        if not facts:
            return found
        exchange = await self._exchange(facts, say)
        if problem := exchange.record["problem"]:
            return replace(found, unworded=f"no model has worded it, as {problem}")
        given = handed_in(exchange.record["content"]) or {}
        expense = expense_of(exchange.record)
        wording = checked_wording(given, facts, model=exchange.record["model"], at=exchange.at, expense=expense)
        reworded = replace(found, wording=wording)
        texts = {skill.file_name: render_worded_skill(skill, reworded) for skill in wording.skills}
        write_proposals(self._services.home, texts)
        return reworded

    async def _exchange(self, facts: Mapping[str, Fact], say: Say) -> ModelRequest:
        """Return the recorded exchange for these facts, or make a new one."""
        services, run, table = self._services, self._store.run, self._project.models.table
        request = wording_request(facts, table.resolve("")).encode("utf-8", "surrogatepass")
        sha256 = hashlib.sha256(request).hexdigest()
        for known in await run(exchanges, self._key, sha256):
            if not known.record["problem"]:
                return known
        if not is_agreed(services.home, services.server.host):
            raise ConsentError(services.server.host)
        record = await asked(services.server, table, facts, say)
        if not record["spent"]["tokens"]:
            return ModelRequest(_PURPOSE, sha256, "", record)
        return await run(keep_exchange, services.project, _PURPOSE, sha256, record)


def _root(session: str, before: Mapping[str, str]) -> str:
    """Return the session that a chain of forks started from; empty if the session is not a fork."""
    root = session
    while root in before:
        root = before[root]
    return root if root != session else ""


def _facts(found: Retrospect) -> dict[str, Fact]:
    return facts_of(redacted(found, known=secrets_of(os.environ)).value)
