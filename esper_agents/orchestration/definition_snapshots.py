"""Snapshots of the definitions that a frame opens with, stored by digest."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.agents.skills import find_skill, skill_files, skills_at_hand
from esper_agents.certificates.policy import rulebook
from esper_agents.domain.certificate import Definition
from esper_agents.domain.reasoner_names import PLAYBOOK
from esper_agents.errors import EsperError
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from esper_agents.domain.agent import Agent
    from esper_agents.orchestration.project_services import ProjectServices

_MARKDOWN = "text/markdown"
_PLAYBOOK, _PROMPT = ("playbook.py", "text/x-python"), ("prompt.md", _MARKDOWN)


def definition_of(services: ProjectServices, agent: Agent, reasoner: str = PLAYBOOK) -> Definition:
    """Return the current definition of an agent, as digests.

    Args:
        services: Services of the project.
        agent: Agent to describe.
        reasoner: Kind of reasoner that decides its actions; see `ProjectServices.reasoner`.
    """
    source = services.reasoner(agent.name, reasoner)
    return Definition(
        agent=agent.name,
        sha256=agent.sha256,
        reasoner=source.kind,
        reasoner_sha256=source.sha256,
        provider=source.provider,
        definition_provider=agent.provider,
        skills=skills_at_hand(
            Path(services.project.root), agent.skills, services.skill_folders.pairs, services.skill_folders.providers
        ),
    )


def keep_definition(services: ProjectServices, agent: Agent, reasoner: str = PLAYBOOK) -> None:
    """Store the bytes behind the digests of an agent's definition, so that a session can resume with them later.

    Bytes that cannot be read or stored are skipped: the work does not depend on them.
    """
    artifacts, playbooks = Artifacts(services.place.artifacts), Artifacts(playbooks_of(services))
    texts = [(artifacts, agent_text(agent), "agent.md", _MARKDOWN)]
    texts += [(artifacts, skill_text(services, skill), "SKILL.md", _MARKDOWN) for skill in agent.skills]
    source = services.reasoner(agent.name, reasoner)
    is_run = source.rebuild is not None or source.kind == PLAYBOOK
    texts.append((playbooks if is_run else artifacts, source.source, *(_PLAYBOOK if is_run else _PROMPT)))
    for store, data, name, media_type in texts:
        try:
            if data:
                store.keep_text(data, name, media_type)
        except EsperError:
            continue


def keep_policy(services: ProjectServices) -> str:
    """Store the policy and the trigger table of question types, and return the policy's digest."""
    rulebook.keep(services.place.artifacts)
    return services.policy.sha256


def agent_text(agent: Agent) -> bytes:
    """Return the bytes of an agent's definition file; empty if the file has changed since it was loaded."""
    data = _read(Path(agent.path))
    return data if sha256(data).hexdigest() == agent.sha256 else b""


def skill_text(services: ProjectServices, name: str) -> bytes:
    """Return the bytes of a skill; empty if there is no such skill."""
    found = find_skill(tuple(skill_files(Path(services.project.root), services.skill_folders.pairs)), name)
    return _read(found.file) if found and found.holds(found.file) else b""


def kept_text(services: ProjectServices, digest: str) -> bytes | None:
    """Return the stored bytes with a digest, or None."""
    return _found(services.place.artifacts, digest) or kept_playbook(services, digest)


def kept_playbook(services: ProjectServices, digest: str) -> bytes | None:
    """Return the source of a playbook that ran for the project before, or None.

    It is executed, so it is never read from the artifacts, which the project and its code can write.
    """
    return _found(playbooks_of(services), digest)


def playbooks_of(services: ProjectServices) -> Path:
    """Return the folder of playbook sources that ran for a project."""
    return services.home / "playbooks"


def _found(folder: Path, digest: str) -> bytes | None:
    try:
        return Artifacts(folder).path(digest).read_bytes()
    except (EsperError, OSError):
        return None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
