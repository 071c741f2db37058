"""`esper skills` through the real entry point."""

from __future__ import annotations

import json
import re
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from places import command

PAGE = (Path(__file__).parents[2] / "docs/skills.md").read_text(encoding="utf-8")
HERONS = "---\nname: herons\ndescription: Counting \x1b[31mherons.\ncolour: red\n---\nLook at the [nests](nests.md).\n"


@pytest.fixture
def esper(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command("skills", *arguments, cwd=tmp_path)

    return run


@pytest.fixture
def herons(tmp_path):
    folder = tmp_path / ".claude/skills/herons"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(HERONS, encoding="utf-8")
    (folder / "nests.md").write_text("# Nests\n\nIn \x1b[31mreeds.\n", encoding="utf-8")
    return folder


def test_list_shows_ours_and_the_projects_and_names_what_cannot_be_used(esper, herons):
    (herons.parent / "empty").mkdir()
    (herons.parent / "empty/SKILL.md").write_text("")
    done = esper("list")
    assert done.returncode == 0
    assert "using-pytorch-engineering" in done.stdout
    assert "project:herons" in done.stdout
    assert "empty/SKILL.md: the file is empty" in done.stderr
    assert "  fix: " in done.stderr


def test_list_as_json_holds_digests_and_sheets(esper, herons):
    listed = json.loads(esper("list", "--json").stdout)
    (found,) = [each for each in listed["skills"] if each["name"] == "project:herons"]
    assert found["sheets"] == ["nests"]
    assert found["sha256"] == sha256((herons / "SKILL.md").read_bytes()).hexdigest()


def test_show_prints_a_skill_and_a_sheet_as_they_are_loaded_without_escape_sequences(esper, herons):
    done = esper("show", "project:herons")
    assert done.returncode == 0
    assert "sheets: nests" in done.stdout
    assert "Look at the [nests](nests.md)." in done.stdout
    sheet = esper("show", "herons", "nests")
    assert sha256((herons / "nests.md").read_bytes()).hexdigest() in sheet.stdout
    assert "reeds." in sheet.stdout
    assert "\x1b" not in done.stdout + sheet.stdout


def test_skills_of_a_plugin_count_where_it_lies(esper, herons, tmp_path):
    plugin = tmp_path / "birds"
    (plugin / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin/plugin.json").write_text('{"name": "birds"}')
    herons.parent.rename(plugin / "skills")
    assert "birds:herons" in esper("list", "--plugin-dir", "birds").stdout
    assert esper("show", "herons", "nests", "--plugin-dir", "birds").returncode == 0
    assert esper("show", "herons").returncode == 2


def test_show_of_an_unknown_name_offers_the_nearest_and_exits_with_2(esper):
    done = esper("show", "performance-govern")
    assert done.returncode == 2
    assert done.stderr == "esper: no skill named 'performance-govern'\n  fix: did you mean 'performance-governance'?\n"


def test_lint_exits_with_0_for_warnings_3_when_strict_and_2_for_a_file_that_cannot_be_used(esper, herons):
    assert ".claude/skills/herons/SKILL.md:4: unknown field 'colour'" in esper("lint").stdout
    assert esper("lint", str(herons)).returncode == 0
    assert esper("lint", "--fail-on", "warning", str(herons.parent)).returncode == 3
    (herons / "SKILL.md").write_bytes(b"word " * 400_000)
    refused = esper("lint", str(herons))
    assert refused.returncode == 2
    assert refused.stderr.splitlines() == [
        f"esper: {herons / 'SKILL.md'}: larger than 1000000 bytes",
        "  fix: split it into sheets of its skill",
    ]


@pytest.mark.parametrize(("path", "problem"), [("none", "no such file or folder"), (".", "holds no `SKILL.md`")])
def test_lint_of_what_is_no_skill_exits_with_2(esper, path, problem):
    done = esper("lint", path)
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.parametrize("command", ["list", "show", "lint"])
def test_every_command_has_an_example_in_its_help(esper, command):
    assert f"esper skills {command}" in esper(command, "--help").stdout


@pytest.mark.parametrize("line", re.findall(r"^\$ esper skills (.+)$", PAGE, re.MULTILINE))
def test_the_commands_of_the_page_work(esper, line):
    assert esper(*line.split()).returncode == 0


def test_the_page_names_every_skill_of_ours_and_its_example_is_one(esper, tmp_path):
    ours = [each["name"] for each in json.loads(esper("list", "--json").stdout)["skills"]]
    assert sorted(re.findall(r"^\| `([\w-]+)` \| ", PAGE.split("## Included skills")[1], re.MULTILINE)) == ours
    (example,) = re.findall(r"^```markdown\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    folder = tmp_path / "herons"
    folder.mkdir()
    (folder / "SKILL.md").write_text(example)
    (folder / "nests.md").write_text("# Nests\n")
    assert esper("lint", "--fail-on", "warning", "herons").stdout == "skills read: 1; warnings: 0\n"
