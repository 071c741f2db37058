"""Parse a request without a model: wish, topics, material, observations, constraints and names."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.agents.routing.passages import Kind, Passage, passages
from esper_agents.certificates.policy.question_type import kind_of
from esper_agents.domain.request import Material, ParsedRequest, Quantity, ReportedError, RequestTopic, Wish
from esper_agents.domain.status import QuestionType
from esper_agents.requests.project_names import ProjectNames, find_project_names, without_paths
from esper_agents.requests.quantities import constraints, observations
from esper_agents.requests.question_names import question_names
from esper_agents.requests.related_definitions import related_definitions
from esper_agents.requests.statements import statements
from esper_agents.requests.usage_questions import usage_references
from esper_agents.requests.vocabulary import PhraseTable, request_words, tokens
from esper_agents.traces.parsing import parse_traces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from esper_agents.domain.stack_trace import StackTrace

# The subject and the question of a long request are at its ends.
HEAD, TAIL = 12_000, 8_000
MOST_TOPICS = 4
# Reason for the wish of a request whose words tell none.
NO_WISH = "nothing else is asked for"
# Encoded data, blank space and the like; searches take time proportional to the square of a word's length.
_LONGEST_WORD = 300
_LONG_WORD = re.compile(rf"[!-~]{{{_LONGEST_WORD},}}|\S{{2000,}}|[^\S\n]{{{_LONGEST_WORD},}}|\n{{{_LONGEST_WORD},}}")
_MOST_ERRORS = 4
_LONGEST_MESSAGE = 300
_URL = re.compile(r"\b(?:https?|wandb|s3|gs)://\S+|\bwww\.\S+")
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_LOG = re.compile(
    r"^[^\S\n]*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:\[?(?:INFO|WARNING|DEBUG|ERROR)\b)"
    r"|(?:epoch|step|iter(?:ation)?)\s*[:=\[]?\s*\d+.*\b(?:loss|acc|lr|mem)\w*\s*[:=])",
    re.IGNORECASE | re.MULTILINE,
)
_LOG_LINES = 2
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", re.compile(r"[\u3400-\u9fff]")),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
)
_SHARE_OF_SCRIPT = 0.2
# Wishes that no fact about an API answers.
_NO_QUESTIONS = frozenset({Wish.WRITE})
_WISH_OF_KIND = {
    QuestionType.GO: Wish.JUDGE,
    QuestionType.APPROVAL: Wish.JUDGE,
    QuestionType.RECOMMENDATION: Wish.COMPARE,
}


def parse_request(request: str, root: Path | None = None) -> ParsedRequest:
    """Return the content of a request; of a long one, the first 12,000 and the last 8,000 characters are read.

    Total: every text has a result, and missing parts are empty.

    Args:
        request: Text of the request.
        root: The project's folder, in which named files and definitions are looked up; no lookup if omitted.
    """
    text = unicodedata.normalize("NFC", _bounded(request)).replace("’", "'")  # noqa: RUF001 - as people type it
    text = _LONG_WORD.sub(lambda match: match.group()[:_LONGEST_WORD], text)
    parts = passages(text)
    prose = _URL.sub(_blank, "\n".join(part.text for part in parts if part.kind is Kind.PROSE))
    traces = parse_traces(text)
    errors = _errors(traces)
    has_trace = any(trace.frames for trace in traces)
    words = without_paths(prose)
    spoken = "\n".join((words, *(str(error) for error in errors)))
    materials = tuple(_materials(text, parts, has_trace=has_trace, has_error=bool(errors)))
    seen = observations(_without_errors(words, errors))
    topics = _topics(_without(spoken, [each.text for each in seen if each.quantity is Quantity.LEARNING_RATE]))
    topics = topics or _topics(spoken)
    # A version says what is used, and reports no problem.
    reported = [each for each in seen if each.quantity is not Quantity.VERSION]
    is_trouble = bool(errors or reported) or any(
        request_words()["topics"][each.name].get("is_trouble") for each in topics
    )
    wish, because = _wish(text, words, is_trouble=is_trouble, has_topic=bool(topics))
    names = find_project_names(root, prose, text) if root else ProjectNames()
    if wish is Wish.EXPLAIN and names.symbols:
        # A word such as `replay buffer` names a definition here, and no topic.
        topics = _topics("\n".join((_without(words, names.mentions), *(str(error) for error in errors))))
    if names.is_choice and (because == NO_WISH or wish is Wish.PLAN):
        wish, because = Wish.COMPARE, "it names two definitions to choose from"
    if wish is Wish.COMPARE and _is_slower(because) and not names.is_choice and len(names.symbols + names.files) < 2:  # noqa: PLR2004
        wish, because = Wish.FIND_CAUSE, "it reports that something is slower"
    is_asked = not (errors or has_trace) and wish not in _NO_QUESTIONS
    usages = usage_references(prose, names.files[0].line if names.files else 0) if is_asked else ()
    has_question = root is not None and is_asked and Material.CODE not in materials and Material.LOG not in materials
    return ParsedRequest(
        wish=wish,
        wish_because=because,
        language=_language(words),
        topics=topics,
        observations=seen,
        constraints=constraints(words),
        materials=materials,
        errors=errors,
        files=names.files,
        symbols=names.symbols,
        ambiguous=names.ambiguous,
        related=related_definitions(root, names.symbols) if root else (),
        unread=max(0, len(request) - HEAD - TAIL),
        usages=usages,
        statements=statements(words),
        grounded=question_names(root, words, is_trouble=wish is Wish.FIND_CAUSE)
        if root is not None and has_question
        else (),
    )


def prose_of(request: str) -> str:
    """Return what a person says in a request, without pasted traces, code and logs; empty if that is all there is."""
    return "\n".join(part.text for part in passages(_bounded(request)) if part.kind is Kind.PROSE)


def search_asked(request: str, parsed: ParsedRequest) -> str:
    """Return the words that ask for a search over training runs, such as `best learning rate`; empty without any.

    Words of a request to judge, explain or diagnose code are about the code of such a search.

    Args:
        request: Text of the request.
        parsed: Its content.
    """
    is_about_code = parsed.wish in {Wish.EXPLAIN, Wish.FIND_CAUSE} or parsed.errors or parsed.symbols
    is_judged = parsed.wish is Wish.JUDGE and parsed.wish_because != NO_WISH
    if is_about_code or is_judged:
        return ""
    spoken = _INLINE_CODE.sub(_blank, without_paths(prose_of(request)))
    match = next(iter(_search_words().matches(spoken)), None)
    return " ".join(spoken[match.begin : match.end].split()) if match is not None else ""


def topics_of(request: str) -> tuple[RequestTopic, ...]:
    """Return the topics of a request, without its project."""
    return parse_request(request).topics


def _bounded(request: str) -> str:
    return request if len(request) <= HEAD + TAIL else f"{request[:HEAD]}\n{request[-TAIL:]}"


def _without(words: str, mentions: Sequence[str]) -> str:
    """Return words without the names of definitions."""
    for mention in mentions:
        words = re.sub(rf"\b{re.escape(mention)}\b", " ", words)
    return words


def _without_errors(words: str, errors: Sequence[ReportedError]) -> str:
    """Return the words without the lines of error messages: their numbers are not observations."""
    return "\n".join(line for line in words.split("\n") if not any(error.type in line for error in errors))


def _blank(match: re.Match[str]) -> str:
    return " " * len(match.group())


def _errors(traces: Sequence[StackTrace]) -> tuple[ReportedError, ...]:
    """Return the exceptions of traces with their causes, without repetitions."""
    chained = [error for trace in traces for error in trace.chain if error.exception]
    found = {(error.exception, _first_line(error.message)): None for error in chained}
    return tuple(ReportedError(exception, message) for exception, message in found)[:_MOST_ERRORS]


def _first_line(message: str) -> str:
    return " ".join(message.strip().partition("\n")[0].split())[:_LONGEST_MESSAGE]


def _materials(text: str, parts: Sequence[Passage], *, has_trace: bool, has_error: bool) -> Iterator[Material]:
    if any(part.kind is Kind.CODE for part in parts):
        yield Material.CODE
    if has_trace:
        yield Material.TRACE
    if has_error:
        yield Material.ERROR
    if len(_LOG.findall(text)) >= _LOG_LINES:
        yield Material.LOG


@cache
def _wishes() -> PhraseTable:
    return PhraseTable(request_words()["wishes"])


@cache
def _either() -> re.Pattern[str]:
    """Return the pattern of two files to choose from, as in `old.py or new.py?`."""
    words = "|".join(map(re.escape, request_words()["connectors"]["or"]))
    return re.compile(rf"\S+\.py\S*,?\s+(?:{words})\s+\S+\.py", re.IGNORECASE)


@cache
def _search_words() -> PhraseTable:
    return PhraseTable(request_words()["unserved"])


@cache
def _topic_words() -> PhraseTable:
    return PhraseTable({name: topic["words"] for name, topic in request_words()["topics"].items()})


@cache
def _other_meanings() -> PhraseTable:
    return PhraseTable(request_words()["other_meanings"])


@cache
def _time_words() -> PhraseTable:
    topics = request_words()["topics"]
    return PhraseTable({name: topic["words_beside"] for name, topic in topics.items() if "words_beside" in topic})


def _wish(request: str, words: str, *, is_trouble: bool, has_topic: bool) -> tuple[Wish, str]:
    """Return what is wanted, and why: words of the request, else the kind of question, else what it contains."""
    spoken = _INLINE_CODE.sub(_blank, words)
    found = sorted(_wishes().matches(spoken), key=lambda match: match.is_weak)
    if found and not found[0].is_weak:
        return Wish(found[0].group), spoken[found[0].begin : found[0].end]
    if either := _either().search(request):
        return Wish.COMPARE, " ".join(either.group().split())
    kind = kind_of(request)
    if kind.kind in _WISH_OF_KIND and not (found and kind.kind is QuestionType.APPROVAL):
        return _WISH_OF_KIND[kind.kind], kind.because
    is_reported = is_trouble and has_topic
    if found and not (is_reported and Wish(found[0].group) is Wish.JUDGE):
        return Wish(found[0].group), spoken[found[0].begin : found[0].end]
    if is_reported:
        return Wish.FIND_CAUSE, "it reports a problem"
    return (Wish.FIND_CAUSE, "it contains an error") if is_trouble else (Wish.JUDGE, NO_WISH)


def _is_slower(words: str) -> bool:
    return words.casefold() in request_words()["connectors"]["slower"]


def _topics(spoken: str) -> tuple[RequestTopic, ...]:
    """Return the topics with the most words first, at most four."""
    words: dict[str, dict[str, None]] = {}
    others = _other_meanings().matches(spoken)
    for match in _topic_words().matches(spoken):
        if any(each.group == match.group and each.begin <= match.begin < each.end for each in others):
            continue
        words.setdefault(match.group, {}).setdefault(" ".join(spoken[match.begin : match.end].split()))
    tables: Mapping[str, Mapping[str, Any]] = request_words()["topics"]
    for match in _time_words().matches(spoken):
        # "After 3,000 steps" is about memory that grows only in a request about memory.
        if tables[match.group]["part_of"] in words:
            words.setdefault(match.group, {}).setdefault(" ".join(spoken[match.begin : match.end].split()))
    for name, whole in ((name, table["part_of"]) for name, table in tables.items() if "part_of" in table):
        if name in words:
            words[name].update(words.pop(whole, {}))
    if any(tables[name].get("is_trouble") for name in words):
        words = {name: found for name, found in words.items() if not tables[name].get("is_setting")}
    ordered = sorted(words, key=lambda name: -len(words[name]))[:MOST_TOPICS]
    return tuple(
        RequestTopic(name, tuple(words[name]), tuple(tables[name]["rules"]), tuple(tables[name]["searches"]))
        for name in ordered
    )


def _language(words: str) -> str:
    letters = sum(character.isalpha() for character in words)
    for language, script in _SCRIPTS:
        if letters and len(script.findall(words)) > _SHARE_OF_SCRIPT * letters:
            return language
    spoken = [token.word for token in tokens(words)]
    counts = {name: sum(word in known for word in spoken) for name, known in _stop_words().items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] else ""


@cache
def _stop_words() -> Mapping[str, frozenset[str]]:
    return {
        name: frozenset(token.word for word in words for token in tokens(word))
        for name, words in request_words()["languages"].items()
    }
