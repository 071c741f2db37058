"""Find what the project's documents say about a question."""

from __future__ import annotations

import asyncio
import re
import tomllib
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.certificates.redaction import without_keys
from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.review.source import ReviewSource, read
from esper_agents.tools.document_sections import DOCUMENTS, TextSection, sections_of
from esper_agents.tools.output_comparison import without
from esper_agents.tools.passage_search import is_in, search, terms_of
from esper_agents.tools.project_files import project_files
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.evidence import SourceFile
    from esper_agents.tools.passage_search import FoundPassage

_MOST_CHARACTERS, _LONGEST_SHOWN = 4_000, 400
_MOST_FILES, _LARGEST = 400, 1_000_000
_MARKUP = re.compile(r"<[^>]+>|!?\[([^\]]*)\]\([^)]*\)|[`*#|]+")
_FENCED = re.compile(r"^\s*(```|~~~).*?^\s*\1\s*$", re.MULTILINE | re.DOTALL)
_REFERENCES = re.compile(r"(?:citations?|references|bibliography|acknowledge?ments?|licen[cs]e)\b", re.IGNORECASE)
# User and password of an address.
_PASSWORD = re.compile(r"//[^/\s@]{1,200}@")
# Texts that describe no behaviour of the program.
_NOT_DOCUMENTS = re.compile(
    r"(?:^|/)(?:[^/]+\.egg-info/"
    r"|(?:licen[cs]e|copying|authors|code_of_conduct|requirements|changelog|history|sources\.txt)[^/]*$"
    r"|[^/]*(?:secret|credential|passw|(?<![a-z])tokens?(?![a-z])|api_?key)[^/]*$)",
    re.IGNORECASE,
)


def _rerun(arguments: JsonObject) -> str:
    words = "|".join(_terms(str(arguments["text"]))[:8])
    globs = " ".join(f"--include='*{each}'" for each in DOCUMENTS)
    return f"grep -rniE {globs} -e {quote(words)} ."


@tool("search-documents", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun, comparing=without("searched"))
async def search_documents(context: ToolContext, text: str, paths: list[str] | None = None) -> ToolResult:
    """Find sections of documents, and docstrings, that share rare words with a question.

    Args:
        context: The project.
        text: The question.
        paths: Python files whose docstrings are searched as well, relative to the project.
    """
    if not text.strip():
        raise UsageError("the question is empty", remedy="give the words of the question")
    return await asyncio.to_thread(_searched, context, text, paths or [])


def _searched(context: ToolContext, text: str, paths: list[str]) -> ToolResult:
    passages: list[TextSection] = []
    records: dict[str, SourceFile] = {}
    names = [name for name in project_files(context) if name.endswith(DOCUMENTS) and not _NOT_DOCUMENTS.search(name)]
    for name in (*sorted(names, key=lambda each: (each.count("/"), each))[:_MOST_FILES], *paths):
        try:
            file = context.inside(name)
        except EvidenceError:
            continue
        if not file.is_file() or file.stat().st_size > _LARGEST:
            continue
        source = read(file, name)
        if isinstance(source, ReviewSource):
            passages += sections_of(name, _PASSWORD.sub("//", without_keys(source.text)))
            records[name] = source.record
    # The same text in two files is one passage, and lists of publications say nothing about the program.
    told = {each.text: each for each in reversed(passages) if not _REFERENCES.match(_plain(each.heading))}
    found = search(tuple(reversed(told.values())), _terms(text))
    output = {"passages": [_shown(each) for each in found], "searched": len(records)}
    examined = tuple(records[name] for name in dict.fromkeys(each.passage.path for each in found))
    return ToolResult(_summary(found), output, examined=examined)


def _terms(text: str) -> tuple[str, ...]:
    return terms_of(text[:_MOST_CHARACTERS], _stops())


@cache
def _stops() -> frozenset[str]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return frozenset(tomllib.loads(text)["stops"])


def _shown(found: FoundPassage) -> JsonObject:
    """Return a passage with the line in it that has most of the words, as plain text."""
    passage = found.passage
    lines = [(number, _plain(line)) for number, line in enumerate(_without_code(passage.text), passage.line)]
    number, text = max(lines, key=lambda each: sum(is_in(term, each[1]) for term in found.terms))
    return {
        "path": passage.path,
        "line": number,
        "first_line": passage.line,
        "last_line": passage.end_line,
        "heading": _plain(passage.heading),
        "text": _cut(text),
        "terms": list(found.terms),
        "share": found.share,
    }


def _without_code(text: str) -> list[str]:
    """Return the lines of a passage; those of code blocks are empty."""
    return _FENCED.sub(lambda found: "\n" * found[0].count("\n"), text).split("\n")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN].rpartition(' ')[0]} ..."


def _plain(text: str) -> str:
    return " ".join(_MARKUP.sub(lambda found: found[1] or " ", text).split())


def _summary(found: tuple[FoundPassage, ...]) -> str:
    if not found:
        return "no section of a document shares enough words with the question"
    first = found[0].passage
    count = "1 section shares" if len(found) == 1 else f"{len(found)} sections share"
    return f"{count} words with the question, first {first.path}:{first.line} {_plain(first.heading)!r}"
