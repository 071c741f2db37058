"""What a model says is looked up: places that were read, numbers that stand in the evidence."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from briefs import claim, evidence, finding, history, opened, report, submission
from hypothesis import assume, given
from hypothesis import strategies as st

from esper_agents.domain.agent_action import (
    CallTools,
    Conclude,
    HandOff,
    RiskAssessment,
    RiskRow,
    SupportedClaim,
    ToolCall,
)
from esper_agents.domain.assumption import Assumption, AssumptionState, InformationGap, Tier
from esper_agents.domain.certificate import CLAUDE, PLAYBOOK
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Severity
from esper_agents.domain.ledger import ActionDecided, CallStarted, Refusal, RowKind
from esper_agents.orchestration.grounding import downgrade_ungrounded, retries_exhausted, ungrounded_statements

KNOWN = evidence().id
MEASURED = {"p50_ms": 12.345, "peak_bytes": 123_456_789, "speedup": 1.31, "share": 0.473, "rows": 47_000}


class Told:
    """A session in which an agent has called one tool."""

    def __init__(self, output=None, *, reasoner=CLAUDE, request="review this", torch="2.13.0", findings=(), **changed):
        self._bodies = [
            ((0, 0, 0, RowKind.SUBMITTED), submission(request=request, torch=torch)),
            ((1, 0, 0, RowKind.OPENED), opened(reasoner)),
        ]
        self._step = 0
        made = report(1, *findings, output=MEASURED if output is None else output, **changed)
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

    def doubts(self, move):
        """Return why a move is in doubt."""
        known = self.history
        return [each.why for each in ungrounded_statements(known, known.frames[0], move)]

    def of(self, text):
        """Return why a summary is in doubt."""
        return self.doubts(Conclude(text))

    def stands(self, move):
        """Return a move as it is carried out."""
        known = self.history
        return downgrade_ungrounded(known, known.frames[0], move)


TOLD = Told()


def supported(*, ids=(KNOWN,), severity=Severity.WARNING, remedy="Clip them.", **changed):
    return SupportedClaim(replace(claim(**changed), severity=severity, remedy=remedy), ids)


def concluding(**changed):
    return Conclude("done", claims=(supported(**changed),))


# Places.


@pytest.mark.parametrize("line", [1, 11])
def test_a_claim_at_a_line_that_its_evidence_has_read_is_borne_out(line):
    assert not TOLD.doubts(concluding(line=line))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"ids": ()}, "names no evidence of this session that came to a result"),
        ({"ids": ("ev_" + "9" * 32,)}, "names no evidence of this session"),
        ({"ids": (KNOWN, "ev_" + "9" * 32)}, "names no evidence of this session"),
        ({"line": 0}, "cites train.py:0, which the evidence it names has not read"),
        ({"line": 12}, "cites train.py:12, which the evidence it names has not read"),
        ({"path": "gone.py"}, "cites gone.py:1, which the evidence it names has not read"),
        ({"message": "It is as in other.py:3."}, "cites other.py:3, which nobody has read"),
        ({"message": "It costs 47.9 ms."}, "says 47.9 ms, which does not stand in the evidence it names"),
        ({"basis": "measured at 47.9 ms"}, "says 47.9 ms"),
    ],
)
def test_a_claim_that_is_not_borne_out_is_in_doubt(changed, why):
    (told,) = TOLD.doubts(concluding(**changed))
    assert why in told


@pytest.mark.parametrize("outcome", [CallOutcome.FAILED, CallOutcome.DENIED, CallOutcome.INTERRUPTED])
def test_a_call_that_came_to_no_result_bears_nothing_out(outcome):
    told = Told(outcome=outcome)
    assert told.doubts(concluding())
    assert told.of("It takes 12.345 ms.")


@pytest.mark.parametrize(
    "text",
    [
        "see train.py:12",
        "see ./train.py:12 there",
        "see `src/kernel.cu:7`",
        "see kernel.cc:9",
        "see train.py#L12",
        "see `train.py`, line 12",
        "see train.py (line 12)",
        "line 12 of train.py says so",
    ],
)
def test_a_place_in_words_that_nobody_has_read_is_in_doubt(text):
    (told,) = TOLD.of(text)
    assert "which nobody has read" in told


@pytest.mark.parametrize("text", ["see train.py:11", "./train.py:1", "`train.py`, line 11", "line 3 of train.py"])
def test_a_place_in_words_that_was_read_is_borne_out(text):
    assert not TOLD.of(text)


# Numbers.


@pytest.mark.parametrize(
    "text",
    [
        "It takes 12.345 ms, or 12.3 ms, or 12 ms.",
        "It takes 0.0123 s, 12345 us, 12,345 \u00b5s.",
        "The peak is 123456789 bytes: 117.7 MiB, 123.5 MB, 0.12 GB.",
        "It is 1.31x as fast, 31 % faster, 1.3\u00d7.",
        "That is 47.3 % of it, 47%, or 0.473; the rest is 52.7 %.",
        "All 47k rows, 47,000 of them.",
        "It took 12.3-12.345 ms.",
        "It fell by -31 %.",
        "Of 3 runs, 20 were read.",
        "torch 2.13.0, python 3.11, lines 40 to 60, step 5000, claude-opus-4-8, fp16, A100",
    ],
)
def test_what_the_evidence_says_may_be_said_in_any_unit_and_rounding_that_fits(text):
    assert not TOLD.of(text)


@pytest.mark.parametrize(
    "text",
    [
        "It takes 12.9 ms.",
        "It takes 12.9 s.",
        "It is 47.3x as fast.",
        "It is -47.9 % slower.",
        "With torch 47.9 % faster.",
        "It took 10-99 ms.",
        "There are 48k rows.",
        "It takes .73 s.",
        "It has 1,000,000 rows.",
        "In 21 cases.",
    ],
)
def test_a_number_that_stands_in_no_evidence_is_in_doubt(text):
    assert TOLD.of(text)


UNITS = {
    "took_ms": 1.3,
    "batch_ns": [2_700_000, 2_800_000],
    "peak_bytes": 3_489_660_928,
    "bytes_per_s": 4_100_000_000,
    "total_share": 0.62,
    "speedup": {"estimate": 1.47},
    "said": "it took 5.9 s, moved 7.7 MiB, and was 83 % idle at 9.1x",
    "plain": 6.6,
}


@pytest.mark.parametrize(
    "text",
    [
        "It takes 1.3 ms, 0.0013 s, 1300 us, 1300 microseconds.",
        "A batch takes 2.7 ms to 2.8 ms, or 2700-2800 us.",
        "The peak is 3.25 GiB, 3.49 GB, 3,489,660,928 bytes.",
        "It reaches 4.1 GB/s.",
        "It is 62 % of it; the rest is 38 percent, or 0.62.",
        "It is 1.47x as fast, 47 % faster, 32 % less time.",
        "It took 5.9 seconds, 5900 ms, moved 7.7 MiB, was 83 % idle at 9.1x.",
        "It is 6.6, 6.6 ms, 6.6 s, 6.6 MB, 6.6x, 6.6 %, however it is meant.",
    ],
)
def test_a_number_may_be_said_in_every_unit_of_what_it_measures(text):
    assert not Told(UNITS).of(text)


@pytest.mark.parametrize(
    "text",
    [
        "It takes 1.3 s.",
        "It takes 1.3 us.",
        "It takes 1.3 milliseconds longer than 1.3 minutes.",
        "It takes 1.3 MB.",
        "It is 1.3x as fast.",
        "A batch takes 2.7 s.",
        "The peak is 3.25 MiB.",
        "It takes 3.49 s.",
        "It takes 62 ms.",
        "It is 62x as fast.",
        "It takes 1.47 ms.",
        "It took 5.9 ms.",
        "It moved 7.7 GiB.",
        "It is 5.9 % idle.",
        "It is 83x as fast.",
        "It takes 4.1 s.",
    ],
)
def test_a_number_is_not_borne_out_by_one_of_another_unit(text):
    assert len(Told(UNITS).of(text)) == 1


@pytest.mark.parametrize("field", ["what", "why"])
def test_what_a_gap_says_is_looked_up(field):
    said = {"what": "the cost", "why": "unknown", "command": "esper torch compare --runs 4711 99.py:99"}
    gap = InformationGap(**{**said, field: "It takes 47.9 ms at other.py:3."})
    cited, number = TOLD.doubts(Conclude("done", gaps=(gap,)))
    assert cited == "a gap cites other.py:3, which nobody has read"
    assert number == "a gap says 47.9 ms, which stands in no evidence of this session"
    assert TOLD.doubts(HandOff("other", "toys", "theirs", "seen", gaps=(gap,))) == [cited, number]


def test_what_a_remedy_says_is_looked_up_and_what_it_sets_is_not():
    remedy = "Set lr to 3e-4 and batch_size=4096, as in other.py:3: it saves 47.9 %, of 12.3 ms."
    told = TOLD.doubts(concluding(remedy=remedy))
    assert told == [
        "the remedy of 'gradients-not-clipped' cites other.py:3, which nobody has read",
        "the remedy of 'gradients-not-clipped' says 47.9 %, which stands in no evidence of this session",
    ]


def test_what_is_said_of_risks_and_next_steps_is_looked_up():
    rows = (RiskRow("It fails in 4711 cases.", "Low", "Possible", "Wait 47.9 s, at most 4711."),)
    move = Conclude("done", risks=RiskAssessment("Low", "Easy", rows), next_steps=("save 99 % of it",))
    assert [each.partition(",")[0] for each in TOLD.doubts(move)] == [
        "a risk says 4711",
        "a next step says 99 %",
        "a mitigation says 47.9 s",
    ]


@pytest.mark.parametrize("name", ["summary", "rationale", "below_ceiling", "conditions", "caveats"])
def test_all_that_a_conclusion_says_of_what_was_seen_is_looked_up(name):
    words = "It takes 47.9 ms."
    said = {"summary": "done", name: (words,) if name in {"conditions", "caveats"} else words}
    (told,) = TOLD.doubts(Conclude(**said))
    assert "says 47.9 ms, which stands in no evidence of this session" in told


@pytest.mark.parametrize("name", ["context", "reason"])
def test_what_a_handoff_says_is_looked_up(name):
    words = {"reason": "theirs", "context": "seen", name: "It takes 47.9 ms."}
    assert TOLD.doubts(HandOff("other", "toys", **words))


def test_what_the_person_asked_and_the_environment_may_be_repeated():
    assert not Told(request="is it 47.9 ms?").of("It is asked whether it takes 47.9 ms, on 2.13.")


@pytest.mark.parametrize(("rule", "is_known"), [("AGENT", False), ("ESP101", True)])
def test_what_a_rule_found_may_be_repeated_and_what_another_model_said_may_not(rule, is_known):
    found = finding(message="It takes 47.9 ms.")
    told = Told(findings=(replace(found, claim=replace(found.claim, rule=rule)),))
    assert (not told.of("It takes 47.9 ms.")) is is_known


def test_what_a_playbook_says_is_not_doubted():
    assert not Told(reasoner=PLAYBOOK).doubts(Conclude("It takes 47.9 ms.", claims=(supported(ids=()),)))


def test_moves_that_say_nothing_are_not_doubted():
    assert not TOLD.doubts(CallTools((ToolCall("look", {"text": "47.9 ms"}),)))


AMOUNTS = st.decimals("0.001", "100000", places=3)
TIMES = {"s": Decimal(1), "ms": Decimal(1000), "us": Decimal(10) ** 6, "\u00b5s": Decimal(10) ** 6}
SIZES = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def rounded(amount, places):
    return amount.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)


@given(AMOUNTS, st.sampled_from(sorted(TIMES)), st.integers(0, 4))
def test_a_time_may_be_told_in_any_unit_rounded_anyhow(seconds, unit, places):
    said = rounded(seconds * TIMES[unit], places)
    assert not Told({"took_s": float(seconds)}).of(f"It takes {said:f} {unit}.")


@given(st.integers(1, 10**11), st.sampled_from(sorted(SIZES)), st.integers(0, 3))
def test_a_size_may_be_told_in_any_unit_rounded_anyhow(size, unit, places):
    said = rounded(Decimal(size) / SIZES[unit], places)
    assert not Told({"peak_bytes": size}).of(f"The peak is {said:f} {unit}.".replace("kB", "KB"))


@given(st.decimals("0.05", "20", places=4), st.integers(0, 2))
def test_a_ratio_may_be_told_as_a_factor_or_in_percent(ratio, places):
    told = Told({"speedup": float(ratio)})
    factor, percent = rounded(ratio, places), rounded(abs(ratio - 1) * 100, places)
    assert not told.of(f"It is {factor}x as fast: {percent:f} % {'faster' if ratio > 1 else 'slower'}.")


@given(AMOUNTS, AMOUNTS)
def test_a_time_that_was_invented_is_in_doubt(seconds, invented):
    apart = [abs(seconds.scaleb(each) - invented) for each in range(-12, 13, 3)]
    assume(all(each > Decimal("0.0005") for each in apart))
    assert Told({"took_s": float(seconds)}, torch="").of(f"It takes {invented:f} s.")


@given(st.text(max_size=200) | st.from_regex(r"[\d.,:%x kMGib\-/a-z]{0,60}"))
def test_any_words_can_be_looked_up(text):
    assert all(each.startswith(("the summary cites ", "the summary says ")) for each in TOLD.of(text))


# What stands after it has gone back.


INVENTED = Conclude("It takes 47.9 ms.", claims=(supported(), supported(line=99)), caveats=("look again",))


def test_a_move_is_as_it_is_until_it_has_gone_back_twice():
    for times in (0, 1):
        assert Told().returned(*[INVENTED] * times).stands(INVENTED) == INVENTED


def test_what_has_gone_back_twice_stands_as_unverified():
    made = Told().returned(INVENTED, INVENTED).stands(INVENTED)
    assert made.claims == INVENTED.claims[:1]
    told, own = made.caveats
    assert (told, own) == (
        "Unverified: the summary says 47.9 ms, which stands in no evidence of this session.",
        "look again",
    )
    (gap,) = made.gaps
    assert gap.what.startswith("unverified: Gradients are not clipped. (train.py:99)")
    assert gap.command == "esper review train.py"
    assert not gap.blocks_approval


def test_a_grave_claim_that_is_not_borne_out_leaves_the_verdict_undecided():
    grave = Conclude("done", claims=(supported(line=99, severity=Severity.CRITICAL),))
    (gap,) = Told().returned(grave, grave).stands(grave).gaps
    assert gap.blocks_approval


def test_a_claim_whose_remedy_is_not_borne_out_stands_with_a_caveat_beside_it():
    invented = concluding(remedy="It saves 47.9 %.")
    made = Told().returned(invented, invented).stands(invented)
    assert made.claims == invented.claims
    (caveat,) = made.caveats
    assert caveat.startswith("Unverified: the remedy of 'gradients-not-clipped' says 47.9 %")


def test_a_handoff_that_has_gone_back_twice_says_what_is_unverified():
    invented = HandOff("other", "toys", "theirs", "It takes 47.9 ms.", claims=(supported(line=99),))
    made = Told().returned(invented, invented).stands(invented)
    assert made.context == (
        "It takes 47.9 ms. Unverified: the context says 47.9 ms, which stands in no evidence of this session."
    )
    assert not made.claims
    assert len(made.gaps) == 1


def test_an_assumption_that_names_no_evidence_of_the_session_is_open():
    settled = [
        Assumption(text, Tier.WORK, True, AssumptionState.CONFIRMED, (each,), "")
        for text, each in (("one GPU", KNOWN), ("no NaN", "ev_" + "9" * 32))
    ]
    move = Conclude("done", assumptions=tuple(settled))
    made = Told().returned(move, move).stands(move)
    assert made.assumptions == (settled[0], replace(settled[1], state=AssumptionState.OPEN, evidence=()))


def test_what_is_borne_out_stands_whole_however_often_it_went_back():
    sound = concluding()
    assert Told().returned(INVENTED, INVENTED).stands(sound) == sound


def test_only_returns_of_the_same_kind_of_move_in_a_row_count():
    handoff = HandOff("other", "toys", "theirs", "seen")
    for moves in ([handoff, handoff], [INVENTED, handoff], [INVENTED, handoff, INVENTED]):
        (frame,) = Told().returned(*moves).history.frames
        assert not retries_exhausted(frame, INVENTED)


def test_numbers_of_an_output_are_read_from_all_of_it():
    told = Told(json.loads('{"table": [{"deep": ["it took 47.9 ms"]}]}'))
    assert not told.of("It takes 47.9 ms.")
