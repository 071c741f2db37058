"""How sure a measurement's claims are, and what goes on record of it."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Confidence
from esper_agents.errors import EvidenceError
from esper_agents.tools.measurement_tools import basis, command, confidence, definition, diagnostic_of, measure, trimmed
from esper_agents.tools.tool import ToolContext
from esper_agents.torchlab import measurement_codes
from esper_agents.torchlab.measurement import MeasuredClaim
from esper_agents.torchlab.measurement_codes import LabRule
from esper_agents.torchlab.report import MeasurementReport

RULES = [var for var in vars(measurement_codes).values() if isinstance(var, LabRule)]


@pytest.mark.parametrize(
    ("witnesses", "possible", "expected"),
    [
        ([], 3, Confidence.LOW),
        (["a"], 3, Confidence.MODERATE),
        (["a", "b"], 3, Confidence.MODERATE),
        (["a", "a", "a"], 3, Confidence.MODERATE),
        (["a", "b", "c"], 3, Confidence.HIGH),
        (["a", "b", "c"], 5, Confidence.HIGH),
        (["a", "b"], 2, Confidence.HIGH),
        (["a"], 1, Confidence.MODERATE),
    ],
)
def test_high_takes_three_independent_witnesses_where_there_are_three_and_two_at_least(witnesses, possible, expected):
    assert confidence(witnesses, possible) is expected


def test_the_basis_names_the_witnesses():
    assert basis(["b", "a", "b"]) == "measured; seen by a, b"


def test_codes_and_names_are_used_once_and_by_no_rule_of_the_review():
    from esper_agents.review.catalogue import catalogue

    assert len({rule.code for rule in RULES}) == len({rule.name for rule in RULES}) == len(RULES)
    assert not {rule.name for rule in RULES} & {each.name for each in catalogue()}


def test_a_command_line_leaves_out_what_was_not_asked():
    assert command("nan", "a b.py:f", input=["randn(3)", "x=3"], inputs="", train=False, steps=3) == (
        "esper torch nan 'a b.py:f' --input 'randn(3)' --input x=3 --steps 3"
    )
    assert command("explain", "m.py:f", train=True) == "esper torch explain m.py:f --train"


def test_long_results_are_cut_and_say_so():
    cut = trimmed({"rows": list(range(50)), "text": "x" * 1000, "deep": [{"rows": [1] * 30}]})
    assert cut["rows"][-1] == "and 30 more"
    assert len(cut["rows"]) == 21
    assert cut["text"].endswith("...")
    assert cut["deep"][0]["rows"][-1] == "and 10 more"


@pytest.mark.parametrize("place", [("", 0), ("train.py", 0), ("train.py", 999), ("x.py", 1)])
def test_a_claim_about_a_line_that_is_not_there_is_none(project, place):
    claim = MeasuredClaim(measurement_codes.BOTTLENECK, *place, "slow", "none", ("a",))
    assert diagnostic_of(ToolContext(project), claim) is None


def test_equal_lines_have_claims_of_their_own(project):
    (project / "twice.py").write_text("x = 1\nx = 1\n")
    context = ToolContext(project)
    first, second = (
        diagnostic_of(context, MeasuredClaim(measurement_codes.BOTTLENECK, "twice.py", n, "slow", "none", ("a",)))
        for n in (1, 2)
    )
    assert first.fingerprint != second.fingerprint


def test_a_definition_is_found_by_reading(project):
    (project / "m.py").write_text("import x\n\n\ndef f():\n    return 1\n\n\nclass C:\n    def g(self): ...\n")
    assert definition(ToolContext(project), "m.py:f") == ("m.py", 4)
    assert definition(ToolContext(project), "m.py:C.g") == ("m.py", 8)
    assert definition(ToolContext(project), "m.py:gone") == ("m.py", 1)


@pytest.mark.anyio
async def test_a_file_that_changes_while_it_is_measured_is_no_evidence(project):
    class Bench:
        async def measure(self, work, **_roots):
            return work(None)

    def work(_lab):
        (project / "train.py").write_text("changed = True\n")
        return MeasurementReport("nan", {"result": {}})

    with pytest.raises(EvidenceError, match=r"'train\.py' changed while it was measured"):
        await measure(ToolContext(project, bench=Bench()), ["train.py:train"], work)
