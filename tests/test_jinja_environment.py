"""Compiled templates: written once, equal to those that are compiled, and never those of another source."""

from __future__ import annotations

import sys

import pytest
from jinja2 import UndefinedError

from esper_agents import jinja_environment
from esper_agents.jinja_environment import strict_environment


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder of templates in place of the packaged ones."""
    monkeypatch.setattr(jinja_environment, "data_folder", lambda name: tmp_path / name)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    made = tmp_path / "pages"
    made.mkdir()
    (made / "page.j2").write_text("{{ 'a<b' }} {{ text }}{% if 1 + 1 == 2 %} yes{% endif %}!\n")
    return made


def render(finalize=str, **options):
    return strict_environment("pages", finalize, **options).get_template("page.j2").render(text="c&d")


def test_a_template_is_compiled_once_and_its_values_are_finalized_each_time(folder):
    first = render(str.upper)
    (compiled,) = (folder / "__pycache__").iterdir()
    before = compiled.stat().st_mtime_ns
    assert first == "A<B C&D yes!\n"
    assert render(lambda value: f"[{value}]") == "[a<b] [c&d] yes!\n"
    assert compiled.stat().st_mtime_ns == before
    assert render(autoescape=True) == "a&lt;b c&amp;d yes!\n"


def test_a_changed_template_is_compiled_anew(folder):
    render()
    (folder / "page.j2").write_text("{{ text }}!")
    assert render() == "c&d!"


@pytest.mark.parametrize("damage", [b"", b"j2", b"\0" * 200])
def test_damaged_byte_code_is_replaced(folder, damage):
    expected = render()
    (compiled,) = (folder / "__pycache__").iterdir()
    whole = compiled.read_bytes()
    compiled.write_bytes(damage)
    assert render() == expected
    assert compiled.read_bytes() == whole


def test_byte_code_is_written_only_where_that_of_modules_is(folder, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    expected = render()
    assert not (folder / "__pycache__").exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / "__pycache__").write_text("not a folder")
    assert render() == expected


def test_an_undefined_name_is_an_error(folder):
    (folder / "page.j2").write_text("{{ missing }}")
    with pytest.raises(UndefinedError):
        render()
