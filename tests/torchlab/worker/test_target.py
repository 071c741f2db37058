"""Tests of how a name becomes something that can be run."""

import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="no torch: NOTHING of targets was loaded")

from esper_agents.torchlab.worker.target.input_spec import TargetError  # noqa: E402 - wants torch
from esper_agents.torchlab.worker.target.target import load  # noqa: E402 - wants torch

CODE = """
import torch
from torch import nn


def double(x):
    return x * 2


def add(x, y=1, *, z=0):
    return x + y + z


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layer = nn.Linear(4, width)

    def forward(self, x):
        return self.layer(x)


class Needy(nn.Module):
    def __init__(self, width):
        super().__init__()


class Plain:
    def method(self, x):
        return x + 1

    @staticmethod
    def still(x):
        return x + 2

    @classmethod
    def made(cls, x):
        return x + 3


def make_net():
    return Net(8)


def make_step():
    count = []

    def step():
        count.append(1)
        return torch.tensor(float(len(count)))

    return step


ready = Net()
number = 3
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "code.py").write_text(CODE)
    package = tmp_path / "src" / "pack"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from .other import two\n\n\ndef three(x):\n    return two(x) + 1\n")
    (package / "other.py").write_text("def two(x):\n    return x + 2\n")
    (tmp_path / "given.py").write_text(
        "import torch\n\n\ndef get_inputs():\n    return (torch.ones(2, 4),)\n\n\ndef use(x):\n    return x\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield str(tmp_path)
    for each in set(sys.modules) - before:
        del sys.modules[each]


def loaded(project, name, *texts, inputs_from=None):
    return load(project, name, texts=list(texts), inputs_from=inputs_from, seed=0)


@pytest.mark.parametrize(
    ("name", "kind", "given", "expected"),
    [
        ("code.py:double", "function", 2.0, 4.0),
        ("code.py:add", "function", 2.0, 3.0),
        ("code.py:Plain.method", "function", 2.0, 3.0),
        ("code.py:Plain.still", "function", 2.0, 4.0),
        ("code.py:Plain.made", "function", 2.0, 5.0),
        ("src/pack/inner.py:three", "function", 2.0, 5.0),
        ("pack.inner:three", "function", 2.0, 5.0),
        ("torch.nn.functional:relu", "function", -2.0, 0.0),
    ],
)
def test_functions_and_methods_are_called_with_their_inputs(project, name, kind, given, expected):
    target = loaded(project, name, f"tensor([{given}])")
    assert target.kind == kind
    inputs = target.inputs(0)
    assert target.call(*inputs.args, **inputs.kwargs).item() == expected


@pytest.mark.parametrize("name", ["code.py:Net", "code.py:make_net", "code.py:ready"])
def test_a_module_its_class_and_its_factory_are_modules(project, name):
    target = loaded(project, name, "randn(2,4)")
    assert target.kind == "module"
    assert target.call(*target.inputs(0).args).shape[0] == 2


def test_a_factory_of_a_callable_is_a_step_that_keeps_its_state(project):
    target = loaded(project, "code.py:make_step")
    assert target.kind == "step"
    assert [target.call().item(), target.call().item()] == [1.0, 2.0]


def test_the_same_seed_builds_the_same_weights(project):
    one, other = (loaded(project, "code.py:make_net", "randn(2,4)") for _ in range(2))
    assert torch.equal(one.module.layer.weight, other.module.layer.weight)


def test_inputs_stand_beside_the_target_by_convention(project):
    assert torch.equal(loaded(project, "given.py:use").inputs(0).args[0], torch.ones(2, 4))


def test_a_step_that_takes_nothing_gets_nothing_of_what_stands_beside_it(project):
    (Path(project) / "steps.py").write_text(
        "import torch\n\n\ndef get_inputs():\n    return (torch.ones(2),)\n\n\n"
        "def make_step():\n    return lambda: torch.zeros(1)\n"
    )
    target = loaded(project, "steps.py:make_step")
    assert target.inputs(0).args == ()
    assert target.call().item() == 0.0


def test_inputs_come_from_the_function_that_was_named(project):
    target = loaded(project, "code.py:double", inputs_from="given.py:get_inputs")
    assert target.inputs(1).args[0].shape == (2, 4)


def test_the_file_and_line_of_a_target_are_the_users(project):
    target = loaded(project, "code.py:double", "randn(2)")
    assert (target.file, target.line) == ("code.py", CODE.splitlines().index("def double(x):") + 1)
    assert loaded(project, "torch.nn.functional:relu", "randn(2)").file is None


@pytest.mark.parametrize(
    ("name", "texts", "problem"),
    [
        ("code.py:absent", (), "'code.py' has no 'absent'"),
        ("code.py:Needy", (), "'code.py:Needy' needs arguments: width"),
        ("code.py:number", (), "'code.py:number' is of type int, which cannot be called"),
        ("code.py:double", (), "'code.py:double' needs inputs: x"),
        ("absent.py:double", (), "there is no file 'absent.py'"),
        ("pack.absent:double", (), "there is no module 'pack.absent'"),
        ("code.py:", (), "invalid target name 'code.py:'"),
    ],
)
def test_a_name_that_leads_nowhere_says_so(project, name, texts, problem):
    with pytest.raises(TargetError) as caught:
        loaded(project, name, *texts)
    assert caught.value.problem == problem
    assert caught.value.remedy
