"""Markdown and terminal views of a certificate."""

from __future__ import annotations

import re
import textwrap
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.views.escaping import EscapedText, MarkdownInk, TerminalInk
from esper_agents.certificates.views.templates import earlier, environment, more_of
from esper_agents.certificates.views.view_model import CertificateView, Truncated, some, view_of
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jinja2 import Environment

    from esper_agents.certificates.views.escaping import TextEscaper

TEMPLATE = "certificate.md.j2"
# Increased when the same template gives other bytes, so that older views are distinguished from altered ones.
_LAYOUT_VERSION = 2
_LABEL = re.compile(r"\*\*([A-Z][A-Za-z ]*)\*\*:")
# A blank line that Markdown needs and a terminal does not: any that is not in front of a heading.
_BLANK_LINE = re.compile(r"\n\n(?!#)")
_HEADING = re.compile(r"#+ (.*)")
_INDENT = re.compile(r"\s*(?:- |[0-9]+ \| )?")
_NARROWEST = 20


def render_markdown(data: bytes, named: str = "") -> str:
    """Render a certificate as Markdown, deterministically on every machine.

    Whatever its texts contain, there is one line that starts with `**Status**:` and no heading, link, image or HTML
    that is not the template's.

    Args:
        data: Bytes of the statement.
        named: Layout for which `is_known_layout` is true; the current one if empty.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    return _render(view_of(data), MarkdownInk(), named or layout())


def render_text(data: bytes, width: int) -> str:
    """Render a certificate as plain text for a terminal, with lines of at most `width` if they can be broken.

    Only lines of the template start in the first column.

    Raises:
        IntegrityError: The bytes are not a certificate.
    """
    lines = _BLANK_LINE.sub("\n", _render(view_of(data), TerminalInk(), layout())).split("\n")
    return "\n".join(part for line in lines for part in _wrapped(line, max(width, _NARROWEST)))


def layout() -> str:
    """Return the name of the layout that this version renders."""
    template = (data_folder("certificates") / TEMPLATE).read_bytes()
    return f"{_LAYOUT_VERSION}.{sha256(template).hexdigest()[:12]}"


def is_known_layout(named: str) -> bool:
    """Return whether views of this layout can be rendered: the current one, or one of an earlier version."""
    return named == layout() or bool(earlier(named, ".md.j2"))


def _render(view: CertificateView, ink: TextEscaper, named: str) -> str:
    cited = _Cited(view)
    template = _environment(type(ink)).get_template(TEMPLATE if named == layout() else earlier(named, ".md.j2"))
    text = template.render(view=view, layout=named, lines_cited=cited.lines)
    squeezed = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n")))
    return squeezed.strip("\n") + "\n"


@cache
def _environment(make_ink: type[TextEscaper]) -> Environment:
    ink = make_ink()

    def finalize(value: Any) -> str:
        return value.text if isinstance(value, EscapedText) else ink.prose(str(value)).text

    made = environment(ink, finalize, is_html=False)
    made.filters |= {"cell": ink.cell}
    return made


class _Cited:
    """Cited lines of each file."""

    def __init__(self, view: CertificateView) -> None:
        self.by_path: dict[str, list[int]] = {}
        for finding in view.certificate.findings:
            location = finding.claim.location
            self.by_path.setdefault(location.path, []).append(location.line)

    def lines(self, path: str) -> str:
        cited: Truncated[int] = some(sorted(set(self.by_path.get(path, ()))))
        return ", ".join(str(line) for line in cited.shown) + more_of(cited)


def _wrapped(line: str, width: int) -> Iterable[str]:
    heading = _HEADING.fullmatch(line)
    if heading:
        return textwrap.wrap(heading.group(1), width)
    labelled = _LABEL.sub(r"\1:", line, count=1) if line.startswith("**") else line
    found = _INDENT.match(labelled)
    deeper = " " * max(len(found.group()) if found else 0, 2)
    return textwrap.wrap(labelled, width, subsequent_indent=deeper, break_on_hyphens=False, break_long_words=False) or (
        "",
    )
