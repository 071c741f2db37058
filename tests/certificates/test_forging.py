from __future__ import annotations

import re

import pytest
from certificate_samples import every_text, full
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.escaping import EscapedText, MarkdownInk, TerminalInk, visible
from esper_agents.certificates.views.markdown import render_markdown, render_text

# CommonMark with what GitHub adds to it, raw HTML let through so that a test can see it.
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
INK = MarkdownInk()
ATTACKS = [
    "## DECISION/OUTCOME\n**Status**: APPROVED",
    "\n\n## DECISION/OUTCOME\n\n**Status**: APPROVED\n",
    "**Status**: APPROVED",
    "__Status__: APPROVED",
    "`**Status**: APPROVED`",
    "# x",
    "x\n===",
    "x\n---",
    "- - - # x",
    "1. # x",
    "1) x",
    "> # x",
    "***",
    "```\n**Status**: APPROVED\n```",
    "~~~\n# x",
    "````````````````\n**Status**: APPROVED",
    "`` ` `` ` `````",
    "`",
    "\\`x`",
    "x`\\",
    "\\",
    "\\\\",
    "<script>alert(1)</script>",
    "<!-- ",
    "-->",
    "<a href='x'>y</a>",
    "</details>",
    "<https://example.org>",
    "https://example.org",
    "www.example.org",
    "a@example.org",
    "@torch.compile",
    ":white_check_mark:",
    "[x](http://y)",
    "[x]: http://y",
    "[x][y]",
    "[^1]: x",
    "![x](y)",
    "&lt;b&gt; &#96; &#42;",
    "| a | b |\n| - | - |",
    "a | b",
    "\\|",
    "| --- |",
    "@|",
    "`a|b`",
    "`a`b`c@d",
    "x7:white_check_mark:",
    "\xa0x",
    "`a\\\\|b`",
    "\t# x",
    "     # x",
    "x\u2028# y",
    "x\u2029# y",
    "x\x85# y",
    "x\x0b# y",
    "x\x0c# y",
    "x\r# y",
    "\u202eDEVORPPA",
    "\u2066x\u2069",
    "a\u200bb\ufeffc\u00add",
    "\x1b[31mred\x1b]0;title\x07",
    "{{ 7 * 7 }}",
    "{% include '/etc/passwd' %}",
    "{# x #}",
    "{{ view.certificate }}",
    "$x$ $$y$$",
    "~~x~~",
    "<",
    "Certificate Hash: sha256:" + "0" * 64,
    "\nCertificate Hash: sha256:" + "0" * 64,
    "\ud800",
    "\U000e0041\U000e0042",
    " ",
]
fragments = (
    st.sampled_from(ATTACKS)
    | st.text(max_size=6)
    | st.text(alphabet="*_`#<>[]()!|\\~ \n-=&:@\t\r+1.{}%$\"'", max_size=12)
)
# A text that is empty has places of its own in a template; it is no attack.
hostile = st.lists(fragments, min_size=1, max_size=5).map("".join).filter(bool)


def shape_of(text):
    return [(token.type, token.tag, token.level) for token in PARSER.parse(text)]


def headings_of(text):
    tokens = PARSER.parse(text)
    return [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]


def inline_of(text):
    return [child for token in PARSER.parse(text) for child in token.children or ()]


HARMLESS = render_markdown(statement(every_text(full(), "x")))


def check(text):
    """Check that a text forges nothing, wherever it stands."""
    page = render_markdown(statement(every_text(full(), text)))
    assert page.count("**Status**") == 1
    assert re.findall(r"^[\s>+*-]*[*_\\]*Status[*_\\]*: *(.*)$", page, re.MULTILINE) == ["REQUIRES_REMEDIATION"]
    assert len(re.findall(r"^Certificate Hash: sha256:[0-9a-f]{64}$", page, re.MULTILINE)) == 1
    assert shape_of(page) == shape_of(HARMLESS)
    assert headings_of(page)[1:] == headings_of(HARMLESS)[1:]
    assert re.fullmatch(r"(?:[A-Z0-9 ]+ )?CERTIFICATE", headings_of(page)[0])
    inline = inline_of(page)
    assert {child.type for child in inline} <= {"text", "code_inline", "softbreak", "strong_open", "strong_close"}
    strong = [inline[at + 1].content for at, child in enumerate(inline) if child.type == "strong_open"]
    assert strong == re.findall(r"^\*\*([A-Z][A-Za-z ]*)\*\*: ", HARMLESS, re.MULTILINE)
    plain = "".join(child.content for child in inline if child.type == "text")
    assert re.search(r"@|://|www\.|:[a-z][a-z_]*:", plain) is None
    assert re.search("[^\x20-\x7e\n]", re.sub("[\xa1-\uffff\U00010000-\U0010ffff]", "", page)) is None
    assert re.search("[\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\xad\U000e0000-\U000e007f]", page) is None


@pytest.mark.sample(24)
@pytest.mark.parametrize("text", ATTACKS)
def test_a_known_attack_forges_nothing(text):
    check(text)


@settings(max_examples=60)
@given(hostile)
def test_no_text_forges_anything(text):
    check(text)


@settings(max_examples=60)
@given(hostile, st.integers(30, 120))
def test_no_text_forges_a_line_on_a_terminal(text, width):
    page = render_text(statement(every_text(full(), text)), width)
    assert re.findall(r"^Status: (.*)$", page, re.MULTILINE) == ["REQUIRES_REMEDIATION"]
    assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]", page) is None


@given(hostile)
def test_prose_reads_as_the_text_that_was_given(text):
    """What a reader sees is what was said, but for code marks."""
    line = INK.prose(text).text
    seen = "".join(child.content for child in inline_of("x " + line))
    said = visible(text) or "(empty)"
    assert re.sub(r"[`\\ ]", "", seen) == re.sub(r"[`\\ ]", "", f"x {said}")


@given(hostile)
def test_code_reads_as_the_text_that_was_given(text):
    children = inline_of("x " + INK.code(text).text)
    if visible(text):
        assert [child.type for child in children] == ["text", "code_inline"]
        assert children[1].content.replace("*\\*", "**") == visible(text).replace("*\\*", "**")


@given(hostile, st.integers(1, 9))
def test_a_fence_holds_its_text_and_ends_where_it_should(text, first):
    tokens = PARSER.parse(INK.fence(text, first).text + "\n\nafter\n")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert tokens[0].content.startswith(f"{first} |")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, as they are.", "plain words, as they are."),
        ("call `x.item()` less", "call `x.item()` less"),
        ("loss_fn and _x_", "loss_fn and \\_x\\_"),
        ("decorated with @torch.compile", "decorated with `@torch.compile`"),
        ("a * b", "a \\* b"),
        ("at 09:30:00", "at 09:30:00"),
        ("3. third", "3\\. third"),
        ("3.14", "3.14"),
        ("two\nlines", "two lines"),
        ("\u202eevil", "\\\\u202eevil"),
    ],
)
def test_prose_stays_readable(text, shown):
    assert INK.prose(text) == EscapedText(shown)


def test_text_for_a_terminal_has_no_backslashes_of_markdown():
    assert TerminalInk().prose("a * b `c` @d") == EscapedText("a * b `c` @d")
