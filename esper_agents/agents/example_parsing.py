"""Parse examples and neighbours out of a definition's text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.domain.agent import Example

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MOST_EXAMPLES = 40
_MOST_NEIGHBOURS = 40
_MOST_CHARACTERS = 400
_LONGEST_BLOCK = 4_000

_OPEN, _CLOSE = "<example>", "</example>"
_SPOKEN = re.compile(
    r"\b(?:user|human)\s*:\s*(?P<text>.*?)\s*(?=\b(?:assistant|action)\s*:|<commentary|\Z)", re.IGNORECASE | re.DOTALL
)
_SPOKEN_LINE = re.compile(r"\s*(?:[-*]\s*)?(?:user|human)\s*:\s*(?P<text>.+)$", re.IGNORECASE)
_REFUSAL = re.compile(r"\b(?:not|n['\u2019]t)\s+(?:activate|use|trigger|invoke|delegate)\b", re.IGNORECASE)
_INSTEAD = re.compile(r"(?:\b(?:use|to)|→|->)\s+(?:the\s+)?[`@*]*(?P<name>/?[a-z][a-z0-9_-]+)", re.IGNORECASE)
_QUOTES = {'"': '"', "'": "'", "“": "”", "`": "`"}

_NAME = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+"
_ARROW = re.compile(r"^\s*[-*+|].{0,200}?(?:→|->|=>)\s*(?P<names>.{2,200})$")
_NAMES_ONLY = re.compile(rf"[`@*]*{_NAME}[`*]*(?:\s*(?:,|/|\bor\b|\band\b)\s*[`@*]*{_NAME}[`*]*)*\s*[.|]?\s*$")
_WITH = re.compile(rf"^(?:#+\s+|\*\*)?With\s+[`@*]*(?P<name>{_NAME})[`*:]*\s*$")
_ROLE = (
    r"(?:specialist|expert|engineer|architect|manager|reviewer|writer|debugger|diagnostician|analyst|developer|agent"
    r"|tester|auditor)"
)
_SENT_TO = re.compile(
    rf"\b(?:hand(?:s|ing|ed)?[ -]?off to|delegates? to|escalates? to|defers? to)\s+(?:the\s+)?[`@*]*"
    rf"(?P<name>(?:[a-z][a-z0-9]*-)+{_ROLE})\b",
    re.IGNORECASE,
)


def read_examples(description: str, body: str) -> tuple[Example, ...]:
    """Return the example requests that the text quotes for this agent or for another."""
    found: dict[str, Example] = {}
    for example in _quoted(description, body):
        found.setdefault(example.text, example)
        if len(found) == _MOST_EXAMPLES:
            break
    return tuple(found.values())


def _quoted(description: str, body: str) -> Iterator[Example]:
    for text in (description, body):
        for block in _blocks(text):
            yield from _from_block(block)
    if _OPEN not in description:
        for line in description.split("\n"):
            if spoken := _SPOKEN_LINE.match(line):
                yield from _example(spoken["text"], is_for=True)


def _blocks(text: str) -> Iterator[str]:
    start = text.find(_OPEN)
    while start >= 0:
        end = text.find(_CLOSE, start)
        if end < 0:
            return
        yield text[start + len(_OPEN) : min(end, start + _LONGEST_BLOCK)]
        start = text.find(_OPEN, end)


def _from_block(block: str) -> Iterator[Example]:
    spoken = _SPOKEN.search(block)
    if spoken is None:
        return
    answer = block[spoken.end() :]
    refusal = _REFUSAL.search(answer)
    if refusal is None:
        yield from _example(spoken["text"], is_for=True)
        return
    instead = _INSTEAD.search(answer, refusal.end())
    yield from _example(spoken["text"], is_for=False, instead=instead["name"] if instead else "")


def _example(spoken: str, *, is_for: bool, instead: str = "") -> Iterator[Example]:
    text = spoken.strip()
    end = _QUOTES.get(text[:1])
    if end and (last := text.rfind(end)) > 0:
        text = text[1:last]
    text = " ".join(text.split())[:_MOST_CHARACTERS]
    if text:
        yield Example(text, is_for, instead)


def read_neighbours(own_name: str, body: str, examples: Iterable[Example]) -> tuple[str, ...]:
    """Return the agents that the text names as handoff targets, in order of appearance."""
    named = [example.instead for example in examples if re.fullmatch(_NAME, example.instead)]
    for line in body.split("\n"):
        named.extend(_named_in(line))
    return tuple(dict.fromkeys(name for name in named if name != own_name))[:_MOST_NEIGHBOURS]


def read_passed_on(body: str) -> tuple[str, ...]:
    """Return the subjects, with their owners, that lines such as `**Security** → security-architect` delegate."""
    found = []
    for line in body.split("\n"):
        arrow = _ARROW.match(line)
        if arrow and _NAMES_ONLY.match(arrow["names"]):
            subject = line[: arrow.start("names")].strip(" -*+|→=>:")
            found.append(f"{subject} ({', '.join(re.findall(_NAME, arrow['names']))})")
    return tuple(found[:_MOST_NEIGHBOURS])


def _named_in(line: str) -> Iterator[str]:
    arrow = _ARROW.match(line)
    if arrow and _NAMES_ONLY.match(arrow["names"]):
        yield from re.findall(_NAME, arrow["names"])
    if alongside := _WITH.match(line):
        yield alongside["name"]
    for sent in _SENT_TO.finditer(line):
        yield sent["name"].lower()
