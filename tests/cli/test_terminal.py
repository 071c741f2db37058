"""Colours and tables of the terminal output."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout

import pytest
from command_line import build
from typer.testing import CliRunner

from esper_agents.cli import terminal
from esper_agents.cli.terminal import COLOURS, echo, say, table
from esper_agents.domain.finding import Severity
from esper_agents.domain.status import Status

CODE = """def train(model, loader, optimizer):
    losses = []
    for batch in loader:
        loss = model(batch).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses
"""


class Screen(io.TextIOWrapper):
    """Output that is a terminal."""

    def __init__(self):
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self):
        return True

    def text(self):
        self.flush()
        return self.buffer.getvalue().decode()


@pytest.fixture
def screen(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def printed(call, *arguments):
        # Not for the whole test: pytest puts its own output in place between the phases of a test.
        made = Screen()
        with redirect_stdout(made):
            call(*arguments)
        return made.text()

    return printed


def test_every_severity_and_status_has_a_colour():
    assert set(COLOURS) == {*Severity, *Status}


def test_severities_and_statuses_are_coloured_on_a_terminal(screen):
    line = screen(echo, "train.py:3:1: critical ESP205 loss-kept-with-graph")
    assert line == "train.py:3:1: \x1b[1;31mcritical\x1b[0m ESP205 loss-kept-with-graph\n"
    assert screen(say, "verdict", "NO_GO for train, by x") == "verdict    \x1b[31mNO_GO\x1b[0m for train, by x\n"


def test_words_in_prose_paths_and_keys_are_not_coloured(screen):
    text = "a critical path src/GO/x.py AAAAC3/GO+x NO_GOING"
    assert screen(echo, text) == f"{text}\n"


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")], ids=["NO_COLOR", "a terminal without colours"]
)
def test_a_terminal_without_colour_gets_none(screen, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert "\x1b" not in screen(say, "critical", "x")


def test_a_pipe_gets_colour_only_if_forced(capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    say("critical", "x")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(terminal, "width", lambda: 100)
    say("critical", "x")
    assert capsys.readouterr().out == "critical   x\n\x1b[1;31mcritical\x1b[0m   x\n"


def test_a_review_is_coloured_as_text_and_never_as_data(monkeypatch, tmp_path):
    (tmp_path / "train.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = CliRunner().invoke(build(), ["review", "train.py", "--no-cache"], color=True)
    assert "\x1b[33mwarning\x1b[0m ESP" in done.output
    assert "\\x1b" not in done.output
    data = CliRunner().invoke(build(), ["review", "train.py", "--no-cache", "--json"], color=True).output
    assert json.loads(data)["claims"]


def test_a_path_in_a_table_is_never_broken(capsys, monkeypatch):
    path = "docs/ai/agents/pytorch-code-reviewer/certificates/review.md"
    rows = [("one", "text " * 30, path)]
    for columns in ("120", "70"):
        monkeypatch.setenv("COLUMNS", columns)
        table(("name", "text", "file"), rows)
        assert path in capsys.readouterr().out
