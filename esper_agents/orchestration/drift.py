"""Detect drift between the recorded and the current definitions of a session."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from difflib import unified_diff
from types import MappingProxyType
from typing import TYPE_CHECKING

from esper_agents.agents.definition import read_definition
from esper_agents.certificates.policy.policy_file import load_policy, policy_text
from esper_agents.domain.drift import Accepted, DefinitionChange, DriftKind
from esper_agents.domain.reasoner_names import UNATTENDED
from esper_agents.domain.session import SessionState
from esper_agents.errors import UsageError
from esper_agents.orchestration.definition_snapshots import (
    agent_text,
    definition_of,
    kept_playbook,
    kept_text,
    skill_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.agents.registry import Registry
    from esper_agents.domain.agent import Agent
    from esper_agents.domain.certificate import Definition
    from esper_agents.orchestration.project_services import ProjectServices
    from esper_agents.orchestration.session_projection import SessionProjection
    from esper_agents.reasoning.reasoner import ReasonerSource

_SHORT = 12
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Drift:
    """Changed definition with both texts.

    Attributes:
        change: The changed definition.
        before: Text at session start; None if it is not stored.
        now: Current text; None if it is missing or unreadable.
    """

    change: DefinitionChange
    before: str | None
    now: str | None

    @property
    def heading(self) -> str:
        """One-line description of the change, such as `agent toy: 0123456789ab, now ba9876543210`."""
        before = self.change.before[:_SHORT] or "nothing"
        return f"{self.change.kind} {self.change.name}: {before}, now {self.change.now[:_SHORT] or 'gone'}"

    @property
    def lines(self) -> tuple[str, ...]:
        """Unified diff of the texts, as from `diff -u`; empty if one of them is missing."""
        if self.before is None or self.now is None:
            return ()
        names = "session start", "now"
        return tuple(
            each.rstrip("\n")
            for each in unified_diff(self.before.splitlines(), self.now.splitlines(), *names, n=2, lineterm="")
        )


class ChangedError(UsageError):
    """Definitions of a session changed, and the user has not chosen which ones to use.

    Attributes:
        drifts: Changed definitions.
    """

    def __init__(self, session_id: str, drifts: Sequence[Drift], command: str) -> None:
        some = [f"{drift.change.kind} {drift.change.name}" for drift in drifts[:_MOST_NAMED]]
        more = f" and {len(drifts) - len(some)} more" if len(drifts) > len(some) else ""
        super().__init__(
            f"definitions changed since session {session_id} started: {', '.join(some)}{more}",
            remedy=f"`{command} --definitions current` uses the current ones, `--definitions recorded` the recorded",
        )
        self.drifts = tuple(drifts)


def find_drift(services: ProjectServices, history: SessionProjection) -> tuple[Drift, ...]:
    """Return the definitions that changed since session start, or since a user last accepted changes.

    Agents that took part count, finished or not: their definitions are recorded in the certificate. A finished session
    has no drift.
    """
    if history.state not in {SessionState.OPEN, SessionState.WAITING}:
        return ()
    return differences(services, history)


def differences(services: ProjectServices, history: SessionProjection) -> tuple[Drift, ...]:
    """Return the recorded definitions that differ from the current ones, for finished sessions as well."""
    found: list[Drift] = []
    for known in _known(history).values():
        agent = services.agents.agents.get(known.agent)
        recorded = _recorded(history, known.agent)
        now = definition_of(services, agent, known.reasoner) if agent else None
        found.extend(_of_agent(services, known, recorded, agent, now))
    return (*found, *_of_policy(services, history))


def accepted(services: ProjectServices, history: SessionProjection, drifts: Sequence[Drift], by: str) -> Accepted:
    """Return the event with which a session resumes with the current definitions.

    Raises:
        UsageError: A participating agent is no longer installed.
    """
    for drift in drifts:
        if drift.change.kind is DriftKind.AGENT and not drift.change.now:
            raise UsageError(
                f"agent {drift.change.name!r} of session {history.session} is no longer installed",
                remedy=f"reinstall it, or run `esper resume {history.session} --definitions recorded`",
            )
    known = _known(history).values()
    definitions = tuple(definition_of(services, services.agents.get(each.agent), each.reasoner) for each in known)
    return Accepted(by, tuple(drift.change for drift in drifts), definitions, services.policy.sha256)


def recorded_services(
    services: ProjectServices, history: SessionProjection, drifts: Sequence[Drift]
) -> ProjectServices:
    """Return project services with the recorded agents, playbooks and policy of a session.

    Raises:
        UsageError: A recorded definition is not stored or cannot be restored.
        ReasonerError: A stored playbook does not fit this version of the program.
    """
    # The process pool is shared, so that the owner of the project closes it.
    _ = services.bench
    agents, playbooks = dict(services.agents.agents), dict(services.playbooks)
    known = {each.agent: each for each in _known(history).values() if not each.is_model}
    policy = services.policy
    for drift in drifts:
        change = drift.change
        name = change.name.partition(" of ")[2] or change.name
        match change.kind:
            case DriftKind.AGENT:
                agents[name] = _kept_agent(services, history, change)
            case DriftKind.PLAYBOOK:
                if name not in known:
                    raise _not_kept(change)
                playbooks[name] = _kept_playbook(services, known[name])
            case DriftKind.SKILL:
                # The available skills are recorded; their texts do not influence a playbook's decisions.
                continue
            case DriftKind.POLICY:
                if drift.before is None:
                    raise _not_kept(change)
                policy = load_policy(drift.before)
    before = copy(services)
    registry: Registry = replace(services.agents, agents=MappingProxyType(agents))
    vars(before).update(agents=registry, playbooks=playbooks, policy=policy)
    vars(before).pop("router", None)
    return before


def _known(history: SessionProjection) -> dict[tuple[str, bool], Definition]:
    """Return the last recorded definition of each participating agent: by playbook, by model, or both."""
    opened = (frame.opened.definition for frame in history.frames)
    later = (definition for accepted in history.accepted for definition in accepted.definitions)
    return {(each.agent, each.is_model): each for each in (*opened, *later)}


def _recorded(history: SessionProjection, name: str) -> Agent:
    return next(frame.opened.agent for frame in reversed(history.frames) if frame.opened.agent.name == name)


def _of_agent(
    services: ProjectServices, known: Definition, recorded: Agent, agent: Agent | None, now: Definition | None
) -> Iterator[Drift]:
    name = known.agent
    sha256 = now.sha256 if now else ""
    if known.sha256 != sha256:
        # If its bytes are not stored, the ledger still contains its instructions.
        before = _kept(services, known.sha256) or recorded.body
        text = _text(agent_text(agent)) if agent else None
        yield Drift(DefinitionChange(DriftKind.AGENT, name, known.sha256, sha256), before, text)
    if now is None:
        return
    if (known.reasoner, known.reasoner_sha256) != (now.reasoner, now.reasoner_sha256):
        source = services.reasoner(name, known.reasoner)
        digests = known.reasoner_sha256 or known.reasoner, now.reasoner_sha256 or now.reasoner
        yield Drift(
            DefinitionChange(DriftKind.PLAYBOOK, name, *digests),
            _kept(services, known.reasoner_sha256),
            _text(source.source),
        )
    had, has = ({each.name: each.sha256 for each in which.skills} for which in (known, now))
    for skill in sorted(had.keys() | has.keys()):
        if had.get(skill) != has.get(skill):
            change = DefinitionChange(DriftKind.SKILL, f"{skill} of {name}", had.get(skill, ""), has.get(skill, ""))
            yield Drift(change, _kept(services, change.before), _text(skill_text(services, skill)))


def _of_policy(services: ProjectServices, history: SessionProjection) -> Iterator[Drift]:
    before = history.accepted[-1].policy_sha256 if history.accepted else history.begun.policy_sha256
    now = services.policy.sha256
    if before and before != now:
        yield Drift(
            DefinitionChange(DriftKind.POLICY, "of verdicts", before, now), _kept(services, before), policy_text()
        )


def _kept_agent(services: ProjectServices, history: SessionProjection, change: DefinitionChange) -> Agent:
    """Return an agent from the ledger if it is complete there, else from its stored bytes."""
    recorded = _recorded(history, change.name)
    if recorded.sha256 == change.before:
        return recorded
    data = kept_text(services, change.before)
    if data is None:
        raise _not_kept(change)
    return replace(read_definition(data, path=recorded.path, stem=recorded.name), name=recorded.name)


def _kept_playbook(services: ProjectServices, known: Definition) -> ReasonerSource:
    from esper_agents.reasoning.playbook import from_module, without_playbook

    change = DefinitionChange(DriftKind.PLAYBOOK, known.agent, known.reasoner_sha256, "")
    if known.reasoner == UNATTENDED:
        return without_playbook()
    source = kept_playbook(services, known.reasoner_sha256) if known.reasoner_sha256 else None
    current = services.playbooks.get(known.agent)
    rebuild = current.rebuild if current else from_module if known.provider.startswith("esper-agents ") else None
    if source is None or rebuild is None:
        raise _not_kept(change)
    base = current or without_playbook()
    return replace(
        base,
        kind=known.reasoner,
        sha256=known.reasoner_sha256,
        provider=known.provider,
        build=rebuild(source),
        source=source,
    )


def _not_kept(change: DefinitionChange) -> UsageError:
    return UsageError(
        f"the recorded {change.kind} {change.name} ({change.before[:_SHORT]}) is not stored here",
        remedy="restore that version, or resume with the current ones: --definitions current",
    )


def _kept(services: ProjectServices, digest: str) -> str | None:
    data = kept_text(services, digest) if digest else None
    return None if data is None else _text(data)


def _text(data: bytes) -> str | None:
    return data.decode("utf-8", "replace") if data else None
