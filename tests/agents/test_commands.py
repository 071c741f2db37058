"""A command is a template that is filled with text; nothing in it, and nothing in an argument, is run or read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.agents.commands import Command, filled, load_command, load_commands
from esper_agents.agents.plugins import load_plugin
from esper_agents.errors import DefinitionError, NotFoundError, UsageError

PACKS = Path(__file__).parent / "wild/collection_b"


def command(body: str) -> Command:
    return Command("toy", "", "", None, "", body, (), "toy.md", "0" * 64)


@pytest.mark.parametrize(
    ("body", "arguments", "request_text"),
    [
        ("Look at $ARGUMENTS.", ("a.py", "b c"), "Look at a.py b c."),
        ("Compare $1 with $2.", ("a", "b"), "Compare a with b."),
        ("Compare $0 with $1.", ("a", "b"), "Compare a with b."),
        ("Compare $ARGUMENTS[0] with $ARGUMENTS[1].", ("a", "b"), "Compare a with b."),
        ("The batch is $2, $3.", ("a",), "The batch is , ."),
        ("Profile the step.", ("train.py",), "Profile the step.\n\ntrain.py"),
        ("Profile the step.", (), "Profile the step."),
        ("$1 costs $10 and $1st", ("a",), "a costs  and $1st"),
        ("$ARGUMENTS and $ARGUMENTSX", ("a",), "a and $ARGUMENTSX"),
        ("$1 then $2", ("$2", "$(rm -rf /)"), "$2 then $(rm -rf /)"),
    ],
)
def test_places_are_filled_with_arguments_as_text(body, arguments, request_text) -> None:
    assert filled(command(body), arguments) == request_text


@given(st.text(max_size=30), st.text(max_size=30))
def test_an_argument_stands_in_the_request_as_it_was_given(one, other) -> None:
    assert filled(command("<$1|$2>"), (one, other)) == f"<{one}|{other}>"


def test_a_text_with_a_place_for_arguments_is_refused_without_any() -> None:
    with pytest.raises(UsageError, match="'toy' needs arguments") as refused:
        filled(command("Look at $ARGUMENTS."), ())
    assert "a dot is the whole project" in refused.value.remedy


def test_a_request_that_would_be_too_long_is_refused() -> None:
    with pytest.raises(UsageError, match="would have 20005 characters"):
        filled(command("Read $1"), ("x" * 20_000,))


def test_front_matter_says_what_it_is_for_what_it_is_given_and_what_it_may_use() -> None:
    read = load_command(PACKS / "tensor-engineering/commands/debug-nan.md", namespace="tensor-engineering")
    assert read.name == "tensor-engineering:debug-nan"
    assert read.description == "Find the first NaN"
    assert read.argument_hint == "[file] [batch]"
    assert read.tools == ("Read", "Grep", "Bash(python:*)")
    assert read.inert == ("!`git branch --show-current`", "@$1")


def test_a_shell_line_and_a_file_reference_stay_text(tmp_path) -> None:
    (tmp_path / "toy.md").write_text("Now: !`touch done` and @/etc/passwd, but not me@example.org\n")
    read = load_command(tmp_path / "toy.md")
    assert read.inert == ("!`touch done`", "@/etc/passwd")
    assert filled(read, ()) == "Now: !`touch done` and @/etc/passwd, but not me@example.org"
    assert not (tmp_path / "done").exists()


def test_a_short_name_finds_ours_first_and_the_only_plugin_that_has_it() -> None:
    known = load_commands([load_plugin(PACKS / "tensor-engineering")])
    assert known.get("debug-nan").name == "debug-nan"
    assert known.get("/tensor-engineering:debug-nan").name == "tensor-engineering:debug-nan"
    assert known.get("explain-shapes").name == "tensor-engineering:explain-shapes"
    with pytest.raises(NotFoundError) as caught:
        known.get("debug-nans")
    assert "'debug-nan'" in caught.value.remedy


def test_a_short_name_that_several_plugins_have_is_refused_with_the_long_ones(tmp_path) -> None:
    plugins = []
    for name in ("ponds", "lakes"):
        (tmp_path / name / "commands").mkdir(parents=True)
        (tmp_path / name / "commands/count.md").write_text("Count.\n")
        plugins.append(load_plugin(tmp_path / name))
    with pytest.raises(UsageError) as caught:
        load_commands(plugins).get("count")
    assert "esper run ponds:count, esper run lakes:count" in caught.value.remedy


def test_a_command_without_a_text_is_refused_and_the_others_are_not(tmp_path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands/empty.md").write_text("---\ndescription: x\n---\n")
    (tmp_path / "commands/count.md").write_text("Count.\n")
    known = load_commands([load_plugin(tmp_path)])
    assert "there is no text below the front matter" in known.refused[0].problem
    assert any(each.endswith(":count") for each in known.commands)


def test_a_file_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(DefinitionError, match="no such file"):
        load_command(tmp_path / "none.md")


def test_ours_name_agents_that_there_are() -> None:
    from esper_agents.agents.registry import load_registry

    agents = load_registry(None).agents
    assert {each.agent for each in load_commands([]).commands.values()} <= agents.keys()
