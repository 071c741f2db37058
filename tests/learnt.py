"""What sessions came to, written down for tests."""

from __future__ import annotations

from esper_agents.domain.assumption import InformationGap
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.learning.session_summary import SessionFacts, SourceRef


def source(number: int) -> SourceRef:
    return SourceRef(f"ses_{number:032x}", f"crt_{number:032x}", f"review {number}")


def claim(rule="ESP305", path="train.py", line=3, **changes) -> Diagnostic:
    said = {
        "name": "item-in-training-loop",
        "severity": Severity.WARNING,
        "category": Category.PERFORMANCE,
        "message": "`.item()` waits for the device",
        "remedy": "add up detached tensors",
        **changes,
    }
    mark = fingerprint(rule, path, f"line {line}", 0)
    return Diagnostic(
        rule=rule,
        location=Location(path, line),
        confidence=Confidence.HIGH,
        basis="seen in one function",
        excerpt="",
        fingerprint=mark,
        **said,
    )


def gap(what="what to run") -> InformationGap:
    return InformationGap(what, "nothing was measured", "esper torch targets")


def seen(number: int, **parts) -> SessionFacts:
    return SessionFacts(source(number), **parts)
