"""Collect warnings about one definition file and build the error that rejects it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.agent import DefinitionWarning
from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.agents.strict_yaml import YamlWarning

_SHOWN_CHARACTERS = 60
# A maliciously odd file must not fill the screen.
_MOST_ODDITIES = 100


def shorten(text: object, limit: int = _SHOWN_CHARACTERS) -> str:
    """Return untrusted text as a quoted literal, truncated to keep messages on one short line."""
    whole = str(text)
    return repr(whole if len(whole) <= limit else whole[: limit - 3] + "...")


class DefinitionWarnings:
    """Collector of the warnings about one file, in order of detection.

    Attributes:
        path: Name of the file in messages.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._oddities: list[DefinitionWarning] = []

    def add(self, line: int, problem: str, remedy: str) -> None:
        """Record a warning about an accepted part; a duplicate is recorded once."""
        oddity = DefinitionWarning(self.path, line, problem, remedy)
        if len(self._oddities) < _MOST_ODDITIES and oddity not in self._oddities:
            self._oddities.append(oddity)

    def extend_from(self, remarks: Iterable[YamlWarning]) -> None:
        """Record the warnings of a YAML reader of the same file."""
        for remark in remarks:
            self.add(remark.line, remark.problem, remark.remedy)

    def refusal(self, problem: str, *, remedy: str, line: int | None = None) -> DefinitionError:
        """Return the error to raise if the file cannot be used at all."""
        return DefinitionError(self.path, problem, remedy=remedy, line=line)

    def all(self) -> tuple[DefinitionWarning, ...]:
        """Return the warnings sorted by line."""
        return tuple(sorted(self._oddities, key=lambda oddity: oddity.line))
