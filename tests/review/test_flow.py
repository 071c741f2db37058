"""What may come last before a point, and first after it."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from esper_agents.review.builder import fill
from esper_agents.review.flow import Flow
from esper_agents.review.index import ProjectIndex
from esper_agents.review.tables import FileTables, Purpose


def function_of(source: str):
    text = "def f():\n" + "".join(f"    {line}\n" for line in dedent(source).strip().split("\n"))
    file = FileTables("a.py", "a", text, ast.parse(text), Purpose.CODE)
    fill(file)
    return file.functions[1]


def nearest(source: str, *, after: bool = False) -> str:
    """Return which calls of `a1`, `a2`, ... stand nearest to `here()`; `open` where a way has none."""
    function = function_of(source)
    point = next(call for call in function.calls if call.tail == "here")
    events = [call for call in function.calls if call.tail.startswith("a")]
    flow = Flow(function)
    found = flow.first_after(point, events) if after else flow.last_before(point, events)
    return " ".join(sorted(call.tail for call in found.events) + ["open"] * found.is_open)


BEFORE = {
    "in a row": ("a1()\na2()\nhere()", "a2"),
    "nothing": ("here()\na1()", "open"),
    "one branch": ("a1()\nif x:\n    a2()\nhere()", "a1 a2"),
    "both branches": ("a1()\nif x:\n    a2()\nelse:\n    a3()\nhere()", "a2 a3"),
    "a branch that returns": ("a1()\nif x:\n    a2()\n    return\nhere()", "a1"),
    "a branch that raises": ("a1()\nif x:\n    a2()\n    raise E\nhere()", "a1"),
    "a branch that exits": ("a1()\nif x:\n    a2()\n    sys.exit(1)\nhere()", "a1"),
    "a branch that never runs": ("a1()\nif False:\n    a2()\nhere()", "a1"),
    "only one branch": ("if x:\n    a1()\nhere()", "a1 open"),
    "round a loop": ("a1()\nfor x in y:\n    here()\n    a2()", "a1 a2"),
    "round a loop, itself": ("for x in y:\n    here()\n", "open"),
    "after a loop": ("a1()\nfor x in y:\n    a2()\nhere()", "a2"),
    "out of a loop by break": ("a1()\nwhile True:\n    a2()\n    if x:\n        break\n    a3()\nhere()", "a2"),
    "continue": ("a1()\nfor x in y:\n    here()\n    if x:\n        continue\n    a2()", "a1 a2"),
    "the else of a loop": ("for x in y:\n    a1()\n    if x:\n        break\nelse:\n    a2()\nhere()", "a1 a2"),
    "an inner loop": ("for x in y:\n    a1()\n    for z in x:\n        here()\n        a2()", "a1 a2"),
    "a with": ("with a1():\n    here()", "a1"),
    "a try that fails": ("a1()\ntry:\n    a2()\n    a3()\nexcept E:\n    here()", "a1 a2 a3"),
    "after a try": ("a1()\ntry:\n    a2()\nexcept E:\n    a3()\nhere()", "a2 a3"),
    "a raise inside a try": ("try:\n    a1()\n    raise E\nexcept E:\n    here()", "a1 open"),
    "a finally": ("try:\n    a1()\nfinally:\n    a2()\nhere()", "a2"),
    "a match": ("a1()\nmatch x:\n    case 1:\n        a2()\n    case 2:\n        a3()\nhere()", "a1 a2 a3"),
    "a match that takes all": ("match x:\n    case 1:\n        a2()\n    case _:\n        a3()\nhere()", "a2 a3"),
    "arguments first": ("here(a1(), a2())", "a2"),
    "a chain": ("a1().a2().here()", "a2"),
    "what encloses it comes later": ("a1(here())", "open"),
    "a test before its branches": ("if a1():\n    here()", "a1"),
    "a test of a while, every round": ("while a1():\n    here()\n    a2()", "a1"),
    "the source of a loop, once": ("for x in a1():\n    here()\n    a2()", "a1 a2"),
    "a body of a class": ("class A:\n    a1()\nhere()", "a1"),
}
AFTER = {
    "in a row": ("here()\na1()\na2()", "a1"),
    "one branch": ("here()\nif x:\n    a1()", "a1 open"),
    "round a loop": ("for x in y:\n    a1()\n    here()\na2()", "a1 a2"),
    "a return": ("here()\nif x:\n    return\na1()", "a1 open"),
    "what encloses it": ("a1(here())", "a1"),
    "an endless loop": ("while True:\n    here()\n    a1()", "a1"),
}


@pytest.mark.parametrize(("source", "expected"), BEFORE.values(), ids=BEFORE)
def test_what_may_be_the_last_before_a_point(source, expected):
    assert nearest(source) == expected


@pytest.mark.parametrize(("source", "expected"), AFTER.values(), ids=AFTER)
def test_what_may_be_the_first_after_a_point(source, expected):
    assert nearest(source, after=True) == expected


def origins(source: str, at: str) -> list[str]:
    text = dedent(source)
    file = FileTables("a.py", "a", text, ast.parse(text), Purpose.CODE)
    fill(file)
    index = ProjectIndex([file])
    call = next(each for each in file.calls if ast.unparse(each.node) == at)
    found = index.origins(call.node.args[0], call.function, call.line)
    return [ast.unparse(each.value) for each in found]


def test_every_assignment_that_may_be_the_last_is_an_origin():
    source = """
        def f(flag):
            x = one()
            if flag:
                x = two()
            use(x)
        """
    assert origins(source, "use(x)") == ["one()", "two()"]


def test_an_assignment_on_a_way_that_returns_is_no_origin():
    source = """
        def f(flag):
            x = one()
            if flag:
                x = two()
                return x
            use(x)
        """
    assert origins(source, "use(x)") == ["one()"]


def test_what_a_round_leaves_for_the_next_is_an_origin():
    source = """
        def f(items):
            last = None
            for item in items:
                use(last)
                last = made(item)
        """
    assert origins(source, "use(last)") == ["None", "made(item)"]


def test_a_parameter_that_only_one_branch_replaces_stays_an_origin():
    source = """
        def f(x, flag):
            if flag:
                x = one()
            use(x)
        """
    assert origins(source, "use(x)") == ["one()", "x"]


def test_a_value_is_not_its_own_origin_over_several_lines():
    source = """
        def f():
            x = one()
            x = use(
                x)
        """
    assert origins(source, "use(x)") == ["one()"]
