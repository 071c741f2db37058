"""Notebooks: read cell by cell, and every claim points at the line of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from esper_agents.errors import InputFileError
from esper_agents.review.engine import ReviewReport, review
from esper_agents.review.notebook import NotANotebookError, read_notebook

LOOP = [
    "import torch\n",
    "losses = []\n",
    "for x, y in loader:\n",
    "    loss = criterion(model(x), y)\n",
    "    loss.backward()\n",
    "    optimizer.step()\n",
    "    losses.append(loss)",
]


def code(source: list[str] | str, **more: Any) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": 1, "metadata": {}, "outputs": [], "source": source, **more}


def text(source: list[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def notebook(*cells: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def reviewed(folder: Path, content: object, *, indent: int | None = 1, rules: list[str] | None = None) -> ReviewReport:
    (folder / "a.ipynb").write_text(json.dumps(content, indent=indent))
    return review(folder, [folder], rules=rules)


def lines(folder: Path) -> list[str]:
    return (folder / "a.ipynb").read_text().split("\n")


def python_of(*cells: dict[str, Any]) -> list[str]:
    found = read_notebook(json.dumps(notebook(*cells), indent=1))
    assert not found.broken
    return [line for line in found.text.split("\n") if line]


def test_a_claim_points_at_the_line_of_the_file(tmp_path):
    printed = {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]}
    first = code(["print(1)\n", "print(2)"], outputs=[printed])
    report = reviewed(tmp_path, notebook(text(["# Title\n", "loss.backward()"]), first, code(LOOP)))
    kept, *_ = [claim for claim in report.claims if claim.rule == "ESP301"]
    line = lines(tmp_path)[kept.location.line - 1]
    assert line == kept.excerpt == '    "    losses.append(loss)"'
    assert line[kept.location.column - 1 :] == 'losses.append(loss)"'
    assert kept.location.end_line == kept.location.line
    assert kept.message.endswith("(cell 3, line 7)")


def test_cells_are_one_module(tmp_path):
    cells = [code(LOOP[:2]), text(["then"]), code(LOOP[2:])]
    report = reviewed(tmp_path, notebook(*cells))
    assert {claim.rule for claim in report.claims} == {"ESP101", "ESP301"}
    assert report.lines == len(LOOP)
    assert report.torch_files == 1


def test_a_notebook_on_one_line_is_reviewed(tmp_path):
    report = reviewed(tmp_path, notebook(code(LOOP), text(["x" * 2000])), indent=None)
    places = [(claim.location.line, claim.location.column, claim.excerpt) for claim in report.claims]
    assert places == [(1, 1, "")] * 2
    assert [claim.message.rpartition("(")[2] for claim in report.claims] == ["cell 1, line 5)", "cell 1, line 7)"]
    assert len({claim.fingerprint for claim in report.claims}) == 2


def test_a_cell_whose_source_is_one_string_stands_on_one_line(tmp_path):
    report = reviewed(tmp_path, notebook(code("".join(LOOP)), code(["print(1)"])))
    assert {claim.location.line for claim in report.claims} == {8}
    assert '"source": "import torch' in lines(tmp_path)[7]


def test_the_old_format_is_read(tmp_path):
    cell = {"cell_type": "code", "input": LOOP, "language": "python", "outputs": []}
    old = {"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": [cell]}]}
    report = reviewed(tmp_path, old)
    assert [claim.rule for claim in report.claims] == ["ESP101", "ESP301"]
    assert "loss.backward()" in lines(tmp_path)[report.claims[0].location.line - 1]


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        (["%matplotlib inline\n", "x = 1"], ["pass", "x = 1"]),
        (["!pip install \\\n", "  torch\n", "x = 1"], ["pass", "x = 1"]),
        (["if x:\n", "    !ls\n", "    %cd /\n"], ["if x:", "    pass", "    pass"]),
        (["files = !ls\n", "a, b = %sql select"], ["files = ...", "a, b = ..."]),
        (["torch.nn.Linear?\n", "?x\n", "x??"], ["pass", "pass", "pass"]),
        (["print('%d'\n", "      % x)"], ["print('%d'", "      % x)"]),
        (["s = '''\n", "%time\n", "!ls\n", "'''"], ["s = '''", "%time", "!ls", "'''"]),
        (["%%time\n", "x = 1"], ["x = 1"]),
        (["%%time\n", "%%capture out\n", "x = 1"], ["x = 1"]),
        (["%%bash\n", "echo 'x"], []),
        (["\n", "%%writefile a.py\n", "x = ("], []),
        (["%sql\n", "select * from t"], []),
        (["%cd 'x\n", "!echo )\n", "y = 2"], ["pass", "pass", "y = 2"]),
        (["x = 1  # why?"], ["x = 1  # why?"]),
        (["await f()"], ["await f()"]),
    ],
)
def test_what_is_ipython_is_blanked_and_the_rest_kept(source, kept):
    assert python_of(code(source)) == kept


def test_cells_in_other_languages_are_left_out():
    other = code(["SELECT 1"], metadata={"vscode": {"languageId": "sql"}})
    old = {"cell_type": "code", "input": ["ls -l"], "language": "bash"}
    assert python_of(other, old, {"cell_type": "raw", "source": ["raw text ("]}, code(["x = 1"])) == ["x = 1"]


def test_a_broken_cell_is_reported_and_the_rest_reviewed(tmp_path):
    report = reviewed(tmp_path, notebook(code(["def f(:\n", "    pass"]), code(LOOP), code(["print 'x'"])))
    assert [claim.rule for claim in report.claims] == ["ESP101", "ESP301"]
    first, second = report.unreadable
    assert first.problem == "cell 1, line 1 does not parse: invalid syntax"
    assert "def f(" in lines(tmp_path)[(first.line or 0) - 1]
    assert second.problem == "cell 3, line 1 is Python 2"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"cells": [', "broken JSON"),
        ("", "broken JSON"),
        ("[]", "not an object"),
        ("{}", "no cells"),
        ('{"cells": 3}', "no cells"),
        ('{"cells": []} x', "broken JSON"),
        ('{"cells": [}', "broken JSON"),
        ('{"cells" []}', "broken JSON"),
        ("{1: []}", "broken JSON"),
        ('{"a": 1 "cells": []}', "broken JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"cells": [], "metadata": {"language_info": {"name": "R"}}}', "a notebook in R"),
        ('{"cells": [], "metadata": {"kernelspec": {"language": "julia"}}}', "a notebook in julia"),
    ],
)
def test_what_is_no_notebook_in_python_says_so(content, problem):
    with pytest.raises(NotANotebookError, match=problem):
        read_notebook(content)


def test_a_broken_notebook_in_a_folder_is_reported_and_the_rest_reviewed(tmp_path):
    (tmp_path / "broken.ipynb").write_text('{\n "cells": [\n}')
    (tmp_path / "b.py").write_text("".join(LOOP))
    report = review(tmp_path, [tmp_path])
    assert [(each.path, each.line) for each in report.unreadable] == [("broken.ipynb", 3)]
    assert [each.path for each in report.examined] == ["b.py"]
    assert len(report.claims) == 2


@pytest.mark.parametrize("cell", [{"cell_type": "code"}, {"source": ["x = ("]}, "text", None, {"cell_type": 3}])
def test_odd_cells_are_no_reason_to_stop(tmp_path, cell):
    report = reviewed(tmp_path, notebook(cell, code(LOOP)))
    assert len(report.claims) == 2
    assert report.unreadable == ()


def test_odd_text_in_a_cell_is_reported(tmp_path):
    report = reviewed(tmp_path, notebook(code(["x = '\ud800'"]), code(["y = '\x00'"]), code(LOOP)))
    assert [each.problem.partition(" ")[0] for each in report.unreadable] == ["cell", "cell"]
    assert len(report.claims) == 2


def test_comments_silence_claims_in_notebooks_too(tmp_path):
    silenced = [*LOOP[:-1], "    losses.append(loss)  # esper: ignore[ESP301] five steps"]
    report = reviewed(tmp_path, notebook(code(silenced)), rules=["ESP301"])
    assert report.claims == ()
    assert report.suppressed == 1


def test_imports_from_files_beside_a_notebook_are_followed(tmp_path):
    (tmp_path / "steps.py").write_text("def clear(optimizer):\n    optimizer.zero_grad()\n")
    cells = [code(["import torch\n", "from steps import clear"]), code([*LOOP[2:-1], "    clear(optimizer)"])]
    assert reviewed(tmp_path, notebook(*cells), rules=["ESP101"]).claims == ()


def test_a_notebook_can_be_named_and_an_empty_one_is_refused(tmp_path):
    reviewed(tmp_path, notebook(code(LOOP)))
    assert len(review(tmp_path, [Path("a.ipynb")]).claims) == 2
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook(text(["words"]))))
    with pytest.raises(InputFileError, match="empty"):
        review(tmp_path, [Path("a.ipynb")])
