"""Usual forms of findings in model output, converted to the one of the schema."""

from __future__ import annotations

import json
import re
from typing import Any

from esper_agents.domain.finding import Category, Confidence, Severity

# Member names that models give in place of those of the schema; nothing else is renamed.
_NAMES = {
    "path": ("file", "filename", "file_path", "filepath", "module"),
    "line": ("lines", "line_number", "line_no", "lineno", "line_range", "range", "start_line", "line_start"),
    "message": ("description", "problem", "issue", "explanation", "detail", "details", "text", "claim"),
    "remedy": ("fix", "suggestion", "recommendation", "suggested_fix", "solution", "proposal"),
    "quote": ("code", "snippet", "code_snippet", "excerpt", "quoted_code"),
    "symbol": ("function", "method", "qualname", "class_name"),
    "name": ("title", "id", "label", "slug"),
    "evidence": ("evidence_ids", "evidence_id", "sources"),
    "basis": ("reason", "reasoning", "rationale", "justification", "why"),
}
_LAST = ("end_line", "line_end", "last_line", "to_line")
_SEVERITIES = {
    Severity.CRITICAL: "blocker fatal severe high major error bug must",
    Severity.WARNING: "medium moderate warn should",
    Severity.SUGGESTION: "low minor info informational note nit hint style trivial could",
}
_CATEGORIES = {
    Category.SILENT_CORRECTNESS: "silent silent_error silent_bug",
    Category.CORRECTNESS: "bug logic correct numerical numerics stability training style maintainability api",
    Category.MEMORY: "leak oom memory_leak",
    Category.PERFORMANCE: "speed perf efficiency throughput latency",
    Category.COMPILE: "compile compatibility version deprecation torch_compile",
    Category.COMPANION: "tests testing documentation docs companion",
    Category.SECURITY: "safety vulnerability",
}
_CONFIDENCES = {
    Confidence.HIGH: "certain sure very_high confirmed",
    Confidence.MODERATE: "medium likely probable",
    Confidence.LOW: "unsure possible speculative",
    Confidence.INSUFFICIENT_DATA: "unknown none",
}
_HIGH, _MODERATE, _LOW = 0.8, 0.5, 0.2
_LONGEST_NAME, _WORDS_OF_NAME = 80, 6


def usual_findings(given: Any) -> tuple[Any, ...]:
    """Return findings with the members and values of the schema, as far as their meaning is plain.

    Args:
        given: The findings: a list, a single one, or the JSON text of either.
    """
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return (given,)
    if isinstance(given, dict):
        given = [given]
    return tuple(map(_usual, given)) if isinstance(given, list | tuple) else (given,)


def _usual(finding: Any) -> Any:
    if not isinstance(finding, dict):
        return finding
    given = dict(finding)
    for name, others in _NAMES.items():
        for other in others:
            if other in given:
                # A finding may have both, such as `remedy` and `fix`: the member of the schema counts.
                value = given.pop(other)
                given.setdefault(name, value)
    last = [given.pop(each) for each in _LAST if each in given]
    given["line"] = _line(given.get("line", 0), last)
    given.setdefault("path", "")
    if isinstance(given["path"], dict):
        given |= {name: each for name, each in given.pop("path").items() if name in {"path", "line", "symbol", "quote"}}
    given["severity"] = _word(given.get("severity"), Severity, _SEVERITIES)
    given["category"] = _word(given.get("category", Category.CORRECTNESS), Category, _CATEGORIES)
    given["confidence"] = _confidence(given.get("confidence", Confidence.MODERATE))
    if isinstance(given.get("evidence"), str):
        given["evidence"] = [each for each in re.split(r"[,;\s]+", given["evidence"]) if each]
    if not given.get("name") and isinstance(given.get("message"), str):
        given["name"] = "-".join(re.findall(r"[A-Za-z_]\w*", given["message"])[:_WORDS_OF_NAME]).lower()[:_LONGEST_NAME]
    return given


def _line(line: Any, last: list[Any]) -> Any:
    """Return lines as a number or as a text such as `41-48`."""
    match line:
        case {"start": first, "end": end} | {"from": first, "to": end} | {"first": first, "last": end}:
            return f"{first}-{end}"
        case [int(), *_] if all(isinstance(each, int) for each in line):
            return ", ".join(map(str, line))
        case int() | str() if last and isinstance(last[0], int | str) and str(last[0]) != str(line):
            return f"{line}-{last[0]}"
        case None:
            return 0
        case float() if line.is_integer():
            return int(line)
        case _:
            return line


def _word(value: Any, known: type[Severity | Category], others: dict[Any, str]) -> Any:
    """Return the member of a closed set that a word stands for; the word itself if that is not plain."""
    if not isinstance(value, str):
        return value
    plain = re.sub(r"[\s_-]+", "_", value.strip().casefold())
    for each in known:
        if plain == each.value.replace("-", "_"):
            return each.value
    return next((str(each) for each, words in others.items() if plain in words.split()), value)


def _confidence(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int() | float():
            share = value / 100 if value > 1 else value
            levels = ((_HIGH, Confidence.HIGH), (_MODERATE, Confidence.MODERATE), (_LOW, Confidence.LOW))
            return next((str(each) for least, each in levels if share >= least), str(Confidence.INSUFFICIENT_DATA))
        case str():
            plain = re.sub(r"[\s_-]+", "_", value.strip().casefold())
            same = [each for each in Confidence if plain == each.value.casefold().replace(" ", "_")]
            if same:
                return str(same[0])
            return next((str(each) for each, words in _CONFIDENCES.items() if plain in words.split()), value)
        case _:
            return value
