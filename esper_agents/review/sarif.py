"""A review as SARIF 2.1.0, the format that code hosts and editors read."""

from __future__ import annotations

import inspect
import re
from difflib import SequenceMatcher
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.message_locations import locations_in
from esper_agents.review.pages import page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.engine import Unreadable
    from esper_agents.review.fixes import Patch
    from esper_agents.review.outcome import ReviewOutcome
    from esper_agents.review.rule import Rule

Json: TypeAlias = dict[str, Any]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ADDRESS = re.compile(r"https://[^\s,()]+")
_ROOT = "%SRCROOT%"
# The name is ours: GitHub counts `primaryLocationLineHash` itself and complains of another's.
_FINGERPRINT = "esperFingerprint/v1"
_LEVELS = {Severity.CRITICAL: "error", Severity.WARNING: "warning", Severity.SUGGESTION: "note"}
# What GitHub sorts security alerts by, from 0 to 10.
_DANGER = {Severity.CRITICAL: "9.0", Severity.WARNING: "7.0", Severity.SUGGESTION: "4.0"}


def as_sarif(outcome: ReviewOutcome, rules: Sequence[Rule], patches: Sequence[Patch] = ()) -> Json:
    """Return a review as a SARIF log with one run, the same for the same review.

    Args:
        outcome: The review.
        rules: All rules there are.
        patches: Safe fixes of the files. A result that one fixes has the whole patch, as it was reviewed.
    """
    ran = [rule for rule in rules if rule.code in set(outcome.report.rules)]
    places = {each.code: place for place, each in enumerate(ran)}
    fixes = {claim.fingerprint: [_fix(patch)] for patch in patches if _is_text(patch) for claim in patch.claims}
    lines = {each.path: each.lines for each in outcome.report.examined}
    claims = [
        _result(each, places, lines) | ({"fixes": fixes[each.fingerprint]} if each.fingerprint in fixes else {})
        for each in outcome.report.claims
    ]
    accepted = [_result(each, places, lines) | {"suppressions": [_ACCEPTED]} for each in outcome.known]
    accepted += [
        _result(each.claim, places, lines)
        | {"suppressions": [{"kind": "inSource", "status": "accepted", "justification": _text(each.reason)}]}
        for each in outcome.report.silenced
    ]
    run = {
        "tool": {"driver": _driver(ran)},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"description": {"text": "The folder of the project that was reviewed."}}},
        "invocations": [_invocation(outcome.report.unreadable)],
        "results": sorted([*claims, *accepted], key=_place),
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


_ACCEPTED: Json = {
    "kind": "external",
    "status": "accepted",
    "justification": "It stands in the baseline of the project.",
}


def _driver(rules: Sequence[Rule]) -> Json:
    try:
        ours = version("esper-agents")
    except PackageNotFoundError:
        ours = "0"
    described = [_descriptor(rule) for rule in rules]
    return {"name": "esper-agents", "version": ours, "rules": described}


def _descriptor(rule: Rule) -> Json:
    first = inspect.cleandoc(type(rule).__doc__ or rule.name).split("\n\n", maxsplit=1)[0].replace("\n", " ")
    properties: Json = {
        "tags": ["pytorch", str(rule.category)],
        "category": str(rule.category),
        "precision": "high",
        "problem.severity": "recommendation" if rule.severity is Severity.SUGGESTION else _LEVELS[rule.severity],
    }
    if rule.category is Category.SECURITY:
        properties["security-severity"] = _DANGER[rule.severity]
    # The whole page of the rule is in `help`: the address is that of its first source.
    source = _ADDRESS.search(type(rule).__doc__ or "")
    return {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.name.split("-")),
        "shortDescription": {"text": rule.name.replace("-", " ").capitalize()},
        "fullDescription": {"text": first},
        **({"helpUri": source.group().rstrip(".")} if source else {}),
        "help": {"text": first, "markdown": page(rule)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": properties,
    }


def _result(claim: Diagnostic, places: Mapping[str, int], lines: Mapping[str, int]) -> Json:
    place = claim.location
    region: Json = {"startLine": place.line, "startColumn": place.column, "snippet": {"text": _text(claim.excerpt)}}
    if place.end_line > place.line:
        region["endLine"] = place.end_line
    message, related = _linked(claim, lines)
    return {
        "ruleId": claim.rule,
        **({"ruleIndex": places[claim.rule]} if claim.rule in places else {}),
        "level": _LEVELS[claim.severity],
        "message": {"text": message},
        "locations": [_location(place.path, region)],
        **({"relatedLocations": related} if related else {}),
        "partialFingerprints": {_FINGERPRINT: claim.fingerprint},
        "properties": {
            "category": str(claim.category),
            "severity": str(claim.severity),
            "confidence": str(claim.confidence),
            "basis": claim.basis,
            "remedy": _text(claim.remedy),
        },
    }


def _linked(claim: Diagnostic, lines: Mapping[str, int]) -> tuple[str, list[Json]]:
    """Return the message with links to the locations that it names, and these locations."""
    named = list(locations_in(claim, lines))
    whole = f"{claim.message}. Remedy: {claim.remedy}."
    if not named:
        return _message(whole), []
    text, end = "", 0
    for number, each in enumerate(named, 1):
        text += f"{_without_links(whole[end : each.start])}[{_without_links(whole[each.start : each.end])}]({number})"
        end = each.end
    related = [{"id": number, **_location(each.path, {"startLine": each.line})} for number, each in enumerate(named, 1)]
    return text + _without_links(whole[end:]), related


def _location(path: str, region: Json) -> Json:
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(path), "uriBaseId": _ROOT}, "region": region}}


def _is_text(patch: Patch) -> bool:
    """Return whether both sides of a patch are UTF-8 without a byte order mark, so that columns are characters."""
    try:
        return not (patch.before.decode() + patch.after.decode()).startswith("\ufeff")
    except UnicodeDecodeError:
        return False


def _fix(patch: Patch) -> Json:
    before, after = (each.decode().splitlines(keepends=True) for each in (patch.before, patch.after))
    replacements = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        region: Json = {"startLine": first + 1, "startColumn": 1, "endLine": last + 1, "endColumn": 1}
        if last == len(before) and first < last and not before[-1].endswith("\n"):
            region |= {"endLine": last, "endColumn": len(before[-1]) + 1}
        inserted = "".join(after[new_first:new_last])
        replacements.append({"deletedRegion": region, **({"insertedContent": {"text": inserted}} if inserted else {})})
    return {
        "description": {"text": "Apply the safe fixes of this file, as `esper review --fix` does"},
        "artifactChanges": [
            {"artifactLocation": {"uri": _uri(patch.path), "uriBaseId": _ROOT}, "replacements": replacements}
        ],
    }


def _uri(path: str) -> str:
    return quote(path.encode("utf-8", "surrogatepass"))


def _text(text: str) -> str:
    """Return text that UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def _message(text: str) -> str:
    """Return text in which SARIF finds no link, as it would in `[shown](target)`."""
    return _without_links(text) if "](" in text else _text(text)


def _without_links(text: str) -> str:
    return _text(text).replace("[", "\\[").replace("]", "\\]")


def _invocation(unreadable: Sequence[Unreadable]) -> Json:
    notes = [
        {
            "level": "warning",
            "message": {"text": _message(f"{each.problem}; {each.remedy}")},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": _uri(each.path), "uriBaseId": _ROOT},
                        **({"region": {"startLine": each.line}} if each.line else {}),
                    }
                }
            ],
        }
        for each in unreadable
    ]
    return {"executionSuccessful": True, "toolExecutionNotifications": notes}


def _place(result: Json) -> tuple[str, int, int, str]:
    place = result["locations"][0]["physicalLocation"]
    region = place["region"]
    return place["artifactLocation"]["uri"], region["startLine"], region["startColumn"], result["ruleId"]
