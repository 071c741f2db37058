"""Requests to run tests, and the words that say which."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

_WHICH = r"(?:(?:the|all|my|our|its|these|those|of)\s+)*(?P<kind>(?:[\w./-]+\s+){0,2}?)"
_TESTS = r"(?:test\s?suite|tests?(?:\s+suite|\s+files?)?|pytest|(?P<file>[\w./-]*\btest_\w+\.py))"
_SUBJECT = r"(?:\s+(?:of|for|in|on|from|under|against)\s+(?P<subject>[\w./-]+(?:\s+[\w./-]+){0,4}?))?"
_POLITE = r"\W*(?:(?:please|now|just|(?:can|could|would)\s+you)\s+)*"
_RUN = re.compile(
    rf"{_POLITE}(?:re-?)?(?:run|execute)\s+{_WHICH}{_TESTS}{_SUBJECT}(?:\s+(?:again|now|please))*"
    r"(?:\s*,)?(?:\s*(?:and|then|to)\s+(?:please\s+)?(?:tell|say|report|show|see|check|let|give)\b[^.;\n]*)?\W*",
    re.IGNORECASE,
)
_PASS = re.compile(
    rf"{_POLITE}(?:(?:tell\s+me|check|see|say|find\s+out)\s+(?:whether|if)|do)\s+{_WHICH}{_TESTS}{_SUBJECT}"
    r"\s+(?:(?:still|now|all)\s+)*(?:pass|fail|succeed)\W*",
    re.IGNORECASE,
)
# Requests about when, where or how tests should run.
_SETUP = re.compile(
    r"\b(?:every|each|nightly|night|ci|push|commit|merge|only|when|parallel|schedule\w*|faster|gpus?|without)\b",
    re.IGNORECASE,
)
_NO_SUBJECT = frozenset(
    (
        "a",
        "all",
        "and",
        "code",
        "existing",
        "full",
        "it",
        "project",
        "py",
        "test",
        "tests",
        "the",
        "this",
        "unit",
        "whole",
    )
)
_WORDS = re.compile(r"[a-z0-9]+")
_PLURAL = re.compile(r"(?<=ss)es$|(?<!s)s$")


def asks_to_run_tests(request: str) -> bool:
    """Return whether a request asks to run existing tests, and for nothing else.

    Example:
        "run the tests of the losses and tell me whether they pass"; but neither "run the tests on every push" nor
        "review the losses and run the tests".
    """
    return _match(request) is not None


def named_test_files(request: str, files: list[str]) -> list[str]:
    """Return the test files that a request to run tests names; empty if it names none.

    Args:
        request: The request, such as "run the tests of the losses".
        files: Test files of the project, such as `tests/test_losses.py`.
    """
    found = _match(request)
    if found is None:
        return []
    words = " ".join(filter(None, (found["kind"], found["file"], found["subject"]))).split()
    named = {word for each in words for word in _stems(PurePosixPath(each).stem)}
    return [file for file in files if named & _stems(PurePosixPath(file).stem)]


def _match(request: str) -> re.Match[str] | None:
    if _SETUP.search(request):
        return None
    return _RUN.fullmatch(request) or _PASS.fullmatch(request)


def _stems(name: str) -> set[str]:
    return {_PLURAL.sub("", word) for word in set(_WORDS.findall(name.lower())) - _NO_SUBJECT}
