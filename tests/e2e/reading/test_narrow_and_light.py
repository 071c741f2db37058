"""What every reading command keeps to: forty columns, and no heavy import."""

from __future__ import annotations

import pytest

READING = [
    ("certificates", "list"),
    ("certificates", "show"),
    ("certificates", "verify"),
    ("certificates", "path"),
    ("why",),
    ("memory", "show", "--all"),
    ("sessions", "list"),
    ("doctor",),
]
# There to be copied, so never broken; nor is a word, such as a path or an identifier.
WHOLE = ("next: ", "do: ", "again: ", "fix: ")


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_forty_columns_are_enough_and_nothing_heavy_is_loaded(desk, command) -> None:
    done = desk.esper(*command, env={"COLUMNS": "40", "PYTHONPROFILEIMPORTTIME": "1"}, code=0)
    long = (line.strip() for line in done.stdout.splitlines() if len(line) > 40)
    assert [line for line in long if " " in line and not line.startswith(WHOLE)] == []
    loaded = {line.rsplit("|", 1)[1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "typer" in loaded
    assert not {each.partition(".")[0] for each in loaded} & {"torch", "langgraph", "langchain_core", "anthropic"}
