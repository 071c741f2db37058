"""What docs/torch.md shows is what the commands print, on a copy of the example, in the order of the page."""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from command_line import build
from places import Done

from esper_agents.torchlab.measurement import measurements

torch = pytest.importorskip("torch")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/torch.md").read_text(encoding="utf-8")
# Measurements queue: others may be running on the machine.
PATIENCE_S = 280
# What these print depends on the machine and the moment.
MEASURED = {"profile", "environment", "memory", "compare", "data", "scaffold"}


@dataclass(frozen=True)
class Shown:
    """A command of the page and what stands below it."""

    words: tuple[str, ...]
    output: str

    @property
    def name(self):
        return self.words[2]


def shown():
    blocks = re.findall(r"^```\n\$ (esper .*?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [Shown(tuple(shlex.split(command)), output) for command, output in blocks]


def plain(output):
    """Return output without what differs from run to run: numbers, and where things are kept.

    Torch's draft export of a branch on a tensor's value comes out differently from run to run, on the same inputs.
    """
    paragraphs = [each for each in output.split("\n\n") if not each.startswith("draft ")]
    lines = []
    for line in "\n\n".join(paragraphs).splitlines():
        kept = "kept in    ..." if line.startswith("kept in") else line
        lines.append(re.sub(r"\d[\d,.]*", "0", kept).rstrip())
    return lines


@pytest.fixture(scope="module")
def made(place):
    """Return a copy of the example with the file that the page adds to it."""
    made = place({})
    shutil.copytree(
        ROOT / "examples/digits", made.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (made.root / "fast.py").write_text(source)
    return made


def run(place, words):
    process = place.start(*words)
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    return Done(process.returncode, stdout, stderr)


def test_the_page_shows_every_command():
    listed = {each.name for each in shown()}
    assert listed == {
        "behaviour",
        "explain",
        "export",
        "nan",
        "watch",
        "compare",
        "memory",
        "profile",
        "data",
        "scaffold",
        "environment",
        "verify",
    }


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the page was made with torch 2.13: NOT compared")
def test_the_page_shows_what_is_printed(made):
    for each in shown():
        if each.name not in MEASURED:
            done = run(made, each.words[1:])
            assert done.code == 0, (each.words, done)
            assert plain(done.stdout) == plain(each.output), each.words


def test_every_command_of_the_page_is_one_that_there_is():
    """Ask each for its help: an unknown command or option is refused before help is given."""
    command = typer.main.get_command(build())
    for each in shown():
        command([*each.words[1:], "--help"], standalone_mode=False)


def test_the_options_of_a_described_measurement_are_those_of_the_page():
    for measurement in measurements():
        assert measurement.option_table() in PAGE


def test_the_exit_codes_of_the_page_are_those_of_the_program():
    from esper_agents.errors import ExitCode

    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}
    assert codes == {
        ExitCode.DONE,
        ExitCode.USAGE,
        ExitCode.AGAINST,
        ExitCode.UNDECIDED,
        ExitCode.TAMPERED,
        ExitCode.INTERRUPTED,
    }


def test_the_links_of_the_page_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
