"""Shared Jinja environment of all formats: loader, strictness and escaping filters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.answer import STANDINGS
from esper_agents.certificates.views.escaping import EscapedText
from esper_agents.certificates.views.view_model import Truncated, some
from esper_agents.jinja_environment import strict_environment
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jinja2 import Environment

    from esper_agents.certificates.views.escaping import TextEscaper

_LAYOUT = re.compile(r"[0-9]{1,4}\.[0-9a-f]{12}")


def environment(
    ink: TextEscaper, finalize: Callable[[Any], object], *, is_html: bool, folder: str = "certificates"
) -> Environment:
    """Return an environment for the templates of one format.

    Args:
        ink: Escaper of the format.
        finalize: Escapes the value of each expression with the same ink.
        is_html: Whether Jinja also escapes values that `finalize` does not mark as escaped.
        folder: Packaged data folder with the templates; see `paths.data_folder`.
    """
    made = strict_environment(folder, finalize, autoescape=is_html, shared="certificates")

    def listed(names: Sequence[str]) -> EscapedText:
        """Return the first fifty names as a list in one line."""
        shown = some(names)
        return EscapedText(", ".join(ink.code(name).text for name in shown.shown) + more_of(shown))

    made.filters |= {"code": ink.code, "fence": ink.fence, "listed": listed, "ms": _milliseconds}
    made.globals |= {"some": some, "standings": {each.value: text for each, text in STANDINGS.items()}}
    return made


def earlier(layout: str, suffix: str) -> str:
    """Return the name of a file of an earlier layout in the data folder; empty if that layout is unknown.

    Args:
        layout: Name of the layout in the view.
        suffix: Suffix of the file, such as `.md.j2`.
    """
    name = f"layouts/{layout}{suffix}"
    is_known = _LAYOUT.fullmatch(layout) is not None and (data_folder("certificates") / name).is_file()
    return name if is_known else ""


def more_of(entries: Truncated[Any]) -> str:
    """Return a note with the number of omitted entries; empty if there are none."""
    return f" and {entries.more} more, see the record" if entries.more else ""


def _milliseconds(duration_ns: int) -> str:
    return f"{duration_ns // 1_000_000}.{duration_ns // 100_000 % 10}"
