"""`esper memory` as people use it, and what `docs/memory.md` says of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import typer
from command_line import build
from places import FAULTY, Place, git, write

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/memory.md").read_text(encoding="utf-8")
SHOWN = sorted(set(re.findall(r"^esper memory (\w+)([^`\n#]*)", TEXT, re.MULTILINE)))
REVIEW = ("submit", "review this training code", "train.py", "--agent", "pytorch-code-reviewer")


@pytest.fixture(scope="module")
def options():
    group = typer.main.get_command(build()).commands["memory"]
    return {
        name: {opt for parameter in command.params for opt in parameter.opts if opt.startswith("--")}
        for name, command in group.commands.items()
    }


@pytest.mark.parametrize(("command", "arguments"), SHOWN)
def test_every_command_and_option_that_is_shown_exists(options, command, arguments):
    assert set(re.findall(r"--[\w-]+", arguments)) <= options[command]


def test_every_command_is_told_of(options):
    assert set(options) == {command for command, _ in SHOWN}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    write(folder / "toy", {"train.py": FAULTY})
    git(folder / "toy", "init", "-q", "-b", "main", "--template=")
    found = Place(folder / "toy", folder / "home")
    found.esper(*REVIEW)
    return found


def listed(place, *arguments):
    return json.loads(place.esper("memory", "list", "--json", *arguments, code=0).stdout)


def test_memory_from_the_first_review_to_the_last_word(place, tmp_path):
    actions = listed(place, "--kind", "next-actions")
    assert actions
    assert all(action["certificate"] and not action["changed"] for action in actions)

    shown = place.esper("memory", "list", "--kind", "next-actions", code=0).stdout
    one = actions[0]["id"]
    assert shown.startswith(f"1. {one} next-actions of {actions[0]['agent']}: current\n  ")
    assert "esper certificates show crt_" in place.esper("memory", "show", one[-12:], code=0).stdout
    assert place.esper("memory", "search", "--file", "train.py", code=0).stdout
    assert "no matching notes" in place.esper("memory", "search", "unheardof", code=1).stdout

    plan = json.loads(place.esper("submit", "--from-action", "1", "--dry-run", "--json", code=0).stdout)
    assert plan["task"]["options"]["action"] == one
    assert plan["task"]["paths"] == ["train.py"]
    for none in ("0", "999"):
        place.esper("submit", "--from-action", none, code=2)
    place.esper("submit", "--from-action", "1", "review", code=2)

    place.esper("memory", "drop", one, code=0)
    assert one not in [each["id"] for each in listed(place, "--kind", "next-actions")]
    place.esper("submit", "--from-action", one, code=2)

    (place.root / "train.py").write_text(FAULTY + "\n# changed\n")
    assert all(each["changed"] == ["train.py"] for each in listed(place, "--kind", "working-memory"))
    assert "stale: train.py" in " ".join(place.esper("memory", "show", code=0).stdout.split())

    place.esper("memory", "export", str(tmp_path / "kept"), code=0)
    place.esper("memory", "export", str(tmp_path / "kept"), code=0)
    document = next((tmp_path / "kept").rglob("working-memory.md"))
    document.write_text("# mine\n")
    place.esper("memory", "export", str(tmp_path / "kept"), code=2)
    taken = json.loads(place.esper("memory", "import", str(tmp_path / "kept"), "--json", code=0).stdout)
    assert sum(each["texts"] for each in taken) == 1
    assert sum(each["notes"] for each in taken) == 0

    working = next(each for each in listed(place, "--kind", "working-memory") if each["certificate"])
    place.esper("memory", "forget", working["id"], code=0)
    published = next((place.root / "docs/ai/agents").rglob("working-memory.md")).read_text()
    assert working["text"][:40] not in published
    assert "Forgotten" in published
    place.esper("memory", "forget", working["id"], code=2)

    struck = json.loads(place.esper("memory", "redact", "train.py", "--json", code=0).stdout)
    assert struck["notes"]
    assert "train.py" not in json.dumps([each["text"] for each in listed(place, "--all")])


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "nothing"),
        ("done", "mem_ffffffff"),
        ("redact", "ab"),
        ("search",),
        ("search", "!?"),
        ("search", "--file", "/etc/passwd"),
        ("import", "nowhere.md", "--kind", "working-memory"),
        ("import", "train.py"),
        ("import", "."),
        ("import", "/dev/zero", "--kind", "working-memory"),
        ("export", "kept", "--agent", "nobody"),
        ("list", "--agent", "nobody"),
    ],
)
def test_bad_input_is_refused_with_a_remedy(place, arguments):
    said = place.esper("memory", *arguments, code=2)
    assert "fix: " in said.stderr
    assert "Traceback" not in said.stderr
