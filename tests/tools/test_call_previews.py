"""What a user sees of a call before approving it."""

from __future__ import annotations

import pytest

from esper_agents.domain.agent_action import ToolCall
from esper_agents.tools.call_previews import CallPreviews, hidden_arguments
from esper_agents.tools.tool import ToolContext


@pytest.fixture
def previews(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    return CallPreviews(ToolContext(tmp_path))


def edit(old, new, **more):
    return ToolCall("edit-file", {"path": "a.py", "old_string": old, "new_string": new, **more})


def test_an_edit_is_shown_as_a_unified_diff_and_changes_nothing(previews):
    assert previews.preview(edit("x = 1", "x = 3")) == "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n-x = 1\n+x = 3\n y = 2"
    assert (previews.context.root / "a.py").read_text() == "x = 1\ny = 2\n"


def test_an_edit_is_shown_on_top_of_the_earlier_edits_of_its_turn(previews):
    previews.preview(edit("x = 1", "x = 3"))
    assert "-x = 3\n+x = 4" in previews.preview(edit("x = 3", "x = 4"))


@pytest.mark.parametrize(("old", "times"), [("z", 0), ("=", 2), ("", 0)])
def test_an_edit_that_will_fail_is_said_to_fail(previews, old, times):
    assert f"the call will fail: the text to replace occurs {times} times" in previews.preview(edit(old, "b"))


def test_a_replacement_of_every_occurrence_is_shown_in_full(previews):
    assert previews.preview(edit("=", ":=", replace_all=True)).count("\n+") == 3


def test_a_new_file_is_shown_as_one(previews):
    shown = previews.preview(ToolCall("write-file", {"path": "sub/new.py", "content": "import torch\n"}))
    assert shown.splitlines() == ["--- /dev/null", "+++ b/sub/new.py", "@@ -0,0 +1 @@", "+import torch"]


@pytest.mark.parametrize("path", [".git/config", "../out.py", ".env", "a" * 5000, "x\0y", ".esper/config.toml"])
def test_a_file_that_cannot_be_written_is_not_read(previews, path):
    for name in (".env", ".esper/config.toml"):
        file = previews.context.root / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("API_KEY=hunter2hunter2\n")
    shown = previews.preview(ToolCall("write-file", {"path": path, "content": "b"}))
    assert shown.startswith("(the call will fail: ")
    assert "hunter2" not in shown


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (ToolCall("shell", {"command": "ls | wc"}), "$ ls | wc"),
        (ToolCall("run-tests", {"paths": ["tests/my file.py"]}), "$ pytest 'tests/my file.py'"),
        (ToolCall("run-python", {"code": "print(1)"}), "$ python - <<'EOF'\nprint(1)\nEOF"),
        (ToolCall("static-review", {"paths": ["a.py"]}), ""),
    ],
)
def test_a_command_is_shown_as_a_command_line(previews, call, shown):
    assert previews.preview(call) == shown


def test_what_a_preview_does_not_show_is_known():
    assert hidden_arguments(ToolCall("run-tests", {"paths": ["t"], "network": True})) == {"network": True}
    assert hidden_arguments(ToolCall("look", {"text": "a"})) == {"text": "a"}
