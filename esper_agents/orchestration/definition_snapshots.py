"""Snapshots of the definitions that a frame opens with, stored by digest."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.agents.skills import find_skill, skill_files, skills_at_hand
from esper_agents.certificates.policy import rulebook
from esper_agents.domain.certificate import PLAYBOOK, Definition
from esper_agents.errors import EsperError
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from esper_agents.domain.agent import Agent
    from esper_agents.orchestration.project_services import ProjectServices

_MARKDOWN = "text/markdown"
_PLAYBOOK, _PROMPT = ("playbook.py", "text/x-python"), ("prompt.md", _MARKDOWN)


def definition_of(workshop: ProjectServices, agent: Agent, reasoner: str = PLAYBOOK) -> Definition:
    """Return what an agent goes by now, as digests.

    Args:
        workshop: What the session works with.
        agent: The agent.
        reasoner: What is to decide its moves; see `Workshop.reasoner`.
    """
    source = workshop.reasoner(agent.name, reasoner)
    return Definition(
        agent=agent.name,
        sha256=agent.sha256,
        reasoner=source.kind,
        reasoner_sha256=source.sha256,
        provider=source.provider,
        definition_provider=agent.provider,
        skills=skills_at_hand(
            Path(workshop.project.root), agent.skills, workshop.skill_folders.pairs, workshop.skill_folders.providers
        ),
    )


def keep_definition(workshop: ProjectServices, agent: Agent, reasoner: str = PLAYBOOK) -> None:
    """Keep the bytes behind the digests of what an agent goes by, so that a session can go on by them later.

    What cannot be read or kept is passed over: the work does not depend on it.
    """
    artifacts, playbooks = Artifacts(artifacts_of(workshop)), Artifacts(playbooks_of(workshop))
    texts = [(artifacts, agent_text(agent), "agent.md", _MARKDOWN)]
    texts += [(artifacts, skill_text(workshop, each), "SKILL.md", _MARKDOWN) for each in agent.skills]
    source = workshop.reasoner(agent.name, reasoner)
    is_run = source.rebuild is not None or source.kind == PLAYBOOK
    texts.append((playbooks if is_run else artifacts, source.source, *(_PLAYBOOK if is_run else _PROMPT)))
    for store, data, name, media_type in texts:
        try:
            if data:
                store.keep_text(data, name, media_type)
        except EsperError:
            continue


def keep_policy(workshop: ProjectServices) -> str:
    """Keep the policy and the words that say which kind of question is asked, and return the policy's digest."""
    rulebook.keep(artifacts_of(workshop))
    return workshop.policy.sha256


def agent_text(agent: Agent) -> bytes:
    """Return the bytes of an agent's definition; nothing where its file is not what was read."""
    data = _read(Path(agent.path))
    return data if sha256(data).hexdigest() == agent.sha256 else b""


def skill_text(workshop: ProjectServices, name: str) -> bytes:
    """Return the bytes of a skill; nothing where there is none of that name."""
    found = find_skill(tuple(skill_files(Path(workshop.project.root), workshop.skill_folders.pairs)), name)
    return _read(found.file) if found and found.holds(found.file) else b""


def kept_text(workshop: ProjectServices, digest: str) -> bytes | None:
    """Return the bytes that are kept under a digest, or None."""
    return _found(artifacts_of(workshop), digest) or kept_playbook(workshop, digest)


def kept_playbook(workshop: ProjectServices, digest: str) -> bytes | None:
    """Return the source of a playbook that has run here before, or None.

    It may be run again, so it is never looked for among the artifacts: a project and its code have a say in those.
    """
    return _found(playbooks_of(workshop), digest)


def artifacts_of(workshop: ProjectServices) -> Path:
    """Return where a project's artifacts lie."""
    return workshop.home / "artifacts"


def playbooks_of(workshop: ProjectServices) -> Path:
    """Return where the sources of the playbooks lie that have run for a project."""
    return workshop.home / "playbooks"


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
