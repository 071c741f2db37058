"""Inspect code: run the fact queries that a subject needs over files of a project."""

from __future__ import annotations

import inspect as introspection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Diagnostic, Severity
from esper_agents.domain.request import Wish
from esper_agents.errors import NotFoundError, UsageError
from esper_agents.review import facts as own_queries
from esper_agents.review.call_paths import lines_run_with
from esper_agents.review.catalogue import catalogue
from esper_agents.review.discover import discover
from esper_agents.review.fact_query import Assessment, Fact, FactQuery, InspectionSubject, assess
from esper_agents.review.index import ProjectIndex
from esper_agents.review.judging import ReviewedFile, judge
from esper_agents.review.parsing import tables_of
from esper_agents.review.parts import size_of
from esper_agents.review.project_context import MOST_CONTEXT_BYTES, project_sources
from esper_agents.review.source import Unreadable, from_bytes, read
from esper_agents.review.tables import Purpose
from esper_agents.review.usages.entries import usage_entries
from esper_agents.review.versions import TorchSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.review.notebook import NotebookSource
    from esper_agents.review.source import ReviewSource
    from esper_agents.review.tables import FileTables

_MOST_FACTS = 60
_LISTING = "esper inspect --list"
# The first that a query has decides.
_ORDER = tuple(Assessment)
_FAULTS = frozenset({Assessment.MUST_CHANGE, Assessment.SHOULD_CHECK})
# A statement of more lines contains several places.
_MOST_LINES = 5
_IF_COSTLY = "if a profile shows that it costs time"


class ClaimState(StrEnum):
    """What the facts say of a query's claim."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class QueryResult:
    """What one query found.

    Attributes:
        name: Name of the query.
        claim: Its claim; empty if it only describes.
        category: Part of the review checklist that it belongs to.
        state: What the facts say of the claim.
        facts: Facts, those that must change first, then by place; at most 60.
        left_out: Number of further facts.
        unseen: What code cannot tell about the question.
        problem: Why the query failed; empty if it did not.
    """

    name: str
    claim: str
    category: Category
    state: ClaimState
    facts: tuple[Fact, ...]
    left_out: int
    unseen: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Inspection:
    """Result of an inspection.

    Attributes:
        results: Results of the queries, by name.
        examined: Files in question that were read, and other files that facts are about.
        unreadable: Files in question that could not be read.
        lines: Lines of source text by path, for the files with facts.
        context_files: Number of other files of the project that were analysed with them.
        diagnostics: Diagnostics of the review rules that queries use, as the review reports them.
    """

    results: tuple[QueryResult, ...]
    examined: tuple[SourceFile, ...]
    unreadable: tuple[Unreadable, ...]
    lines: Mapping[str, Sequence[str]]
    context_files: int
    diagnostics: tuple[Diagnostic, ...] = ()


@cache
def fact_queries() -> tuple[FactQuery, ...]:
    """Return one instance of every fact query, by name."""
    modules = (
        import_module(f"{own_queries.__name__}.{iter_module.name}")
        for iter_module in iter_modules(own_queries.__path__)
    )
    found = {
        kind.name: kind()
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type)
        and issubclass(kind, FactQuery)
        and kind.__module__ == module.__name__
        and not introspection.isabstract(kind)
    }
    return tuple(found[name] for name in sorted(found))


def queries_for(subject: InspectionSubject, names: Iterable[str] = ()) -> tuple[FactQuery, ...]:
    """Return the queries with these names; without names, those that a subject needs.

    Raises:
        NotFoundError: No query, or no entry about an API, has one of the names.
        UsageError: No query belongs to the subject, or a line is no number.
    """
    for usage in subject.usages:
        name, _, line = usage.partition(":")
        if name not in usage_entries():
            raise NotFoundError("usage", name, usage_entries(), listing=_LISTING)
        if line and not line.isdigit():
            raise UsageError(f"invalid line {line!r} in {usage!r}", remedy=f"write it like {name}:40")
    known = {fact_query.name: fact_query for fact_query in fact_queries()}
    wanted = tuple(names)
    for name in wanted:
        if name not in known:
            raise NotFoundError("query", name, known, listing=_LISTING)
    chosen = tuple(known[name] for name in wanted) or tuple(each for each in known.values() if each.answers(subject))
    if not chosen:
        raise UsageError("no query belongs to these topics", remedy=f"choose from `{_LISTING}`")
    return chosen


def inspect(
    root: Path,
    paths: Sequence[Path],
    subject: InspectionSubject,
    *,
    names: Iterable[str] = (),
    most_bytes: int = MOST_CONTEXT_BYTES,
) -> Inspection:
    """Run fact queries over files and folders; the rest of their project is analysed as context. Runs none of the code.

    Args:
        root: The project's folder; paths in the result are relative to it.
        paths: Files and folders in it.
        subject: What is asked.
        names: Names of queries; empty runs those that the subject needs.
        most_bytes: Size of the project's sources above which the paths are analysed alone.

    Raises:
        InputFileError: A path does not exist, or contains no Python source.
        NotFoundError: No query has one of the names.
        UsageError: No query belongs to the subject.
    """
    chosen = queries_for(subject, names)
    unread: dict[str, Unreadable] = {}
    named = discover(root, paths, notebooks=True, unread=unread)
    own = {each.path for each in named}
    others = [project_source for project_source in project_sources(root, {}) if project_source.path not in own]
    if sum(map(size_of, (*named, *others))) > most_bytes:
        others = []
    sources = [read(each.file, each.path) for each in (*named, *others)]
    done = _inspected(sources, own, chosen, subject, TorchSettings(root))
    return replace(done, unreadable=(*unread.values(), *done.unreadable))


def inspect_sources(sources: Mapping[str, str], subject: InspectionSubject, *, names: Iterable[str] = ()) -> Inspection:
    """Run fact queries over source texts by path, as `inspect` does over files.

    Raises:
        NotFoundError: No query has one of the names.
        UsageError: No query belongs to the subject.
    """
    texts = [from_bytes(text.encode(), path) for path, text in sources.items()]
    return _inspected(texts, set(sources), queries_for(subject, names), subject, None)


def _inspected(
    sources: Sequence[ReviewSource | Unreadable],
    own: set[str],
    chosen: Sequence[FactQuery],
    subject: InspectionSubject,
    settings: TorchSettings | None,
) -> Inspection:
    unreadable: list[Unreadable] = []
    reviewed: list[ReviewedFile] = []
    examined: list[SourceFile] = []
    records: dict[str, SourceFile] = {}
    for source in sources:
        path = source.path if isinstance(source, Unreadable) else source.record.path
        tables = source if isinstance(source, Unreadable) else tables_of(source)
        if isinstance(tables, Diagnostic):
            tables = Unreadable(path, tables.message, tables.remedy, tables.location.line)
        if isinstance(source, Unreadable) or isinstance(tables, Unreadable):
            unreadable += [tables] if path in own and isinstance(tables, Unreadable) else []
            continue
        reviewed.append(ReviewedFile(tables, source.notebook))
        examined += [source.record] if path in own else []
        records[path] = source.record
    reviewed.sort(key=lambda each: each.tables.path)
    index = ProjectIndex([each.tables for each in reviewed], settings)
    asked = _of_program([each.tables for each in reviewed if each.tables.path in own])
    by_rule = _by_rule(reviewed, chosen, settings, {each.path for each in asked})
    notebooks = {each.tables.path: each.notebook for each in reviewed if each.notebook is not None}
    found = [
        _result(query, files=asked, index=index, subject=subject, by_rule=by_rule, notebooks=notebooks)
        for query in chosen
    ]
    results = _consistent(_of_names(found, chosen, index, subject))
    with_facts = {fact.path for result in results for fact in result.facts}
    lines = {each.path: each.lines for each in asked if each.path in with_facts}
    vars(index).clear()
    # Another file that a fact is about was read as well.
    beside = [records[path] for path in with_facts if path in records and path not in own]
    return Inspection(
        results=results,
        examined=tuple(sorted((*examined, *beside), key=lambda each: each.path)),
        unreadable=tuple(unreadable),
        lines=lines,
        context_files=len(reviewed) - len(examined) - len(beside),
        diagnostics=tuple(_stated(by_rule, found, results)),
    )


def _of_program(files: Sequence[FileTables]) -> list[FileTables]:
    """Return files without tests and generated code, unless there is nothing else."""
    program = [file for file in files if file.purpose in {Purpose.CODE, Purpose.EXAMPLE}]
    return program or list(files)


def _by_rule(
    files: Sequence[ReviewedFile], chosen: Sequence[FactQuery], settings: TorchSettings | None, paths: set[str]
) -> Mapping[str, Sequence[Diagnostic]]:
    """Return the diagnostics of the rules that queries need, by code."""
    wanted = {code for query in chosen for code in query.rules}
    if not wanted:
        return {}
    known = catalogue()
    rules = [each for each in known if each.code in wanted]
    judged = judge(files, rules, known={each.code for each in known}, settings=settings, on_file=lambda _: None)
    found: dict[str, list[Diagnostic]] = {}
    for claim in judged.claims:
        if claim.location.path in paths:
            found.setdefault(claim.rule, []).append(claim)
    return found


def _result(
    query: FactQuery,
    *,
    files: Sequence[FileTables],
    index: ProjectIndex,
    subject: InspectionSubject,
    by_rule: Mapping[str, Sequence[Diagnostic]],
    notebooks: Mapping[str, NotebookSource],
) -> QueryResult:
    problem = ""
    try:
        own = list(query.find(files, index, subject))
    except Exception as error:  # noqa: BLE001 - one query's mistake must not cost what the others found
        own, problem = [], f"failed with {type(error).__name__}: {error}"[:300]
    of_rules = [_of_rule(each, query) for code in query.rules for each in by_rule.get(code, ())]
    taken = {(rule.path, rule.line) for rule in of_rules}
    own = [_placed(replace(each, name=query.name), notebooks) for each in own]
    # A rule's diagnostic judges its line with a severity and a page of its own; a query may only describe it.
    kept = [each for each in own if each.assessment is Assessment.DESCRIPTION or (each.path, each.line) not in taken]
    found = sorted(
        dict.fromkeys((*of_rules, *kept)),
        key=lambda each: (_ORDER.index(each.assessment), *(() if query.is_ordered else (each.path, each.line))),
    )
    return QueryResult(
        name=query.name,
        claim=query.claim,
        category=query.category,
        state=_state(found, query),
        facts=tuple(found[:_MOST_FACTS]),
        left_out=max(0, len(found) - _MOST_FACTS),
        unseen=query.unseen,
        problem=problem,
    )


def _of_names(
    results: Sequence[QueryResult], chosen: Sequence[FactQuery], index: ProjectIndex, subject: InspectionSubject
) -> list[QueryResult]:
    """Return results with the facts about the code of named definitions.

    A cause may be in all code that runs with them; other questions are about what they run, if the query follows names
    and there are such facts.
    """
    if not subject.symbols:
        return list(results)
    if subject.wish is Wish.FIND_CAUSE:
        lines = lines_run_with(subject.symbols, index)
        return list(results) if lines is None else [_run_with(result, lines) for result in results]
    inside = lines_run_with(subject.symbols, index, has_callers=False) or {}
    following = {query.name for query in chosen if query.follows_names}
    kept = {result.name: _run_with(result, inside) for result in results if result.name in following}
    if not any(result.facts for result in kept.values()):
        return list(results)
    return [kept.get(result.name, result) for result in results]


def _stated(
    by_rule: Mapping[str, Sequence[Diagnostic]], found: Sequence[QueryResult], results: Sequence[QueryResult]
) -> Iterator[Diagnostic]:
    """Yield the diagnostics of rules without those whose facts belong to no named definition."""
    before, after = (
        {(fact.rule, fact.path, fact.line) for result in each for fact in result.facts} for each in (found, results)
    )
    for code in sorted(by_rule):
        for claim in by_rule[code]:
            mark = (claim.rule, claim.location.path, claim.location.line)
            if mark in after or mark not in before:
                yield claim


def _consistent(results: Sequence[QueryResult]) -> tuple[QueryResult, ...]:
    """Return results without what is called fine at a line that has a fault of the same category."""
    faults: dict[tuple[Category, str], set[int]] = {}
    for result in results:
        for fact in result.facts:
            if fact.assessment in _FAULTS:
                last = min(max(fact.end_line, fact.line), fact.line + _MOST_LINES)
                faults.setdefault((result.category, fact.path), set()).update(range(fact.line, last + 1))
    kept = (
        [
            fact
            for fact in result.facts
            if fact.assessment is not Assessment.FINE or fact.line not in faults.get((result.category, fact.path), ())
        ]
        for result in results
    )
    return tuple(replace(result, facts=tuple(facts)) for result, facts in zip(results, kept, strict=True))


def _run_with(result: QueryResult, lines: Mapping[str, set[int]]) -> QueryResult:
    """Return a result with the facts at lines, by file."""
    return replace(result, facts=tuple(fact for fact in result.facts if fact.line in lines.get(fact.path, ())))


def _placed(fact: Fact, notebooks: Mapping[str, NotebookSource]) -> Fact:
    """Return a fact with the line of the file as people see it."""
    notebook = notebooks.get(fact.path)
    return fact if notebook is None else replace(fact, line=notebook.line(fact.line), end_line=0)


def _of_rule(claim: Diagnostic, query: FactQuery) -> Fact:
    """Return a diagnostic as a fact; only a weighty one that rests on no inference must change."""
    assessment, text = assess(claim.message.rstrip("."), _assumption_of(claim, query))
    return Fact(
        assessment=Assessment.SHOULD_CHECK if claim.severity is Severity.SUGGESTION else assessment,
        path=claim.location.path,
        line=claim.location.line,
        text=text,
        remedy=claim.remedy,
        end_line=claim.location.end_line,
        rule=claim.rule,
        name=claim.name,
    )


def _assumption_of(claim: Diagnostic, query: FactQuery) -> str:
    if claim.confidence is not Confidence.HIGH:
        return claim.basis
    # What a line costs depends on the sizes: reading cannot tell whether it is worth a change.
    return _IF_COSTLY if Category.PERFORMANCE in {claim.category, query.category} else ""


def _state(facts: Sequence[Fact], query: FactQuery) -> ClaimState:
    assessed = {fact.assessment for fact in facts}
    if Assessment.MUST_CHANGE in assessed:
        return ClaimState.CONFIRMED
    is_undecided = bool(assessed & {Assessment.OPEN, Assessment.SHOULD_CHECK}) or Assessment.FINE not in assessed
    if is_undecided or not query.refutes:
        return ClaimState.OPEN
    return ClaimState.REFUTED
