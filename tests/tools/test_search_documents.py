"""What the project's documents say about a question."""

from __future__ import annotations

import anyio
import pytest

from esper_agents.errors import UsageError
from esper_agents.tools.document_sections import sections_of
from esper_agents.tools.passage_search import search, terms_of

pytestmark = pytest.mark.anyio
README = """# Herons

Count birds at dusk.

## Dead codes

Stale entries of the *codebook* are replaced when their [hits](hits.md) fall below a threshold.

```python
# Replace dead codes
quantizer = Quantizer(threshold=2)
```

## Installation

Install the wheel of the release, then check the version of the library.

## Logging

Each epoch writes one row of metrics to the table.
"""
QUESTION = "why are dead codes of my codebook never replaced? Quantizer(size=512, threshold=0)"


@pytest.fixture
def documented(project):
    (project / "README.md").write_text(README)
    (project / "LICENSE.md").write_text("# Dead codes\n\nDead codes of the codebook are replaced.\n")
    return project


async def test_the_section_that_shares_rare_words_is_found_with_its_line(call, documented):
    found = await call("search-documents", text=QUESTION)
    (passage,) = found.output["passages"]
    assert (passage["path"], passage["line"], passage["heading"]) == ("README.md", 7, "Dead codes")
    assert passage["text"] == "Stale entries of the codebook are replaced when their hits fall below a threshold."
    assert (passage["first_line"], passage["last_line"]) == (5, 13)
    assert [each.path for each in found.examined] == ["README.md"]


async def test_words_that_every_question_has_find_nothing(call, documented):
    found = await call("search-documents", text="why does this not work, can you please help me with the model?")
    assert found.output["passages"] == []
    assert found.summary == "no section of a document shares enough words with the question"


async def test_docstrings_of_named_files_are_searched_as_well(call, documented):
    source = 'def expire(codes):\n    """Replace the expired entries by random samples of the minibatch."""\n'
    (documented / "codes.py").write_text(source)
    question = "which samples replace expired entries of the minibatch?"
    assert (await call("search-documents", text=question)).output["passages"] == []
    (passage,) = (await call("search-documents", text=question, paths=["codes.py"])).output["passages"]
    assert (passage["path"], passage["line"], passage["heading"]) == ("codes.py", 2, "expire")


async def test_an_empty_question_is_refused(call, documented):
    with pytest.raises(UsageError, match="the question is empty"):
        await call("search-documents", text=" ")


async def test_secrets_in_documents_are_not_shown(call, documented):
    key = "sk-ant-api03-" + "A1b2C3d4" * 6
    (documented / "notes.md").write_text(
        f"# Quantizer key\n\nThe codebook service wants the key {key} for dead codes.\n"
    )
    found = await call("search-documents", text=QUESTION)
    assert key not in str(found.output)


async def test_files_named_like_secrets_are_not_searched(call, documented):
    (documented / "passwords.txt").write_text("The dead codes of the codebook are replaced with hunter2.\n")
    found = await call("search-documents", text=QUESTION)
    assert {each["path"] for each in found.output["passages"]} == {"README.md"}


async def test_the_password_of_an_address_is_not_shown(call, documented):
    (documented / "notes.md").write_text("# Store\n\nDead codes go to the address https://me:hunter2@db.example/.\n")
    found = await call("search-documents", text="which address do dead codes go to?")
    assert [each["path"] for each in found.output["passages"]] == ["notes.md"]
    assert "hunter2" not in str(found.output)


@pytest.mark.parametrize("line", ["# " + " " * 500_000, "a" * 500_000, "[" * 500_000, "<" * 500_000, "_a" * 250_000])
async def test_lines_that_would_keep_an_expression_busy_are_skipped(call, documented, line):
    (documented / "long.md").write_text(f"{line}\n{line[:1_999]}\n" * 2)
    with anyio.fail_after(20):
        found = await call("search-documents", text=QUESTION)
    assert {each["path"] for each in found.output["passages"]} == {"README.md"}


def test_a_comment_in_a_code_block_is_no_heading():
    headings = [each.heading for each in sections_of("README.md", README)]
    assert headings == ["Herons", "Dead codes", "Installation", "Logging"]


def test_underlined_titles_are_headings_too():
    text = "Usage\n=====\n\nRun it.\n\nOptions\n-------\n\nNone.\n"
    assert [(each.heading, each.line) for each in sections_of("index.rst", text)] == [("Usage", 1), ("Options", 6)]


def test_a_long_section_is_divided():
    text = "# Long\n" + "line\n" * 90
    assert [(each.line, each.end_line) for each in sections_of("a.md", text)] == [(1, 40), (41, 80), (81, 91)]


def test_a_file_that_is_no_python_has_no_docstrings():
    assert list(sections_of("broken.py", "def broken(:\n")) == []


def test_arguments_of_a_call_in_the_question_are_no_words_of_it():
    assert terms_of("does Quantizer(size=512) forget codes?", frozenset({"does"})) == ("quantizer", "forget", "codes")


def test_words_match_by_their_stem():
    passages = list(sections_of("a.md", "# Collapse\n\nThe codebook collapses.\n\n# Other\n\nNothing.\n"))
    (found,) = search(passages, ["collapsing", "codebooks"])
    assert found.passage.heading == "Collapse"
    assert found.share == 1.0
