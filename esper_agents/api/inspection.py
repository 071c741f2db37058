"""Inspections of code: what it does about a topic, line by line; no database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.fact_query import InspectionSubject
    from esper_agents.review.inspection import Inspection


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """One fact query.

    Attributes:
        name: Name of the query.
        topics: Topics of requests that it answers.
        wishes: Wishes that it answers; empty for all.
        claim: Claim that its facts confirm or refute; empty if it only describes.
        summary: First paragraph of its documentation, on one line.
        usages: Names of the entries about APIs that it answers.
    """

    name: str
    topics: tuple[str, ...]
    wishes: tuple[str, ...]
    claim: str
    summary: str
    usages: tuple[str, ...] = ()


def inspect_code(
    paths: Sequence[Path], subject: InspectionSubject, *, queries: Sequence[str] = (), project: Path | None = None
) -> Inspection:
    """State what files do about a topic, line by line; runs none of the code and writes nothing.

    Args:
        paths: Files and directories; relative ones start at the current directory.
        subject: Topics, wish, definitions and versions in question.
        queries: Names of queries to run; empty runs those that the subject needs.
        project: A path in the project; None for the project of the paths.

    Raises:
        InputFileError: A path does not exist, or contains no Python source.
        NotFoundError: No query has one of the names.
        UsageError: No query belongs to the subject.

    Example:
        from pathlib import Path

        from esper_agents.api import InspectionSubject, inspect_code

        for result in inspect_code([Path("train.py")], InspectionSubject(topics=("security",))).results:
            print(result.name, result.state)
            for fact in result.facts:
                print(fact.path, fact.line, fact.assessment, fact.text)
    """
    from esper_agents.git.find_project import find_project
    from esper_agents.review.inspection import inspect

    root = Path(find_project([project] if project else list(paths), Path.cwd()).root)
    return inspect(root, [path.absolute() for path in paths], subject, names=queries)


def list_queries() -> tuple[QueryDescription, ...]:
    """Return the fact queries, by name."""
    from esper_agents.domain.evidence import USAGE_QUESTIONS
    from esper_agents.review.inspection import fact_queries
    from esper_agents.review.usages.entries import usage_entries

    return tuple(
        QueryDescription(
            name=fact_query.name,
            topics=fact_query.topics,
            wishes=tuple(map(str, fact_query.wishes)),
            claim=fact_query.claim,
            usages=tuple(usage_entries()) if fact_query.name == USAGE_QUESTIONS else (),
            summary=" ".join((type(fact_query).__doc__ or "").strip().partition("\n\n")[0].split()),
        )
        for fact_query in fact_queries()
    )
