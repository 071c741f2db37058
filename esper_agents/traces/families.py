"""Knowledge about errors: one TOML file for each error family in `families/`."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.stack_trace import StackTrace
from esper_agents.errors import DefinitionError
from esper_agents.traces.log_prefixes import clean_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_FOLDER = Path(__file__).with_name("families")
# Most requests contain no text that a pattern requires, and then no file of a family is read.
PATTERNS_FILE = _FOLDER.with_name("error_patterns.json")
_LONGEST = 20_000
# Bounds of the search for a message in a text without traces.
_LONGEST_TEXT = 100_000
_MOST_LINES = 8
# Errors that only repeat the error of another process or of a compiled region.
_WRAPPERS = frozenset({"ChildFailedError", "BackendCompilerFailed", "InductorError", "LoweringException"})
# Errors that say only that another process ended; what it printed is elsewhere in the text.
ENDED_PROCESS = frozenset({"ProcessExitedException", "ChildFailedError", "CalledProcessError"})
# Parts of a pattern: a character that stands for itself, a set, an optional repetition, or anything else.
_TOKEN = re.compile(
    r"(?P<letter>\\[^A-Za-z0-9]|[^\\.^$*+?{}\[\]|()])|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<optional>[*?]|\{[^}]*\})|\\?.",
    re.DOTALL,
)
_FLAGS = re.compile(r"\(\?[aiLmsux-]+[:)]")
_GROUPS = frozenset({"ExceptionGroup", "BaseExceptionGroup"})


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """One cause of an error family.

    Attributes:
        name: Name of the cause.
        answer: Cause as one or two sentences; `{name}` is replaced by a part of the message or a fact.
        fix: Change that removes the cause.
        tell: How to find out whether this is the cause, if neither message nor code decide.
        message: Pattern that the message must match; its groups are available to the texts.
        context: Pattern that another line of the text must match.
        facts: Names of facts that must hold, of the `*_facts.py` files.
        is_candidate: Whether the conditions show a likely place only, so that the cause has to be confirmed.
    """

    name: str
    answer: str
    fix: str
    tell: str = ""
    message: str = ""
    context: str = ""
    facts: tuple[str, ...] = ()
    is_candidate: bool = False

    @property
    def is_default(self) -> bool:
        """Whether nothing but the family decides for it."""
        return not (self.message or self.context or self.facts)


@dataclass(frozen=True, slots=True)
class ErrorFamily:
    """What is known about one kind of error.

    Attributes:
        name: Name of the family, as its file.
        title: The error in a few words.
        patterns: Patterns of `Type: message`; the longest match decides between families.
        why: Reason for the error, in one or two sentences.
        causes: Causes; those that message or code decide come first.
        sources: Pages that say so.
        example: Script that raises the error; empty if a CPU cannot raise it.
        line: Source text of the line of the example that an explanation must name.
        quote: A message as it was printed elsewhere, if there is no example; not reproduced.
        quote_source: Page of the quoted message.
        input_shape: Group of the patterns that is the shape of the failing module's input; empty if there is none.
    """

    name: str
    title: str
    patterns: tuple[str, ...]
    why: str
    causes: tuple[ErrorCause, ...]
    sources: tuple[str, ...]
    example: str = ""
    line: str = ""
    quote: str = ""
    quote_source: str = ""
    input_shape: str = ""

    @property
    def is_reproduced(self) -> bool:
        """Whether a test raises the error."""
        return bool(self.example)


@dataclass(frozen=True, slots=True)
class Classification:
    """An error family that a message belongs to.

    Attributes:
        family: The family.
        trace: The exception that it explains: the trace itself or one of its causes.
        groups: Parts of the message, by name.
        length: Length of the match.
    """

    family: ErrorFamily
    trace: StackTrace
    groups: Mapping[str, str] = field(default_factory=dict)
    length: int = 0


@cache
def error_families() -> tuple[ErrorFamily, ...]:
    """Return all error families, by name.

    Raises:
        DefinitionError: A file is not valid.
    """
    return tuple(_family(file.stem) for file in sorted(_FOLDER.glob("*.toml")))


@cache
def _family(name: str) -> ErrorFamily:
    return _load(_FOLDER / f"{name}.toml")


def classify_trace(trace: StackTrace) -> Classification | None:
    """Return the family of an exception or of one of its causes; None if no family matches.

    Of a chain, the latest exception with a family counts, unless it only repeats the error of another process.
    """
    found = [match for each in trace.chain if (match := classify_message(each)) is not None]
    if not found:
        return None
    inner = [match for match in found if not _is_wrapper(match.trace)]
    # A worker's error and the one that its parent raised again have one message.
    return (inner or found)[0]


def classify_message(trace: StackTrace) -> Classification | None:
    """Return the family that the type and message of one exception belong to; None if no family matches."""
    text = f"{trace.exception}: {trace.message}"[:_LONGEST]
    if not trace.exception and not trace.message and trace.frames:
        # The exception was cut off; the statement that raised it often contains its message.
        text = trace.frames[-1].text
    best: tuple[str, re.Match[str]] | None = None
    for family, pattern in _possible(text):
        match = pattern.search(text)
        if match and (best is None or match.end() - match.start() > best[1].end() - best[1].start()):
            best = (family, match)
    if best is None:
        return None
    name, match = best
    groups = {group.rstrip("2"): value for group, value in match.groupdict().items() if value is not None}
    return Classification(_family(name), trace, groups, match.end() - match.start())


def primary_trace(traces: tuple[StackTrace, ...]) -> StackTrace:
    """Return the trace to explain: the first that failed and is not a repetition of another one."""
    own = [trace for trace in traces if not _is_wrapper(trace) and trace.exception]
    known = [trace for trace in own if trace.type_name != "UserWarning" and classify_trace(trace) is not None]
    return next(iter([*known, *[trace for trace in own if trace.type_name != "UserWarning"], *own, *traces]))


def find_message(text: str) -> tuple[StackTrace, ...]:
    """Return the first known error message of a text that names no exception type; empty if there is none."""
    lines = [line.text for line in clean_lines(text[:_LONGEST_TEXT])]
    for index in range(len(lines)):
        if classify_message(StackTrace("", lines[index])) is not None:
            return (StackTrace("", "\n".join(lines[index : index + _MOST_LINES])),)
    return ()


def raised_in_worker(trace: StackTrace) -> StackTrace:
    """Return the exception of the worker process that a trace only repeats; the trace itself if it does not."""
    while trace.cause is not None and _is_wrapper(trace):
        trace = trace.cause
    return trace


def _is_wrapper(trace: StackTrace) -> bool:
    return (
        trace.type_name in _WRAPPERS
        or trace.type_name in _GROUPS
        or (trace.type_name == "ProcessRaisedException" and trace.cause is not None)
        or (trace.message.startswith("Caught ") and trace.cause is not None)
    )


def _possible(text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns that can match a text, each with the name of its family: compiling all takes long."""
    for family, pattern, required in _patterns():
        if required in text:
            yield family, _compiled(pattern)


@cache
def _patterns() -> list[tuple[str, str, str]]:
    """Return family, pattern and required text of all patterns, as `checks/error_patterns.py` wrote them."""
    return [tuple(row) for row in json.loads(PATTERNS_FILE.read_bytes())]


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


def required_text(pattern: str) -> str:
    """Return the longest text outside of groups that each match of a pattern contains; empty if none is found."""
    if _FLAGS.search(pattern):
        return ""
    depth, run, found = 0, "", [""]
    for token in _TOKEN.finditer(pattern):
        depth += (token[0] == "(") - (token[0] == ")")
        if token["letter"] and depth == 0:
            run += token["letter"].removeprefix("\\")
            continue
        if token[0] == "|" and depth == 0:
            return ""
        found.append(run[:-1] if token["optional"] else run)
        run = ""
    return max([*found, run], key=len)


def _load(file: Path) -> ErrorFamily:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        causes = tuple(_causes(data.pop("causes")))
        patterns, sources = tuple(data.pop("patterns")), tuple(data.pop("sources"))
        return ErrorFamily(file.stem, patterns=patterns, causes=causes, sources=sources, **data)
    except (KeyError, TypeError) as error:
        raise DefinitionError(
            str(file), f"invalid error family: {error}", remedy="compare with another file"
        ) from error


def _causes(tables: list[dict[str, object]]) -> Iterator[ErrorCause]:
    for table in tables:
        facts, is_candidate = table.pop("facts", ()), bool(table.pop("is_candidate", False))
        texts = {name: str(text) for name, text in table.items()}
        names = tuple(str(fact) for fact in facts) if isinstance(facts, list) else ()
        yield ErrorCause(facts=names, is_candidate=is_candidate, **texts)
