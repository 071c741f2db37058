"""Gate results as Markdown, SARIF 2.1.0, JUnit XML and GitHub workflow commands."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from esper_agents.api import CoverageState
from esper_agents.domain.plain_text import plain
from esper_agents.domain.workflow_command import workflow_command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import FileCoverage

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
XML_HEAD = '<?xml version="1.0" encoding="UTF-8"?>'
_RULES = {
    CoverageState.TAMPERED: "A certificate is not what was issued.",
    CoverageState.AGAINST: "A certificate stands against the file.",
    CoverageState.OTHER_STATUS: "The newest certificate has another status than is required.",
    CoverageState.NOT_CURRENT: "The newest certificate is not current.",
    CoverageState.UNCOVERED: "No certificate speaks of the file.",
    CoverageState.UNDECIDED: "The certificate is not signed by a trusted key.",
}
# Characters that XML 1.0 forbids, and characters that reorder text.
_UNFIT = re.compile("[^\t\n\x20-\x7e\xa0-\u200a\u2010-\u2027\u2030-\u205f\u2070-\ud7ff\ue000-\ufefe\uff00-\ufffd]")
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#+!|&~@])")


def as_markdown(coverage: Sequence[FileCoverage]) -> str:
    """Return a Markdown summary with one table; its texts are escaped."""
    passed = sum(each.standing is CoverageState.COVERED for each in coverage)
    lines = [f"## Certificates cover {passed} of {len(coverage)}", ""]
    lines += ["| file | agent | standing | certificate | why |", "| --- | --- | --- | --- | --- |"]
    for each in sorted(coverage, key=lambda found: (list(CoverageState).index(found.standing), found.path)):
        cells = (each.path, each.agent or "any", each.standing, each.certificate, each.why or each.status)
        lines.append("| " + " | ".join(_cell(text) for text in cells) + " |")
    return "\n".join(lines) + "\n"


def as_sarif(coverage: Sequence[FileCoverage]) -> dict[str, Any]:
    """Return a SARIF log with one result per uncovered file."""
    rules = [
        {"id": f"gate/{each.name.lower().replace('_', '-')}", "shortDescription": {"text": text}}
        for each, text in _RULES.items()
    ]
    places = {each: number for number, each in enumerate(_RULES)}
    results = [
        {
            "ruleId": rules[places[each.standing]]["id"],
            "ruleIndex": places[each.standing],
            "level": "warning" if each.standing is CoverageState.UNDECIDED else "error",
            "message": {"text": _fit(f"{each.why} ({each.certificate or 'no certificate'})")},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(_bytes(each.path)), **_BASE}}}],
            "partialFingerprints": {"esperGate/v1": f"{each.standing}/{_fit(each.agent)}/{_fit(each.path)}"},
        }
        for each in coverage
        if each.standing is not CoverageState.COVERED
    ]
    run = {"tool": {"driver": {"name": "esper-gate", "rules": rules}}, "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def as_junit(coverage: Sequence[FileCoverage]) -> str:
    """Return JUnit XML with one test case per file and agent."""
    return f"{XML_HEAD}\n{junit_suite(coverage)}\n"


def junit_suite(coverage: Sequence[FileCoverage]) -> str:
    """Return the test suite of JUnit XML with one test case per file and agent."""
    failed = [each for each in coverage if each.standing is not CoverageState.COVERED]
    lines = [
        f'<testsuite name="esper gate" tests="{len(coverage)}" failures="{len(failed)}" errors="0" skipped="0">',
    ]
    for each in coverage:
        head = f"  <testcase classname={xml_attribute(each.agent or 'any agent')} name={xml_attribute(each.path)}"
        if each.standing is CoverageState.COVERED:
            lines.append(f"{head}/>")
            continue
        said = xml_text(f"{each.certificate or 'no certificate'}: {each.why}")
        lines.append(f"{head}><failure message={xml_attribute(each.standing)}>{said}</failure></testcase>")
    return "\n".join([*lines, "</testsuite>"])


def as_annotations(coverage: Sequence[FileCoverage]) -> str:
    """Return one workflow command per uncovered file, and a line with the counts."""
    failed = [each for each in coverage if each.standing is not CoverageState.COVERED]
    lines = [
        workflow_command(
            "warning" if each.standing is CoverageState.UNDECIDED else "error",
            {"file": each.path, "line": "1", "title": f"esper gate: {each.standing}"},
            f"{each.why} ({each.certificate or 'no certificate'})",
        )
        for each in failed
    ]
    return "\n".join([*lines, f"covered: {len(coverage) - len(failed)} of {len(coverage)}"]) + "\n"


_BASE = {"uriBaseId": "%SRCROOT%"}


def _cell(text: str) -> str:
    return _MARKS.sub(r"\\\1", _fit(text)).replace("\n", " ")


def xml_attribute(text: str) -> str:
    """Return text as a quoted attribute of XML 1.0."""
    return f'"{escape(_fit(text))}"'


def xml_text(text: str) -> str:
    """Return text as the content of an element of XML 1.0."""
    return escape(_fit(text))


def _fit(text: str) -> str:
    return _UNFIT.sub(lambda found: f"\\u{ord(found.group()):04x}", plain(text))


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
