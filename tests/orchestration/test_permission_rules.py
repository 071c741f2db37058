from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.domain.evidence import Risk
from esper_agents.domain.permission_rule import PermissionDecision, PermissionRule, RuleSource
from esper_agents.orchestration.permission_rules import (
    ToolCallRequest,
    allowed_names,
    describe_default,
    digest_of_rules,
    matches_call,
    permission,
    restricted,
    restricting_rules,
    task_rules,
)

ORDER = tuple(PermissionDecision)
ROOT = "/home/ann/toy"


def called(tool="write", risk=Risk.MEDIUM, **arguments):
    return ToolCallRequest(tool, risk, arguments, ROOT)


def action(*rules, **call):
    return permission(rules, called(**call)).action


def allow(tool="*", **arguments):
    return PermissionRule(tool, PermissionDecision.ALLOW, arguments)


def ask(tool="*", **arguments):
    return PermissionRule(tool, PermissionDecision.ASK, arguments)


def deny(tool="*", **arguments):
    return PermissionRule(tool, PermissionDecision.DENY, arguments)


@pytest.mark.parametrize(
    ("risk", "expected"),
    [(Risk.LOW, PermissionDecision.ALLOW), (Risk.MEDIUM, PermissionDecision.ASK), (Risk.HIGH, PermissionDecision.ASK)],
)
def test_where_no_rule_speaks_the_risk_of_the_tool_decides(risk, expected):
    assert action(risk=risk) is expected
    assert action(deny("other"), allow("else"), risk=risk) is expected


@pytest.mark.parametrize("risk", Risk)
def test_one_rule_that_fits_decides_whatever_the_risk_is(risk):
    for rule in (allow(), ask(), deny()):
        assert action(rule, risk=risk) is rule.action


def test_deny_beats_ask_and_ask_beats_allow_and_how_exactly_a_rule_names_a_call_does_not_matter():
    assert action(allow("write", path="a"), ask("*"), path="a") is PermissionDecision.ASK
    assert action(allow("write", path="a"), ask("write"), deny("*"), path="a") is PermissionDecision.DENY


def test_an_arguments_pattern_holds_for_those_calls_only():
    assert action(allow("write", path="docs/*"), path="docs/a.md") is PermissionDecision.ALLOW
    assert action(allow("write", path="docs/*"), path="src/a.py") is PermissionDecision.ASK
    assert action(allow("write", path="docs/*", mode="new"), path="docs/a.md", mode="old") is PermissionDecision.ASK
    assert action(deny("write", path="docs/*"), path="docs/a.md") is PermissionDecision.DENY


def test_a_rule_that_allows_does_not_speak_of_an_argument_that_is_not_given():
    assert not matches_call(allow(path="*"), called())
    assert not matches_call(deny(path="*"), called())


DETOURS = ["docs/../secrets/key", "./secrets/key", "secrets//key", f"{ROOT}/secrets/key", "docs/./../secrets/key"]


@pytest.mark.parametrize("path", DETOURS)
def test_a_detour_does_not_get_round_a_rule_that_denies(path):
    assert action(deny(path="secrets/*"), allow(), path=path) is PermissionDecision.DENY


@pytest.mark.parametrize("path", ["docs/../secrets/key", "docs/../../etc/passwd", f"{ROOT}/../ann/toy/docs/a"])
def test_a_detour_is_not_allowed_by_a_rule_for_where_it_begins(path):
    assert action(allow(path="docs/*"), allow(path=f"{ROOT}/../*"), path=path) is PermissionDecision.ASK


def test_case_does_not_get_round_a_rule_that_denies_and_one_that_allows_is_exact():
    assert action(deny(path="secrets/*"), allow(), path="SECRETS/key") is PermissionDecision.DENY
    assert action(allow(path="docs/*"), path="DOCS/a") is PermissionDecision.ASK


def test_every_member_of_a_list_must_be_allowed_and_one_is_enough_to_deny():
    assert action(allow(paths="docs/*"), paths=["docs/a", "docs/b"]) is PermissionDecision.ALLOW
    assert action(allow(paths="docs/*"), paths=["docs/a", "src/b"]) is PermissionDecision.ASK
    assert action(allow(paths="docs/*"), paths=[]) is PermissionDecision.ASK
    assert action(deny(paths="src/*"), allow(), paths=["docs/a", "src/b"]) is PermissionDecision.DENY
    assert action(deny(at="src/*"), allow(), at={"deep": ["docs/a", "src/b"]}) is PermissionDecision.DENY


def test_numbers_and_truth_values_are_compared_as_json_writes_them():
    assert action(allow(count="8"), count=8) is PermissionDecision.ALLOW
    assert action(allow(sandbox="true"), sandbox=True) is PermissionDecision.ALLOW
    assert action(deny(sandbox="false"), allow(), sandbox=False) is PermissionDecision.DENY
    assert action(deny(path="null"), allow(), path=None) is PermissionDecision.DENY


def test_an_address_is_compared_as_it_is_written():
    assert action(allow(url="https://pytorch.org/*"), url="https://pytorch.org/docs") is PermissionDecision.ALLOW
    assert action(allow(url="https://pytorch.org/*"), url="https://pytorch.org/../x") is PermissionDecision.ASK


@pytest.mark.parametrize("source", [RuleSource.PROJECT, RuleSource.TASK])
def test_nobody_but_the_person_can_allow_anything(source):
    assert action(PermissionRule("*", PermissionDecision.ALLOW, source=source)) is PermissionDecision.ASK


texts = st.text(st.sampled_from("ab*?./[]!"), max_size=6)
rules = st.builds(
    PermissionRule,
    tool=st.sampled_from(["write", "read", "*", "w*", "r?ad"]),
    action=st.sampled_from(PermissionDecision),
    arguments=st.dictionaries(st.sampled_from(["path", "mode"]), texts, max_size=2),
    source=st.sampled_from(RuleSource),
)
calls = st.builds(
    ToolCallRequest,
    tool=st.sampled_from(["write", "read"]),
    risk=st.sampled_from(Risk),
    arguments=st.dictionaries(st.sampled_from(["path", "mode"]), texts | st.lists(texts) | st.integers(), max_size=2),
    root=st.just(ROOT),
)


@given(st.lists(rules), calls, rules, st.integers(min_value=0, max_value=10))
def test_a_further_rule_of_the_project_or_the_task_never_allows_more(before, call, rule, place):
    for source in (RuleSource.PROJECT, RuleSource.TASK):
        more = PermissionRule(rule.tool, rule.action, rule.arguments, source=source)
        after = [*before[:place], more, *before[place:]]
        assert ORDER.index(permission(after, call).action) >= ORDER.index(permission(before, call).action)


@given(st.lists(rules), st.lists(rules), calls)
def test_what_is_tighter_later_never_allows_more(begun, now, call):
    after = permission([*begun, *restricting_rules(now)], call).action
    assert ORDER.index(after) >= ORDER.index(permission(begun, call).action)


@given(st.lists(rules, max_size=6), calls, st.randoms())
def test_the_order_of_rules_does_not_matter(given_rules, call, random):
    shuffled = list(given_rules)
    random.shuffle(shuffled)
    assert permission(shuffled, call).action is permission(given_rules, call).action


@given(st.lists(rules), calls)
def test_a_rule_that_denies_a_tool_without_conditions_denies_every_call_of_it(given_rules, call):
    assert (
        permission([*given_rules, PermissionRule(call.tool, PermissionDecision.DENY)], call).action
        is PermissionDecision.DENY
    )


def test_who_decided_is_said_with_the_reason():
    rule = PermissionRule("write", PermissionDecision.DENY, {"path": "src/*"}, "sources are ours", RuleSource.PROJECT)
    found = permission([allow(), rule], called(path="src/a"))
    assert found.because == "the project's settings: deny write, path = 'src/*' (sources are ours)"
    assert permission([], called()).because == ""


def test_a_task_names_its_tools_in_its_options_and_more_of_them_add_up():
    options = restricted({"x": "y", "deny": "write"}, ask=["run-*"], deny=["read", "write"])
    assert options == {"x": "y", "ask": "run-*", "deny": "write read"}
    assert [str(task_rule) for task_rule in task_rules(options)] == ["ask run-*", "deny write", "deny read"]
    assert {task_rule.source for task_rule in task_rules(options)} == {RuleSource.TASK}
    assert restricted({"x": "y"}, ask=[], deny=[]) == {"x": "y"}


def test_the_digest_of_rules_changes_with_any_of_them():
    first = digest_of_rules([allow()])
    assert len(first) == 64
    assert len({first, digest_of_rules([]), digest_of_rules([ask()]), digest_of_rules([allow(path="x")])}) == 4


def test_what_becomes_of_a_tool_is_said_before_there_is_a_call():
    assert describe_default([], "read", Risk.LOW) == ""
    assert describe_default([], "write", Risk.MEDIUM) == "asks you first"
    assert describe_default([allow()], "write", Risk.MEDIUM) == ""
    assert describe_default([deny()], "write", Risk.LOW) == "never runs"
    assert describe_default([allow(path="docs/*")], "write", Risk.HIGH) == (
        "asks you first, by its arguments other rules may hold"
    )


def test_a_task_allows_for_its_session_and_only_the_user_can():
    rules = task_rules({"allow": "write run:network", "deny": "run"})
    assert [(rule.tool, rule.action, rule.source) for rule in rules if rule.action is PermissionDecision.ALLOW] == [
        ("write", PermissionDecision.ALLOW, RuleSource.COMMAND),
        ("run:network", PermissionDecision.ALLOW, RuleSource.COMMAND),
    ]
    assert action(*rules) is PermissionDecision.ALLOW
    for source in (RuleSource.PROJECT, RuleSource.TASK):
        assert action(PermissionRule("write", PermissionDecision.ALLOW, source=source)) is PermissionDecision.ASK
    # A rule that asks or denies still holds, whoever made it.
    assert (
        action(*rules, PermissionRule("write", PermissionDecision.ASK, source=RuleSource.PROJECT))
        is PermissionDecision.ASK
    )
    assert (
        action(*rules, PermissionRule("wri*", PermissionDecision.DENY, source=RuleSource.PROJECT))
        is PermissionDecision.DENY
    )


def test_what_runs_unasked_is_named_with_its_exceptions_and_a_sign_names_none():
    rules = (allow("run"), allow("run:network"), allow("run:read=data"), allow("run:*"), deny("run:network"))
    assert allowed_names(rules, "run", Risk.MEDIUM) == ("run", "run:read=data")
    assert allowed_names((allow("other"), allow("run", path="x")), "run", Risk.MEDIUM) == ()
    # What runs anyway needs no leave.
    assert allowed_names((allow("run"),), "run", Risk.LOW) == ()
