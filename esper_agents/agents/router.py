"""Select the agent for a request without a model, and explain it in the request's words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import TYPE_CHECKING

from esper_agents.agents.routing.citations import Citations, printable
from esper_agents.agents.routing.definitions import DefinedAgents
from esper_agents.agents.routing.features import features, read_request
from esper_agents.agents.routing.mentions import AgentNames
from esper_agents.agents.routing.passages import HEAD, TAIL
from esper_agents.agents.routing.weights import load_weights
from esper_agents.domain.route import Route, RouteCandidate, RouteOutcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from esper_agents.agents.routing.definitions import DefinitionScore
    from esper_agents.agents.routing.features import Stretch
    from esper_agents.agents.routing.mentions import Mention
    from esper_agents.agents.routing.weights import Weights
    from esper_agents.domain.agent import Agent

TRIAGE = "issue-triage-manager"
REFUSED = "refused"

# Added to the score of an agent that the request asks for; taken from the score of one that it denies.
_NAMED, _DENIED = 2.6, -2.0
# Scores to shares: a difference of this much is a factor of e.
_TEMPERATURE = 0.25
_LEAST_SHARE_MILLI = 10
_MOST_CANDIDATES = 5
_MOST_REASONS = 4
_CODE_MARKS = frozenset("._()[]=:/")
_TRY = 'state a question and the code it is about, for example: esper submit "review this training code" train.py'


@dataclass(frozen=True)
class _Reading:
    """A request as read, with the score of every label."""

    citations: Citations
    mentions: tuple[Mention, ...]
    scores: Mapping[str, float]
    definitions: Mapping[str, DefinitionScore]


class Router:
    """Router that selects agents by the request, trained weights and the definitions of other agents."""

    def __init__(self, agents: Sequence[Agent], *, weights: Weights | None = None) -> None:
        """Build the index once, so that routing a request takes milliseconds.

        Args:
            agents: All agents that can receive a task, in any order.
            weights: Trained weights instead of the bundled ones.

        Raises:
            DefinitionError: The bundled weights cannot be read.
        """
        self._agents = tuple(sorted(agents, key=lambda agent: agent.name))
        self._names = frozenset(agent.name for agent in agents)
        self._weights = weights or load_weights()

    @cached_property
    def _defined(self) -> DefinedAgents:
        unknown = [agent for agent in self._agents if agent.name not in self._weights.labels]
        return DefinedAgents(unknown, self._weights, self._names)

    @cached_property
    def _agent_names(self) -> AgentNames:
        return AgentNames(self._names)

    def route(
        self, request: str, *, code: str = "", paths: Sequence[str] = (), able: Collection[str] | None = None
    ) -> Route:
        """Return the route of a request: the selected agent and the explanation.

        Equal arguments give equal routes. Nothing in the request is an instruction: an agent's name in it is strong
            evidence for that agent, and no more. Only the first and last 2,000 characters of a long request are read,
            and of long code likewise.

        Args:
            request: The user's text, including pasted traces and code.
            code: Code that is attached separately.
            paths: The paths of the task.
            able: Agents that can act with what is available; of agents that fit almost equally, one of them is
                selected. None if all can.

        Returns:
            The route. A request in scope that no agent owns goes to triage, if the agents include
            `issue-triage-manager`; a request out of scope, or an empty one, is refused.
        """
        if not (request.strip() or code.strip()):
            return Route(RouteOutcome.REFUSED, "", (), f"refused: the request is empty; {_TRY}")
        reading = self._read(request, code, paths)
        ranked = sorted(self._names & reading.scores.keys(), key=lambda name: (-reading.scores[name], name))
        candidates = self._candidates(reading, ranked)
        if not candidates or candidates[0].agent != ranked[0] or self._is_out_of_scope(reading, ranked[0]):
            return Route(RouteOutcome.REFUSED, "", candidates, _refusal(reading))
        best = self._best_able(reading.scores, candidates, able)
        note = ""
        if best != ranked[0]:
            note = f"; {ranked[0]} fits slightly better but needs a model"
            candidates = _first(best, candidates)
        outcome = RouteOutcome.TRIAGE if best == TRIAGE else RouteOutcome.ASSIGNED
        return Route(outcome, best, candidates, _explanation(candidates) + note + _bound_note(request, code))

    def _read(self, request: str, code: str, paths: Sequence[str]) -> _Reading:
        stretches: list[Stretch] = []
        mentions: list[Mention] = []
        for stretch in read_request(request, code, paths):
            named = tuple(self._agent_names.find(stretch))
            mentions += named
            stretches.append(_without(stretch, named))
        found = features(stretches)
        rows = self._weights.known(found)
        scores = self._weights.scores(found, rows)
        definitions = self._defined.scores(found)
        for name, definition in definitions.items():
            scores[name] = max(scores.get(name, definition.score), definition.score)
        for mention in mentions:
            if mention.is_denied or mention.is_asked:
                scores[mention.agent] = scores.get(mention.agent, 0.0) + (_DENIED if mention.is_denied else _NAMED)
        return _Reading(Citations(stretches, rows, self._weights.labels), tuple(mentions), scores, definitions)

    def _is_out_of_scope(self, reading: _Reading, best: str) -> bool:
        """Return whether the request is about something else, or belongs to an agent that is not installed."""
        if best not in self._weights.labels and reading.scores[best] >= 0:
            # A project's own agent may be about anything.
            return False
        if reading.scores[REFUSED] - reading.scores[best] > self._weights.refusal_margin:
            return True
        absent = max((reading.scores[name] for name in self._weights.labels if name not in self._names), default=-9.0)
        lead = absent - reading.scores[best]
        return best != TRIAGE and reading.scores[best] < 0 and lead > self._weights.close_margin

    def _best_able(
        self, scores: Mapping[str, float], candidates: Sequence[RouteCandidate], able: Collection[str] | None
    ) -> str:
        names = [candidate.agent for candidate in candidates]
        close = (name for name in names if scores[names[0]] - scores[name] <= self._weights.close_margin)
        return next((name for name in close if able is None or name in able), names[0])

    def _candidates(self, reading: _Reading, ranked: Sequence[str]) -> tuple[RouteCandidate, ...]:
        weights = [exp((reading.scores[name] - reading.scores[ranked[0]]) / _TEMPERATURE) for name in ranked]
        shares = [round(1000 * weight / sum(weights)) for weight in weights]
        found: list[RouteCandidate] = []
        for name, share in zip(ranked[:_MOST_CANDIDATES], shares, strict=False):
            if share >= _LEAST_SHARE_MILLI or not found:
                because, against = self._reasons(reading, name, ranked[0])
                if because:
                    found.append(RouteCandidate(name, share, because, against))
        return tuple(found)

    def _reasons(self, reading: _Reading, name: str, best: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the words of the request for an agent, and what speaks against it."""
        named = [mention for mention in reading.mentions if mention.agent == name]
        because = [mention.text for mention in named if mention.is_asked and not mention.is_denied]
        against = [f"{_quoted(mention.text)}: denied" for mention in named if mention.is_denied]
        definition = reading.definitions.get(name)
        if definition is not None:
            because += reading.citations.of_words(definition.shared.__contains__)
            if definition.against:
                against.append(f"its definition excludes {_quoted(printable(definition.against))}")
        if name in self._weights.labels:
            because += reading.citations.for_label(name)
        if name != best and best in self._weights.labels and name in self._weights.labels:
            lost = reading.citations.for_label(best, other=name)
            against += [f"{_quoted(words)} fits {best}" for words in lost[:1]]
        return tuple(dict.fromkeys(because))[:_MOST_REASONS], tuple(against)[:_MOST_REASONS]


def _without(stretch: Stretch, mentions: Sequence[Mention]) -> Stretch:
    """Return a passage without the names of agents: they are counted as names, not as words."""
    named = {position for mention in mentions for position in mention.positions}
    if not named:
        return stretch
    kept = [position for position in range(len(stretch.words)) if position not in named]
    denied = frozenset(new for new, old in enumerate(kept) if old in stretch.denied)
    return stretch._replace(words=[stretch.words[position] for position in kept], denied=denied)


def _first(agent: str, candidates: Sequence[RouteCandidate]) -> tuple[RouteCandidate, ...]:
    """Return the candidates with the selected one first."""
    return tuple(sorted(candidates, key=lambda candidate: candidate.agent != agent))


def _explanation(candidates: Sequence[RouteCandidate]) -> str:
    best, *others = candidates
    reason = "because: " + ", ".join(_quoted(words) for words in best.because)
    if best.agent == TRIAGE:
        reason += ", which no other agent owns outright"
    return reason + ("; not: " + ", ".join(_shortfall(other) for other in others[:2]) if others else "")


def _shortfall(candidate: RouteCandidate) -> str:
    if candidate.against:
        return f"{candidate.agent} ({candidate.against[0]})"
    return f"{candidate.agent} (only {', '.join(_quoted(words) for words in candidate.because[:2])})"


def _refusal(reading: _Reading) -> str:
    cited = reading.citations.for_label(REFUSED)
    about = ", ".join(_quoted(words) for words in cited) + " is not" if cited else "nothing in it is"
    return f"refused: {about} about software or machine learning, sorry; {_TRY}"


def _bound_note(request: str, code: str) -> str:
    longest = max(len(request), len(code))
    return f"; read: the first {HEAD} and last {TAIL} of {longest} characters" if longest > HEAD + TAIL else ""


def _quoted(text: str) -> str:
    return f"`{text}`" if _CODE_MARKS.intersection(text) else f"'{text}'"
