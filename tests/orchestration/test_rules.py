from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.evidence import Risk
from esper_agents.domain.rule import Action, Rule, RuleSource
from esper_agents.orchestration.rules import (
    ToolCalled,
    allowed_names,
    digest_of_rules,
    fits,
    in_general,
    permission,
    restricted,
    task_rules,
    tightening,
)

ORDER = tuple(Action)
ROOT = "/home/ann/toy"


def called(tool="write", risk=Risk.MEDIUM, **arguments):
    return ToolCalled(tool, risk, arguments, ROOT)


def action(*rules, **call):
    return permission(rules, called(**call)).action


def allow(tool="*", **arguments):
    return Rule(tool, Action.ALLOW, arguments)


def ask(tool="*", **arguments):
    return Rule(tool, Action.ASK, arguments)


def deny(tool="*", **arguments):
    return Rule(tool, Action.DENY, arguments)


@pytest.mark.parametrize(
    ("risk", "expected"), [(Risk.LOW, Action.ALLOW), (Risk.MEDIUM, Action.ASK), (Risk.HIGH, Action.ASK)]
)
def test_where_no_rule_speaks_the_risk_of_the_tool_decides(risk, expected):
    assert action(risk=risk) is expected
    assert action(deny("other"), allow("else"), risk=risk) is expected


@pytest.mark.parametrize("risk", Risk)
def test_one_rule_that_fits_decides_whatever_the_risk_is(risk):
    for rule in (allow(), ask(), deny()):
        assert action(rule, risk=risk) is rule.action


def test_deny_beats_ask_and_ask_beats_allow_and_how_exactly_a_rule_names_a_call_does_not_matter():
    assert action(allow("write", path="a"), ask("*"), path="a") is Action.ASK
    assert action(allow("write", path="a"), ask("write"), deny("*"), path="a") is Action.DENY


def test_an_arguments_pattern_holds_for_those_calls_only():
    assert action(allow("write", path="docs/*"), path="docs/a.md") is Action.ALLOW
    assert action(allow("write", path="docs/*"), path="src/a.py") is Action.ASK
    assert action(allow("write", path="docs/*", mode="new"), path="docs/a.md", mode="old") is Action.ASK
    assert action(deny("write", path="docs/*"), path="docs/a.md") is Action.DENY


def test_a_rule_that_allows_does_not_speak_of_an_argument_that_is_not_given():
    assert not fits(allow(path="*"), called())
    assert not fits(deny(path="*"), called())


DETOURS = ["docs/../secrets/key", "./secrets/key", "secrets//key", f"{ROOT}/secrets/key", "docs/./../secrets/key"]


@pytest.mark.parametrize("path", DETOURS)
def test_a_detour_does_not_get_round_a_rule_that_denies(path):
    assert action(deny(path="secrets/*"), allow(), path=path) is Action.DENY


@pytest.mark.parametrize("path", ["docs/../secrets/key", "docs/../../etc/passwd", f"{ROOT}/../ann/toy/docs/a"])
def test_a_detour_is_not_allowed_by_a_rule_for_where_it_begins(path):
    assert action(allow(path="docs/*"), allow(path=f"{ROOT}/../*"), path=path) is Action.ASK


def test_case_does_not_get_round_a_rule_that_denies_and_one_that_allows_is_exact():
    assert action(deny(path="secrets/*"), allow(), path="SECRETS/key") is Action.DENY
    assert action(allow(path="docs/*"), path="DOCS/a") is Action.ASK


def test_every_member_of_a_list_must_be_allowed_and_one_is_enough_to_deny():
    assert action(allow(paths="docs/*"), paths=["docs/a", "docs/b"]) is Action.ALLOW
    assert action(allow(paths="docs/*"), paths=["docs/a", "src/b"]) is Action.ASK
    assert action(allow(paths="docs/*"), paths=[]) is Action.ASK
    assert action(deny(paths="src/*"), allow(), paths=["docs/a", "src/b"]) is Action.DENY
    assert action(deny(at="src/*"), allow(), at={"deep": ["docs/a", "src/b"]}) is Action.DENY


def test_numbers_and_truth_values_are_compared_as_json_writes_them():
    assert action(allow(count="8"), count=8) is Action.ALLOW
    assert action(allow(sandbox="true"), sandbox=True) is Action.ALLOW
    assert action(deny(sandbox="false"), allow(), sandbox=False) is Action.DENY
    assert action(deny(path="null"), allow(), path=None) is Action.DENY


def test_an_address_is_compared_as_it_is_written():
    assert action(allow(url="https://pytorch.org/*"), url="https://pytorch.org/docs") is Action.ALLOW
    assert action(allow(url="https://pytorch.org/*"), url="https://pytorch.org/../x") is Action.ASK


@pytest.mark.parametrize("source", [RuleSource.PROJECT, RuleSource.TASK])
def test_nobody_but_the_person_can_allow_anything(source):
    assert action(Rule("*", Action.ALLOW, source=source)) is Action.ASK


texts = st.text(st.sampled_from("ab*?./[]!"), max_size=6)
rules = st.builds(
    Rule,
    tool=st.sampled_from(["write", "read", "*", "w*", "r?ad"]),
    action=st.sampled_from(Action),
    arguments=st.dictionaries(st.sampled_from(["path", "mode"]), texts, max_size=2),
    source=st.sampled_from(RuleSource),
)
calls = st.builds(
    ToolCalled,
    tool=st.sampled_from(["write", "read"]),
    risk=st.sampled_from(Risk),
    arguments=st.dictionaries(st.sampled_from(["path", "mode"]), texts | st.lists(texts) | st.integers(), max_size=2),
    root=st.just(ROOT),
)


@given(st.lists(rules), calls, rules, st.integers(min_value=0, max_value=10))
def test_a_further_rule_of_the_project_or_the_task_never_allows_more(before, call, rule, place):
    for source in (RuleSource.PROJECT, RuleSource.TASK):
        more = Rule(rule.tool, rule.action, rule.arguments, source=source)
        after = [*before[:place], more, *before[place:]]
        assert ORDER.index(permission(after, call).action) >= ORDER.index(permission(before, call).action)


@given(st.lists(rules), st.lists(rules), calls)
def test_what_is_tighter_later_never_allows_more(begun, now, call):
    after = permission([*begun, *tightening(now)], call).action
    assert ORDER.index(after) >= ORDER.index(permission(begun, call).action)


@given(st.lists(rules, max_size=6), calls, st.randoms())
def test_the_order_of_rules_does_not_matter(given_rules, call, random):
    shuffled = list(given_rules)
    random.shuffle(shuffled)
    assert permission(shuffled, call).action is permission(given_rules, call).action


@given(st.lists(rules), calls)
def test_a_rule_that_denies_a_tool_without_conditions_denies_every_call_of_it(given_rules, call):
    assert permission([*given_rules, Rule(call.tool, Action.DENY)], call).action is Action.DENY


def test_who_decided_is_said_with_the_reason():
    rule = Rule("write", Action.DENY, {"path": "src/*"}, "sources are ours", RuleSource.PROJECT)
    found = permission([allow(), rule], called(path="src/a"))
    assert found.because == "the project's settings: deny write, path = 'src/*' (sources are ours)"
    assert permission([], called()).because == ""


def test_a_task_names_its_tools_in_its_options_and_more_of_them_add_up():
    options = restricted({"x": "y", "deny": "write"}, ask=["run-*"], deny=["read", "write"])
    assert options == {"x": "y", "ask": "run-*", "deny": "write read"}
    assert [str(each) for each in task_rules(options)] == ["ask run-*", "deny write", "deny read"]
    assert {each.source for each in task_rules(options)} == {RuleSource.TASK}
    assert restricted({"x": "y"}, ask=[], deny=[]) == {"x": "y"}


def test_the_digest_of_rules_changes_with_any_of_them():
    first = digest_of_rules([allow()])
    assert len(first) == 64
    assert len({first, digest_of_rules([]), digest_of_rules([ask()]), digest_of_rules([allow(path="x")])}) == 4


def test_what_becomes_of_a_tool_is_said_before_there_is_a_call():
    assert in_general([], "read", Risk.LOW) == ""
    assert in_general([], "write", Risk.MEDIUM) == "asks you first"
    assert in_general([allow()], "write", Risk.MEDIUM) == ""
    assert in_general([deny()], "write", Risk.LOW) == "never runs"
    assert in_general([allow(path="docs/*")], "write", Risk.HIGH) == (
        "asks you first, by its arguments other rules may hold"
    )


def test_a_task_allows_for_its_session_and_only_the_user_can():
    rules = task_rules({"allow": "write run:network", "deny": "run"})
    assert [(each.tool, each.action, each.source) for each in rules if each.action is Action.ALLOW] == [
        ("write", Action.ALLOW, RuleSource.COMMAND),
        ("run:network", Action.ALLOW, RuleSource.COMMAND),
    ]
    assert action(*rules) is Action.ALLOW
    for source in (RuleSource.PROJECT, RuleSource.TASK):
        assert action(Rule("write", Action.ALLOW, source=source)) is Action.ASK
    # A rule that asks or denies still holds, whoever made it.
    assert action(*rules, Rule("write", Action.ASK, source=RuleSource.PROJECT)) is Action.ASK
    assert action(*rules, Rule("wri*", Action.DENY, source=RuleSource.PROJECT)) is Action.DENY


def test_what_runs_unasked_is_named_with_its_exceptions_and_a_sign_names_none():
    rules = (allow("run"), allow("run:network"), allow("run:read=data"), allow("run:*"), deny("run:network"))
    assert allowed_names(rules, "run", Risk.MEDIUM) == ("run", "run:read=data")
    assert allowed_names((allow("other"), allow("run", path="x")), "run", Risk.MEDIUM) == ()
    # What runs anyway needs no leave.
    assert allowed_names((allow("run"),), "run", Risk.LOW) == ()
