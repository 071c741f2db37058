"""Links, commands and settings of the README and of all pages in `docs/`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from command_line import build

from esper_agents import errors
from esper_agents.errors import EsperError, ExitCode

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
GENERATED = "rules.md"
WRITTEN = [page for page in PAGES if page.name != GENERATED]
by_name = pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)


def anchors_of(page):
    """Return the anchors that GitHub makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_of(page):
    """Return the `esper` commands in the blocks of a page, without those that stand in output."""
    blocks = re.findall(r"^```(?:console|sh|)\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.splitlines()]
    return sorted({line for line in lines if line.startswith("esper ")})


@by_name
def test_every_link_leads_to_a_file_and_a_heading(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors_of(file), target


@pytest.mark.sample(9)
@by_name
def test_every_command_exists_with_its_options(page):
    """Ask each for its help: an unknown command or option is refused before help is given."""
    command = typer.main.get_command(build())
    for line in commands_of(page):
        command([*shlex.split(line, comments=True)[1:], "--help"], standalone_mode=False)


def test_the_index_lists_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/index.md").read_text(encoding="utf-8")))
    assert linked == {page.name for page in DOCS} - {"index.md"}


def test_the_page_of_exit_codes_lists_all_of_them():
    text = (ROOT / "docs/exit-codes.md").read_text(encoding="utf-8")
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == sorted(ExitCode)


def test_the_page_of_exit_codes_lists_the_kinds_of_errors_with_their_codes():
    text = (ROOT / "docs/exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| (\d+) \|", text, re.MULTILINE)
    listed = {(kind, int(code)) for kinds, code in rows for kind in re.findall(r"`([^`]+)`", kinds)}
    classes = [var for var in vars(errors).values() if isinstance(var, type) and issubclass(var, EsperError)]
    assert listed == {(cls.kind, int(cls.exit_code)) for cls in classes}
