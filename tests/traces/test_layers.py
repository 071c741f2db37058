"""Tests of `esper_agents.traces.layers`: the change of a size names the line that decides it."""

from __future__ import annotations

import pytest

from esper_agents.traces.explain import explain_text

CLASS = """from torch import nn

WIDTH = 12

class Net(nn.Module):
    def __init__(self{parameters}):
        super().__init__()
        self.fc = {layer}

    def forward(self, x):
        return self.fc(x)
"""
MESSAGE = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x84 and {size}x10)\n"


def explained(tmp_path, source, size, *, line=11, text="return self.fc(x)", main=""):
    (tmp_path / "net.py").write_text(source)
    (tmp_path / "train.py").write_text(main)
    trace = f'Traceback (most recent call last):\n  File "/data/net.py", line {line}, in forward\n    {text}\n'
    if main:
        number = len(main.splitlines())
        called = f'  File "/data/train.py", line {number}, in <module>\n    {main.splitlines()[-1]}\n'
        trace = trace.replace('  File "/data/net.py"', f'{called}  File "/data/net.py"')
    return explain_text(trace + MESSAGE.format(size=size), tmp_path)


@pytest.mark.parametrize(
    ("layer", "parameters", "size", "change"),
    [
        ("nn.Linear(100, 10)", "", 100, "write 84 instead of 100 at net.py:8"),
        ("nn.Linear(16 * 5 * 5, 10)", "", 400, "write 84 instead of `16 * 5 * 5` at net.py:8"),
        ("nn.Linear(in_features=WIDTH, out_features=10)", "", 12, "write 84 instead of 12 at net.py:3"),
        (
            "nn.Linear(dim, 10)",
            ", dim",
            100,
            "the size at net.py:8 comes from `dim`, which the caller passes: it is 100 in this run and has to be 84",
        ),
        ("nn.Sequential(nn.Linear(7, 100), nn.ReLU(), nn.Linear(100, 10))", "", 100, "write 84 instead of 100"),
        ("nn.Linear(len(words), 10)", "", 100, "comes from `len(words)`: it is 100 in this run"),
    ],
)
def test_the_change_is_at_the_line_that_holds_the_size(tmp_path, layer, parameters, size, change) -> None:
    explanation = explained(tmp_path, CLASS.format(layer=layer, parameters=parameters), size)
    assert change in explanation.fix
    assert "net.py:8" in explanation.answer


@pytest.mark.parametrize(
    ("parameters", "call", "change"),
    [
        (", dim=100", "out = Net()(x)", "pass `dim=84` at train.py:3 (`Net()`); the default at net.py:6 is 100"),
        (", dim", "out = Net(100)(x)", "pass 84 as `dim` at train.py:3 instead of 100"),
        (", dim", "out = Net(dim=size)(x)", "comes from `dim`, which the caller passes: it is 100 in this run"),
    ],
)
def test_a_size_that_the_caller_passes_is_changed_at_the_call(tmp_path, parameters, call, change) -> None:
    source = CLASS.format(layer="nn.Linear(dim, 10)", parameters=parameters)
    main = f"from net import Net\n\n{call}\n"
    assert change in explained(tmp_path, source, 100, main=main).fix


def test_a_layer_of_another_size_is_not_changed(tmp_path) -> None:
    source = CLASS.format(layer="nn.Linear(50, 10)", parameters="")
    explanation = explained(tmp_path, source, 100)
    assert "net.py:8" not in explanation.answer + explanation.fix


def test_of_two_layers_in_one_line_the_one_with_the_size_is_named(tmp_path) -> None:
    source = CLASS.format(layer="nn.Linear(100, 10)\n        self.head = nn.Linear(10, 2)", parameters="")
    source = source.replace("self.fc(x)", "self.head(self.fc(x))")
    explanation = explained(tmp_path, source, 100, line=12, text="return self.head(self.fc(x))")
    assert "`self.fc` expects 100 features" in explanation.answer


def test_exchanged_dimensions_are_offered_if_the_rows_fit(tmp_path) -> None:
    explanation = explained(tmp_path, CLASS.format(layer="nn.Linear(8, 10)", parameters=""), 8)
    assert explanation.cause == "dimension-order"
    assert ".transpose(-1, -2)" in explanation.fix
