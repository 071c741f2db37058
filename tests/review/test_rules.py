"""Every rule finds its own bad example, leaves its good one alone, and has a whole page."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from esper_agents.api import rule_page
from esper_agents.domain.finding import Category, Severity
from esper_agents.review import rules as folder
from esper_agents.review.catalogue import catalogue
from esper_agents.review.engine import review_sources
from esper_agents.review.pages import explain
from esper_agents.review.rule import example_files

RULES = catalogue()
# What a change lacks is seen in no one tree: see test_companion.py and test_removed_guards.py.
OF_TREES = [rule for rule in RULES if rule.category is not Category.COMPANION]
DOCUMENT = Path(__file__).parents[2] / "docs/rules.md"
HUNDREDS = {
    "0": Category.CORRECTNESS,
    "1": Category.CORRECTNESS,
    "2": Category.SILENT_CORRECTNESS,
    "3": Category.MEMORY,
    "4": Category.PERFORMANCE,
    "5": Category.COMPILE,
    "7": Category.COMPANION,
    "9": Category.SECURITY,
}
each_rule = pytest.mark.parametrize("rule", RULES, ids=[rule.code for rule in RULES])
each_of_trees = pytest.mark.parametrize("rule", OF_TREES, ids=[rule.code for rule in OF_TREES])


@each_of_trees
def test_the_bad_example_fires_this_rule_and_no_other(rule):
    report = review_sources(example_files(rule.bad))
    assert not report.unreadable
    assert {claim.rule for claim in report.claims} == {rule.code}


@each_rule
def test_the_good_example_is_left_alone_by_this_rule(rule):
    report = review_sources(example_files(rule.good), rules=[rule.code])
    assert not report.unreadable
    assert report.claims == ()


@each_rule
def test_the_good_example_has_nothing_critical(rule):
    claims = review_sources(example_files(rule.good)).claims
    assert [claim for claim in claims if claim.severity is Severity.CRITICAL] == []


@each_rule
def test_the_page_says_why_when_not_and_from_where(rule):
    page = explain(rule.code)
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)
    assert headings == ["Why it costs", "When it is right", "The fix", "Sources", "Bad", "Good"]
    assert page.startswith(f"# {rule.code} {rule.name}\n")
    assert len(inspect.getdoc(type(rule)).splitlines()[0]) > 20


@each_rule
def test_code_name_and_category_belong_together(rule):
    assert re.fullmatch(r"ESP\d{3}", rule.code)
    assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", rule.name)
    assert HUNDREDS[rule.code[3]] is rule.category


@each_rule
def test_what_it_claims_is_one_plain_sentence_with_a_remedy(rule):
    for claim in review_sources(example_files(rule.bad)).claims:
        for text in (claim.message, claim.remedy):
            assert text
            assert "\n" not in text
            assert not text.endswith(".")
        assert claim.basis


def test_syncs_and_style_are_never_critical():
    critical = {rule.category for rule in RULES if rule.severity is Severity.CRITICAL}
    assert Category.MEMORY not in critical
    assert Category.PERFORMANCE not in critical


def test_every_part_of_the_checklist_has_two_rules():
    parts = (Category.CORRECTNESS, Category.SILENT_CORRECTNESS, Category.MEMORY, Category.PERFORMANCE, Category.COMPILE)
    for part in (*parts, Category.SECURITY):
        assert len([rule for rule in RULES if rule.category is part]) >= 2


def test_every_file_in_the_folder_holds_one_rule():
    files = {path.stem for path in Path(folder.__path__[0]).glob("*.py")} - {"__init__"}
    assert files == {type(rule).__module__.rpartition(".")[2] for rule in RULES}
    assert len(files) == len(RULES)


def test_the_document_of_all_rules_is_the_one_that_the_pages_make():
    assert DOCUMENT.read_text(encoding="utf-8") == rule_page(), "run `make docs`"


def test_the_document_links_to_every_page_that_it_holds():
    text = explain("all")
    links = set(re.findall(r"\]\(#([^)]+)\)", text))
    anchors = {each.lower().replace(" ", "-") for each in re.findall(r"^### (.+)$", text, re.MULTILINE)}
    assert links == anchors
    assert len(anchors) == len(RULES)


# What looks like code: a call, a keyword with its argument, a statement, a path of names.
_CODE = re.compile(r"[(\[=@]|^(?:with|for|if|import|from|del)\b|^\w+(?:\.\w+)+$")
_SNIPPET = re.compile(r"`([^`]+)`")


def snippets_of(text):
    """Return what stands in backticks and looks like code; comments to the reviewer are none."""
    return [each for each in _SNIPPET.findall(text) if _CODE.search(each) and not each.startswith("# ")]


def parses(snippet):
    """Return whether a snippet parses, as it is, as the head of a block, as a decorator or as an argument."""
    tried = (snippet, f"{snippet}\n    pass", f"{snippet}\ndef f(): pass", f"f({snippet})", f"x{snippet}")
    return any(_is_source(each) for each in tried)


def _is_source(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def advice_in(source):
    """Return the remedies and messages that the code of a rule holds, with `x` for what is put in when it runs."""
    for call in ast.walk(ast.parse(source)):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "hit":
            said = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "remedy")]
            yield from (part for one in said for part in _texts_in(one))


def _texts_in(node):
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "x" for part in each.values)
        elif isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


@each_rule
def test_every_snippet_in_what_it_advises_parses(rule):
    shown = [text for claim in review_sources(example_files(rule.bad)).claims for text in (claim.remedy,)]
    written = advice_in(inspect.getsource(inspect.getmodule(type(rule))))
    wrong = [each for text in (*shown, *written) for each in snippets_of(text) if not parses(each)]
    assert wrong == []


@pytest.mark.parametrize(
    ("snippet", "is_right"),
    [
        ("optimizer.zero_grad()", True),
        ("with torch.no_grad():", True),
        ("@torch.no_grad()", True),
        ("weights_only=True", True),
        ("torch.load(..., weights_only=True)", True),
        ("optimizer.zero_grad(", False),
        ("x = torch.zeros(3", False),
        ("for x in loader", False),
    ],
)
def test_what_parses_is_told_from_what_does_not(snippet, is_right):
    assert parses(snippet) is is_right
