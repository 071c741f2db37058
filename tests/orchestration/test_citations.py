"""The code that a model cites is found by its quote, its lines or its name, however they are worded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.agent_action import ModelCitation
from esper_agents.orchestration.citations import CitedLines, CitedSources, line_ranges, locate
from esper_agents.tools.tool import ToolContext

TRAIN = """import torch


class Trainer:
    def step(self, batch):
        loss = self.model(batch).mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def save(self, path):
        torch.save(self.model, path)


def main(loader, trainer):
    for batch in loader:
        loss = trainer.step(batch)
        print(loss)
    for batch in loader:
        trainer.step(batch)
"""
LOADER = "def load(path):\n    rows = open(path).read()\n    return rows.split()\n"


@pytest.fixture
def sources(tmp_path):
    """Return the files of a project without git."""
    for path, text in {
        "train.py": TRAIN,
        "data/loader.py": LOADER,
        "legacy/loader.py": "def load(path):\n    return []\n",
        "models/blocks.py": "WIDTH = 64\n",
        ".env": "KEY=12345678901234567890\n",
    }.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / "windows.py").write_bytes(b"import torch\r\n\r\nx = torch.zeros(1)\r\ny = x + 1\r\n")
    return CitedSources(ToolContext(tmp_path))


def place(sources, message="", read=(), **cited):
    """Return path and lines of a citation that was located."""
    found = locate(ModelCitation(**{"path": "train.py", **cited}), message, sources, read)
    assert not found.problem, found
    return found.path, found.lines


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("41", [(41, 41)]),
        ("L41", [(41, 41)]),
        ("41-48", [(41, 48)]),
        ("L41-L48", [(41, 48)]),
        ("41\u201348", [(41, 48)]),
        ("lines 41 to 48", [(41, 48)]),
        ("41..48", [(41, 48)]),
        ("48-41", [(41, 48)]),
        ("41, 48", [(41, 41), (48, 48)]),
        ("lines 41, 43 and 50-52", [(41, 41), (43, 43), (50, 52)]),
        ("", []),
        ("around the loop", []),
    ],
)
def test_lines_are_understood_however_they_are_written(text, ranges):
    assert [tuple(each) for each in line_ranges(text)] == ranges


@pytest.mark.parametrize(
    ("quote", "lines"),
    [
        ("        loss.backward()", (7, 7)),
        ("loss.backward()\nself.optimizer.step()", (7, 8)),
        ("loss.backward( )", (7, 7)),
        ("```python\nloss.backward()\n```", (7, 7)),
        ("7: loss.backward()\n8: self.optimizer.step()", (7, 8)),
        ("+        loss.backward()\n+        self.optimizer.step()", (7, 8)),
        ("`torch.save(self.model, path)`", (12, 12)),
        ("loss = self.model(...)...\n...\nreturn loss", (6, 9)),
        ("loss.backward()\r\nself.optimizer.step()\r\n", (7, 8)),
    ],
)
def test_a_quote_decides_the_lines_whatever_number_is_given(sources, quote, lines):
    assert place(sources, quote=quote, lines="130") == ("train.py", lines)


def test_a_corrected_number_is_noted(sources):
    found = locate(ModelCitation("train.py", "130", "torch.save(self.model, path)"), "", sources, ())
    assert found.notes == ("the quote was found at line 12; the model named line 130",)
    assert found.excerpt == "        torch.save(self.model, path)"


def test_a_quote_that_stands_in_several_places_is_the_one_nearest_to_the_lines_given(sources):
    assert place(sources, quote="for batch in loader:", lines="18") == ("train.py", (19, 19))
    assert place(sources, quote="trainer.step(batch)", lines="16", symbol="main") == ("train.py", (17, 17))


def test_a_quote_that_is_nearly_right_is_located_and_has_a_problem(sources):
    found = locate(ModelCitation("train.py", "8", "torch.save(self.network, path)"), "", sources, ())
    assert (found.lines, found.problem) == (CitedLines(12, 12), "its quote is not in the file, only a similar line")


def test_an_invented_quote_keeps_its_cited_line_and_has_a_problem(sources):
    found = locate(
        ModelCitation("train.py", "8", "loss.backward(retain_graph=True, create_graph=True)"), "", sources, ()
    )
    assert (found.path, found.lines) == ("train.py", (8, 8))
    assert found.problem == "its quote is not in the file"


def test_a_quote_of_another_file_is_found_there(sources):
    found = locate(
        ModelCitation("train.py", "9", "    rows = open(path).read()\n    return rows.split()"), "", sources, ()
    )
    assert (found.path, found.lines, found.problem) == ("data/loader.py", (2, 3), "")
    assert found.notes[0] == "the quote stands in data/loader.py; the model named train.py"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("./train.py", "train.py"),
        ("`train.py`", "train.py"),
        ("/home/lee/project/models/blocks.py", "models/blocks.py"),
        ("blocks.py", "models/blocks.py"),
        ("models.blocks", "models/blocks.py"),
        ("models\\blocks.py", "models/blocks.py"),
        ("blocks.py:1", "models/blocks.py"),
    ],
)
def test_a_file_may_be_named_by_the_end_of_its_path_or_as_a_module(sources, path, expected):
    assert place(sources, path=path, lines="1")[0] == expected


def test_an_ambiguous_name_is_decided_by_the_quote_or_by_what_was_read(sources):
    assert place(sources, path="loader.py", quote="return rows.split()") == ("data/loader.py", (3, 3))
    assert place(sources, path="loader.py", lines="2", read={"legacy/loader.py"}) == ("legacy/loader.py", (2, 2))
    found = locate(ModelCitation("loader.py", "2"), "", sources, ())
    assert found.problem == "loader.py can be data/loader.py, legacy/loader.py: name one of them"


@pytest.mark.parametrize(
    "cited",
    [
        {"symbol": "Trainer.step", "lines": "0"},
        {"symbol": "step()", "lines": ""},
        {"symbol": "train.Trainer.step", "lines": ""},
        {"path": "train.py::Trainer::step", "lines": ""},
        {"path": "train.py:Trainer.step", "lines": "0"},
    ],
)
def test_a_function_is_located_by_its_name(sources, cited):
    assert place(sources, **cited) == ("train.py", (5, 9))


@pytest.mark.parametrize(
    ("cited", "lines"),
    [
        ({"path": "train.py:7-8", "lines": "7"}, (7, 8)),
        ({"path": "train.py#L7-L8", "lines": "0"}, (7, 8)),
        ({"path": "train.py, lines 7 to 8", "lines": ""}, (7, 8)),
        ({"path": "train.py:7-8", "lines": "12"}, (12, 12)),
    ],
)
def test_a_path_may_carry_the_lines(sources, cited, lines):
    assert place(sources, **cited) == ("train.py", lines)


def test_code_in_the_text_names_the_line_if_nothing_else_does(sources):
    assert place(sources, "The whole module is pickled by `torch.save(self.model, path)`.", lines="")[1] == (12, 12)
    assert place(sources, "`torch.save(self.model, path)` pickles it.", lines="10")[1] == (12, 12)
    assert place(sources, "`loss.backward()` comes first.", lines="7")[1] == (7, 7)


@pytest.mark.parametrize(
    ("cited", "problem"),
    [
        ({"path": "config/settings.py", "lines": "3"}, "the project has no file config/settings.py"),
        ({"path": "", "lines": "3"}, "it names no file"),
        ({"lines": "430"}, "train.py has 20 lines, and line 430 is cited"),
        ({"lines": ""}, "it names no line of the file and quotes nothing"),
        ({"path": "../../etc/passwd", "lines": "1"}, "the project has no file etc/passwd"),
        ({"path": ".env", "lines": "1"}, "the project has no file .env"),
    ],
)
def test_a_place_that_does_not_exist_or_is_withheld_is_a_problem_and_stays_a_place(sources, cited, problem):
    found = locate(ModelCitation(**{"path": "train.py", **cited}), "", sources, ())
    assert found.problem == problem
    assert found.lines.first >= 1
    assert "12345678901234567890" not in found.excerpt


def test_a_name_in_the_text_moves_no_line_that_is_given(sources):
    named = "`self.optimizer` (line 9) is not given back."
    assert place(sources, named, lines="9") == ("train.py", (9, 9))


def test_other_line_ends_do_not_matter(sources):
    assert place(sources, path="windows.py", quote="x = torch.zeros(1)\ny = x + 1\n") == ("windows.py", (3, 4))


def test_a_form_feed_or_a_separator_in_a_text_ends_no_line(tmp_path):
    (tmp_path / "feeds.py").write_text(f'"""A\u2028B."""\n\x0c\n{LOADER}')
    sources = CitedSources(ToolContext(tmp_path))
    for cited in ({"quote": "return rows.split()"}, {"lines": "5"}):
        assert place(sources, path="feeds.py", **cited) == ("feeds.py", (5, 5))
    assert place(sources, path="feeds.py", symbol="load") == ("feeds.py", (3, 5))


CELLS = """{
 "cells": [
  {
   "cell_type": "code",
   "source": [
    "for batch in loader:\\n",
    "    loss = model(batch)[\\"loss\\"]\\n",
    "    print(loss.item())"
   ]
  }
 ]
}
"""


@pytest.mark.parametrize(
    ("quote", "lines"),
    [
        ('for batch in loader:\n    loss = model(batch)["loss"]\n    print(loss.item())', (6, 8)),
        ("    print(loss.item())", (8, 8)),
        ('    "for batch in loader:\\n",\n    "    loss = model(batch)[\\"loss\\"]\\n",', (6, 7)),
    ],
)
def test_a_quote_of_a_notebook_is_found_as_code_and_as_it_is_stored(tmp_path, quote, lines):
    (tmp_path / "explore.ipynb").write_text(CELLS)
    sources = CitedSources(ToolContext(tmp_path))
    assert place(sources, path="explore.ipynb", quote=quote) == ("explore.ipynb", lines)


def test_a_quote_that_stands_in_a_signature_and_in_a_statement_means_the_statement(tmp_path):
    sources = CitedSources(ToolContext(tmp_path))
    (tmp_path / "one.py").write_text("def keep(model, path):\n    ...\n\n\nkeep(model, path)\n")
    for cited, line in (({}, 5), ({"lines": "1"}, 1), ({"symbol": "keep"}, 1)):
        found = locate(ModelCitation("one.py", quote="keep(model, path)", **cited), "", sources, ())
        assert (found.lines.first, found.problem) == (line, "")
    assert "signature (line 1)" in locate(ModelCitation("one.py", quote="keep(model, path)"), "", sources, ()).notes[0]
    assert locate(ModelCitation("one.py", quote="def keep(model, path):"), "", sources, ()).lines.first == 1


def test_a_quote_that_stands_in_ten_places_says_so(tmp_path):
    (tmp_path / "ten.py").write_text("".join(f"def f{i}(m, x):\n    m(x).backward()\n\n" for i in range(10)))
    sources = CitedSources(ToolContext(tmp_path))
    open_choice = "its quote stands in 10 places: name the line that is meant"
    for cited, line, problem in (({}, 2, open_choice), ({"lines": "19"}, 20, ""), ({"symbol": "f4"}, 14, "")):
        found = locate(ModelCitation("ten.py", quote="m(x).backward()", **cited), "", sources, ())
        assert (found.lines.first, found.problem) == (line, problem)
        assert "also stands elsewhere (lines 2, 5, 8, 11 and 6 more)" in found.notes[0]


@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=80), st.text(max_size=20))
def test_whatever_is_cited_has_a_place(tmp_path_factory, path, lines, quote, symbol):
    sources = CitedSources(ToolContext(tmp_path_factory.mktemp("project")))
    found = locate(ModelCitation(path, lines, quote, symbol), quote, sources, ())
    assert 1 <= found.lines.first <= found.lines.last
    assert ".." not in found.path.split("/")
    assert not found.path.startswith("/")
