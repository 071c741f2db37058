"""A change here that demands a change there, by globs alone."""

from __future__ import annotations

import pytest

from esper_agents.domain.finding import Severity
from esper_agents.errors import UsageError
from esper_agents.review.changes import review_change
from esper_agents.review.companion import CompanionRule, matches, missing_companion_changes
from esper_agents.review.source import from_bytes

STATE = CompanionRule(
    ("torch/_dynamo/eval_frame.py", "src/state_*.py"),
    ("torch/_dynamo/trace_rules.py", "src/**/register.py"),
    "a state function that is not registered breaks the graph",
    ".esper/skills/dynamo/SKILL.md",
)


@pytest.mark.parametrize(
    ("path", "glob", "is_meant"),
    [
        ("docs/model.md", "docs/model.md", True),
        ("docs/a/model.md", "docs/*.md", False),
        ("docs/a/model.md", "docs/**/*.md", True),
        ("docs/model.md", "docs/**/*.md", True),
        ("docs/a/b.md", "docs/**", True),
        ("docs", "docs/**", True),
        ("a/docs/x.md", "**/docs/*.md", True),
        ("docs/x.md", "**/docs/*.md", True),
        ("Docs/x.md", "docs/*.md", False),
        ("src/a1.py", "src/a?.py", True),
        ("src/a.py", "src/[ab].py", True),
        ("src/a.py", "*.py", False),
        ("src/a.py", "**", True),
    ],
)
def test_a_glob_means_these_paths(path, glob, is_meant):
    assert matches(path, (glob,)) is is_meant


def test_a_demand_that_is_not_met_is_a_claim_with_its_reason():
    (claim,) = missing_companion_changes(
        [STATE], ["src/state_a.py", "src/state_b.py", "README.md"], {"src/state_a.py": "import os\n"}
    )
    assert (claim.rule, claim.severity, str(claim.location)) == ("ESP701", Severity.WARNING, "src/state_a.py:1")
    assert "and 1 more like it" in claim.message
    assert "`torch/_dynamo/trace_rules.py` or `src/**/register.py`" in claim.message
    assert STATE.why in claim.remedy
    assert STATE.declared in claim.basis
    assert claim.excerpt == "import os"


def test_a_demand_that_is_met_or_not_made_is_silent():
    assert missing_companion_changes([STATE], ["src/state_a.py", "src/deep/in/register.py"]) == ()
    assert missing_companion_changes([STATE], ["README.md"]) == ()


def test_the_fingerprint_is_that_of_the_demand():
    first = missing_companion_changes([STATE], ["src/state_a.py"])
    assert first[0].fingerprint == missing_companion_changes([STATE], ["src/state_a.py", "other.py"])[0].fingerprint


@pytest.mark.parametrize("glob", ["", "/etc/*", "../x.py", "a/../b", "*" * 300, "/".join("*" * 40)])
def test_what_is_no_glob_of_the_project_is_refused(glob):
    with pytest.raises(UsageError):
        CompanionRule((glob,), ("a.py",), "")
    with pytest.raises(UsageError):
        CompanionRule(("a.py",), (), "")


def test_no_glob_takes_long():
    glob = "/".join(["**", "*a*a*a*a*a*"] * 12)
    assert not matches("/".join(["a" * 60] * 40) + "/b", (glob,))


def test_it_is_looked_for_in_changes_and_only_when_its_rule_runs(tmp_path):
    after = [from_bytes(b"x = 1\n", "src/state_a.py")]
    more = {"paths": ["src/state_a.py"], "companions": [STATE]}
    assert [claim.rule for claim in review_change(tmp_path, [], after, **more).report.claims] == ["ESP701"]
    assert review_change(tmp_path, [], after, rules=["ESP101"], **more).report.claims == ()
