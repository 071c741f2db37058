"""Published folders: listed again after a change, and own certificates that name one of them."""

from __future__ import annotations

from dataclasses import replace

from archive_samples import PROJECT, identifier, made

from esper_agents.archive.published.scan import own_envelopes_naming
from esper_agents.archive.published_notices import NoticeFolders
from esper_agents.domain.relation import Relation, RelationKind


def test_a_notice_that_is_added_is_seen_in_a_folder_that_was_listed_before(tmp_path, monkeypatch):
    view, folders = tmp_path / "view.md", NoticeFolders()
    assert folders.names(view) == []
    for number in range(3):
        (tmp_path / f"view.ntc{number}.notice.json").touch()
        assert len(folders.names(view)) == number + 1
    (tmp_path / "view.ntc0.notice.json").unlink()
    assert sorted(folders.names(view)) == ["view.ntc1.notice.json", "view.ntc2.notice.json"]
    assert NoticeFolders().names(tmp_path / "missing" / "view.md") == []


def test_own_certificates_that_name_a_published_one_are_found(archived, tmp_path):
    project = replace(PROJECT, root=str(tmp_path))
    archived.add(made(5, relations=(Relation(RelationKind.SUPERSEDES, identifier(3), "0" * 64),)))
    archived.add(made(6, relations=(Relation(RelationKind.SUPERSEDES, identifier(7), "0" * 64),)))
    (found,) = own_envelopes_naming(archived.store, project, identifier(3))
    assert found.parent == tmp_path / "docs/ai/agents/pytorch-code-reviewer/certificates"
    assert found.name.endswith(".dsse.json")
