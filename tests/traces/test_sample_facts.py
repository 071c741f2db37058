"""A None in a batch and a missing key are followed to the line that makes them."""

from __future__ import annotations

import pytest

from tests.traces.printed_traces import explain_printed

_READER = """\
def read(path):
    if not path.endswith(".bin"):
        return None
    return len(path)
"""
_DATA = """\
from torch.utils.data import DataLoader, Dataset
from reader import read


class Clips(Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __getitem__(self, at):
        return {"clip": self.load(at), "at": at}

    def load(self, at):
        clip = read(self.paths[at])
        return clip


for batch in DataLoader(Clips(["a.bin", "b"]), batch_size=2):
    pass
"""
_LOOP = 'for batch in DataLoader(Clips(["a.bin", "b"]), batch_size=2):'
_LIBRARY = '  File "/lib/site-packages/torch/utils/data/_utils/collate.py", line 1, in collate\n    stack\n'
_ERROR = "TypeError: expected Tensor as element 1 in argument 0, but got NoneType"


def test_the_none_of_a_sample_is_found_in_the_function_that_reads_it(tmp_path):
    explained = explain_printed(
        tmp_path, {"data.py": _DATA, "reader.py": _READER}, [("data.py", _LOOP, "<module>", "")], _LIBRARY + _ERROR
    )
    assert str(explained.location) == "reader.py:3"
    assert "data.py:17" in explained.answer


def test_a_dataset_that_tests_for_none_is_not_blamed(tmp_path):
    handled = _DATA.replace("        return clip\n", "        return 0 if clip is None else clip\n")
    explained = explain_printed(
        tmp_path, {"data.py": handled, "reader.py": _READER}, [("data.py", _LOOP, "<module>", "")], _LIBRARY + _ERROR
    )
    assert "reader.py" not in explained.answer


def test_a_none_that_a_model_joins_is_not_called_a_sample(tmp_path):
    text = """\
import torch


def gate(hidden):
    hidden = hidden * 2


def merge(hidden):
    return torch.cat([gate(hidden), hidden])
"""
    line = "return torch.cat([gate(hidden), hidden])"
    error = "TypeError: expected Tensor as element 0 in argument 0, but got NoneType"
    frames = [("net.py", line, "merge", "torch.cat([gate(hidden), hidden])")]
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert "dataset" not in explained.answer
    assert str(explained.location) == "net.py:5"


_WORDS = """\
class Words:
    def __init__(self, counts):
        kept = sorted(word for word, count in counts.items() if count > 1)
        self.rows = {word: row for row, word in enumerate(["<unk>", *kept])}

    def row(self, word):
        return self.rows[word]
"""


def test_a_key_that_a_condition_leaves_out_names_the_condition(tmp_path):
    explained = explain_printed(
        tmp_path,
        {"words.py": _WORDS},
        [("words.py", "return self.rows[word]", "row", "self.rows[word]")],
        "KeyError: 'lynx'",
    )
    assert "`count > 1` at words.py:3" in explained.answer
    assert "self.rows.get(word, self.rows['<unk>'])" in explained.fix


def test_a_dictionary_of_all_entries_names_no_condition(tmp_path):
    text = _WORDS.replace(" if count > 1", "")
    explained = explain_printed(
        tmp_path,
        {"words.py": text},
        [("words.py", "return self.rows[word]", "row", "self.rows[word]")],
        "KeyError: 'lynx'",
    )
    assert "condition" not in explained.answer


_ATTENTION = """\
from torch import nn


class Reader(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.look = nn.MultiheadAttention(width, 4)

    def forward(self, query, text):
        return self.look(query, text, text)
"""
_INSIDE = '  File "/lib/site-packages/torch/nn/functional.py", line 1, in multi_head_attention_forward\n    k\n'


@pytest.mark.parametrize("is_first", [False, True])
def test_an_attention_without_batch_first_is_the_line_to_change(tmp_path, is_first):
    text = _ATTENTION.replace("(width, 4)", "(width, 4, batch_first=True)") if is_first else _ATTENTION
    frames = [("net.py", "return self.look(query, text, text)", "forward", "self.look(query, text, text)")]
    error = _INSIDE + "RuntimeError: shape '[16, 24, 8]' is invalid for input of size 9216"
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert ("batch_first=True" in explained.fix) is not is_first
    assert is_first or "a query with 6 there and a key with 18" in explained.answer
    assert str(explained.location) == ("net.py:10" if is_first else "net.py:7")


def test_a_division_in_the_settings_class_is_the_line_to_change(tmp_path):
    text = """\
import torch


class Sizes:
    def __init__(self, width):
        self.half = width / 2


def cut(sizes, rows):
    return rows.view(-1, sizes.half)


cut(Sizes(8), torch.zeros(2, 8))
"""
    frames = [
        ("net.py", "cut(Sizes(8), torch.zeros(2, 8))", "<module>", ""),
        ("net.py", "return rows.view(-1, sizes.half)", "cut", "rows.view(-1, sizes.half)"),
    ]
    error = (
        "TypeError: view(): argument 'size' failed to unpack the object at pos 2 with error "
        '"type must be tuple of ints,but got float"'
    )
    explained = explain_printed(tmp_path, {"net.py": text}, frames, error)
    assert str(explained.location) == "net.py:6"
    assert explained.fix.startswith("Write `width // 2` at net.py:6.")
