"""Answers about changed interfaces of libraries name the version, the replacement and the line to change."""

from __future__ import annotations

import re

import pytest

from esper_agents.traces.contract_facts import contracts
from tests.traces.printed_traces import explain_printed

_ENVIRONMENT = """\
import gymnasium as gym


class Line(gym.Env):
    def step(self, action):
        return self.where, 0.0, False, {}


def play(env):
    state, gain, ended, cut, info = env.step(0)
"""


def test_a_contract_has_a_version_and_a_page_and_uses_only_parts_of_its_message():
    for contract in contracts():
        parts = {name.rstrip("2") for name in re.compile(contract.message).groupindex}
        known = parts | {"version", "instead", "origin_at"}
        assert set(re.findall(r"\{(\w+)\}", contract.change + contract.fix)) <= known
        assert contract.version[0].isdigit()
        assert contract.source.startswith("https://")
        assert not contract.replacements or "{instead}" in contract.fix


def test_an_environment_with_the_former_step_is_the_line_to_change(tmp_path):
    frames = [("env.py", "state, gain, ended, cut, info = env.step(0)", "play", "")]
    error = "ValueError: not enough values to unpack (expected 5, got 4)"
    explained = explain_printed(tmp_path, {"env.py": _ENVIRONMENT}, frames, error)
    assert str(explained.location) == "env.py:6"
    assert "gym 0.26" in explained.answer
    assert "env.py:10 fails" in explained.answer
    assert "truncated" in explained.fix


def test_five_values_of_another_function_are_no_step_of_an_environment(tmp_path):
    text = "def parts():\n    return 1, 2, 3, 4\n\n\na, b, c, d, e = parts()\n"
    frames = [("run.py", "a, b, c, d, e = parts()", "<module>", "")]
    error = "ValueError: not enough values to unpack (expected 5, got 4)"
    explained = explain_printed(tmp_path, {"run.py": text}, frames, error)
    assert "gym" not in explained.answer + explained.fix


def test_a_reset_whose_result_one_name_takes_is_the_line_to_change(tmp_path):
    text = (
        "import gymnasium\nimport torch\n\n\ndef run(env):\n    first = env.reset()\n    state = torch.tensor(first)\n"
    )
    frames = [("run.py", "state = torch.tensor(first)", "run", "torch.tensor(first)")]
    error = "ValueError: expected sequence of length 4 at dim 1 (got 0)"
    explained = explain_printed(tmp_path, {"run.py": text}, frames, error)
    assert str(explained.location) == "run.py:6"
    assert "`reset` returns two values" in explained.answer


@pytest.mark.parametrize(
    ("text", "error", "parts"),
    [
        (
            "import numpy as np\nlimit = np.Inf\n",
            "AttributeError: `np.Inf` was removed in the NumPy 2.0 release. Use `np.inf` instead.",
            ["NumPy 2.0 removed `np.Inf`", "`np.inf`"],
        ),
        (
            "import numpy as np\nflags = np.zeros(3, dtype=np.bool)\n",
            "AttributeError: module 'numpy' has no attribute 'bool'.",
            ["NumPy 1.24", "`bool`"],
        ),
        (
            (
                "from torch.optim.lr_scheduler import CosineAnnealingLR\n\n"
                "plan = CosineAnnealingLR(optimizer, 3, verbose=True)\n"
            ),
            "TypeError: CosineAnnealingLR.__init__() got an unexpected keyword argument 'verbose'",
            ["torch 2.7", "Leave out `verbose`"],
        ),
        (
            "from transformers import AdamW\n",
            "ImportError: cannot import name 'AdamW' from 'transformers' (/lib/transformers/__init__.py)",
            ["transformers 4.50", "from torch.optim import AdamW"],
        ),
    ],
    ids=["numpy-2", "numpy-alias", "torch-keyword", "transformers"],
)
def test_an_answer_names_the_version_and_the_replacement(tmp_path, text, error, parts):
    line = text.rstrip("\n").split("\n")[-1]
    explained = explain_printed(tmp_path, {"run.py": text}, [("run.py", line, "<module>", "")], error)
    assert all(part in f"{explained.answer} {explained.fix}" for part in parts)


def test_a_keyword_of_a_class_of_the_project_is_no_change_of_torch(tmp_path):
    text = "class Plan:\n    pass\n\n\nplan = Plan(verbose=True)\n"
    error = "TypeError: Plan.__init__() got an unexpected keyword argument 'verbose'"
    frames = [("run.py", "plan = Plan(verbose=True)", "<module>", "")]
    explained = explain_printed(tmp_path, {"run.py": text}, frames, error)
    assert "torch" not in explained.answer + explained.fix


_SCHEDULERS = """\
from torch.optim.lr_scheduler import LRScheduler


class Warmup(LRScheduler):
    def __init__(self, optimizer, last_epoch=-1, verbose=False):
        super().__init__(optimizer, last_epoch, verbose)


class Decay(LRScheduler):
    def __init__(self, optimizer, last_epoch=-1, verbose=False):
        super().__init__(optimizer, last_epoch, verbose)
"""


def test_a_scheduler_that_passes_verbose_names_the_version_and_the_other_lines(tmp_path):
    frames = [("utils.py", "super().__init__(optimizer, last_epoch, verbose)", "__init__", "")]
    error = "TypeError: LRScheduler.__init__() takes from 2 to 3 positional arguments but 4 were given"
    explained = explain_printed(tmp_path, {"utils.py": _SCHEDULERS}, frames, error)
    assert "PyTorch 2.7 removed the argument `verbose`" in explained.answer
    assert [str(each) for each in explained.also] == ["utils.py:11"]


def test_a_scheduler_with_too_many_other_arguments_is_no_matter_of_versions(tmp_path):
    source = _SCHEDULERS.replace("last_epoch, verbose)\n\n", "last_epoch, 3)\n\n")
    frames = [("utils.py", "super().__init__(optimizer, last_epoch, 3)", "__init__", "")]
    error = "TypeError: LRScheduler.__init__() takes from 2 to 3 positional arguments but 4 were given"
    assert "2.7" not in explain_printed(tmp_path, {"utils.py": source}, frames, error).answer
