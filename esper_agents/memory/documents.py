"""The three Markdown documents that show an agent's notes to people."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.domain.memory import Note

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|!~&])")
_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def document(agent: str, kind: NoteKind, notes: Sequence[Note]) -> str:
    """Return one document as Markdown.

    Args:
        agent: Whose.
        kind: Which of the three.
        notes: The agent's notes of that kind, newest first, in every state.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(data_folder("memory")),
        undefined=StrictUndefined,
        finalize=_shown,
        autoescape=False,  # noqa: S701 - Markdown; `finalize` escapes every expression, and nobody can forget it
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    current = [each for each in notes if each.state is NoteState.CURRENT]
    past = [each for each in notes if each.state is not NoteState.CURRENT]
    return environment.get_template(f"{kind}.md.j2").render(agent=agent, current=current, past=past)


def _shown(value: object) -> str:
    """Return text that is one line and no markup, whatever it holds."""
    text = "".join(each if unicodedata.category(each) not in _HIDDEN else " " for each in str(value))
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
