"""Metrics of a certificate for trends: measured numbers and finding counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.evidence_values import number_of
from esper_agents.certificates.json_conversion import to_json
from esper_agents.domain.evidence import CallOutcome
from esper_agents.domain.finding import Severity
from esper_agents.domain.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.domain.certificate import Certificate

# A third-party tool may output anything: only this many values with valid names are kept.
MOST_OF_ONE_CALL = 64
MOST_OF_ALL = 512
_DEEPEST = 6
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TOOL = re.compile(r"[a-z][a-z0-9._:-]{0,59}")
# Requested values and properties of the environment are not measurements.
_NOT_MEASURED = frozenset(("request", "sandbox", "plan", "exit_code", "confidence"))
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class CertificateMetric:
    """Metric of a certificate.

    Attributes:
        name: `TOOL/NAME.NAME` as named by the tool, unit included, or a count such as `findings.critical`.
        evidence: Evidence that contains it; empty for a count.
        amount: Value of the metric.
    """

    name: str
    evidence: str
    amount: float


def metrics_of(certificate: Certificate) -> Iterator[CertificateMetric]:
    """Yield the metrics of a certificate: counts first, then the values recorded by each finished call, in order.

    A value is an integer or a decimal string under names of lower-case letters, digits and `_`.
    Lists are skipped.
    """
    severities = Counter(finding.claim.severity for finding in certificate.findings)
    for severity in Severity:
        yield CertificateMetric(f"findings.{severity}", "", float(severities[severity]))
    yield CertificateMetric("examined.files", "", float(len({each.path for each in certificate.examined})))
    yield CertificateMetric("examined.lines", "", float(sum(each.lines for each in certificate.examined)))
    left = MOST_OF_ALL
    for evidence in certificate.evidence:
        if evidence.outcome is not CallOutcome.COMPLETED or not _TOOL.fullmatch(evidence.tool):
            continue
        for number, (path, amount) in enumerate(_numbers(evidence.output)):
            if number == MOST_OF_ONE_CALL or not left:
                break
            left -= 1
            yield CertificateMetric(f"{evidence.tool}/{path}", plain(evidence.id), amount)


def fitting(wanted: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that match a user's text: the exact name, else names that end with or contain it."""
    known = sorted(names)
    if wanted in known:
        return (wanted,)
    whole = re.split(r"[./]", wanted)
    for is_meant in (_ends_with, _has_within):
        if found := tuple(each for each in known if is_meant(re.split(r"[./]", each), whole)):
            return found
    return ()


def spark_line(amounts: Sequence[float]) -> str:
    """Return values as one line of bars; the lowest value has the shortest bar."""
    if not amounts:
        return ""
    low, high = min(amounts), max(amounts)
    # Halved before subtraction: the range of two floats may overflow.
    span = high / 2 - low / 2
    middle = len(_BARS) // 2
    if not span:
        return _BARS[middle] * len(amounts)
    return "".join(_BARS[min(int((amount / 2 - low / 2) / span * len(_BARS)), len(_BARS) - 1)] for amount in amounts)


def amount_text(amount: float) -> str:
    """Format a value for display; whole numbers without a decimal point."""
    return f"{amount:.0f}" if amount.is_integer() and abs(amount) < 1e15 else f"{amount:.6g}"  # noqa: PLR2004 - exact


def _numbers(thing: Any, path: str = "", depth: int = 1) -> Iterator[tuple[str, float]]:
    if not isinstance(thing, Mapping) or depth > _DEEPEST:
        return
    for name in sorted(each for each in thing if _NAME.fullmatch(each) and each not in _NOT_MEASURED):
        value = thing[name]
        # A new certificate has floats, which its statement records as text.
        amount = number_of(to_json(value) if isinstance(value, float | int) else value)
        if amount is not None:
            yield f"{path}{name}", amount
        else:
            yield from _numbers(thing[name], f"{path}{name}.", depth + 1)


def _ends_with(parts: list[str], wanted: list[str]) -> bool:
    return parts[-len(wanted) :] == wanted


def _has_within(parts: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return any(parts[at : at + size] == wanted for at in range(len(parts) - size + 1))
