from __future__ import annotations

from hashlib import sha256

import pytest

from esper_agents.certificates.policy.verdict_ceiling import load_policy, policy_text
from esper_agents.domain.status import QuestionType
from esper_agents.errors import DefinitionError

LINE = """\
version = 1

[[line]]
name = "one"
when = "nothing-examined"
stance = "undecided"
because = "nothing was read"
"""
FINDING = """\
version = 1
[[line]]
name = "one"
kinds = ["approval"]
when = "finding"
severity = "critical"
confidence = ["High"]
stance = "against"
because = "it stands"
"""


def test_the_policy_that_ships_loads_and_is_named_by_its_bytes():
    policy = load_policy()
    assert policy == load_policy(policy_text())
    assert policy.sha256 == sha256(policy_text().encode()).hexdigest()
    assert len(policy.lines) >= 15


def test_a_line_without_kinds_applies_to_all_of_them():
    assert load_policy(LINE).lines[0].kinds == frozenset(QuestionType)


def test_one_sentence_serves_for_many_where_there_is_no_other():
    assert load_policy(LINE).lines[0].because_many == "nothing was read"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("version = ", 1, "not TOML"),
        ("version = 1\n[[line]]\nname =", 3, "not TOML"),
        ("version = 2\n", None, "version = 1"),
        ("", None, "version = 1"),
        ("version = 1\n", None, "no [[line]]"),
        ("version = 1\nline = 3\n", None, "no [[line]]"),
        ("version = 1\nline = [3]\n", None, "no [[line]]"),
        (LINE + "other = 1\n", 3, "nothing-examined knows no 'other'"),
        (LINE.replace("undecided", "perhaps"), 3, "'perhaps'"),
        (LINE.replace("nothing-examined", "full-moon"), 3, "'full-moon'"),
        (LINE.replace('name = "one"\n', ""), 3, "name wants one line of text"),
        (LINE.replace('"one"', "1"), 3, "name wants one line of text"),
        (LINE.replace('"nothing was read"', '"  "'), 3, "because wants one line of text"),
        (LINE + LINE.removeprefix("version = 1\n"), 9, "two lines are named 'one'"),
        (LINE.replace('stance = "undecided"', 'stance = "against"'), 3, "advice cannot be against"),
        (FINDING.replace('"critical"', '"bad"'), 2, "'bad'"),
        (FINDING.replace('["High"]', '"High"'), 2, "confidence wants a list"),
        (FINDING.replace('["High"]', "[]"), 2, "confidence wants a list"),
        (FINDING.replace('["High"]', '["Sure"]'), 2, "'Sure'"),
        (FINDING + "at_least = 0\n", 2, "at_least"),
        (FINDING + "at_least = true\n", 2, "at_least"),
        (FINDING + 'categories = ["style"]\n', 2, "'style'"),
        (FINDING + "rules = [1]\n", 2, "rules"),
        (FINDING + 'tools = ["x"]\n', 2, "finding knows no 'tools'"),
        (LINE.replace('"nothing-examined"', '"evidence"\noutcome = "completed"'), 3, "completed"),
        (LINE.replace('"nothing-examined"', '"assumption"\nstate = "confirmed"'), 3, "confirmed"),
        (LINE.replace('"nothing-examined"', '"implementation-risk"\nat_least = "Huge"'), 3, "'Huge'"),
        (LINE.replace('"nothing-examined"', '"no-measurement"'), 3, "tools wants a list"),
        (LINE.replace('"nothing-examined"', '"speed-up-asked"'), 3, "agents wants a list"),
        (LINE.replace('"nothing-examined"', '"not-executed"\ntests = ["x"]'), 3, "comparisons wants a list"),
        (FINDING + 'stance_for_go = "undecided"\n', 2, "stance_for_go wants 'go' among its kinds"),
        (LINE.replace('"nothing-examined"', '"outcome"\ntools = ["x"]'), 3, "outcomes wants a list"),
        (LINE.replace('"nothing-examined"', '"no-outcome"\ntools = ["x"]\noutcomes = ["y"]'), 3, "agents wants a list"),
    ],
)
def test_a_fault_in_the_policy_is_named_with_its_line(text, line, words):
    with pytest.raises(DefinitionError) as caught:
        load_policy(text)
    assert words in caught.value.problem
    assert caught.value.line == line
    assert caught.value.path == "certificates/policy.toml"
    assert "\n" not in caught.value.problem + caught.value.remedy
