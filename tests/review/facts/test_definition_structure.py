"""Tests of the description of definitions."""

from __future__ import annotations

from esper_agents.domain.request import Wish
from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

NET = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.fc(x))


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.head = nn.Linear(width, 2)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, mask=None):
        h = x * self.scale
        for block in self.blocks:
            h = block(h)
        if mask is not None:
            h = h.masked_fill(mask, 0)
        self.seen = self.seen + 1
        return self.head(h.mean(1))


def main():
    return Net(4)
"""


def facts(sources, *symbols):
    done = inspect_sources(sources, InspectionSubject((), Wish.EXPLAIN, symbols), names=["definition-structure"])
    assert done.results[0].problem == ""
    assert {fact.assessment for fact in done.results[0].facts} == {Assessment.DESCRIPTION}
    return {fact.text: fact.line for fact in done.results[0].facts}


def test_a_named_module_is_told_by_its_parts_its_flow_and_its_callers():
    told = facts({"net.py": NET}, "net.py:Net")
    has = "at least 2 submodules and 1 parameter of its own"
    assert told[f"`Net` is a module (`nn.Module`) with {has}; used by `forward(x, mask)`"] == 15
    assert told["`Net` is created at net.py:34"] == 15
    assert any("buffer `seen` = `torch.zeros(1)`" in each for each in told)
    assert told["for each `block` of `self.blocks`, `h` -> `block` -> `h`"] == 25
    assert told["if `mask is not None`, `h` -> `.masked_fill(mask, 0)` -> `h`"] == 27
    assert told["`h` -> `.mean(1)` -> `head` (Linear) -> returned"] == 30
    assert told["each call changes `self.seen`"] == 29
    assert len(told) <= 12


def test_layers_that_depend_on_the_mode_are_told():
    assert any("`drop` works differently" in fact for fact in facts({"net.py": NET}, "net.py:Block"))


def test_a_file_without_a_named_definition_is_told_by_its_main_ones():
    told = facts({"net.py": NET})
    assert next(iter(told)).startswith("the file defines 2 classes (`Block`, `Net`) and 1 function (`main`)")
    assert any(each.startswith("`Net` is a module") for each in told)
    assert not any(each.startswith("`Block` is a module") for each in told)


def test_a_function_is_told_by_its_steps_and_by_what_it_changes():
    source = """\
def normalise(x, total):
    x.sub_(x.mean())
    total["n"] = total["n"] + 1
    if x.ndim > 3:
        raise ValueError(x)
    scale = x.std()
    return x / scale
"""
    told = facts({"a.py": source}, "a.py:normalise")
    assert told["`normalise(x, total)` returns at line 7; no call of it is in these files"] == 1
    assert told["changes its argument `x` in place by `.sub_`"] == 2
    assert told["writes into its argument `total`"] == 3
    assert told["`x` -> `.std()` -> `scale`"] == 6


def test_a_long_function_keeps_the_steps_that_train():
    noise = "\n".join(f"    a{number} = prepare(a{number - 1})\n    log(a{number})" for number in range(1, 60))
    source = f"def train(model, loader, optimizer, a0):\n{noise}\n    for x in loader:\n        loss = model(x).sum()\n"
    source += "        loss.backward()\n        optimizer.step()\n    return model\n"
    told = facts({"train.py": source}, "train.py:train")
    assert len(told) <= 12
    assert any("loss.backward()" in each and "optimizer.step()" in each for each in told)
    assert "`model` -> returned" in told


AVERAGE = '''\
from torch import nn


class Average(nn.Module):
    """
    Keeps a moving average of the weights. Nothing else.

    Args:
        every (int): Default: 10.
    """

    def __init__(self, model, every=10, beta=1 - 1e-3, other=3, none=None):
        super().__init__()
        self.model, self.every, self.beta, self.none = model, every, beta, none
        self.other = other
        self.step = 0

    def update(self):
        self.step += 1
        if self.step % self.every:
            return
        if self.none:
            self.copy()
        self.mix(1 - self.beta)

    def mix(self, weight):
        for a in self.a:
            b = a + weight
            self.c(b)
            self.d(b)
            self.e(b)
            self.f(b)
        return weight

    def copy(self):
        pass

    def __call__(self, x):
        return self.model(x)
'''


def test_a_class_is_told_by_its_docstring_and_by_the_method_that_does_the_work():
    told = facts({"average.py": AVERAGE}, "average.py:Average")
    assert told['`Average` is a module (`nn.Module`): "Keeps a moving average of the weights"; used by `update()`'] == 4
    assert told["defaults: `every` = `10`, `beta` = `1 - 0.001`"] == 12
    assert told["if `self.step % self.every`, returns early"] == 20
    assert told["`self.mix(1 - self.beta)`"] == 24


def test_a_method_named_with_its_class_has_the_room():
    told = facts({"average.py": AVERAGE}, "average.py:Average", "average.py:Average.mix")
    assert sum("`Average` is a module" in each for each in told) == 1
    assert any(each.startswith("`mix(weight)` returns at line") for each in told)
    assert not any("returns early" in each for each in told)


BASE = """\
from torch import nn

from losses.helpers import reduced


class Base(nn.Module):
    def __init__(self, by_pairs, scale=0.5):
        super().__init__()
        self.scale = scale
        self.method = self.of_pairs if by_pairs else self.of_rows

    def forward(self, x, labels):
        self.reset()
        loss = self.compute(x, labels)
        return loss * self.scale

    def reset(self):
        self.count = 0

    def compute(self, x, labels):
        if len(labels) == 0:
            return x.sum() * 0
        return self.method(x, labels)

    def of_pairs(self, x, labels):
        return self._compute(x, labels)

    def of_rows(self, x, labels):
        raise NotImplementedError

    def _compute(self, x, labels):
        raise NotImplementedError
"""
DERIVED = """\
from losses import helpers
from losses.base import Base


class Margin(Base):
    \"\"\"Pull pairs together.

    Args:
        margin: The margin.
    \"\"\"

    def __init__(self, margin=0.2, **kwargs):
        super().__init__(by_pairs=True, **kwargs)
        self.margin = margin

    def _compute(self, x, labels):
        return helpers.reduced(x - self.margin)

    def name(self):
        return "margin"
"""
HELPERS = (
    'def reduced(values):\n    """Return the mean of what is positive."""\n    return values.clamp(min=0).mean()\n'
)


def test_what_a_base_class_in_another_file_does_is_told_down_to_the_method_of_the_class():
    sources = {"losses/base.py": BASE, "losses/margin.py": DERIVED, "losses/helpers.py": HELPERS}
    subject = InspectionSubject((), Wish.EXPLAIN, ("losses/margin.py:Margin",))
    done = inspect_sources(sources, subject, names=["definition-structure"])
    told = [(f"{fact.path}:{fact.line}", fact.text) for fact in done.results[0].facts]
    head = '`Margin` is a module (`Base`): "Pull pairs together"; used by `forward(x, labels)` of `Base`'
    assert told[:3] == [
        ("losses/margin.py:5", head),
        ("losses/margin.py:5", "`Margin` inherits from `Base` (losses/base.py:6)"),
        ("losses/margin.py:13", "its constructor calls `super().__init__(by_pairs=True, **kwargs)`"),
    ]
    places = [place for place, text in told if text.startswith("inherited ")]
    assert places == ["losses/base.py:13", "losses/base.py:23", "losses/base.py:26"]
    assert any("`compute` with `labels` -> `loss`" in text for place, text in told if place == "losses/base.py:13")
    # Neither what the base class only resets nor a method that does nothing.
    assert not any(("`self.reset" in text and "inherited `reset`" in text) or "of_rows" in text for _, text in told)
    assert ("losses/base.py:7", "defaults: `scale` = `0.5`") in told
    assert ("losses/margin.py:12", "defaults: `margin` = `0.2`") in told
    assert ("losses/margin.py:17", "`x - self.margin` -> `helpers.reduced` -> returned") in told
    assert told[-1] == ("losses/helpers.py:1", 'used: `reduced(values)`: "Return the mean of what is positive"')
    assert {"losses/base.py", "losses/helpers.py"} <= {each.path for each in done.examined}


def test_the_base_of_a_generic_class_is_followed_and_the_method_that_runs_it_is_found():
    sources = {
        "base.py": "class Algorithm(Generic[T]):\n    def update(self, batch):\n        return self._learn(batch)\n\n"
        "    def close(self):\n        self.file.close()\n",
        "dqn.py": "from base import Algorithm\n\n\nclass DQN(Algorithm[Policy]):\n    def _learn(self, batch):\n"
        "        q = self.policy(batch)\n        return q.mean()\n",
    }
    subject = InspectionSubject((), Wish.EXPLAIN, ("dqn.py:DQN",))
    facts = inspect_sources(sources, subject, names=["definition-structure"]).results[0].facts
    assert any(fact.path == "base.py" and "inherited `update` of `Algorithm`" in fact.text for fact in facts)
    assert not any("close" in fact.text for fact in facts)
    assert any(fact.text == "`batch` -> `policy` -> `q`" or "`policy`" in fact.text for fact in facts)


def test_a_function_called_on_an_imported_module_takes_its_arguments():
    source = "import helpers as hp\n\n\ndef run(x, y):\n    z = hp.pairs(x, y)\n    return z\n"
    assert any("`x` -> `hp.pairs` with `y` -> `z`" in text for text in facts({"run.py": source}, "run.py:run"))


def test_the_forward_of_an_autograd_function_is_told_with_its_backward():
    source = (
        "import torch\n\n\nclass Half(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, factor):\n"
        "        ctx.save_for_backward(x)\n        return x * factor\n\n    @staticmethod\n"
        "    def backward(ctx, grad):\n        return grad * 0.5, None\n"
    )
    subject = InspectionSubject((), Wish.EXPLAIN, ("half.py:Half", "half.py:Half.backward"))
    done = inspect_sources({"half.py": source}, subject, names=["definition-structure"])
    told = " ".join(fact.text for fact in done.results[0].facts)
    assert "`backward(ctx, grad)`" in told
    assert "`forward(ctx, x, factor)`, decorated by" in told
