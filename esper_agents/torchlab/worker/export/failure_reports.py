"""Failures and assumptions of an export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..explain.compile_runs import message
from ..explain.dynamo_log_parser import read_reason
from ..target.source_place import SourcePlace
from ..target.stack_frames import frames_of
from ..target.user_lines import definition, place, plain
from .result import ExportAttempt, ExportIssue

if TYPE_CHECKING:
    from ..target.target import LoadedTarget

_WRAPPERS = frozenset({"TorchExportError", "ConversionError", "OnnxExporterError"})
_SUGGESTIONS = ("Suggested fixes:", "To fix the error, insert one of the following checks before this call:")
_MOST_TEXT = 2_000


def failure_told(target: LoadedTarget, error: BaseException) -> ExportAttempt:
    """Return a failed attempt, with the message of its error and the line in user code."""
    root = error
    while type(root).__name__ in _WRAPPERS and root.__cause__ is not None:
        root = root.__cause__
    text = str(getattr(root, "msg", root))
    told = read_reason(text)
    return ExportAttempt(
        outcome="fails",
        type=type(root).__name__,
        message=plain(target, message(root)),
        kind=told.kind,
        explanation=plain(target, told.explanation or _points(text)) or None,
        hints=told.hints or None,
        page=told.page,
        link=told.link,
        suggestion=_suggestion(text) or None,
        place=place(target, [*frames_of(error), *(frames_of(root) if root is not error else ())]) or definition(target),
    )


def issues_told(target: LoadedTarget, program: Any) -> tuple[ExportIssue, ...]:
    """Return the assumptions of a draft export, with the user's lines if known."""
    report = getattr(program, "_report", None)
    names = getattr(report, "str_to_filename", {})
    return tuple(_issue(target, each, names) for each in getattr(report, "failures", ()))


def _issue(target: LoadedTarget, failure: Any, names: dict[Any, str]) -> ExportIssue:
    found = failure.data
    op, expr, reason = (str(found[name])[:_MOST_TEXT] if name in found else None for name in ("op", "expr", "reason"))
    own = [
        SourcePlace(file=file, line=each["line"], function=each["name"], source=each.get("loc") or "")
        for each in found.get("user_stack", ())
        if (file := target.in_project(names.get(each["filename"], "<unknown>"))) is not None
    ]
    kind = str(failure.failure_type).lower().replace("_", " ")
    return ExportIssue(kind=kind, op=op, expr=expr, reason=reason, place=own[-1] if own else None)


def _points(text: str) -> str:
    """Return the bullet points of a message about constraints."""
    return " ".join(line[4:] for line in text.splitlines() if line.startswith("  - "))[:_MOST_TEXT]


def _suggestion(text: str) -> str:
    """Return torch's suggestion at the end of a message; empty without one."""
    after = next((text.partition(suggestion)[2] for suggestion in _SUGGESTIONS if suggestion in text), "")
    return " ".join(after.split("\n\n")[0].split())[:_MOST_TEXT]
