"""Inspect code: what it does about the topics of a request, line by line."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.request import Wish
from esper_agents.errors import UsageError
from esper_agents.review.fact_query import Assessment, Fact, InspectionSubject
from esper_agents.review.inspection import inspect
from esper_agents.review.rule import SEEN
from esper_agents.tools.output_comparison import without
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.review.inspection import Inspection

_SEVERITY = {Assessment.MUST_CHANGE: Severity.WARNING, Assessment.SHOULD_CHECK: Severity.SUGGESTION}


def _rerun(arguments: JsonObject) -> str:
    words = ["esper", "inspect"]
    words += [f"--topic={quote(str(each))}" for each in arguments.get("topics") or ()]
    words += [f"--wish={quote(str(arguments['wish']))}"] if arguments.get("wish") else []
    words += [f"--symbol={quote(str(each))}" for each in arguments.get("symbols") or ()]
    words += [f"--version={quote(str(each))}" for each in arguments.get("versions") or ()]
    words += [f"--size={quote(str(each))}" for each in arguments.get("sizes") or ()]
    words += [f"--usage={quote(str(each))}" for each in arguments.get("usages") or ()]
    words += [f"--question={quote(str(arguments['question']))}"] if arguments.get("question") else []
    words += [f"--stated={quote(str(each))}" for each in arguments.get("statements") or ()]
    return " ".join((*words, "--", *(quote(str(each)) for each in arguments["paths"])))


@tool("inspect-code", risk=Risk.LOW, repeatable=True, concurrent=True, rerun=_rerun, comparing=without("context_files"))
async def inspect_code(  # noqa: PLR0913 - the parts of a subject
    context: ToolContext,
    paths: list[str],
    *,
    topics: list[str] | None = None,
    wish: str = "",
    symbols: list[str] | None = None,
    versions: list[str] | None = None,
    sizes: list[str] | None = None,
    usages: list[str] | None = None,
    statements: list[str] | None = None,
    question: str = "",
) -> ToolResult:
    """State line by line what Python files do about a topic: what must change, what is fine; without running them.

    Args:
        context: The project.
        paths: Files or folders, relative to the project.
        topics: Topics, such as `distributed training`, `security` or `reproducibility`.
        wish: What the answer is for, such as `explain` or `find-cause`.
        symbols: Definitions in question, as `FILE.py:Name`.
        versions: Versions in question, such as `2.6`.
        sizes: Sizes in question, such as `batch size=256`.
        usages: Options or APIs in question, such as `retain-graph` or `retain-graph:LINE`.
        statements: What the user stated, as `KIND=VALUE`, such as `labels=0..9`.
        question: A question in words that lines of the code answer, such as `what does virtual_batch_size do?`.
    """
    try:
        wished = Wish(wish) if wish else None
    except ValueError as error:
        raise UsageError(f"no wish is named {wish!r}", remedy="use one of " + ", ".join(Wish)) from error
    subject = InspectionSubject(
        tuple(topics or ()),
        wished,
        tuple(symbols or ()),
        tuple(versions or ()),
        tuple(sizes or ()),
        tuple(usages or ()),
        tuple(statements or ()),
        question,
    )
    places = [context.inside(path) for path in paths]
    done = await asyncio.to_thread(inspect, context.root, places, subject)
    return ToolResult(summary_of(done), _output(done), claims=tuple(_claims(done)), examined=done.examined)


def summary_of(done: Inspection) -> str:
    """Return the numbers of an inspection in one line."""
    facts = [fact for result in done.results for fact in result.facts]
    counts = {each: sum(fact.assessment is each for fact in facts) for each in Assessment}
    told = ", ".join(
        f"{count} {each}" for each, count in counts.items() if count and each is not Assessment.DESCRIPTION
    )
    names = ", ".join(each.name for each in done.results)
    described = (
        f"{number_of(counts[Assessment.DESCRIPTION], 'line')} described" if counts[Assessment.DESCRIPTION] else ""
    )
    found = told or described or "nothing found by these checks"
    return f"asked {names} about {number_of(len(done.examined), 'file')}: {found}"


def _output(done: Inspection) -> JsonObject:
    return {
        "queries": [
            {
                "name": result.name,
                "claim": result.claim,
                "state": str(result.state),
                "unseen": result.unseen,
                "left_out": result.left_out,
                "problem": result.problem,
                "facts": [_fact(fact) for fact in result.facts],
            }
            for result in done.results
        ],
        "files": len(done.examined),
        "context_files": done.context_files,
        "unreadable": [{"path": each.path, "problem": each.problem, "remedy": each.remedy} for each in done.unreadable],
    }


def _fact(fact: Fact) -> JsonObject:
    """Return a fact as recorded; one that compares no definitions is recorded without them."""
    known = {name: each for name, each in asdict(fact).items() if name != "definitions" or each}
    return {**known, "assessment": str(fact.assessment)}


def _claims(done: Inspection) -> Iterator[Diagnostic]:
    """Yield what must change or should be checked as diagnostics; those of rules as the review reports them."""
    yield from done.diagnostics
    seen: dict[tuple[str, str, str], int] = {}
    for result in done.results:
        for fact in result.facts:
            severity = _SEVERITY.get(fact.assessment)
            if severity is None or fact.rule:
                continue
            lines = done.lines.get(fact.path, ())
            text = lines[fact.line - 1] if 0 < fact.line <= len(lines) else ""
            key = (fact.name, fact.path, text)
            seen[key] = seen.get(key, -1) + 1
            yield Diagnostic(
                rule=fact.name,
                name=fact.name,
                severity=severity,
                category=result.category,
                location=Location(fact.path, fact.line, 1, fact.end_line or fact.line),
                message=fact.text,
                remedy=fact.remedy,
                confidence=Confidence.HIGH if severity is Severity.WARNING else Confidence.MODERATE,
                basis=SEEN,
                excerpt=text,
                fingerprint=fingerprint(fact.name, fact.path, text, seen[key]),
            )
