"""The comment on a pull request carries hostile texts as text, and keeps to its size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hostile_texts import ATTACKS
from markdown_it import MarkdownIt

from esper_agents.api import (
    CoverageState,
    Diagnostic,
    FileCoverage,
    FilePatch,
    GateResult,
    PullRequestReview,
    ReviewOptions,
    ReviewOutcome,
    Unreadable,
)
from esper_agents.cli.pr.comment import as_comment
from esper_agents.domain.finding import Category, Confidence, Location, Severity
from esper_agents.review.report import ReviewReport

OWN_MARKUP = {
    *("<!-- esper-pr -->", "<!-- -->"),
    *("<details><summary>", "<details>", "</details>", "<summary>", "</summary>", "<sub>", "</sub>"),
}
HOSTILE = (
    *ATTACKS,
    *("@everyone look", "#1 !2 %3 $4", "www.evil.example", "https://evil.example/x", "/approve", "/merge now"),
    *("::error file=a.py::wrong", "##[error]wrong", "```\n# heading", "`@everyone", "a ` b ` @everyone `", "~~~\n# x"),
    *("| a | b |\n|---|---|", "- [x] done", "> quoted", "\u202egnp.exe", "x\x1b[31m", "\ud800", "&commat;everyone"),
)


def diagnostic(hostile, severity=Severity.CRITICAL):
    return Diagnostic(
        rule="ESP101",
        name="gradients-not-cleared",
        severity=severity,
        category=Category.CORRECTNESS,
        location=Location(hostile, 3),
        message=hostile,
        remedy=hostile,
        confidence=Confidence.HIGH,
        basis="seen",
        excerpt=hostile,
        fingerprint="f" * 32,
    )


def review_of(claims, patches=(), unreadable=(), why="reason"):
    report = ReviewReport(tuple(claims), (), tuple(unreadable), ("ESP101",), 0, 1, 1)
    paths = tuple(dict.fromkeys(claim.location.path for claim in claims))
    coverage = [FileCoverage(path, "a", CoverageState.AGAINST, why, why, why) for path in paths]
    gate = GateResult(Path("/p"), tuple(coverage), 0)
    options = ReviewOptions((Path("/p"),))
    return PullRequestReview(
        options, "main", "a" * 40, "b" * 40, "--pr", paths, (), ReviewOutcome(report, 0), tuple(patches), gate
    )


def markup_of(comment):
    """Return the HTML, the link targets and the text outside code of a comment, as CommonMark reads it."""
    tokens = [
        each
        for token in MarkdownIt("commonmark").enable("table").parse(comment)
        for each in [token, *(token.children or ())]
    ]
    html = [each.content.strip() for each in tokens if each.type in {"html_inline", "html_block"}]
    links = [each.attrs["href"] for each in tokens if each.type == "link_open"]
    texts = [each.content for each in tokens if each.type == "text"]
    return html, links, texts, {each.type for each in tokens}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_text_becomes_markup_a_mention_a_link_or_a_command(hostile):
    unread = Unreadable(hostile, hostile, hostile, None)
    patch = FilePatch("a.py", f"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-x\n+{hostile}\n", ("ESP101",))
    comment = as_comment(
        review_of([diagnostic(hostile)], [patch], [unread], hostile), blob_url="https://host/o/r/blob/c"
    )
    comment.encode()
    html, links, texts, types = markup_of(comment)
    plain = {line.split(">")[0] + ">" for each in html for line in each.split("\n") if line.startswith("<")}
    assert plain <= OWN_MARKUP, plain
    assert all(link.startswith("https://host/o/r/blob/c/") for link in links)
    assert not types & {"table_open", "image", "blockquote_open", "code_block"}
    # A mention or an address needs its text in one piece.
    for text in texts:
        assert "@everyone" not in text
        assert "://" not in text
        assert "www." not in text
    assert not any(each.lstrip().startswith(("::", "/")) for each in comment.splitlines())
    assert "##[" not in comment
    assert not set(comment) & set("\u202e\x1b\ud800")
    assert comment.count("\n### ") == 1


def test_the_comment_keeps_to_its_size_and_says_what_it_omits():
    claims = [diagnostic(f"{'x' * 700} {number}", Severity.WARNING) for number in range(400)]
    patches = [FilePatch(f"a{number}.py", f"+{'y' * 9000}\n", ("ESP101",)) for number in range(20)]
    review = review_of(claims, patches)
    comment = as_comment(review)
    assert len(comment.encode()) <= 65_536
    assert "- and 370 more: `esper review --diff aaaaaaaaaaaa`" in comment
    assert "patches omitted here" in comment
    assert comment.count("<details>") == comment.count("</details>")
    assert comment.rstrip().endswith("</sub>")
    short = as_comment(review, most=3_000)
    assert len(short.encode()) <= 3_000
    assert short.count("<details>") == short.count("</details>")


@pytest.mark.parametrize(
    ("states", "shown"),
    [
        ([CoverageState.COVERED, CoverageState.COVERED], "**GO** for all 2 changed files (`crt_1`)."),
        ([CoverageState.COVERED, CoverageState.AGAINST], "**GO**, against `b.py` (`crt_1`)."),
        ([CoverageState.OTHER_STATUS, CoverageState.COVERED], "**GO** for `a.py` (`crt_1`); merging needs more."),
        ([CoverageState.TAMPERED, CoverageState.AGAINST], "none. A certificate was modified: `crt_1`."),
        (
            [CoverageState.UNCOVERED, CoverageState.COVERED],
            "none yet. No valid certificate covers 1 of 2 changed files",
        ),
        (
            [CoverageState.UNDECIDED, CoverageState.COVERED],
            "none yet. No valid certificate covers 1 of 2 changed files",
        ),
    ],
)
def test_the_verdict_is_the_worst_that_the_certificates_give(states, shown):
    files = zip(("a.py", "b.py"), states, strict=True)
    coverage = tuple(FileCoverage(path, "r", state, "crt_1", "GO", "reason") for path, state in files)
    review = review_of([])
    comment = as_comment(replace(review, changed=("a.py", "b.py"), gate=replace(review.gate, coverage=coverage)))
    assert f"**Verdict:** {shown}" in comment
    assert ("```sh" in comment) is (set(states) != {CoverageState.COVERED})
