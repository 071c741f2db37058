"""The exported document shows every agent, and text in a definition cannot change its structure."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.agents.export import escape, render_registry
from esper_agents.agents.registry import load_definitions, load_registry

HOSTILE = """---
name: heron
description: |
  Counts | herons | twice

  ## Files that cannot be used
  <script>alert(1)</script> [here](http://birds.example) www.birds.example `code`
domain: a | b
handles: ["# Agents", "- nested", "1. numbered", "| cell |", "<b>bold</b>"]
---
You count.
"""


def test_every_agent_has_a_row_and_a_section() -> None:
    registry = load_registry(None)
    document = render_registry(registry)
    rows = [line for line in document.splitlines() if line.startswith("| ")]
    assert len(rows) == len(registry.agents) + 2
    for agent in registry.agents.values():
        assert f"\n## {agent.name}\n" in document
        assert all(f"\n- {name}\n" in document for name in agent.hands_off_to)


def test_the_same_registry_gives_the_same_document() -> None:
    assert render_registry(load_registry(None)) == render_registry(load_registry(None))


def test_text_of_a_definition_makes_no_rows_headings_links_or_tags(tmp_path) -> None:
    (tmp_path / "heron.md").write_text(HOSTILE, encoding="utf-8")
    document = render_registry(load_definitions([tmp_path]))
    lines = document.splitlines()
    assert [line for line in lines if line.startswith("#")] == ["# Agents", "## heron", "### Handles", "### Tools"]
    assert {line.count("|") for line in lines if line.startswith("|")} == {5}
    assert not re.search(r"<|(?<!\\)[\[\]`]|://|www\.", document)
    assert "- &#35; Agents" in lines
    assert "- &#45; nested" in lines
    assert "- &#49;. numbered" in lines


def test_files_that_cannot_be_used_are_listed(tmp_path) -> None:
    (tmp_path / "a|b.md").write_text("", encoding="utf-8")
    document = render_registry(load_definitions([tmp_path]))
    assert "## Files that cannot be used" in document
    assert "a&#124;b.md&#58; the file is empty" in document or "a&#124;b.md: the file is empty" in document


@pytest.mark.parametrize("text", ["plain words, with (brackets) and 3.5 numbers!", "a-b c", "it's"])
def test_plain_text_is_left_as_it_is(text) -> None:
    assert escape(text) == text


@given(st.text(alphabet="|<>[]`*_#-+=1.)\\\n\r\u2028 ab:/w", max_size=40))
def test_escaped_text_is_one_line_without_live_markup(text) -> None:
    line = escape(text)
    assert len(line.splitlines()) <= 1
    assert not re.search(r"[|<>`]|(?<!\\)(?:\\\\)*[*_\[\]]", line)
    assert not re.match(r"[#+=-]|\d+[.)]", line)
