"""Explanations of names without a value and of divisions by zero name the ways and values that lead there."""

from __future__ import annotations

from tests.traces.printed_traces import explain_printed

EVALUATION = """\
def evaluate(rows, mode):
    if mode == "single_step":
        losses = [1 for row in rows]
    elif mode == "autoregression":
        losses = [2 for row in rows]
    for loss in losses:
        print(loss)
"""
UNBOUND = "UnboundLocalError: cannot access local variable 'losses' where it is not associated with a value"
FRAMES = [("trainer.py", "for loss in losses:", "evaluate", "")]


def test_a_value_that_no_branch_asks_for_is_named_with_the_nearest(tmp_path):
    asked = "I pass mode='autoregressive' as the docstring says\n"
    explained = explain_printed(tmp_path, {"trainer.py": EVALUATION}, FRAMES, UNBOUND, before=asked)
    assert explained.cause == "value-not-foreseen"
    assert "trainer.py:3 only if `mode == 'single_step'`" in explained.answer
    assert "trainer.py:5 only if `mode == 'autoregression'`" in explained.answer
    assert "Pass 'autoregression' instead of 'autoregressive'" in explained.fix


def test_without_such_a_value_the_branches_are_named(tmp_path):
    explained = explain_printed(tmp_path, {"trainer.py": EVALUATION}, FRAMES, UNBOUND)
    assert explained.cause == "way-without-value"
    assert "trainer.py:5 only if `mode == 'autoregression'`" in explained.answer
    assert "instead of" not in explained.fix


def test_a_name_that_one_way_surely_assigns_is_not_explained_by_branches(tmp_path):
    source = EVALUATION.replace(
        '    if mode == "single_step"', '    del losses\n    losses = []\n    if mode == "single_step"'
    )
    explained = explain_printed(tmp_path, {"trainer.py": source}, FRAMES, UNBOUND)
    assert explained.cause not in {"way-without-value", "value-not-foreseen"}


AVERAGE = """\
def average(group, rate):
    largest = max(rate, group.get("largest", 0))
    weight = largest ** 2
    total = group.get("total", 0.0) + weight
    share = weight / total
    return share
"""
GUARDED = """\
def average(weight, total):
    try:
        return weight / total
    except ZeroDivisionError:
        return 0
"""
DIVIDED = [("average.py", "share = weight / total", "average", "")]
ZERO = "ZeroDivisionError: float division by zero"


def test_a_divisor_is_followed_to_what_makes_it(tmp_path):
    explained = explain_printed(tmp_path, {"average.py": AVERAGE}, DIVIDED, ZERO)
    assert explained.cause == "factor-is-zero"
    for made in ("average.py:4 `total = ", "average.py:3 `weight = largest ** 2`", "average.py:2 `largest = "):
        assert made in explained.answer


def test_a_division_that_other_code_catches_is_named(tmp_path):
    explained = explain_printed(tmp_path, {"average.py": AVERAGE, "guarded.py": GUARDED}, DIVIDED, ZERO)
    assert explained.cause == "guarded-elsewhere"
    assert "guarded.py:3" in explained.answer


def test_a_divisor_that_is_computed_in_place_is_explained_as_before(tmp_path):
    source = AVERAGE.replace("weight / total", "weight / (total + 0)")
    frames = [("average.py", "share = weight / (total + 0)", "average", "")]
    assert explain_printed(tmp_path, {"average.py": source}, frames, ZERO).cause == "zero"


def missing(tmp_path, kind, attribute, owner="x"):
    line = f"size = {owner}.{attribute}"
    error = f"AttributeError: '{kind}' object has no attribute '{attribute}'"
    source = f"def size_of({owner}):\n    {line}\n    return size\n"
    return explain_printed(tmp_path, {"net.py": source}, [("net.py", line, "size_of", "")], error)


def test_an_array_that_is_used_as_an_image_is_named(tmp_path):
    explained = missing(tmp_path, "numpy.ndarray", "width", "frame")
    assert explained.cause == "array-as-image"
    assert "`PIL.Image.fromarray(frame)`" in explained.fix


def test_an_array_that_is_used_as_a_tensor_is_named(tmp_path):
    assert "`torch.from_numpy(x)`" in missing(tmp_path, "numpy.ndarray", "unsqueeze").fix


def test_another_attribute_of_an_array_has_no_such_cause(tmp_path):
    assert missing(tmp_path, "numpy.ndarray", "colour").cause not in {"array-as-image", "array-as-tensor"}
