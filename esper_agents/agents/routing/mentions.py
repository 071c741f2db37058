"""Names of agents in a request: whether it asks for the agent, denies it, or writes about its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from esper_agents.agents.routing.features import words
from esper_agents.agents.routing.orders import order_spans
from esper_agents.agents.routing.passages import Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from esper_agents.agents.routing.features import Stretch, Word

# Words before the name of an agent that the request asks for.
_ASKING = frozenset({"ask", "use", "call", "have", "let", "get", "to", "by", "consult", "with", "via", "ping", "frag"})
# Words after the name of an agent, or before it with "of", if the request is about its work.
_WORK = frozenset(
    {"says", "said", "suggested", "recommended", "proposed", "claims", "claimed", "found", "reported", "report"}
    | {"concluded", "approved", "certified", "wrote", "thinks", "measured", "did", "signed", "rejected", "was", "has"}
    | {"had", "finding", "findings", "conclusion", "review", "certificate", "answer", "verdict", "s", "already"}
)
_ARTICLES = frozenset({"the", "our", "den", "die", "das", "le", "la"})


class Mention(NamedTuple):
    """The name of an agent in a passage.

    Attributes:
        agent: The agent.
        text: Its name, as the request contains it.
        positions: Positions of the words of its name.
        is_asked: Whether the request asks for the agent.
        is_denied: Whether it says not to ask the agent.
    """

    agent: str
    text: str
    positions: range
    is_asked: bool
    is_denied: bool


class AgentNames:
    """Names of agents, as requests contain them."""

    def __init__(self, names: Iterable[str]) -> None:
        """Index the names; the namespace of a project's or plugin's agent is optional in a request."""
        self._by_first: dict[str, list[tuple[list[str], str]]] = {}
        for name in names:
            parts = [word.folded for word in words(name.rpartition(":")[2])]
            if parts:
                self._by_first.setdefault(parts[0], []).append((parts, name))

    def find(self, stretch: Stretch) -> Iterator[Mention]:
        """Yield the mentions in prose; a name of one word counts only if the request addresses it."""
        if stretch.passage.kind is not Kind.PROSE:
            return
        found = stretch.words
        for position, word in enumerate(found):
            for parts, name in self._by_first.get(word.folded, ()):
                end = position + len(parts)
                if [other.folded for other in found[position:end]] != parts:
                    continue
                after = found[end].folded if end < len(found) else ""
                if len(parts) > 1 or after == "agent" or _is_addressed(stretch, position):
                    is_work = after in _WORK or _is_work_of(found, position)
                    is_asked = not is_work and not _is_order(stretch, position)
                    text = stretch.passage.text[word.start : found[end - 1].end]
                    yield Mention(name, text, range(position, end), is_asked, position in stretch.denied)


def _is_addressed(stretch: Stretch, position: int) -> bool:
    if stretch.passage.text[: stretch.words[position].start].endswith("@"):
        return True
    before = [word.folded for word in stretch.words[max(0, position - 2) : position] if word.folded not in _ARTICLES]
    return bool(before) and before[-1] in _ASKING


def _is_work_of(found: Sequence[Word], position: int) -> bool:
    before = [word.folded for word in found[max(0, position - 3) : position] if word.folded not in _ARTICLES]
    return len(before) > 1 and before[-1] in {"of", "from", "by"} and before[-2] in _WORK


def _is_order(stretch: Stretch, position: int) -> bool:
    """Return whether the sentence with the name gives orders to the router."""
    at = stretch.words[position].start
    return any(start <= at < end for start, end in order_spans(stretch.passage.text))
