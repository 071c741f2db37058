"""Tests of the facts about two implementations of one function."""

from __future__ import annotations

import pytest

from esper_agents.domain.request import Wish
from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.inspection import inspect_sources

ATTENTION = """\
def attn(q, k, v):
    return (q @ k.T).softmax(-1) @ v


def fast_attn(q, k, v):
    return fused(q, k, v)
"""
SCAN = "def scan(x, factor):\n    return x * factor\n"


def facts(sources, *symbols):
    subject = InspectionSubject(("alternatives",), Wish.COMPARE, symbols)
    done = inspect_sources(sources, subject, names=["twin-implementations"])
    assert done.results[0].problem == ""
    return done.results[0].facts


def pairs(sources, *symbols):
    return [fact.definitions for fact in facts(sources, *symbols) if len(fact.definitions) > 1]


def test_names_that_differ_in_a_word_for_variants_are_a_pair_with_the_existing_one_first():
    assert pairs({"model.py": ATTENTION}) == [("model.py:attn", "model.py:fast_attn")]


def test_one_name_in_two_files_is_a_pair_whose_order_the_files_tell():
    assert pairs({"new.py": SCAN, "old.py": SCAN}) == [("old.py:scan", "new.py:scan")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def conv1d(x, w):\n    return x\n", "def conv2d(x, w):\n    return x\n"),
        ("def layer1(x):\n    return x\n", "def layer2(x):\n    return x\n"),
        ("def norm(x):\n    return x\n", "def fast_norm(x, weight):\n    return x\n"),
        ("def make():\n    return 1\n", "def fast_make():\n    return 1\n"),
    ],
    ids=["numbers within names", "two numbered names", "other arguments", "no arguments"],
)
def test_names_that_tell_no_variants_and_arguments_that_do_not_fit_are_no_pair(one, other):
    assert pairs({"ops.py": f"{one}\n\n{other}"}) == []


def test_modules_are_compared_by_the_arguments_of_their_forward():
    source = "from torch import nn\n" + "".join(
        f"\n\nclass {name}(nn.Module):\n    def __init__(self, {width}):\n        super().__init__()\n\n"
        f"    def forward(self, {arguments}):\n        return x\n"
        for name, width, arguments in (
            ("Block", "width", "x"),
            ("BlockV2", "size", "x"),
            ("FusedBlock", "size", "x, y"),
        )
    )
    assert pairs({"net.py": source}) == [("net.py:Block", "net.py:BlockV2")]


def test_a_test_that_compares_results_makes_a_pair_of_any_names():
    test = (
        "import torch\nfrom ops import scan, roll\n\n\ndef test_roll():\n"
        "    wanted = scan(x, 2)\n    torch.testing.assert_close(roll(x), wanted)\n"
    )
    sources = {"ops.py": f"{SCAN}\n\ndef roll(x):\n    return x\n", "tests/test_ops.py": test}
    (found,) = [fact for fact in facts(sources) if len(fact.definitions) > 1]
    assert "tests/test_ops.py:7 compares them" in found.text
    assert set(found.definitions) == {"ops.py:scan", "ops.py:roll"}


def test_named_definitions_are_the_only_pair_even_if_their_names_share_nothing():
    sources = {"losses.py": f"{ATTENTION}\n\n{SCAN}"}
    assert pairs(sources, "losses.py:attn", "losses.py:scan") == [("losses.py:attn", "losses.py:scan")]


def test_the_places_that_call_both_are_told_at_their_definitions():
    train = "from model import attn\n\nattn(1, 2, 3)\n"
    found = facts({"model.py": ATTENTION, "train.py": train})
    assert [(each.line, each.text) for each in found] == [
        (1, "`attn` is called at train.py:3"),
        (
            5,
            "`fast_attn` is like `attn` (model.py:1), with the same arguments; this one is not called in these files",
        ),
    ]


GATHERS = {
    "utils.py": (
        "import torch\nimport torch.distributed as dist\n\n\n@torch.no_grad()\ndef concat_gather(x):\n"
        '    """Return what all ranks have."""\n    parts = []\n'
        "    dist.all_gather(parts, x)\n    return torch.cat(parts)\n"
    ),
    "layers.py": (
        "import torch\n\n\nclass Gather(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x, steps=3):\n"
        "        return make(x)\n\n    @staticmethod\n"
        "    def backward(ctx, *grads):\n        return grads[0]\n\n\n"
        "def gather(x, steps=3):\n    return Gather.apply(x, steps)\n"
    ),
}


def test_named_functions_in_different_files_are_told_by_gradient_parameters_and_result():
    found = [
        fact for fact in facts(GATHERS, "utils.py:concat_gather", "layers.py:gather") if len(fact.definitions) == 1
    ]
    one = next(fact.text for fact in found if "runs under" in fact.text)
    other = next(fact.text for fact in found if "has its gradient" in fact.text)
    assert 'is described as "Return what all ranks have"' in one
    assert "so that no gradient flows through it" in one
    assert "alone calls `torch.distributed.all_gather`, `torch.cat`" in one
    assert "from the `backward` of `Gather` (line 10)" in other
    assert "does not read its parameter `steps` (layers.py:6)" in other


def test_properties_that_both_have_are_not_told_as_a_difference():
    source = SCAN + "\n\ndef fast_scan(x, factor):\n    return x * factor\n"
    found = facts({"a.py": source}, "a.py:scan", "a.py:fast_scan")
    assert all("returns" not in fact.text for fact in found)


def test_a_function_that_calls_the_other_is_told_by_the_settings_and_what_they_decide():
    source = (
        "def gather(x, with_grad=False):\n    if with_grad:\n        parts = functional(x)\n    else:\n"
        "        parts = [x]\n        plain(parts, x)\n    return parts\n\n\n"
        "def gather_with_grad(x):\n    return gather(x, with_grad=True)\n"
    )
    found = facts({"a.py": source}, "a.py:gather", "a.py:gather_with_grad")
    (text,) = [fact.text for fact in found if "decides" in fact.text]
    assert text.startswith(
        "`gather_with_grad` calls `gather` with `with_grad=True`; there, `with_grad` decides between"
    )
    assert "`parts = functional(x)` and `plain(parts, x)` (line 2)" in text
