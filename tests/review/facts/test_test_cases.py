"""Tests of the facts about tests."""

from __future__ import annotations

from esper_agents.review.fact_query import Assessment, InspectionSubject
from esper_agents.review.inspection import inspect_sources

OPS = """\
def scale(x, factor, floor=0):
    if factor <= floor:
        raise ValueError(factor)
    for row in x:
        row /= factor
    return sum(x) / len(x)


def tiny(x):
    return x


class HTTPNet(nn.Module):
    def __init__(self, width):
        super().__init__()

    def forward(self, x, mask=None):
        return x
"""


def facts(sources, *symbols):
    done = inspect_sources(sources, InspectionSubject(("tests",), None, symbols), names=["test-cases"])
    assert done.results[0].problem == ""
    return [(fact.assessment, fact.line, fact.remedy) for fact in done.results[0].facts]


def test_a_definition_that_no_test_uses_gets_a_first_test():
    assert facts({"ops.py": OPS}) == [
        (Assessment.SHOULD_CHECK, 1, "`esper torch test ops.py:scale` drafts one"),
        (Assessment.SHOULD_CHECK, 13, "`esper torch test ops.py:HTTPNet` drafts one"),
    ]


def test_a_definition_that_a_test_uses_is_fine():
    test = "from ops import scale\n\n\ndef test_scale():\n    assert scale([1], 1) == 1\n"
    found = facts({"ops.py": OPS, "tests/test_ops.py": test})
    assert [each[:2] for each in found] == [(Assessment.SHOULD_CHECK, 13), (Assessment.FINE, 1)]


def test_a_named_definition_comes_with_its_cases():
    found = facts({"ops.py": OPS}, "ops.py:scale")
    assert [each[:2] for each in found] == [
        (Assessment.SHOULD_CHECK, 1),
        (Assessment.DESCRIPTION, 2),
        (Assessment.DESCRIPTION, 4),
        (Assessment.DESCRIPTION, 6),
    ]
    assert found[1][2] == "`with pytest.raises(ValueError):`"
