"""Certificates by the public API."""

from __future__ import annotations

import asyncio

import pytest

from esper_agents.api import audit_documents, audit_problem_meanings, open_project, open_project_sync, read_filter
from esper_agents.errors import NotFoundError, UsageError


def test_a_filter_by_an_unknown_agent_is_an_error_and_one_by_a_known_agent_is_empty(judged_project):
    with open_project_sync(judged_project.root, publish=False) as opened:
        with pytest.raises(NotFoundError):
            opened.certificates.list(wanted=read_filter(agent="nosuch"))
        assert opened.certificates.list(wanted=read_filter(agent="memory-diagnostician")) == ()


def test_a_filter_with_an_invalid_date_is_refused():
    with pytest.raises(UsageError):
        read_filter(since="yesterday")


def test_the_only_certificate_of_a_component_has_no_other_to_compare_with(judged_project):
    async def diff(second=""):
        async with open_project(judged_project.root, publish=False) as opened:
            return await opened.certificates.diff(judged_project.id, second)

    with pytest.raises(UsageError, match="the only certificate"):
        asyncio.run(diff())
    with pytest.raises(UsageError, match="both are"):
        asyncio.run(diff("latest"))


def test_missing_published_files_are_rewritten(judged_project):
    judged_project.record.unlink()
    with open_project_sync(judged_project.root) as opened:
        found = opened.certificates.published(judged_project.id)
    assert found.view.is_file()
    assert found.envelope.is_file()


def test_an_audited_document_is_imported_once(judged_project):
    (judged_project.root / "verdict.md").write_text("# Certificate\n\n**Status**: APPROVED\n**Agent**: nosuch\n")
    audit = audit_documents([judged_project.root / "verdict.md"])
    assert set(audit.counts) <= set(audit_problem_meanings())
    with open_project_sync(judged_project.root) as opened:
        first = opened.certificates.import_documents(audit)
        second = opened.certificates.import_documents(audit)
    assert (first.added, second.added) == (len(audit.documents), 0)
    assert second.known == first.added
