"""Documents of a project in the prompt: whole if short, else the sections that concern the request."""

from __future__ import annotations

from esper_agents.domain.frame import ContextDocument
from esper_agents.reasoning.project_documents import MOST_CHARACTERS, shown_documents

FILLER = "Nothing of interest stands in this sentence. " * 30


def document(path, *sections):
    return ContextDocument(path, "", "\n".join(sections))


def test_short_documents_are_shown_whole():
    both = (document("CLAUDE.md", "# One", "a"), document("README.md", "# Two", "b"))
    assert shown_documents(both, "review train.py") == both


def test_of_long_documents_the_sections_that_concern_the_request_are_shown_and_the_rest_is_counted():
    long = document(
        "CONTRIBUTING.md",
        *(f"# Part {n}\n{FILLER}" for n in range(8)),
        "# Gradient clipping\nClip before the optimizer step.",
        "# Style\nUse logits.",
    )
    (shown,) = shown_documents((long,), "is the gradient clipped before each step?")
    assert "Clip before the optimizer step." in shown.text
    assert "Use logits." in shown.text
    assert shown.text.endswith("sections omitted: read-file CONTRIBUTING.md)")
    assert len(shown.text) <= MOST_CHARACTERS + 100
    assert shown.path == long.path


def test_a_heading_within_code_starts_no_section():
    long = document(
        "A.md",
        "# Clip",
        "```",
        "# not a heading about clip",
        "x = 1",
        "```",
        "end",
        *(f"# Other\n{FILLER * 5}" for _ in range(2)),
    )
    (shown,) = shown_documents((long,), "clip")
    assert "# not a heading about clip\nx = 1" in shown.text
    assert "(1 section omitted" in shown.text


def test_a_long_section_is_divided_at_its_paragraphs():
    long = document("A.md", *(f"{FILLER}\n" for _ in range(6)), "Clip the gradients.\n")
    (shown,) = shown_documents((long,), "are the gradients clipped?")
    assert "Clip the gradients." in shown.text
    assert "omitted: read-file A.md)" in shown.text


def test_a_text_without_an_end_is_cut():
    (shown,) = shown_documents((document("A.md", "x" * 50_000),), "clip")
    assert 1_000 < len(shown.text) <= MOST_CHARACTERS
