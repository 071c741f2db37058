"""Tests of the facts about operands: real errors, explained with the lines that made their sizes and dtypes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from esper_agents.traces.explain import explain_text

pytestmark = pytest.mark.torch

NET = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(16, 16)
        self.k = nn.Linear(16, 32)
        self.bias = nn.Parameter(torch.zeros(8))
        self.head = nn.Linear(32, 2)

    def scores(self, x):
        q = self.q(x)
        k = self.k(x)
        return torch.einsum("bid,bjd->bij", q, k)

    def letters(self, x):
        return torch.einsum("bid,d->bi", x[0], self.bias)

    def shifted(self, x):
        h = self.q(x)
        return h + self.bias

    def masked(self, x, mask):
        assert x.shape[:2] == mask.shape, "no fit"
        return x

    def cast(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            h = self.k(x)
        return self.head(h)

    def filled(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            rows = torch.zeros(2, 5, 16)
            h = self.q(x)
            rows[torch.tensor([0, 1])] = h
        return rows


def run(name):
    x = torch.randn(2, 5, 16)
    given = (x, torch.ones(2, 4)) if name == "masked" else (x,)
    getattr(Net(), name)(*given)
"""


RUN = """\
import json
import traceback

from net import run

errors = {}
for name in ("scores", "letters", "shifted", "masked", "cast", "filled"):
    try:
        run(name)
    except Exception:
        errors[name] = traceback.format_exc()
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def errors(tmp_path_factory):
    """Return the folder of the module and the stack traces that its methods raise, from one process."""
    folder = tmp_path_factory.mktemp("operands")
    (folder / "net.py").write_text(NET)
    done = subprocess.run([sys.executable, "-c", RUN], cwd=folder, capture_output=True, text=True, check=True)
    return folder, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "scores",
            [
                "net.py:16: the letter `d` is 16 in `q` (made at net.py:14 by `self.q(x)`",
                "and 32 in `k` (made at net.py:15 by `self.k(x)`, where `self.k` is made at net.py:9 by",
                "`nn.Linear(16, 32)`) of `bjd`",
            ],
        ),
        ("letters", ["the equation names 3 dimensions for `x[0]` (an argument of `letters`", "which has 2"]),
        (
            "shifted",
            [
                "in dimension 2, `h` (made at net.py:22 by `self.q(x)`",
                "16 elements, and `self.bias` (made at net.py:10",
            ],
        ),
        (
            "masked",
            [
                "net.py:26: this comparison of shapes is false: `x.shape[:2]` (an argument of `masked`, passed at",
            ],
        ),
        ("cast", ["net.py:32 runs outside of autocast and uses `h`, which net.py:31 made in half precision"]),
        ("filled", ["net.py:38 runs under the autocast of net.py:35", "`rows` is made at net.py:36 by"]),
    ],
)
def test_an_answer_names_the_operands_and_the_lines_that_made_them(errors, name, parts):
    folder, traces = errors
    answer = " ".join(explain_text(traces[name], folder).answer.split())
    assert [part for part in parts if part not in answer] == [], answer
