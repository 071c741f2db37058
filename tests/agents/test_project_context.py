"""What a project says of itself reaches agents as data: bounded, with digests, and nothing from outside."""

from __future__ import annotations

import os
from hashlib import sha256

from esper_agents.agents.project_context import MOST_CHARACTERS, project_context, read_context


def test_the_three_documents_are_read_with_path_and_digest(tmp_path) -> None:
    (tmp_path / ".esper").mkdir()
    for name in ("CLAUDE.md", "AGENTS.md", ".esper/project.md"):
        (tmp_path / name).write_text(f"We like {name}.\n")
    found = project_context(tmp_path)
    assert [each.path for each in found] == ["CLAUDE.md", "AGENTS.md", ".esper/project.md"]
    assert found[0].text == "We like CLAUDE.md.\n"
    assert found[0].sha256 == sha256(b"We like CLAUDE.md.\n").hexdigest()


def test_a_project_that_says_nothing_has_no_context(tmp_path) -> None:
    (tmp_path / "AGENTS.md").write_text(" \n")
    assert project_context(tmp_path) == ()


def test_the_same_bytes_under_two_names_are_shown_once(tmp_path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be brief.\n")
    (tmp_path / "CLAUDE.md").symlink_to("AGENTS.md")
    assert [each.path for each in project_context(tmp_path)] == ["CLAUDE.md"]


def test_a_link_that_leads_out_is_refused(tmp_path) -> None:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "project").mkdir()
    (tmp_path / "project/CLAUDE.md").symlink_to("../secret")
    (tmp_path / "project/AGENTS.md").symlink_to("AGENTS.md")
    found = read_context(tmp_path / "project")
    assert found.documents == ()
    assert "CLAUDE.md: is a link to a file outside the project" in found.refused[0].problem
    assert len(found.refused) == 2


def test_an_import_line_is_not_followed(tmp_path) -> None:
    (tmp_path / "style.md").write_text("Tabs.\n")
    (tmp_path / "CLAUDE.md").write_text("See @style.md\n@../../etc/passwd\n")
    (found,) = project_context(tmp_path)
    assert found.text == "See @style.md\n@../../etc/passwd\n"


def test_a_long_text_is_cut_and_says_so(tmp_path) -> None:
    (tmp_path / "CLAUDE.md").write_text("x" * 50_000)
    (found,) = project_context(tmp_path)
    assert len(found.text) < MOST_CHARACTERS + 100
    assert found.text.endswith("(cut here: 50000 characters in all)")


def test_what_is_no_text_of_a_fair_size_is_refused_and_the_others_are_not(tmp_path) -> None:
    (tmp_path / "CLAUDE.md").write_bytes(b"\x7fELF\0")
    (tmp_path / "AGENTS.md").write_text("Be brief.\n")
    (tmp_path / ".esper").mkdir()
    os.mkfifo(tmp_path / ".esper/project.md")
    found = read_context(tmp_path)
    assert [document.path for document in found.documents] == ["AGENTS.md"]
    assert ["NUL" in found.refused[0].problem, "not a regular file" in found.refused[1].problem] == [True, True]
    (tmp_path / "AGENTS.md").write_text("x" * 1_000_001)
    assert any("larger than" in each.problem for each in read_context(tmp_path).refused)


def test_secrets_and_hidden_characters_do_not_go_along(tmp_path) -> None:
    (tmp_path / "CLAUDE.md").write_text("key: ghp_" + "a1B2" * 9 + "\nhid\u200bden \x1b[31m\n")
    (found,) = project_context(tmp_path)
    assert "ghp_a1B2" not in found.text
    assert "hidden [31m" in found.text
