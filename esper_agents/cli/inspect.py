"""`esper inspect`: command that states line by line what code does about a topic."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from esper_agents.cli.lightweight_commands import LightweightCommand
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json, say
from esper_agents.domain.request import Wish
from esper_agents.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from esper_agents.api import Inspection

_TO_CHANGE = "must change"
# Options that queries without topics and wishes need.
_OPTIONS = {"question-answers": "--question", "question-details": "--question"}
_LABELS = {"must change": "change", "should check": "check", "description": "is"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("inspect", cls=LightweightCommand)(inspect_command)


def inspect_command(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[PATHS]...", help="Files and folders")] = None,
    topic: Annotated[list[str] | None, typer.Option("--topic", metavar="TOPIC", help="What to inspect")] = None,
    wish: Annotated[Wish | None, typer.Option("--wish", help="What the answer is for")] = None,
    symbol: Annotated[
        list[str] | None, typer.Option("--symbol", metavar="FILE.py:NAME", help="A definition in question")
    ] = None,
    version: Annotated[
        list[str] | None, typer.Option("--version", metavar="VERSION", help="A version in question")
    ] = None,
    size: Annotated[list[str] | None, typer.Option("--size", metavar="NAME=NUMBER", help="A size in question")] = None,
    usage: Annotated[
        list[str] | None, typer.Option("--usage", metavar="NAME[:LINE]", help="An API or option in question")
    ] = None,
    stated: Annotated[
        list[str] | None, typer.Option("--stated", metavar="KIND=VALUE", help="A fact that the code does not say")
    ] = None,
    question: Annotated[str, typer.Option("--question", metavar="TEXT", help="A question in words")] = "",
    query: Annotated[list[str] | None, typer.Option("--query", metavar="NAME", help="Run only this query")] = None,
    is_list: Annotated[bool, typer.Option("--list", help="List the queries with their topics")] = False,
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """State what code does on a topic.

    Reads the code and runs none of it. Each fact names its line and what it means: must change, should check, open,
    fine, or a description. Sessions inspect the code in the same way for the topics of a request.

    Exit code 0: nothing must change; 3: something must change.

    Examples:
      esper inspect train.py --topic security
      esper inspect . --topic "distributed training"
      esper inspect train.py --usage retain-graph
      esper inspect . --question "what happens if the batch size is not divisible?"
      esper inspect --list
    """
    if is_list:
        _list(as_json=as_json)
        return
    if not paths or not (topic or query or wish or usage or question):
        raise UsageError("name a path and a topic", remedy="esper inspect train.py --topic security; --list lists them")
    from esper_agents.api import InspectionSubject, inspect_code

    subject = InspectionSubject(
        tuple(topic or ()),
        wish,
        tuple(symbol or ()),
        tuple(version or ()),
        tuple(size or ()),
        tuple(usage or ()),
        tuple(stated or ()),
        question,
    )
    done = inspect_code(paths, subject, queries=query or (), project=None if project == HERE else project)
    if as_json:
        echo_json([asdict(each) for each in done.results])
    else:
        _print(done)
    found = any(fact.assessment == _TO_CHANGE for result in done.results for fact in result.facts)
    raise typer.Exit(ExitCode.AGAINST if found else ExitCode.DONE)


def _list(*, as_json: bool) -> None:
    from esper_agents.api import list_queries

    queries = list_queries()
    if as_json:
        echo_json([asdict(query) for query in queries])
        return
    for query in queries:
        say(
            "query",
            f"{query.name} ({', '.join(query.topics or query.wishes or (_OPTIONS.get(query.name, '--usage'),))})",
        )
        say("", query.summary)
        if query.usages:
            say("usages", ", ".join(query.usages))


def _print(done: Inspection) -> None:
    for result in done.results:
        say("query", result.name)
        if result.claim:
            say("claim", f"{result.claim}: {result.state}")
        if result.problem:
            say("problem", result.problem)
        for fact in result.facts:
            say(
                _LABELS.get(fact.assessment, fact.assessment),
                f"{fact.path}:{fact.line}  {' '.join(filter(None, (fact.rule, fact.text)))}",
            )
            if fact.remedy:
                say("", f"fix: {fact.remedy}")
        if not result.facts:
            say("", "no line concerns it")
        if result.left_out:
            say("", f"and {result.left_out} more facts")
        if result.unseen:
            say("not seen", result.unseen)
    for each in done.unreadable:
        say("unread", f"{each.path}: {each.problem}")
