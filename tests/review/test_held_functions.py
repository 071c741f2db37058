"""Functions that names hold: made by another function, compiled, or handed to a parameter."""

from __future__ import annotations

import pytest

from tests.review.test_index import call, index_of, named, reached

MADE = """
    def make_step(net):
        def step(x):
            return net(x)
        def check(x):
            return net(x)
        return {returned}

    def main(net, loader):
        {bound} = make_step(net)
        for x in loader:
            {called}(x)
    """


@pytest.mark.parametrize(
    ("returned", "bound", "called", "meant"),
    [
        ("step", "run", "run", ["make_step.step"]),
        ("torch.compile(step)", "run", "run", ["make_step.step"]),
        ("step, check", "run, look", "look", ["make_step.check"]),
        ("step if net else check", "run", "run", []),
        ("step, check, net", "run, look", "look", []),
        ("net", "run", "run", []),
    ],
)
def test_a_function_that_another_makes_is_known_by_the_name_it_is_given(returned, bound, called, meant):
    index = index_of({"a.py": MADE.format(returned=returned, bound=bound, called=called)})
    assert reached(index, f"{called}(x)") == meant
    for qualname in meant:
        assert [caller.path for caller in index.callers(named(index, qualname))] == [called]


def test_a_function_kept_by_an_object_is_called_through_it():
    index = index_of(
        {
            "a.py": """
                from b import make_step

                class Trainer:
                    def __init__(self, net):
                        self.step = make_step(net)

                    def fit(self, loader):
                        for x in loader:
                            self.step(x)
                """,
            "b.py": "def make_step(net):\n    def inner(x):\n        return net(x)\n    return inner\n",
        }
    )
    assert reached(index, "self.step(x)") == ["make_step.inner"]


HANDED = """
    def repeat(step, loader):
        for x in loader:
            step(x)

    def one(x):
        pass

    def other(x):
        pass

    def main(loader, given):
        repeat({}, loader)
        repeat({}, loader)
    """


@pytest.mark.parametrize(
    ("handed", "possible"),
    [(("one", "one"), ["one"]), (("one", "other"), ["one", "other"]), (("one", "given"), []), (("given", "None"), [])],
)
def test_a_call_of_a_parameter_may_reach_what_callers_hand_to_it_where_all_is_known(handed, possible):
    index = index_of({"a.py": HANDED.format(*handed)})
    calling = call(index, "step(x)")
    assert index.callees(calling) == ()
    assert [possible_callee.qualname for possible_callee in index.possible_callees(calling)] == possible
    assert (calling in index.callers(named(index, "one"))) == ("one" in handed)
