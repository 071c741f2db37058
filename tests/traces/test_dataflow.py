"""Tests of `esper_agents.traces.dataflow`: only what the loss depends on is blamed."""

from __future__ import annotations

import ast

import pytest

from esper_agents.traces.dataflow import carried_name, names_behind, tensor_names


def loop_of(body):
    source = "for x, y in loader:\n" + "".join(f"    {line}\n" for line in body)
    (loop,) = ast.parse(source).body
    return loop


def carried(*body):
    loop = loop_of([*body, "loss.backward()"])
    return carried_name(loop, loop.body[-1].value.func)


def test_a_state_that_the_model_returns_and_takes_is_carried() -> None:
    assert carried("out, state = model(x, state)", "loss = criterion(out, y)") == ("state", 2)


def test_a_sum_that_backward_is_called_on_is_carried() -> None:
    assert carried("loss += criterion(model(x), y)") == ("loss", 2)


@pytest.mark.parametrize(
    "body",
    [
        ("x = x.to(device)", "loss = criterion(model(x), y)"),
        ("step += 1", "loss = criterion(model(x), y) / step"),
        ("loss = criterion(model(x), y)", "total += loss"),
        ("loss = criterion(model(x), y)", "total = total + loss.item()"),
        ("out, state = model(x, state)", "state = state.detach()", "loss = total + 1"),
        ("obs = env.step(action)[0]", "action = model(obs)", "loss = criterion(action, y)"),
    ],
)
def test_counters_batches_and_sums_for_logging_are_not_carried(body) -> None:
    assert carried(*body) is None


def test_a_value_depends_on_the_names_of_its_assignments() -> None:
    tree = ast.parse("a = f(x)\nb = a * self.scale\nc = g(z)\nloss = b.mean()")
    assert names_behind(tree, tree.body[-1].value) >= {"b", "a", "x", "self.scale"}
    assert "z" not in names_behind(tree, tree.body[-1].value)


def test_sizes_are_no_tensors() -> None:
    (function,) = ast.parse("def forward(self, x, n, mode: str):\n    return self.fc(x) + n").body
    assert tensor_names(function, ("x", "n", "mode")) == ("x",)
