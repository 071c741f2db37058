"""`esper plugins` and `esper run` through the real entry point."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from places import command

PACKS = Path(__file__).parents[1] / "agents/wild/collection_b"
PACK = str(PACKS / "tensor-engineering")


@pytest.fixture
def esper(project):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return command(*arguments, cwd=project)

    return run


def test_a_plugin_is_added_listed_used_and_removed(esper) -> None:
    added = esper("plugins", "add", PACK)
    assert added.returncode == 0
    assert added.stdout.startswith("added: tensor-engineering 2.4.0, sha256 ")
    assert "not used here: README.md, hooks/hooks.json, scripts/where.sh" in added.stdout
    (listed,) = json.loads(esper("plugins", "list", "--json").stdout)["plugins"]
    assert "tensor-engineering:debug-nan" in listed["commands"]
    shown = esper("agents", "show", "tensor-engineering:autograd-doctor")
    assert f"from: plugin tensor-engineering 2.4.0 sha256:{listed['sha256']}" in shown.stdout
    assert "optimizer-lore is not installed (schedules and warm-up)" in shown.stdout
    assert "tensor-engineering:shape-suffixes" in esper("skills", "list", "--json").stdout
    assert esper("plugins", "remove", "tensor-engineering").returncode == 0
    assert esper("plugins", "list").stdout == "no plugin yet; add one: esper plugins add PATH\n"


def test_adding_says_which_tools_its_agents_name_that_are_not_offered(esper, tmp_path) -> None:
    (tmp_path / "pack/agents").mkdir(parents=True)
    fox = "---\nname: fox\ndescription: Counts foxes.\ntools: Read, WebFetch\n---\nYou count.\n"
    (tmp_path / "pack/agents/fox.md").write_text(fox)
    added = esper("plugins", "add", str(tmp_path / "pack")).stdout
    assert "WebFetch is not offered to pack:fox: " in added
    assert "Read is not" not in added
    (lacking,) = json.loads(esper("plugins", "add", str(tmp_path / "pack"), "--json").stdout)["not_offered"]
    assert (lacking["tool"], lacking["agents"]) == ("WebFetch", ["pack:fox"])


def test_what_is_no_plugin_is_refused_in_two_lines_and_nothing_is_added(esper, tmp_path) -> None:
    (tmp_path / "pack/agents").mkdir(parents=True)
    (tmp_path / "pack/agents/heron.md").write_bytes(b"\x7fELF\0")
    done = esper("plugins", "add", str(tmp_path / "pack"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 2
    assert "heron.md: is binary" in done.stderr
    assert esper("plugins", "remove", "pack").returncode == 2


def test_a_folder_named_for_one_run_is_used_and_not_added(esper) -> None:
    listed = esper("agents", "list", "--plugin-dir", PACK, "--json").stdout
    assert "tensor-engineering:step-profiler" in listed
    assert "step-profiler.md" in esper("agents", "lint", "--plugin-dir", PACK).stdout
    assert "tensor-engineering" not in esper("agents", "list", "--json").stdout
    plan = esper(
        "submit", "--dry-run", "--plugin-dir", PACK, "--agent", "tensor-engineering:step-profiler", "why slow?"
    )
    assert "tensor-engineering:step-profiler" in plan.stdout
    queued = esper("submit", "--queue", "--plugin-dir", PACK, "why slow?")
    assert (queued.returncode, "esper plugins add PATH" in queued.stderr) == (2, True)


def test_run_without_a_name_lists_the_commands(esper) -> None:
    listed = esper("run", "--plugin-dir", PACK)
    assert listed.returncode == 0
    assert "tensor-engineering:debug-nan [file] [batch]\n  Find the first NaN\n" in listed.stdout


def test_run_submits_the_filled_template_and_says_what_stays_text(esper, project) -> None:
    done = esper("run", "--plugin-dir", PACK, "tensor-engineering:debug-nan", "--json", "train.py", "7")
    assert "!`git branch --show-current` stays text: nothing in a command is run" in done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["state"] == "done"
    (session,) = json.loads(esper("sessions", "list", "--json").stdout)
    assert session["request"].startswith(
        "Find the first operation in @train.py whose output is not finite. The batch is 7."
    )
    assert "!`git branch --show-current`" in session["request"]


def test_run_of_our_own_command_gives_the_task_to_the_agent_that_it_names(esper) -> None:
    plan = esper("run", "--dry-run", "debug-nan", "train.py")
    assert plan.returncode == 0
    assert "nan-debugger" in plan.stdout
    assert "train.py" in plan.stdout


def test_run_without_what_a_command_is_to_be_given_is_refused(esper) -> None:
    done = esper("run", "debug-nan")
    assert done.returncode == 2
    assert "'debug-nan' needs arguments" in done.stderr
    assert "fix: pass FILE or FOLDER" in done.stderr


def test_run_of_an_unknown_command_offers_the_nearest(esper) -> None:
    done = esper("run", "debug-nans", "train.py")
    assert done.returncode == 2
    assert "did you mean 'debug-nan'?" in done.stderr
