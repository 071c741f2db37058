"""`esper eval`: command that scores answers to the tasks of a suite, and compares two runs."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.cost_summary import as_data
from esper_agents.cli.live_output import say
from esper_agents.cli.shared_options import JsonOption
from esper_agents.cli.terminal import echo, echo_json, one_line, table
from esper_agents.domain.evaluation import differences
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.usage import dollars
from esper_agents.errors import InputFileError, UsageError

if TYPE_CHECKING:
    from esper_agents.domain.evaluation import EvalRun, EvalSuite, TaskDifference, TaskScore

_DIGITS = 12


class EvalReasoner(StrEnum):
    """Reasoner of the tasks."""

    PLAYBOOK = "playbook"
    CLAUDE = "claude"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("eval")(evaluate)


def evaluate(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="Included suite, TOML file, or folder")] = "pytorch",
    *,
    task: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="Run only this task (repeatable)")
    ] = None,
    reasoner: Annotated[EvalReasoner, typer.Option(help="Reasoner of the tasks")] = EvalReasoner.PLAYBOOK,
    compare: Annotated[
        Path | None, typer.Option("--compare", metavar="A", help="Compare stored run A with run B, given as SUITE")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", dir_okay=False, help="Write the run to this file")
    ] = None,
    is_listed: Annotated[bool, typer.Option("--list", help="List the tasks; run nothing")] = False,
    as_json: JsonOption = False,
) -> None:
    """Score answers to the tasks of a suite.

    Runs each task in a temporary project, and counts the expected facts that its answer states and the false
    statements that it makes. Calls that need an approval are denied. With `--reasoner claude`, the files of the suite
    are sent to the configured model server.

    Examples:
      esper eval
      esper eval pytorch --task shuffled-validation --json
      esper eval my-suite.toml --reasoner claude --output after.json
      esper eval --compare before.json after.json
    """
    from esper_agents.api import chosen_tasks, load_suite, read_run, run_suite, run_text

    if compare is not None:
        _compare(read_run(compare), read_run(Path(suite)), as_json=as_json)
        return
    chosen = chosen_tasks(load_suite(suite), task or [])
    if is_listed:
        _list(chosen, as_json=as_json)
        return
    if output is not None and not output.absolute().parent.is_dir():
        raise UsageError(f"{str(output.parent)!r} is not a folder", remedy="name a file in an existing folder")
    run = asyncio.run(
        run_suite(chosen, reasoner=str(reasoner), on_score=lambda score: _progress(score, as_json=as_json))
    )
    if output is not None:
        _write(output, run_text(run))
    if as_json:
        echo_json(_as_data(run))
        return
    _show(run)
    if output is not None:
        say("run", str(output))


def _progress(score: TaskScore, *, as_json: bool) -> None:
    """Print a line for each task on standard error, so that the result can be piped."""
    if not as_json:
        told = score.problem or f"{_facts(score)} facts, {len(score.false_statements)} false, {score.seconds:.1f} s"
        sys.stderr.write(f"{one_line(score.task)}: {one_line(told)}\n")


def _facts(score: TaskScore) -> str:
    return f"{len(score.stated)} of {len(score.stated) + len(score.missing)}"


def _show(run: EvalRun) -> None:
    for score in run.scores:
        _show_score(score)
    echo()
    rows = ((one_line(name), one_line(text)) for name, text in _totals(run))
    for name, text in rows:
        say(name, text)


def _show_score(score: TaskScore) -> None:
    """Print what a score is about; a task with all facts and no false statement needs no line."""
    lines = [("missing", each) for each in score.missing] + [
        ("false", false_statement) for false_statement in score.false_statements
    ]
    if score.problem:
        lines.insert(0, ("failed", score.problem))
    if lines:
        echo(f"{one_line(score.task)} ({one_line(score.status) or 'no certificate'}, {one_line(score.agent) or '-'})")
        for label, text in lines:
            echo(f"  {label}: {one_line(text)}")


def _totals(run: EvalRun) -> list[tuple[str, str]]:
    share = f"{100 * run.share:.1f} %" if run.facts else "no facts expected"
    cost = f"{run.expense}" if run.expense.turns else "no model used"
    return [
        ("suite", f"{run.suite} {run.suite_sha256[:_DIGITS]}, {number_of(len(run.scores), 'task')}"),
        ("reasoner", f"{run.reasoner}{f', {run.model}' if run.model else ''}; prompts {run.prompts_sha256[:_DIGITS]}"),
        ("facts", f"{run.stated} of {run.facts} stated ({share})"),
        ("false", number_of(run.false_statements, "false statement")),
        ("failed", number_of(run.failed, "task without an answer", "tasks without an answer")),
        ("cost", cost),
        ("time", f"{run.seconds:.1f} s"),
    ]


def _as_data(run: EvalRun) -> dict[str, Any]:
    return {
        **asdict(run),
        "facts": run.facts,
        "stated": run.stated,
        "share": run.share,
        "false_statements": run.false_statements,
        "failed": run.failed,
        "seconds": run.seconds,
        "expense": as_data(run.expense) if run.expense.turns else None,
    }


def _list(suite: EvalSuite, *, as_json: bool) -> None:
    if as_json:
        echo_json({"suite": suite.name, "sha256": suite.sha256, "tasks": [asdict(task) for task in suite.tasks]})
        return
    rows = (
        (task.name, str(len(task.facts)), "clean" if task.is_clean else str(len(task.false_statements)), task.request)
        for task in suite.tasks
    )
    table(("task", "facts", "false", "request"), rows)


def _compare(before: EvalRun, after: EvalRun, *, as_json: bool) -> None:
    if before.suite_sha256 != after.suite_sha256:
        raise UsageError("the two runs are of different suites", remedy="run the same suite twice")
    found = differences(before, after)
    if as_json:
        echo_json(
            {
                "before": {key: each for key, each in _as_data(before).items() if key != "scores"},
                "after": {key: each for key, each in _as_data(after).items() if key != "scores"},
                "tasks": [asdict(each) for each in found],
            }
        )
        return
    for each in found:
        _show_difference(each)
    if found:
        echo()
    table(("", "A", "B"), _compared(before, after))


def _compared(before: EvalRun, after: EvalRun) -> list[tuple[str, str, str]]:
    pairs = zip(_totals(before), _totals(after), strict=True)
    rows = [(name, one, other) for (name, one), (_, other) in pairs if name not in {"suite", "cost"}]
    return [*rows, ("cost", dollars(before.expense.money), dollars(after.expense.money))]


def _show_difference(found: TaskDifference) -> None:
    echo(one_line(found.task))
    for label, texts in (
        ("gained", found.gained),
        ("lost", found.lost),
        ("new false", found.new_false),
        ("no longer false", found.fewer_false),
    ):
        for text in texts:
            echo(f"  {label}: {one_line(text)}")


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = (error.strerror or "cannot be written").lower()
        raise InputFileError(str(file), problem, remedy="name a file that you may write with --output") from error
