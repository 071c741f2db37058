"""The line that decides a dtype is found, also in another file."""

from __future__ import annotations

import ast

import pytest

from esper_agents.traces.dtype_facts import dtype_of
from esper_agents.traces.program_index import CodeScope, OriginValue
from tests.traces.printed_traces import explain_printed


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("torch.zeros(3)", "float32"),
        ("torch.zeros(3, dtype=torch.long)", "int64"),
        ("torch.zeros(3, dtype=kind)", ""),
        ("np.zeros(3)", "float64"),
        ("np.zeros(3).astype(np.float32)", "float32"),
        ("torch.tensor([float(x) for x in row])", "float32"),
        ("torch.tensor([[1, 2], [3, 4]])", "int64"),
        ("torch.tensor(rows)", ""),
        ("torch.full((2,), 1.5)", "float32"),
        ("torch.randint(0, 5, (3,))", "int64"),
        ("x.float()", "float32"),
        ("x.to(torch.float64)", "float64"),
        ("x.to(device)", ""),
        ("x > 0", "bool"),
        ("load(x)", ""),
    ],
)
def test_one_expression_decides_a_dtype_or_not(text, dtype):
    assert dtype_of(OriginValue(ast.parse(text, mode="eval").body, CodeScope("a.py"))) == dtype


_STORE = """\
import torch


class Store:
    def __init__(self, size):
        self.picks = torch.zeros(size, 1)

    def draw(self, rows):
        return self.picks[rows]
"""
_LEARN = """\
from store import Store


def learn(scores, store, rows):
    picks = store.draw(rows)
    return scores.gather(1, picks)


def main(scores, rows):
    store = Store(10)
    return learn(scores, store, rows)
"""
_FRAMES = [
    ("learn.py", "return learn(scores, store, rows)", "main", ""),
    ("learn.py", "return scores.gather(1, picks)", "learn", "scores.gather(1, picks)"),
]


def test_a_float_index_is_followed_to_the_tensor_that_is_created_without_dtype(tmp_path):
    error = "RuntimeError: gather(): Expected dtype int32/int64 for index"
    explained = explain_printed(tmp_path, {"store.py": _STORE, "learn.py": _LEARN}, _FRAMES, error)
    assert "float32 since store.py:6: `torch.zeros(size, 1)`" in explained.answer
    assert "`picks.long()`" in explained.fix


def test_an_index_without_a_deciding_line_is_not_followed(tmp_path):
    error = "RuntimeError: gather(): Expected dtype int32/int64 for index"
    store = _STORE.replace("torch.zeros(size, 1)", "make(size)")
    explained = explain_printed(tmp_path, {"store.py": store, "learn.py": _LEARN}, _FRAMES, error)
    assert "store.py" not in explained.answer


def test_a_mask_of_numbers_is_followed_to_its_line(tmp_path):
    text = """\
import torch


def lengths_to_mask(lengths):
    mask = torch.zeros(len(lengths), 9)
    return mask


def attend(hidden, lengths):
    mask = lengths_to_mask(lengths)
    return hidden.masked_fill(~mask, 0)
"""
    frames = [("net.py", "return hidden.masked_fill(~mask, 0)", "attend", "~mask")]
    error = "TypeError: ~ (operator.invert) is only implemented on integer and Boolean-type tensors"
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert explained.family == "mask-type"
    assert "float32 since net.py:5" in explained.answer


@pytest.mark.parametrize(("zeros", "is_named"), [("np.zeros(3)", True), ("np.zeros(3, dtype=np.float32)", False)])
def test_a_double_operand_of_a_computation_is_followed_to_its_line(tmp_path, zeros, is_named):
    text = (
        "import numpy as np\nimport torch\n\n\nclass Scale:\n    def fit(self, rows):\n"
        f"        self.mean = {zeros}\n        return self\n\n    def apply(self, rows):\n"
        "        return (rows - self.mean) / 2\n\n\ndef run(layer, rows):\n    scale = Scale().fit(rows)\n"
        "    values = torch.from_numpy(scale.apply(rows))\n    return layer(values)\n"
    )
    frames = [("fit.py", "return layer(values)", "run", "layer(values)")]
    error = "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and Float"
    explained = explain_printed(tmp_path, {"fit.py": text}, frames, error)
    assert ("float64 since fit.py:7" in explained.answer) is is_named
