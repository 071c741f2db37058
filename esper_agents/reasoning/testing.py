"""Selection of the tests that a specialist runs, and the gaps that tests leave."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from esper_agents.domain.agent_action import ToolCall
from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.evidence import CallOutcome, coverage_rows
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.status import QuestionType
from esper_agents.reasoning.investigation import completed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.agent_action import ToolReport
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.frame import Brief

TESTING = "run-tests"
_MOST_NAMED = 3
_DECIDED = (QuestionType.APPROVAL, QuestionType.GO)
_NETWORK, _READ, _UNSANDBOXED = (f"{TESTING}:{each}" for each in ("network", "read=", "unsandboxed"))


def tests_to_run(brief: Brief, around: Sequence[ToolReport], *, is_asked: bool) -> tuple[ToolCall, ...]:
    """Return the call that runs the relevant tests; empty if tests are not wanted or do not exist.

    Tests among the files, and tests that import the files, are preferred; without any, all tests of the project
    run, which may reach the files indirectly.

    Args:
        brief: Brief of the task.
        around: Reports of earlier calls, including `related-code`.
        is_asked: Whether the request asks for tests, so that the user is asked for approval if necessary.
    """
    is_offered = any(tool.name == TESTING for tool in brief.tools)
    # A tool that the user allows on the command line is called anyway: a rule against it is then recorded.
    leave = (*brief.allowed, *brief.task.options.get("allow", "").split())
    is_wanted = is_asked or (TESTING in leave and brief.task.kind in _DECIDED)
    if not is_offered or not is_wanted:
        return ()
    paths = _tests(brief, around)
    wanted: dict[str, Any] = {"paths": paths, "subject": list(brief.task.paths)}
    if brief.task.change is not None:
        wanted["since"] = brief.task.change.since
    if _NETWORK in leave:
        wanted["network"] = True
    if data := [each.removeprefix(_READ) for each in dict.fromkeys(leave) if each.startswith(_READ)]:
        wanted["data"] = data
    if _UNSANDBOXED in leave:
        wanted["unsandboxed"] = True
    return (ToolCall(TESTING, wanted),) if paths else ()


def _change_tests(around: Sequence[ToolReport]) -> JsonObject:
    """Return the tests that were chosen for the change in question; empty if there is none."""
    known = completed(around, "related-code")
    return (known.evidence.output.get("change_tests") if known is not None else None) or {}


def _tests(brief: Brief, around: Sequence[ToolReport]) -> list[str]:
    known = completed(around, "related-code")
    if known is None:
        return ["."]
    output = known.evidence.output
    if chosen := _change_tests(around):
        return [str(each) for each in chosen["files"]]
    inside = [path for path in brief.task.paths if any(_lies_in(each, path) for each in output.get("own_tests", ()))]
    found = list(dict.fromkeys([*output["tests"], *inside]))
    # Test helpers import the files as well, but contain no tests.
    found = [each for each in found if not each.endswith(".py") or is_test_file(each)]
    return found or (["."] if output.get("other_tests", 1) else [])


def _lies_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(folder))


def is_test_file(path: str) -> bool:
    """Return whether a path is a test file by pytest's default patterns."""
    stem = PurePosixPath(path).stem
    return stem.startswith("test_") or stem.endswith("_test")


def testing_gaps(brief: Brief, around: Sequence[ToolReport], reports: Sequence[ToolReport]) -> Iterator[InformationGap]:
    """Yield what is missing for an execution to decide, with the command that would provide it."""
    runs = [report for report in reports if report.evidence.tool == TESTING]
    if not runs:
        has_tests = bool(_tests(brief, around))
        why = "no test ran in this session"
        command = brief.task.command(allow=TESTING)
        if not has_tests:
            why = "the project has no tests; one that executes the code in question and passes would decide"
            command += f" # after adding tests that call {', '.join(brief.task.paths)}"
        what = f"test results for {'the project' if brief.task.paths == ('.',) else ', '.join(brief.task.paths)}"
        if chosen := _change_tests(around):
            what, why = _offer(chosen)
        yield InformationGap(what, why, command)
    for run in runs:
        if run.evidence.outcome is CallOutcome.COMPLETED and "change" in run.evidence.output:
            yield from _unexecuted(brief, run.evidence.output["change"])
        elif run.evidence.outcome is CallOutcome.COMPLETED:
            unread = {path: lines for path, lines, executed in coverage_rows(run.evidence) if lines and not executed}
            if unread:
                named = ", ".join(unread)
                yield InformationGap(
                    f"no passing test executed {named} (0 of {sum(unread.values())} lines)",
                    f"add tests that call {'it' if len(unread) == 1 else 'them'}",
                    f"{brief.task.command(allow=TESTING)} # after adding tests that call {named}",
                )


def _offer(chosen: JsonObject) -> tuple[str, str]:
    """Return what the tests of a change would show, and why."""
    number, total = chosen["tests"], chosen["all_tests"]
    if not chosen["files"]:
        return (
            "whether the change works",
            "the project has no tests; one that executes the change and passes would decide",
        )
    files = number_of(len(chosen["files"]), "file")
    if chosen["reaching"]:
        what = f"whether the tests that reach the change pass: {number} of {number_of(total, 'test')}, in {files}"
        return what, "they import what changed, and running them needs your approval"
    what = f"whether a test executes the change: none of {number_of(total, 'test')} imports what changed"
    return what, f"tests can reach it in other ways; running {number} of them, in {files}, needs your approval"


def _unexecuted(brief: Brief, change: JsonObject) -> Iterator[InformationGap]:
    """Yield a gap for the edits that no passing test executed."""
    # An edit that a failing test executed is answered for by that test.
    missed = [
        f"{each['path']}:{line}"
        for each in change["files"]
        for line in each.get("missed", ())
        if line not in each.get("failing", ())
    ]
    missed += [f"{each['path']} (deleted, still imported)" for each in change["files"] if each.get("imported_by")]
    if not missed:
        return
    named = ", ".join(missed[:_MOST_NAMED]) + (
        f" and {len(missed) - _MOST_NAMED} more" if len(missed) > _MOST_NAMED else ""
    )
    yield InformationGap(
        f"what {number_of(len(missed), 'edit')} that no passing test executed would do: {named}",
        "the tests that ran cannot fail because of them",
        f"{brief.task.command(allow=TESTING)} # after adding tests that execute {missed[0]}",
    )
