"""Warnings stand at the file and the line that has to be changed."""

from __future__ import annotations

import pytest

from esper_agents.agents.skill_library import SkillLibrary
from esper_agents.agents.skill_lint import lint_all
from esper_agents.agents.skills import skill_files, skills_in

SOUND = "---\nname: herons\ndescription: Counting herons.\n---\nLoad [nests](nests.md) before a census.\n"


def lint(folder):
    library = SkillLibrary(tuple(skills_in(folder)))
    warnings, refused = lint_all(library.files, library.skills)
    return [(odd.path.rpartition("/")[2], odd.line, odd.problem) for odd in warnings], [*library.refused, *refused]


@pytest.fixture
def herons(tmp_path):
    folder = tmp_path / "herons"
    folder.mkdir()
    (folder / "SKILL.md").write_text(SOUND)
    (folder / "nests.md").write_text("# Nests\n")
    return folder


def test_a_sound_skill_has_no_warning(herons):
    assert lint(herons) == ([], [])
    assert lint(herons / "SKILL.md") == ([], [])


def test_ours_are_sound(tmp_path):
    library = SkillLibrary(tuple(skill_files(tmp_path)))
    assert lint_all(library.files, library.skills) == ([], [])
    assert library.refused == ()


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("name: herons", "name: heron", 2, "name 'heron' differs from the folder's"),
        ("(nests.md)", "(nest.md)", 5, "names a missing sheet: 'nest.md'"),
        ("(nests.md)", "(../../notes.md)", 5, "names a missing sheet"),
        ("[nests](nests.md)", "it", 1, "sheet 'nests' is not named in the skill"),
        ("name: herons", "name: herons\nallowed-tools: Bash", 3, "'allowed-tools' grants nothing here"),
        ("name: herons", "name: herons\ncolour: grey", 3, "unknown field 'colour'"),
        ("Counting herons.", "Counting " + "herons " * 200, 3, "description is longer than 1024 characters"),
        ("census.\n", "census.\n" * 600, 500, "lines are loaded at once"),
        ("Counting herons.", "Counting: herons: all.", 3, "not valid YAML"),
    ],
)
def test_a_warning_has_its_line(herons, *, old, new, line, problem):
    (herons / "SKILL.md").write_text(SOUND.replace(old, new, 1))
    warnings, refused = lint(herons)
    assert refused == []
    assert [(file, at) for file, at, said in warnings if problem in said] == [("SKILL.md", line)]


def test_a_sheet_is_checked_and_needs_no_front_matter(herons):
    (herons / "nests.md").write_text("---\ndescription: a: b\n---\n# Nests\n")
    ((file, line, problem),) = lint(herons)[0]
    assert (file, line) == ("nests.md", 2)
    assert "not valid YAML" in problem


@pytest.mark.parametrize(
    ("file", "data", "problem"),
    [
        ("nests.md", b"\x00\x01", "NUL bytes"),
        ("nests.md", b"word " * 300_000, "larger than"),
        ("SKILL.md", SOUND.replace("---\nL", "companions: later\n---\nL").encode(), "`companions` is not a list"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(herons, file, data, problem):
    (herons / file).write_bytes(data)
    (refused,) = lint(herons)[1]
    assert problem in refused.problem
    assert file in refused.problem
