"""A change is described edit by edit from its syntax; what is only form is told apart."""

from __future__ import annotations

from textwrap import dedent

import pytest

from esper_agents.review.change_description import describe_change
from esper_agents.review.changes import review_change
from esper_agents.review.source import from_bytes

SOURCE = dedent('''\
    import torch
    from torch import nn


    class Net(nn.Module):
        """Network."""

        def __init__(self, n):
            super().__init__()
            self.n = n

        def forward(self, x: int):  # comment
            if x is None:
                return None
            if x < limit and ready:
                raise ValueError("bad shape")
            y = torch.softmax(x.unsqueeze(1), dim=1)
            return combine(a, b) * 0.5 + y / (y.sum(1, keepdim=True) + 1e-6)


    def train(model, loader, opt, scaler, losses):
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(
                model(x),
                y,
                ignore_index=-100,
            )
            if scaler is not None:
                scaler.unscale_(opt)
            for g in opt.groups:
                scaler.step(opt)
                scaler.update()
            losses.append(loss.detach())
    ''')


def described(old, new, source=SOURCE):
    assert old in source
    return describe_change({"train.py": source}, {"train.py": source.replace(old, new)}, ["train.py"])


@pytest.mark.parametrize(
    ("old", "new", "line", "text"),
    [
        ("loss.detach()", "loss", 34, "`loss` lost its `.detach()`: gradients flow through it"),
        (" + 1e-6", "", 18, "the divisor lost its `+ 1e-06`: it can be zero"),
        ("dim=1)", "dim=-1)", 17, "`dim` of `softmax` is `-1` instead of `1`"),
        ("(a, b)", "(b, a)", 18, "`combine` gets its arguments in another order: `(b, a)` instead of `(a, b)`"),
        (".unsqueeze(1)", "", 17, "`x` lost its `.unsqueeze(1)`: it has one dimension less"),
        (", keepdim=True", "", 18, "`sum` no longer gets `keepdim=True`"),
        ("x < limit and", "x <= limit and", 15, "the condition is `x <= limit` instead of `x < limit`"),
        ("x.unsqueeze(1)", "x.view(1, -1)", 17, "has `x.view(1, -1)` instead of `x.unsqueeze(1)`"),
        (" and ready", "", 15, "the condition lost its `and ready`"),
        ("0.5", "0.25", 18, "has `0.25` instead of `0.5`"),
        ("        super().__init__()\n", "", 9, "`super().__init__()` is gone: the base class is not initialised"),
        ("        opt.zero_grad()\n", "", 23, "`opt.zero_grad()` is gone: gradients of earlier batches add up"),
    ],
)
def test_a_small_edit_of_meaning_is_described_at_its_line(old, new, line, text):
    found = described(old, new)
    (edit,) = found.edits
    assert (edit.path, edit.line) == ("train.py", line)
    assert edit.text.startswith(text)
    assert edit.base == " ".join(SOURCE.split("\n")[edit.base_line - 1].split())


def test_the_line_before_is_that_of_the_argument_and_not_of_its_call():
    (edit,) = described("            ignore_index=-100,\n", "").edits
    assert (edit.base_line, edit.base) == (27, "ignore_index=-100,")
    assert "other positions count in the loss" in edit.text


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "        if x is None:\n            return None\n",
            "",
            "`if x is None: return None` is gone: the code below now runs if `x is None` as well",
        ),
        (
            "        if scaler is not None:\n            scaler.unscale_(opt)\n",
            "        scaler.unscale_(opt)\n",
            "`scaler.unscale_(opt)` no longer depends on `scaler is not None`",
        ),
        (
            "        losses.append(loss.detach())\n",
            "        if keep:\n            losses.append(loss.detach())\n",
            "`losses.append(loss.detach())` now runs only if `keep`",
        ),
        (
            "            scaler.update()\n",
            "        scaler.update()\n",
            "`scaler.update()` moved out of `for g in opt.groups` into `for (x, y) in loader`",
        ),
        (
            "            scaler.step(opt)\n            scaler.update()\n",
            "            scaler.update()\n            scaler.step(opt)\n",
            " now runs ",
        ),
    ],
)
def test_a_condition_or_a_loop_that_comes_goes_or_is_left_is_described(old, new, text):
    (edit,) = described(old, new).edits
    assert text in edit.text


@pytest.mark.parametrize(
    ("old", "new", "form"),
    [
        ("losses", "history", "1 rename (`losses` to `history`)"),
        ("Network.", "A network.", "docstrings"),
        ("x: int", "x: float", "annotations"),
        ("  # comment", "", "comments or formatting"),
        ('"bad shape"', '"wrong shape"', "texts of messages"),
        ("            model(x),\n            y,\n", "            model(x), y,\n", "comments or formatting"),
    ],
)
def test_what_is_only_form_is_told_apart(old, new, form):
    found = described(old, new)
    assert (found.edits, found.form) == ((), (form,))


def test_a_name_that_only_the_new_version_binds_or_that_an_import_binds_is_no_rename():
    source = "from torch.nn.functional import mse_loss\n\n\ndef f(a, b):\n    return mse_loss(a, b)\n"
    assert len(described("mse_loss(a", "l1_loss(a", source).edits) == 1
    source = "class A:\n    def f(self):\n        return self.mask\n"
    assert len(described("self.mask", "self.masks", source).edits) == 1


def test_an_import_is_an_edit_only_if_a_name_has_another_origin():
    source = "from a import f, g\nimport os\n\n\ndef h():\n    return f(os)\n"
    assert described("f, g", "f", source).form == ("imports",)
    found = described("from a import f, g", "from b import f", source)
    assert [edit.text for edit in found.edits] == ["`f` is `b.f` instead of `a.f`"]


def test_functions_that_come_go_move_or_are_rewritten_are_named_and_files_likewise():
    two = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    moved = "def g():\n    return 2\n\n\ndef f():\n    return 1\n"
    assert describe_change({"a.py": two}, {"a.py": moved}, ["a.py"]).form == ("moved functions",)
    (gone,) = describe_change({"a.py": two}, {"a.py": "def f():\n    return 1\n"}, ["a.py"]).edits
    assert gone.text == "`g` is gone"
    found = describe_change(
        {"a.py": two}, {"b.py": moved + "\n\nclass C:\n    pass\n", "c.py": "x = 1\n"}, ["a.py", "b.py", "c.py"]
    )
    assert [edit.text for edit in found.edits] == ["adds `C` (2 lines)", "new file with 1 line"]
    assert found.form == ("`a.py` moved to `b.py`", "moved functions")
    old = "def f(x):\n" + "".join(f"    x = x + {number}\n" for number in range(20))
    new = "def f(x):\n" + "".join(f"    print('{'a' * number}')\n" for number in range(20))
    assert [edit.text for edit in describe_change({"a.py": old}, {"a.py": new}, ["a.py"]).edits] == [
        "`f` is rewritten (1 of 21 statements are still in it)"
    ]


def test_only_a_change_without_any_edit_that_was_read_as_a_whole_is_only_form():
    old, new = {"a.py": "def f(x):\n    return x\n"}, {"a.py": "def f(y):\n    return y\n"}
    assert describe_change(old, new, ["a.py"]).is_form_only
    assert describe_change(old, new, ["a.py", "gone.py"]).unread == ("gone.py",)
    assert not describe_change(old, new, ["a.py", "gone.py"]).is_form_only
    assert not describe_change(old, {"a.py": "def f(y):\n    return -y\n"}, ["a.py"]).is_form_only


def test_an_edit_that_a_finding_names_is_not_described_again_and_the_rest_is_not_called_form(tmp_path):
    old = "def f(x, losses):\n    losses.append(x.detach())\n    return x\n"
    new = "def f(y, losses):\n    losses.append(y)\n    return y\n"
    sides = ([from_bytes(text.encode(), "a.py")] for text in (old, new))
    found = review_change(tmp_path, *sides, paths=["a.py"])
    assert [claim.rule for claim in found.report.claims] == ["ESP702"]
    assert (found.description.edits, found.description.named) == ((), 1)
    assert found.description.form == ("1 rename (`x` to `y`)",)
    assert not found.description.is_form_only


def test_sources_that_do_not_parse_are_named_and_deep_ones_do_no_harm():
    found = describe_change({"a.py": "x = 1\n"}, {"a.py": "x = = 1\n"}, ["a.py"])
    assert (found.edits, found.unread) == ((), ("a.py",))
    empty = "try:\n    f()\nexcept ValueError:\n    pass\nmatch x:\n    case 1:\n        pass\n"
    (edit,) = describe_change({"a.py": empty}, {"a.py": empty.replace("f()", "g()")}, ["a.py"]).edits
    assert edit.text == "calls `g` instead of `f`"
    deep = "x = " + "(" * 90 + "1" + ")" * 90 + "\n"
    assert describe_change({"a.py": deep}, {"a.py": deep.replace("1", "2")}, ["a.py"]).edits[0].line == 1
    nested = "x = " + "f(" * 3000 + ")" * 3000 + "\n"
    assert describe_change({"a.py": nested}, {"a.py": nested + "y = 1\n"}, ["a.py"]).unread == ("a.py",)


GUARDED = dedent("""\
    def build(size, entries):
        if any(x < 0 for x in entries):
            raise ValueError(f"bad {size}")
        if size > 9:
            raise ValueError("too large")
        return make(size)
    """)
EXTRACTED = dedent("""\
    def _check(size, numbers):
        if any(x < 0 for x in numbers):
            raise ValueError(f"bad {size}")
        if size > 9:
            raise ValueError("too large")


    def build(size, entries):
        _check(size, entries)
        return make(size)
    """)


def test_checks_that_move_into_a_new_function_are_not_said_to_be_gone():
    (edit,) = describe_change({"a.py": GUARDED}, {"a.py": EXTRACTED}, ["a.py"]).edits
    assert edit.line == 9
    assert "and 1 more statement moved into `_check` (line 1), which is called here" in edit.text


def test_a_check_that_the_new_function_lacks_is_still_said_to_be_gone():
    after = EXTRACTED.replace(
        "    if size > 9:\n        raise ValueError", "    if size > 99:\n        raise ValueError"
    )
    texts = [edit.text for edit in describe_change({"a.py": GUARDED}, {"a.py": after}, ["a.py"]).edits]
    assert any("`if size > 9: raise" in text and "is gone" in text for text in texts)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("k1 - k2 + k3", "k1 + k2 - k3", "the sign of `k2` and of `k3` is the opposite"),
        ("k1 - k2 + k3", "-k1 - k2 + k3", "the sign of `k1` is the opposite"),
    ],
)
def test_terms_of_a_sum_that_change_their_sign_are_named(old, new, text):
    source = f"def step(k1, k2, k3):\n    return {old}\n"
    (edit,) = described(old, new, source).edits
    assert edit.text.endswith(text)


def test_a_sum_with_another_term_is_not_called_a_change_of_sign():
    (edit,) = described("k1 - k2", "k1 + k3", "def step(k1, k2, k3):\n    return k1 - k2\n").edits
    assert "sign" not in edit.text


def test_other_dimensions_in_a_variable_are_told_as_a_whole():
    (edit,) = described("(0, 2)", "(1, 2)", "def loss(x):\n    dims = (0, 2)\n    return x.sum(dims)\n").edits
    assert edit.text == "`dims` is `(1, 2)` instead of `(0, 2)`: another dimension is reduced or joined"
