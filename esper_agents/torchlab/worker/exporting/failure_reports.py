"""Reports of export failures as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compilation.compile_runs import message
from ..compilation.dynamo_log_parser import read_reason
from ..target.stack_frames import frames_of
from ..target.user_lines import definition, place, plain

if TYPE_CHECKING:
    from ..target.target import LoadedTarget

_WRAPPERS = frozenset({"TorchExportError", "ConversionError", "OnnxExporterError"})
_SUGGESTIONS = ("Suggested fixes:", "To fix the error, insert one of the following checks before this call:")
_MOST_TEXT = 2_000


def failure_told(target: LoadedTarget, error: BaseException) -> dict[str, Any]:
    """Return the message of an export error, and its line in user code."""
    root = error
    while type(root).__name__ in _WRAPPERS and root.__cause__ is not None:
        root = root.__cause__
    text = str(getattr(root, "msg", root))
    told = read_reason(text)
    optional: dict[str, Any] = {
        "kind": told.kind,
        "explanation": plain(target, told.explanation or _points(text)),
        "hints": list(told.hints),
        "page": told.page,
        "link": told.link,
        "suggestion": _suggestion(text),
        "place": place(target, [*frames_of(error), *(frames_of(root) if root is not error else ())]),
    }
    optional["place"] = optional["place"] or definition(target)
    found = {"type": type(root).__name__, "message": plain(target, message(root))}
    return found | {name: each for name, each in optional.items() if each}


def issues_told(target: LoadedTarget, program: Any) -> list[dict[str, Any]]:
    """Return the assumptions of a draft export, with the user's lines if known."""
    report = getattr(program, "_report", None)
    names = getattr(report, "str_to_filename", {})
    return [_issue(target, each, names) for each in getattr(report, "failures", ())]


def _issue(target: LoadedTarget, failure: Any, names: dict[Any, str]) -> dict[str, Any]:
    found = failure.data
    told: dict[str, Any] = {"kind": str(failure.failure_type).lower().replace("_", " ")}
    told |= {name: str(found[name])[:_MOST_TEXT] for name in ("op", "expr", "reason") if name in found}
    own = [
        {"file": file, "line": each["line"], "function": each["name"], "source": each.get("loc") or ""}
        for each in found.get("user_stack", ())
        if (file := target.in_project(names.get(each["filename"], "<unknown>"))) is not None
    ]
    return {**told, "place": own[-1]} if own else told


def _points(text: str) -> str:
    """Return the bullet points of a message about constraints."""
    return " ".join(line[4:] for line in text.splitlines() if line.startswith("  - "))[:_MOST_TEXT]


def _suggestion(text: str) -> str:
    """Return torch's suggestion at the end of a message; empty without one."""
    after = next((text.partition(each)[2] for each in _SUGGESTIONS if each in text), "")
    return " ".join(after.split("\n\n")[0].split())[:_MOST_TEXT]
