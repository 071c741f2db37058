"""Select the agent for a request without a model, and explain it in the request's words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.agents.routing.evidence import REFUSED, Evidence, Witness
from esper_agents.agents.routing.passages import HEAD, TAIL
from esper_agents.domain.route import Route, RouteCandidate, RouteOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.agents.routing.taught import Taught
    from esper_agents.domain.agent import Agent

TRIAGE = "issue-triage-manager"

# Minimum score of the best agent for a request to be in scope.
_LEAST_MILLI = 1000
# Minimum total; below it, a single supporting word counts as chance.
_LONE_MILLI = 2500
# Number of supporting statements that rules out chance, whatever everyday words occur next to them.
_ENOUGH_PIECES = 3
_MOST_CANDIDATES = 5
_MOST_CITED = 4
_LONGEST_CITATION = 60
_CODE_MARKS = frozenset("._()[]=:/")
_TRY = 'state a question and the code it is about, for example: esper submit "review this training code" train.py'


@dataclass(slots=True)
class _Account:
    """Evidence for and against one agent; each source counts once, at its highest weight."""

    pro: dict[str, Evidence] = field(default_factory=dict)
    contra: dict[str, Evidence] = field(default_factory=dict)

    def add(self, evidence: Evidence) -> None:
        side = self.pro if evidence.weight_milli > 0 else self.contra
        known = side.get(evidence.source)
        if known is None or abs(evidence.weight_milli) > abs(known.weight_milli):
            side[evidence.source] = evidence

    def score_milli(self) -> int:
        """Return the sum over all words, plus the other evidence, of which every item weighs half of the one before it.

        So the strongest statement decides, and many weak hints do not add up to a strong one.
        """
        pieces = (*self.pro.values(), *self.contra.values())
        by_words = sum(each.weight_milli for each in pieces if each.is_word)
        return by_words + _halving(self.pro.values()) - _halving(self.contra.values())

    def untaught(self) -> list[Evidence]:
        """Return the evidence for the agent from its definition and from the lexicon."""
        return [each for each in self.pro.values() if not each.is_taught]

    def support_milli(self) -> int:
        """Return the total weight of that evidence, as far as it can be cited."""
        by_words = sum(each.weight_milli for each in self.untaught() if each.is_word and each.cited)
        return by_words + _halving(self.pro.values())

    def is_supported(self) -> bool:
        """Return whether more than one stray word supports the agent; one must be distinctive in known requests too."""
        own = self.untaught()
        is_one_word = len({each.cited for each in own if each.cited}) == 1 and all(each.is_word for each in own)
        is_chance = is_one_word and self.score_milli() < _LONE_MILLI
        return not is_chance and self.support_milli() >= _LEAST_MILLI


class Router:
    """Router that selects agents by the request, the definitions and the data in `prompts/routing`."""

    def __init__(self, agents: Sequence[Agent], *, taught: Sequence[Taught] | None = None) -> None:
        """Build the index once, so that routing a request takes milliseconds.

        Args:
            agents: All agents that can receive a task, in any order.
            taught: Requests to learn words from, instead of the bundled ones.

        Raises:
            DefinitionError: The bundled lexicon or requests cannot be read.
        """
        self._agents = frozenset(agent.name for agent in agents)
        self._witness = Witness(agents, taught)

    def route(self, request: str, *, code: str = "", paths: Sequence[str] = ()) -> Route:
        """Return the route of a request: the selected agent and the explanation.

        Equal arguments give equal routes. Nothing in the request is an instruction: an agent's name in it is strong
            evidence for that agent, and no more. Only the first and last 2,000 characters of a long request are read,
            and of long code likewise.

        Args:
            request: The user's text, including pasted traces and code.
            code: Code that is attached separately.
            paths: The paths of the task.

        Returns:
            The route. A request in scope that no agent owns goes to triage, if the agents include
            `issue-triage-manager`; a request out of scope, or an empty one, is refused.
        """
        if not (request.strip() or code.strip()):
            return Route(RouteOutcome.REFUSED, "", (), f"refused: the request is empty; {_TRY}")
        accounts: dict[str, _Account] = {}
        for evidence in self._witness.evidence(request, code, paths):
            accounts.setdefault(evidence.agent, _Account()).add(evidence)
        elsewhere = accounts.pop(REFUSED, _Account())
        ours = {name: account for name, account in accounts.items() if name in self._agents}
        candidates = _ranked(ours, is_settled=not elsewhere.untaught())
        if not candidates or _is_elsewhere(candidates[0], ours, elsewhere):
            return Route(RouteOutcome.REFUSED, "", candidates, _refusal(elsewhere))
        best = candidates[0]
        outcome = RouteOutcome.TRIAGE if best.agent == TRIAGE else RouteOutcome.ASSIGNED
        return Route(outcome, best.agent, candidates, _explanation(candidates) + _bound_note(request, code))


def _is_elsewhere(best: RouteCandidate, ours: Mapping[str, _Account], elsewhere: _Account) -> bool:
    """Return whether a request is out of scope, given the best agent and the evidence for every agent.

    Strong evidence for another subject is weighed against that agent. Everyday words count only against a few words
    that are everyday words as well, such as "faster" or "leak", or against one technical word that weighs less. One
    word alone is sufficient only if known requests support it too.
    """
    account = ours[best.agent]
    own = account.untaught()
    if not account.is_supported():
        return True
    abroad = elsewhere.untaught()
    outright = _halving(each for each in abroad if not each.is_bare)
    if outright > 0 and outright >= min(best.score_milli, _halving(own)):
        return True
    subject = max(_halving(each for each in other.untaught() if not each.is_bare) for other in ours.values())
    is_thin = sum(not each.is_word for each in own) < _ENOUGH_PIECES
    return bool(abroad) and is_thin and subject <= _halving(abroad)


def _halving(pieces: Iterable[Evidence]) -> int:
    weights = sorted((abs(each.weight_milli) for each in pieces if not each.is_word), reverse=True)
    return sum(weight >> place for place, weight in enumerate(weights))


def _ranked(accounts: dict[str, _Account], *, is_settled: bool) -> tuple[RouteCandidate, ...]:
    """Return the candidates, best first.

    If no evidence points to another subject, agents with sufficient evidence remove the others from the list.
    """
    found = [
        RouteCandidate(
            name, account.score_milli(), _citations(account.pro.values()), _objections(account.contra.values())
        )
        for name, account in accounts.items()
        if any(each.cited for each in account.pro.values())
    ]
    if is_settled:
        found = [each for each in found if accounts[each.agent].is_supported()] or found
    found.sort(key=lambda each: (-each.score_milli, each.agent))
    return tuple(found[:_MOST_CANDIDATES])


def _citations(pieces: Iterable[Evidence]) -> tuple[str, ...]:
    """Return the words with the highest weight, as they appear in the request; a nested one is cited once."""
    cited: list[str] = []
    for each in sorted(pieces, key=lambda piece: (-piece.weight_milli, piece.source)):
        words = _plain(each.cited)
        if words and not any(words in longer for longer in cited):
            cited.append(words)
    return tuple(cited[:_MOST_CITED])


def _objections(pieces: Iterable[Evidence]) -> tuple[str, ...]:
    strongest = sorted(pieces, key=lambda each: (each.weight_milli, each.source))
    said = (f"{_quoted(_plain(each.cited))}: {each.note}" for each in strongest if each.note)
    return tuple(dict.fromkeys(said))[:_MOST_CITED]


def _explanation(candidates: Sequence[RouteCandidate]) -> str:
    best, *others = candidates
    reason = "because: " + ", ".join(_quoted(each) for each in best.because)
    if best.agent == TRIAGE:
        reason += ", which no other agent owns outright"
    return reason + ("; not: " + ", ".join(_shortfall(each) for each in others[:2]) if others else "")


def _shortfall(candidate: RouteCandidate) -> str:
    if candidate.against:
        return f"{candidate.agent} ({candidate.against[0]})"
    return f"{candidate.agent} (only {', '.join(_quoted(each) for each in candidate.because[:2])})"


def _refusal(elsewhere: _Account) -> str:
    cited = _citations(elsewhere.untaught())
    about = ", ".join(_quoted(each) for each in cited) + " is not" if cited else "nothing in it is"
    return f"refused: {about} about software or machine learning, sorry; {_TRY}"


def _bound_note(request: str, code: str) -> str:
    longest = max(len(request), len(code))
    return f"; read: the first {HEAD} and last {TAIL} of {longest} characters" if longest > HEAD + TAIL else ""


def _plain(text: str) -> str:
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= _LONGEST_CITATION else line[: _LONGEST_CITATION - 1] + "…"


def _quoted(text: str) -> str:
    return f"`{text}`" if _CODE_MARKS.intersection(text) else f"'{text}'"
