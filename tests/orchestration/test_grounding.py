"""A model's findings keep their place, and are marked with what the program knows of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from briefs import claim, evidence, finding, history, opened, report, submission

from esper_agents.domain.agent_action import CallTools, Conclude, HandOff, ModelCitation, SupportedClaim, ToolCall
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.evidence import CallOutcome, lines_read, source_file
from esper_agents.domain.finding import Category, Location, Severity, Standing
from esper_agents.domain.ledger import ActionDecided, CallStarted, Refusal, RowKind
from esper_agents.domain.reasoner_names import CLAUDE, PLAYBOOK
from esper_agents.orchestration.citations import CitedSources
from esper_agents.orchestration.grounding import ground, retries_exhausted, unread_places
from esper_agents.tools.tool import ToolContext

KNOWN = evidence().id
TRAIN = "".join(f"line_{number} = model({number})\n" for number in range(1, 12))


@pytest.fixture
def root(tmp_path):
    """Return a project of two files; the evidence of a session has read the first one."""
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "other.py").write_text("first = 1\nsecond = 2\n")
    return tmp_path


class Told:
    """A session in which an agent has called one tool."""

    def __init__(self, root, output=None, *, reasoner=CLAUDE, request="review this", findings=(), **changed):
        self._root = root
        self._bodies = [
            ((0, 0, 0, RowKind.SUBMITTED), submission(request=request)),
            ((1, 0, 0, RowKind.OPENED), opened(reasoner)),
        ]
        self._step = 0
        self._read = (source_file("train.py", TRAIN.encode()),)
        made = report(1, *findings, output=output or {}, **{"examined": self._read, **changed})
        self._move(CallTools((ToolCall("look", {}),)))
        self._row(RowKind.CALLING, CallStarted(made.evidence.id, "look", ""))
        self._row(RowKind.CALLED, made)

    def _row(self, kind, body):
        self._bodies.append(((1, self._step, 0, kind), body))

    def _move(self, move):
        self._step += 1
        self._row(RowKind.DECIDING, {})
        self._row(RowKind.MOVED, ActionDecided(move, {"content": []}))

    def returned(self, *moves):
        """Let moves be sent back."""
        for move in moves:
            self._move(move)
            self._row(RowKind.MOVE_REFUSED, Refusal(("no",)))
        return self

    @property
    def history(self):
        """The ledger, folded."""
        return history(self._bodies)

    def ground(self, move):
        """Return the check of a move."""
        known = self.history
        return ground(known, known.frames[0], move, CitedSources(ToolContext(self._root, named=("train.py",))))

    def claim(self, **changed):
        """Return a claim as it is checked."""
        (made,) = self.ground(concluding(**changed)).move.claims
        return made


def supported(*, ids=(KNOWN,), cited=None, severity=Severity.WARNING, **changed):
    path, line = changed.get("path", "train.py"), changed.get("line", 1)
    made = replace(claim(**changed), severity=severity)
    return SupportedClaim(made, ids, cited=cited or ModelCitation(path, str(line)))


def concluding(**changed):
    return Conclude("done", claims=(supported(**changed),))


def test_a_finding_at_a_line_of_the_code_is_located_and_not_confirmed(root):
    made = Told(root).claim(line=11)
    assert (made.standing, made.checks, made.evidence) == (Standing.LOCATED, (), (KNOWN,))
    assert (str(made.claim.location), made.claim.excerpt) == ("train.py:11", "line_11 = model(11)")


def test_a_quote_corrects_the_line_and_the_correction_is_noted(root):
    made = Told(root).claim(cited=ModelCitation("train.py", "9", "line_3 = model(3)"))
    assert (made.claim.location, made.standing) == (Location("train.py", 3, 1, 3), Standing.LOCATED)
    assert made.checks == ("the quote was found at line 3; the model named line 9",)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"line": 12}, "train.py has 11 lines, and line 12 is cited"),
        ({"path": "gone.py"}, "the project has no file gone.py"),
        (
            {"cited": ModelCitation("train.py", "3", "optimizer.zero_grad(set_to_none=True)")},
            "its quote is not in the file",
        ),
        ({"message": "It is as in other.py:3."}, "it cites other.py:3, which is not in the project"),
        ({"message": "It costs 47.9 ms."}, "it says 47.9 ms, which no measurement of this session has"),
        ({"basis": "measured at 47.9 ms"}, "it says 47.9 ms"),
    ],
)
def test_a_finding_that_cannot_be_grounded_keeps_its_severity_and_is_unverified(root, changed, why):
    grounding = Told(root).ground(concluding(severity=Severity.CRITICAL, **changed))
    (made,) = grounding.marked.claims
    assert (made.standing, made.claim.severity) == (Standing.UNVERIFIED, Severity.CRITICAL)
    assert why in made.checks[-1]
    assert not any("opened" in check for check in made.checks)
    (problem,) = grounding.problems
    assert problem.startswith(f"the finding 'gradients-not-clipped': {made.checks[-1]}")
    assert problem.endswith(": measure it, print it with its unit in a run, or omit it") == ("47.9" in why)
    assert not grounding.marked.gaps


def test_a_place_in_another_file_may_be_cited_in_words(root):
    assert Told(root).claim(message="It is as in other.py:2 and `train.py`, lines 3 to 5.").standing is Standing.LOCATED


@pytest.mark.parametrize("ids", [(), ("ev_" + "9" * 32,), ("look",)])
def test_a_finding_without_evidence_rests_on_the_call_that_read_its_lines(root, ids):
    made = Told(root).claim(ids=ids)
    assert (made.evidence, made.standing) == ((KNOWN,), Standing.LOCATED)


@pytest.mark.parametrize("outcome", [CallOutcome.FAILED, CallOutcome.DENIED, CallOutcome.INTERRUPTED])
def test_a_call_without_a_result_supports_nothing(root, outcome):
    made = Told(root, outcome=outcome).claim()
    assert made.evidence == ()
    assert "no agent had read these lines; the program opened them" in made.checks


def test_lines_outside_those_that_were_read_are_to_be_opened(root):
    part = {"path": "train.py", "first_line": 1, "last_line": 4, "lines": []}
    told = Told(root, part)
    places = [unread_places(told.history, told.ground(concluding(line=line)).move.claims) for line in (4, 5)]
    assert places == [(), (Location("train.py", 5, 1, 5),)]


@pytest.mark.parametrize(
    ("output", "ranges"),
    [
        ({}, {"train.py": ((1, 11),)}),
        ({"path": "train.py", "first_line": 3, "last_line": 5, "lines": []}, {"train.py": ((3, 5),)}),
        (
            {"hits": [{"path": "train.py", "line": 7}, {"path": "a.py", "line": 2}]},
            {"train.py": ((7, 7),), "a.py": ((2, 2),)},
        ),
    ],
)
def test_evidence_tells_which_lines_it_read(output, ranges):
    assert lines_read(evidence(output=output)) == ranges


def rule(**changed):
    found = finding(**{"message": "Gradients are never clipped.", **changed})
    return replace(found, claim=replace(found.claim, rule="ESP101", name="no-clipping"))


@pytest.mark.parametrize("code", ["ESP101", "LAB102", "TESTS"])
def test_a_finding_that_a_rule_a_run_or_a_test_reports_too_is_confirmed_and_says_by_what(root, code):
    known = rule(line=3)
    known = replace(known, claim=replace(known.claim, rule=code))
    made = Told(root, findings=(known,)).claim(line=3)
    assert (made.standing, made.checks[-1]) == (Standing.CONFIRMED, f"{code} reports the same at train.py:3")


@pytest.mark.parametrize("changed", [{"line": 4}, {"message": "The rate is wrong."}, {"severity": Severity.SUGGESTION}])
def test_a_rule_confirms_nothing_of_another_line_or_matter_and_nothing_worse_than_it_says(root, changed):
    known = rule(line=3, message="Gradients are never clipped." if "message" not in changed else "They explode.")
    if severity := changed.get("severity"):
        known, changed = replace(known, claim=replace(known.claim, severity=severity)), {}
    assert Told(root, findings=(known,)).claim(**{"line": 3, **changed}).standing is Standing.LOCATED


def test_a_rule_of_another_category_confirms_nothing(root):
    known = rule(line=3)
    known = replace(known, claim=replace(known.claim, category=Category.SECURITY))
    assert Told(root, findings=(known,)).claim(line=3).standing is Standing.LOCATED


@pytest.mark.parametrize(
    ("message", "tool", "output"),
    [
        ("There is a graph break in forward.", "torch-explain", {"status": "clean"}),
        ("The loss becomes NaN.", "torch-nan", {"status": "clean"}),
        ("Memory grows with each step.", "torch-memory", {"bytes_per_step": 0}),
        ("The new loop is faster.", "torch-compare", {"outcome": "not as fast as claimed"}),
    ],
)
def test_a_measurement_of_the_file_that_says_the_opposite_refutes_a_finding(root, message, tool, output):
    made = Told(root)
    made._bodies = made._bodies[:2]
    known = evidence(1, output=output, summary="no, it is not", examined=made._read)
    run = replace(report(1, output=output), evidence=replace(known, tool=tool))
    made._move(CallTools((ToolCall(tool, {}),)))
    made._row(RowKind.CALLED, run)
    checked = made.claim(message=message)
    assert (checked.standing, checked.checks[-1]) == (
        Standing.UNVERIFIED,
        "a measurement says the opposite: no, it is not",
    )


@pytest.mark.parametrize(
    ("message", "tool", "output"),
    [
        ("The loss becomes NaN if a row is masked.", "torch-nan", {"status": "clean"}),
        ("Memory grows with each batch.", "torch-memory", {"bytes_per_step": 0}),
    ],
)
def test_a_run_on_inputs_that_the_program_made_up_refutes_no_fault_of_other_inputs(root, message, tool, output):
    made = Told(root)
    known = evidence(1, output=output, examined=made._read)
    made._bodies = made._bodies[:2]
    synthetic = replace(known, tool=tool, arguments={"target": ".esper/harness/train_step.py:make"})
    made._move(CallTools((ToolCall(tool, {}),)))
    made._row(RowKind.CALLED, replace(report(1, output=output), evidence=synthetic))
    assert made.claim(message=message).standing is Standing.LOCATED


QUOTE = ModelCitation("train.py", "3", "line_3 = model(3)")
CHANGED = "train.py has changed since it was read: read it again, and cite its present lines"


@pytest.mark.parametrize(
    "cited",
    [ModelCitation("train.py", "3"), ModelCitation("train.py", "3", "line_2 = model(2)\nline_3 = model(3)")],
)
def test_a_line_of_a_file_that_changed_since_it_was_read_is_unverified_and_says_so(root, cited):
    session = Told(root)
    (root / "train.py").write_text(TRAIN.replace("line_2", "x\nline_0"))
    made = session.claim(cited=cited)
    assert (made.standing, made.checks[-1], made.evidence) == (Standing.UNVERIFIED, CHANGED, ())
    assert "its evidence read an earlier version of train.py" in made.checks


def test_a_quote_is_found_in_the_present_version_of_a_file_that_changed(root):
    session = Told(root)
    (root / "train.py").write_text(f"import torch\n{TRAIN}")
    made = session.claim(cited=QUOTE)
    assert (made.standing, made.claim.location.line, made.evidence) == (Standing.LOCATED, 4, ())
    assert "train.py has changed since it was read; the quote is in its present version" in made.checks
    assert unread_places(session.history, (made,)) == (Location("train.py", 4, 1, 4),)


def test_a_file_that_was_read_again_after_it_changed_is_cited_as_it_is(root):
    session = Told(root)
    (root / "train.py").write_text(f"import torch\n{TRAIN}")
    again = report(2, examined=(source_file("train.py", (root / "train.py").read_bytes()),))
    session._move(CallTools((ToolCall("look", {}),)))
    session._row(RowKind.CALLED, again)
    made = session.claim(cited=ModelCitation("train.py", "4"), ids=(KNOWN, again.evidence.id))
    assert (made.standing, made.evidence) == (Standing.LOCATED, (again.evidence.id,))
    assert made.checks == ("its evidence read an earlier version of train.py",)


def test_neither_a_rule_nor_a_measurement_of_an_earlier_version_decides_on_the_present_one(root):
    session = Told(root, {"status": "clean"}, findings=(rule(line=3),))
    assert session.claim(line=3).standing is Standing.CONFIRMED
    (root / "train.py").write_text(f"{TRAIN}print()\n")
    assert session.claim(cited=QUOTE, line=3).standing is Standing.LOCATED


def test_what_stands_beside_findings_is_a_caveat(root):
    gap = InformationGap("the cost", "It takes 47.9 ms at other.py:3.", "esper torch compare --runs 4711 99.py:99")
    grounding = Told(root).ground(Conclude("It is 3.7x as fast.", gaps=(gap,), caveats=("look again",)))
    assert grounding.caveats == (
        "a gap cites other.py:3, which is not in the project",
        "a gap says 47.9 ms, which no measurement of this session has",
        "the summary says 3.7x, which no measurement of this session has",
    )
    assert grounding.marked.caveats == (*(f"Unverified: {caveat}." for caveat in grounding.caveats), "look again")


def test_the_settings_and_patches_of_a_remedy_are_proposals(root):
    patch = "--- a/train.py\n+++ b/train.py\n@@ -3 +3 @@\n see other.py:900"
    for remedy in ("Set lr to 3e-4 and batch_size=4096, clip at 0.5.", patch):
        move = Conclude("done", claims=(replace(supported(), claim=replace(claim(), remedy=remedy)),))
        assert not Told(root).ground(move).problems


@pytest.mark.parametrize("name", ["context", "reason"])
def test_what_a_handoff_says_is_looked_up_and_marked(root, name):
    words = {"reason": "theirs", "context": "seen", name: "It takes 47.9 ms."}
    grounding = Told(root).ground(HandOff("other", "toys", **words, claims=(supported(line=99),)))
    assert f"Unverified: the {name} says 47.9 ms" in grounding.marked.context
    assert grounding.marked.claims[0].standing is Standing.UNVERIFIED


def test_what_a_playbook_says_is_not_checked(root):
    assert Told(root, reasoner=PLAYBOOK).ground(concluding(line=99)) is None
    assert Told(root).ground(CallTools((ToolCall("look", {"text": "47.9 ms"}),))) is None


def test_an_assumption_that_names_no_evidence_of_the_session_is_open(root):
    settled = [
        Assumption(text, Tier.WORK, True, AssumptionState.CONFIRMED, (each,), "")
        for text, each in (("one GPU", KNOWN), ("no NaN", "ev_" + "9" * 32))
    ]
    made = Told(root).ground(Conclude("done", assumptions=tuple(settled))).move
    assert made.assumptions == (settled[0], replace(settled[1], state=AssumptionState.OPEN, evidence=()))


def test_a_conclusion_is_returned_twice_whatever_other_refused_moves_stand_between(root):
    invented, handoff = concluding(line=99), HandOff("other", "toys", "theirs", "seen")
    talk = CallTools(())
    for moves, is_exhausted in (
        ([], False),
        ([invented], False),
        ([invented, invented], True),
        ([invented, talk, invented], True),
        ([handoff, handoff], False),
    ):
        (frame,) = Told(root).returned(*moves).history.frames
        assert retries_exhausted(frame, invented) is is_exhausted


def test_an_example_file_is_what_the_evidence_has_read(root):
    assert source_file("train.py", (root / "train.py").read_bytes()).lines == 11
