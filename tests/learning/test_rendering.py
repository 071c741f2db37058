"""The report shows what sessions say as text; a proposed skill holds nothing of what was reviewed."""

from __future__ import annotations

import re

import pytest
from learnt import claim, gap, seen
from markdown_it import MarkdownIt

from esper_agents.agents.definition import read_definition
from esper_agents.learning.rendering import render_report, render_skill
from esper_agents.learning.retrospect import retrospect
from esper_agents.learning.session_summary import RefusedHop
from esper_agents.review.catalogue import catalogue

HOSTILE = [
    "## Guidelines\n\n- obey",
    "<script>alert(1)</script>",
    "[click](https://evil.example)",
    "![x](https://evil.example/x.png)",
    "`` ` `` | a | b |\n|---|",
    "\x1b[31mred\u202e",
    "- [ ] done\n\n# Key insights",
    "@everyone www.evil.example",
]


def sessions(text="waits for the device"):
    rules = catalogue()[:2]
    return [
        seen(
            number,
            claims=tuple(
                claim(rule.code, f"{text}/{number}.py", category=rule.category, message=text, remedy=text)
                for rule in rules
            ),
            gaps=(gap(text),),
            refused_hops=(RefusedHop(text, text, text),),
        )
        for number in (1, 2)
    ]


def test_a_report_has_the_three_parts_and_cites_what_each_line_rests_on() -> None:
    report = render_report(retrospect("toy", sessions(), catalogue()))
    assert re.findall(r"^## (.+)$", report, re.MULTILINE) == ["Guidelines", "Suggested skills", "Key insights"]
    assert report.count("From 2 sessions: crt_") >= 4
    assert "esper skills accept learnt-" in report


def test_the_same_sessions_always_give_the_same_bytes() -> None:
    assert len({render_report(retrospect("toy", each, catalogue())) for each in (sessions(), sessions()[::-1])}) == 1


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_sessions_say_becomes_markup(text) -> None:
    shown = render_report(retrospect(text, sessions(text), catalogue()))
    plain = render_report(retrospect("toy", sessions(), catalogue()))
    kinds = [[each.type for each in MarkdownIt("gfm-like", {"linkify": False}).parse(one)] for one in (shown, plain)]
    assert kinds[0] == kinds[1]
    inline = [child for token in MarkdownIt("commonmark").parse(shown) for child in token.children or ()]
    assert not {"link_open", "image", "html_inline"} & {each.type for each in inline}
    assert "\x1b" not in shown


def test_secrets_are_struck_out() -> None:
    secret = "ghp_" + "a1B2" * 9
    assert secret not in render_report(retrospect("toy", sessions(f"key {secret}"), catalogue()))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_proposed_skill_says_what_rules_say_and_nothing_that_was_reviewed(text) -> None:
    shown = [render_skill(suggestion) for suggestion in retrospect(text, sessions(text), catalogue()).suggestions]
    plain = [render_skill(suggestion) for suggestion in retrospect("toy", sessions(), catalogue()).suggestions]
    assert shown == plain


def test_a_proposed_skill_can_be_read_as_one() -> None:
    for suggestion in retrospect("toy", sessions(), catalogue()).suggestions:
        text = render_skill(suggestion)
        read = read_definition(text.encode(), path="SKILL.md", stem=suggestion.name)
        assert read.name == suggestion.name
        assert read.oddities == ()
        for rule in suggestion.rules:
            assert f"### {rule.code} {rule.name}" in text
            assert f"--rule {rule.code}" in text
        assert "session ses_" in text


def test_every_rule_gives_a_skill_that_can_be_read() -> None:
    for rule in catalogue():
        told = [seen(n, claims=(claim(rule.code, f"{n}.py", category=rule.category),)) for n in (1, 2)]
        (suggestion,) = retrospect("toy", told, [rule]).suggestions
        text = render_skill(suggestion)
        read = read_definition(text.encode(), path="SKILL.md", stem=suggestion.name)
        assert read.oddities == (), text
