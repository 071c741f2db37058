"""What repeats over sessions becomes guidelines, proposed skills and insights, each with the sessions it rests on."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from learnt import claim, gap, seen, source

from esper_agents.domain.evidence import source_file
from esper_agents.domain.finding import Category, Severity
from esper_agents.learning.retrospect import retrospect
from esper_agents.learning.session_summary import DeniedCall, RefusedHop, RefutedClaim
from esper_agents.review.catalogue import catalogue


def headings(found):
    return [insight.heading for insight in found.insights]


def test_a_rule_broken_in_several_sessions_and_places_is_a_habit_with_its_sessions() -> None:
    found = retrospect(
        "toy",
        [
            seen(1, claims=(claim(path="a.py"),)),
            seen(2, claims=(claim(path="b.py", severity=Severity.CRITICAL),)),
            seen(3, claims=(claim("ESP101", "a.py"),)),
        ],
    )
    (habit,) = found.habits
    assert (habit.rule, habit.severity) == ("ESP305", Severity.CRITICAL)
    assert habit.places == ("a.py", "b.py")
    assert habit.sources == (source(1), source(2))
    assert str(habit.tally) == "2 findings, seen in 2 sessions"


@pytest.mark.parametrize(
    ("texts", "heading", "tally"),
    [
        ("abcde", "A persistent finding", "1 finding, seen in 5 sessions on 5 states of the code"),
        ("aaaaa", "A recurring finding in unchanged code", "1 finding, seen in 5 sessions on 1 state of the code"),
    ],
)
def test_one_finding_in_revisions_of_a_file_is_one_and_the_states_that_sessions_saw_are_counted(texts, heading, tally):
    sessions = [
        seen(number, claims=(claim(),), examined=(source_file("train.py", text.encode()), source_file("a.py", b"")))
        for number, text in enumerate(texts)
    ]
    found = retrospect("toy", sessions)
    assert found.habits == ()
    (insight,) = found.insights
    assert insight.heading == heading
    assert f"is {tally}: " in insight.text


def test_findings_of_a_rule_are_counted_once_each_however_many_sessions_meet_them() -> None:
    claims = (claim(path="a.py"), claim(path="b.py"))
    (habit,) = retrospect("toy", [seen(number, claims=claims) for number in range(5)]).habits
    assert (habit.tally.findings, habit.tally.sessions) == (2, 5)


def test_a_fork_counts_with_the_session_it_was_forked_from() -> None:
    root = source(1)
    fork = replace(seen(2, claims=(claim(),), gaps=(gap(),)), source=replace(source(2), forked_from=root.session))
    assert retrospect("toy", [seen(1, claims=(claim(),), gaps=(gap(),)), fork]).insights == ()
    found = retrospect("toy", [seen(1, claims=(claim(),)), fork, seen(3, claims=(claim(),))])
    (insight,) = found.insights
    assert "seen in 2 sessions" in insight.text
    assert insight.sources == (root, fork.source, source(3))


def test_one_finding_that_is_still_there_is_no_habit_and_is_said_to_stay() -> None:
    found = retrospect("toy", [seen(number, claims=(claim(),)) for number in (1, 2, 3)])
    assert found.habits == ()
    (insight,) = found.insights
    assert insight.heading == "A persistent finding"
    assert "`train.py:3` is 1 finding, seen in 3 sessions: " in insight.text
    assert insight.sources == (source(1), source(2), source(3))


def test_a_skill_is_suggested_for_each_part_of_the_checklist_from_installed_rules_alone() -> None:
    rules = catalogue()
    known = rules[0]
    sessions = [
        seen(1, claims=(claim(known.code, "a.py", category=known.category), claim("XYZ999", "a.py"))),
        seen(2, claims=(claim(known.code, "b.py", category=known.category), claim("XYZ999", "b.py"))),
    ]
    found = retrospect("toy", sessions, rules)
    assert {habit.rule for habit in found.habits} == {known.code, "XYZ999"}
    (suggestion,) = found.suggestions
    assert suggestion.name == f"learnt-{known.category}"
    assert suggestion.rules == (known,)
    assert suggestion.sources == (source(1), source(2))


def test_refused_handoffs_and_refuted_claims_count_from_the_first_time() -> None:
    hop = RefusedHop("profiler", "torch-specialist", "it has had the task")
    false = RefutedClaim("", "the loader is fast", "torch-profile")
    wrong = RefutedClaim("ESP401", "this leaves the graph", "torch-confirm")
    found = retrospect("toy", [seen(1, refused_hops=(hop,), refuted=(false, wrong))])
    assert sorted(headings(found)) == [
        "A refused handoff",
        "A refuted assumption",
        "A refuted claim",
    ]
    assert all(insight.sources == (source(1),) for insight in found.insights)


@pytest.mark.parametrize(("sessions", "count"), [(1, 0), (2, 2)])
def test_gaps_and_denied_calls_count_when_they_repeat(sessions, count) -> None:
    told = [
        seen(number, gaps=(gap(),), denied=(DeniedCall("run-tests", "a person denied this call"),))
        for number in range(sessions)
    ]
    found = retrospect("toy", told)
    assert len(found.insights) == count
    if count:
        assert set(headings(found)) == {"A persistent information gap", "A repeatedly denied tool call"}


def test_the_order_in_which_sessions_come_makes_no_difference() -> None:
    sessions = [
        seen(1, claims=(claim(path="a.py"),), gaps=(gap(),)),
        seen(2, claims=(claim(path="b.py"),), gaps=(gap(), gap("what torch it runs on"))),
        seen(3, claims=(claim(path="a.py"), claim("ESP201", category=Category.SILENT_CORRECTNESS))),
    ]
    assert len({retrospect("toy", permutation) for permutation in permutations(sessions)}) == 1


def test_of_very_many_insights_those_that_most_sessions_show_stay_and_the_rest_is_counted() -> None:
    few = [seen(number, refused_hops=(RefusedHop("a", f"b{number}", "no"),)) for number in range(50)]
    often = [seen(number, gaps=(gap(),)) for number in range(100, 103)]
    found = retrospect("toy", [*few, *often])
    assert found.insights[0].heading == "A persistent information gap"
    assert (len(found.insights), found.insights_left) == (40, 11)


def test_no_sessions_say_nothing() -> None:
    found = retrospect("toy", [])
    assert (found.habits, found.suggestions, found.insights, found.sessions) == ((), (), (), ())
