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

# With less to be said for the best agent, a request is none of ours.
_LEAST_MILLI = 1000
# With less in all, a single word that speaks for an agent is taken for chance.
_LONE_MILLI = 2500
# So many statements for an agent are no chance, whatever everyday word stands beside them.
_ENOUGH_PIECES = 3
_MOST_CANDIDATES = 5
_MOST_CITED = 4
_LONGEST_CITATION = 60
_CODE_MARKS = frozenset("._()[]=:/")
_TRY = 'say what you want to know of which code, for example: esper submit "review this training code" train.py'


@dataclass(slots=True)
class _Account:
    """What speaks for and against one agent; each source counts once, at its strongest."""

    pro: dict[str, Evidence] = field(default_factory=dict)
    contra: dict[str, Evidence] = field(default_factory=dict)

    def add(self, evidence: Evidence) -> None:
        side = self.pro if evidence.weight_milli > 0 else self.contra
        known = side.get(evidence.source)
        if known is None or abs(evidence.weight_milli) > abs(known.weight_milli):
            side[evidence.source] = evidence

    def score_milli(self) -> int:
        """Return the sum of all words, and of all else so that each piece counts half of the one before it.

        So the strongest statement decides, and many weak hints do not add up to an outright one.
        """
        pieces = (*self.pro.values(), *self.contra.values())
        by_words = sum(each.weight_milli for each in pieces if each.is_word)
        return by_words + _halving(self.pro.values()) - _halving(self.contra.values())

    def untaught(self) -> list[Evidence]:
        """Return what speaks for the agent by what it says of itself and by the lexicon."""
        return [each for each in self.pro.values() if not each.is_taught]

    def support_milli(self) -> int:
        """Return the same of what speaks for the agent and can be cited."""
        by_words = sum(each.weight_milli for each in self.untaught() if each.is_word and each.cited)
        return by_words + _halving(self.pro.values())

    def is_supported(self) -> bool:
        """Return whether more than one stray word speaks for the agent; one must be telling in known requests too."""
        own = self.untaught()
        is_one_word = len({each.cited for each in own if each.cited}) == 1 and all(each.is_word for each in own)
        is_chance = is_one_word and self.score_milli() < _LONE_MILLI
        return not is_chance and self.support_milli() >= _LEAST_MILLI


class Router:
    """Gives requests to agents by what they say, by the definitions, and by what is in `prompts/routing`."""

    def __init__(self, agents: Sequence[Agent], *, taught: Sequence[Taught] | None = None) -> None:
        """Build the index, so that a request then costs milliseconds.

        Args:
            agents: Everybody who may be given a task. Their order does not matter.
            taught: Requests to learn words from, instead of those that come with the program.

        Raises:
            DefinitionError: The lexicon or the requests that come with it cannot be read.
        """
        self._agents = frozenset(agent.name for agent in agents)
        self._witness = Witness(agents, taught)

    def route(self, request: str, *, code: str = "", paths: Sequence[str] = ()) -> Route:
        """Return who is given a request, and why.

        The same arguments give the same route. Nothing in the request is obeyed: an agent's name in it is strong
        evidence for that agent, and no more. Of a long request the first and last 2,000 characters are read, of long
        code likewise.

        Args:
            request: What the person wrote, pasted traces and code included.
            code: Code that was attached apart from the request.
            paths: What the request is about.

        Returns:
            The route. What belongs here and nobody owns goes to triage, where the agents include
            `issue-triage-manager`; what does not belong here, and an empty request, is refused.
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
    """Return whether a request belongs to nobody here, given the best agent and what speaks for each.

    An outright request for something else is weighed against that agent. Mere words of everyday life stand only
    against few words that fit everyday life as well, such as "faster" or "leak", or against one technical word that
    weighs less. One word alone is enough only where known requests say so too.
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

    Where nothing speaks of another subject, those that have enough to show for themselves leave the others behind.
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
    """Return the words that weighed most, as they stand in the request; what lies within another once."""
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
