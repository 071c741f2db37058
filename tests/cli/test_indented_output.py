"""Indented lines: what fits, and what is never broken."""

from __future__ import annotations

import pytest

from esper_agents.cli.indented_output import outline, outline_command


@pytest.mark.parametrize("columns", [20, 40, 100])
@pytest.mark.parametrize("depth", [0, 3, 12])
def test_every_line_fits_however_deep_it_stands(monkeypatch, capsys, columns, depth) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    outline("the gradients are added up over all steps, because nothing clears them in this loop", depth)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= columns


def test_a_path_or_an_identifier_is_never_broken(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    outline("from crt_01a1fd2421e1716bba6c12faba12a09f, today", 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["  from", "      crt_01a1fd2421e1716bba6c12faba12a09f,", "      today"]


def test_what_could_steer_a_terminal_is_shown(capsys) -> None:
    outline("red \x1b[31m\nand\u202e back")
    assert capsys.readouterr().out == "red \\x1b[31m and\\u202e back\n"


def test_a_command_stays_on_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    outline_command("do", "esper submit --rerun crt_0198f0", 2)
    assert capsys.readouterr().out == "    do: esper submit --rerun crt_0198f0\n"
