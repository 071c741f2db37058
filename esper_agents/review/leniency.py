"""What a file is there for, and how far tests, benchmarks and generated code are let off.

Tests and benchmarks are read like all code, with two differences: memory and performance rules do not run there,
because a test that waits for the device or keeps a graph for one step costs nobody anything; and every other claim
counts one severity less. Examples are judged in full: people copy them. What a program wrote is judged by all rules,
but as suggestions: the place to mend is the program that wrote it. What a language model wrote is code like any other.
"""

from __future__ import annotations

import re

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.patterns import pattern
from esper_agents.review.tables import Purpose

_FOLDERS = {
    "test": Purpose.TEST,
    "tests": Purpose.TEST,
    "testing": Purpose.TEST,
    "benchmark": Purpose.BENCHMARK,
    "benchmarks": Purpose.BENCHMARK,
    "example": Purpose.EXAMPLE,
    "examples": Purpose.EXAMPLE,
}
# Generators sign in the first lines of a file, in a comment or in the module's docstring.
_HEAD_CHARACTERS = 1500
_HEAD = pattern(
    r"\ufeff?(?:[ \t\f]*(?:\#[^\n]*)?\n|[ \t]*[rRuU]?(?:\"\"\".*?\"\"\"|'''.*?''')[ \t]*(?:\n|\Z)|[ \t]*\#[^\n]*\Z)*",
    re.DOTALL,
)
_SIGNATURE = pattern(
    r"@generated\b"
    r"|\bgenerated\b.{0,200}?\b(?:do\snot|don't)\s(?:edit|modify|change)"
    r"|\bthis\s(?:file|module|code)\s(?:is|was|has\sbeen)\s(?:auto-?\s?|automatically\s)?generated\s(?:by|from|with|using)\b",
    re.IGNORECASE,
)
_SIGNED = pattern(
    r"^\W*(?:(?:auto|automatically|code|file)[ -]?)*generated (?:by|from|with) (?:the )?\W?(?P<by>[\w.]+)",
    re.IGNORECASE | re.MULTILINE,
)
# Models, and tools that only carry a person's code from one format to another.
_NO_GENERATOR = pattern(
    r"(?:an?|ai|ana?conda|bard|chatgpt|claude|codex|copilot|cursor|deepseek|gemini|github|gpt[\w.-]*|grok|jupytext|llama"
    r"|llm|me|mistral|nbconvert|openai|qwen|us|you)\b",
    re.IGNORECASE,
)


def purpose_of(path: str, text: str = "") -> Purpose:
    """Return what a file is there for: by its first lines, its name and the folders it stands in, in this order.

    Of the folders the nearest decides.
    """
    if "generated" in text[:_HEAD_CHARACTERS].lower() and _signed_by_program(text[:_HEAD_CHARACTERS]):
        return Purpose.GENERATED
    *folders, name = path.split("/")
    stem = name.rpartition(".")[0]
    if stem.startswith("test_") or stem.endswith("_test") or stem == "conftest":
        return Purpose.TEST
    if stem.startswith(("bench_", "benchmark")) or stem.endswith("_benchmark"):
        return Purpose.BENCHMARK
    return next((_FOLDERS[folder] for folder in reversed(folders) if folder in _FOLDERS), Purpose.CODE)


def is_generated(purpose: Purpose) -> bool:
    """Return whether files of a purpose were written by a program."""
    return purpose is Purpose.GENERATED


def _signed_by_program(head: str) -> bool:
    found = _HEAD.match(head)
    top = found[0] if found else ""
    if _SIGNATURE.search(" ".join(top.replace("#", " ").split())):
        return True
    return any(not _NO_GENERATOR.match(each["by"]) for each in _SIGNED.finditer(top))


def applies(category: Category, purpose: Purpose) -> bool:
    """Return whether rules of a category run in files of a purpose."""
    match purpose:
        case Purpose.CODE | Purpose.EXAMPLE | Purpose.GENERATED:
            return True
        case Purpose.TEST | Purpose.BENCHMARK:
            return category not in {Category.MEMORY, Category.PERFORMANCE}


def severity_in(purpose: Purpose, severity: Severity) -> Severity:
    """Return how much a claim matters in files of a purpose."""
    match purpose:
        case Purpose.CODE | Purpose.EXAMPLE:
            return severity
        case Purpose.TEST | Purpose.BENCHMARK:
            return Severity.WARNING if severity is Severity.CRITICAL else Severity.SUGGESTION
        case Purpose.GENERATED:
            return Severity.SUGGESTION
