"""Entries about an API or option, read from the files in `entries/`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from esper_agents.errors import DefinitionError

_FOLDER = Path(__file__).with_name("entries")


class UsageVerdict(StrEnum):
    """What a case says about the API at one place."""

    NEEDED = "needed"
    RIGHT = "right"
    NOT_NEEDED = "not needed"
    NO_EFFECT = "no effect"
    WRONG = "wrong"
    STATED = "stated"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class SitePattern:
    """Places that an entry is about.

    Attributes:
        calls: Calls, by last name (`backward`) or qualified name (`torch.nn.LSTM`).
        assigned: Assigned paths, such as `torch.backends.cudnn.benchmark`.
        attributes: Attributes that are read or assigned, such as `data`.
        option: Option of the calls that the question is about; calls that give it come first.
        position: Position of the option among the arguments; -1 if it is only a keyword.
        default: Value of the option if it is omitted, as source text; empty if it has none.
        is_given: Whether all calls that give the option are meant, and no others.
    """

    calls: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    option: str = ""
    position: int = -1
    default: str = ""
    is_given: bool = False


@dataclass(frozen=True, slots=True)
class UsageCase:
    """One answer, with the conditions under which it holds.

    Attributes:
        verdict: What it says.
        when: Conditions that must all hold, such as `option_is True`; `not` before one means that it surely does not.
        answer: The answer with its reason, in one sentence without a full stop; `{name}` is a value of a condition.
        effect: What happens otherwise, in one sentence; empty if nothing is to be said.
        fix: What to write; empty if nothing is to be changed, or if the API can be removed.
    """

    verdict: UsageVerdict
    when: tuple[str, ...]
    answer: str
    effect: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class UsageExample:
    """An example of an entry, which is its test.

    Attributes:
        question: A question in the words of a user.
        code: Source of one file.
        verdict: Verdict at the first place.
        says: Text that the answer contains.
    """

    question: str
    code: str
    verdict: UsageVerdict
    says: str = ""


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What is known about one API or option.

    Attributes:
        name: Name of the entry, as its file.
        mentions: Phrases by which people name it, in the form of `prompts/request_words.toml`.
        does: What it does, in one sentence.
        source: Page of the documentation that says so.
        version: Version of the library that the page is about.
        sites: Places that it is about.
        cases: Answers, the first whose conditions hold counts.
        unknown: What the code does not say if no case holds, as the rest of "the code does not say ...".
        tell: How to find it out.
        examples: Its tests.
    """

    name: str
    mentions: tuple[str, ...]
    does: str
    source: str
    version: str
    sites: SitePattern
    cases: tuple[UsageCase, ...]
    unknown: str
    tell: str
    examples: tuple[UsageExample, ...] = field(default=(), repr=False)


@cache
def usage_entries() -> dict[str, UsageEntry]:
    """Return all entries by name.

    Raises:
        DefinitionError: A file is not valid.
    """
    return {file.stem: _load(file) for file in sorted(_FOLDER.glob("*.toml"))}


def _load(file: Path) -> UsageEntry:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        sites = SitePattern(**_tuples(data.pop("sites")))
        cases = tuple(UsageCase(UsageVerdict(each.pop("verdict")), **_tuples(each)) for each in data.pop("cases"))
        examples = tuple(
            UsageExample(verdict=UsageVerdict(each.pop("verdict")), **each) for each in data.pop("examples", ())
        )
        return UsageEntry(file.stem, sites=sites, cases=cases, examples=examples, **_tuples(data))
    except (KeyError, TypeError, ValueError) as error:
        raise DefinitionError(str(file), f"invalid usage entry: {error}", remedy="compare with another file") from error


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
