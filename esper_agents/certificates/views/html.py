"""Self-contained HTML view of a certificate, without scripts or network requests."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.views.escaping import EscapedText
from esper_agents.certificates.views.html_escaping import HtmlInk
from esper_agents.certificates.views.plots import Plot, plots_of
from esper_agents.certificates.views.templates import earlier, environment, more_of
from esper_agents.certificates.views.view_model import CertificateView, FindingGroup, Truncated, some, view_of
from esper_agents.domain.finding import Severity, counted
from esper_agents.domain.status import STANCES, QuestionType, Stance
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jinja2 import Environment

    from esper_agents.domain.certificate import Certificate
    from esper_agents.domain.evidence import Evidence
    from esper_agents.domain.verdict import Verdict

TEMPLATE = "certificate.html.j2"
_SHARED = "shared.html.j2"
STYLE = "certificate.css"
# Increased when the same template gives other bytes.
_LAYOUT_VERSION = 2
_LONGEST_RECORD = 4000
_INK = HtmlInk()
_ASKED = {
    QuestionType.APPROVAL: "Approval was asked",
    QuestionType.GO: "Leave to go ahead was asked",
    QuestionType.RECOMMENDATION: "A recommendation was asked",
    QuestionType.ADVICE: "Advice was asked",
}
_SAID = {
    Stance.FOR: "nothing on record speaks against it",
    Stance.CONDITIONAL: "yes, once the conditions are met",
    Stance.UNDECIDED: "what is on record does not suffice to decide",
    Stance.AGAINST: "what is on record speaks against it",
    Stance.REJECTED: "so much on record speaks against it that it is turned down",
    Stance.EMERGENCY: "stop: this must not go on as it is",
}


@dataclass(frozen=True, slots=True)
class VerdictLevel:
    """Stance on the scale from best to worst.

    Attributes:
        stance: Stance of the level.
        is_verdict: Whether the verdict has this stance.
        is_ceiling: Whether this is the ceiling.
        is_allowed: Whether the policy allowed it.
    """

    stance: str
    is_verdict: bool
    is_ceiling: bool
    is_allowed: bool


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measurement with its plots.

    Attributes:
        evidence: Evidence of the call.
        plots: Plots of its recorded values.
    """

    evidence: Evidence
    plots: tuple[Plot, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Content of the HTML page that other views do not have.

    Attributes:
        tone: Good, caution, open, bad, stop or plain; decides the colour and symbol of the status.
        answer: Verdict as text.
        ladder: Stances from best to worst.
        found: Number of findings per severity, as text.
        measurements: Measurements with plots.
        numbers: Number of each displayed evidence on the page, by ID, from 1.
        anchors: Anchor of the first displayed finding of each place and rule.
        layout: Name of the layout.
        style: Style sheet.
        style_sha256: Digest of the style sheet for the content security policy.
    """

    tone: str
    answer: str
    ladder: tuple[VerdictLevel, ...]
    found: str
    measurements: Truncated[Measurement]
    numbers: dict[str, int]
    anchors: dict[tuple[str, str], str]
    layout: str
    style: EscapedText
    style_sha256: str


def render_html(data: bytes, named: str = "") -> str:
    """Render a certificate as an HTML page, deterministically on every machine.

    Whatever its texts contain, the page has one element with the status, no element or attribute that is not the
    template's, no script, and no external resource.

    Args:
        data: Bytes of the statement.
        named: Layout for which `is_known_html_layout` is true; the current one if empty.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    view, named = view_of(data), named or html_layout()
    template, style = _files_of(named)
    text = html_environment().get_template(template).render(view=view, page=_page(view, named, style))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n") + "\n"


def html_layout() -> str:
    """Return the name of the layout that this version renders."""
    parts = b"\0".join((data_folder("certificates") / name).read_bytes() for name in (TEMPLATE, _SHARED, STYLE))
    return f"{_LAYOUT_VERSION}.{sha256(parts).hexdigest()[:12]}"


def is_known_html_layout(named: str) -> bool:
    """Return whether pages of this layout can be rendered: the current one, or one of an earlier version."""
    return named == html_layout() or bool(earlier(named, ".html.j2"))


def _files_of(named: str) -> tuple[str, str]:
    """Return the names of the template and style sheet of a layout in the data folder."""
    is_today = named == html_layout()
    return (TEMPLATE, STYLE) if is_today else (earlier(named, ".html.j2"), earlier(named, ".css"))


def _page(view: CertificateView, named: str, style_file: str) -> Page:
    certificate = view.certificate
    style = "\n" + "\n".join(
        line.rstrip() for line in (data_folder("certificates") / style_file).read_text("utf-8").split("\n")
    )
    numbers: dict[str, int] = {}
    for at, each in enumerate(view.evidence.shown, 1):
        numbers.setdefault(each.id, at)
    return Page(
        tone=tone_of(certificate.verdict),
        answer=_answer(certificate.verdict),
        ladder=_ladder(certificate.verdict),
        found=_found(certificate),
        measurements=some(_measurements(certificate.evidence)),
        numbers=numbers,
        anchors=_anchors(view.groups),
        layout=named,
        style=EscapedText(style),
        style_sha256=base64.b64encode(sha256(style.encode()).digest()).decode(),
    )


def tone_of(verdict: Verdict) -> str:
    """Return the tone of a verdict: good, caution, open, bad, stop or plain."""
    match verdict.stance:
        case Stance.EMERGENCY:
            return "stop"
        case Stance.UNDECIDED:
            return "open"
        case Stance.FOR | Stance.CONDITIONAL | Stance.AGAINST | Stance.REJECTED if verdict.kind is QuestionType.ADVICE:
            return "plain"
        case Stance.FOR:
            return "good"
        case Stance.CONDITIONAL:
            return "caution"
        case Stance.AGAINST | Stance.REJECTED:
            return "bad"


def _answer(verdict: Verdict) -> str:
    return f"{_ASKED[verdict.kind]}; {_SAID[verdict.stance]}."


def _ladder(verdict: Verdict) -> tuple[VerdictLevel, ...]:
    best = STANCES.index(verdict.ceiling.stance)
    return tuple(
        VerdictLevel(stance.value, stance is verdict.stance, stance is verdict.ceiling.stance, at >= best)
        for at, stance in enumerate(STANCES)
    )


def _anchors(groups: Iterable[FindingGroup]) -> dict[tuple[str, str], str]:
    """Return the anchors of the displayed findings; they are numbered in the order of the page, from 1."""
    anchors: dict[tuple[str, str], str] = {}
    shown = [finding for group in groups for finding in group.findings.shown]
    for number, finding in enumerate(shown, 1):
        anchors.setdefault((str(finding.claim.location), finding.claim.rule), f"f{number}")
    return anchors


def _found(certificate: Certificate) -> str:
    order: list[Severity] = [finding.claim.severity for finding in certificate.findings]
    return counted(order)


def measurements_of(evidence: Iterable[Evidence]) -> tuple[Measurement, ...]:
    """Return the measurements among pieces of evidence, with their plots."""
    return tuple(_measurements(evidence))


def _measurements(evidence: Iterable[Evidence]) -> Iterator[Measurement]:
    for each in evidence:
        if plots := plots_of(each):
            yield Measurement(each, plots)


class _Escaped:
    """Markup that a template writes unchanged; everything else is escaped."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __html__(self) -> str:
        return self.text


@cache
def html_environment(folder: str = "certificates") -> Environment:
    """Return the environment of the HTML templates in a packaged data folder; every expression is escaped.

    Args:
        folder: Name of the folder; see `paths.data_folder`.
    """

    def finalize(value: Any) -> _Escaped:
        # Anything that no ink produced is text, even if it claims to be markup.
        return _Escaped((value if isinstance(value, EscapedText) else _INK.prose(str(value))).text)

    made = environment(_INK, finalize, is_html=True, folder=folder)
    made.filters |= {"block": _INK.block, "listing": _INK.listing, "record": _record, "references": _references}
    made.filters["rendered"] = _rendered
    return made


def _rendered(macro: object) -> EscapedText:
    """Return the output of a macro of the templates, whose values are escaped already.

    Raises:
        TypeError: It is a text, and not the output of a macro.
    """
    if not hasattr(macro, "__html__"):
        raise TypeError("only the output of a macro is markup")
    return EscapedText(str(macro))


def _references(identifiers: Sequence[str], numbers: dict[str, int]) -> EscapedText:
    """Return links to the evidence with these IDs that the page shows."""
    shown = some(identifiers)
    links = [
        f'<a href="#e{numbers[each]}">evidence {numbers[each]}</a>' if each in numbers else _INK.code(each).text
        for each in shown.shown
    ]
    return EscapedText(", ".join(links) + more_of(shown))


def _record(value: object) -> EscapedText:
    """Return the beginning of a JSON value, laid out in lines."""
    pieces, length = [], 0
    # In pieces: only the beginning of a value of a hundred megabytes is serialized.
    for piece in json.JSONEncoder(indent=1, sort_keys=True, ensure_ascii=False).iterencode(value):
        pieces.append(piece[:_LONGEST_RECORD])
        length += len(piece)
        if length > _LONGEST_RECORD:
            return _INK.block("".join(pieces)[:_LONGEST_RECORD] + "\n... the rest is in the record")
    return _INK.block("".join(pieces))
