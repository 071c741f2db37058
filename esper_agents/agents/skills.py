"""Skills: where their files are, and which of them an agent has at hand."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.domain.certificate import SkillUse
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SKILL_FOLDERS = (".esper/skills", ".claude/skills")
_MOST_SKILLS = 500


def skill_files(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield the `SKILL.md` files that come with the program and with a project, each with what it is called on screen.

    Args:
        root: The project; a link that leads out of it is passed over.
    """
    ours = data_folder("prompts") / "skills"
    for folder, shown in ((ours, "esper-agents/skills"), *((root / each, each) for each in SKILL_FOLDERS)):
        within = folder.resolve() if folder is ours else root.resolve()
        for file in sorted(folder.glob("*/SKILL.md"))[:_MOST_SKILLS]:
            if file.is_file() and file.resolve().is_relative_to(within):
                yield file, f"{shown}/{file.parent.name}/SKILL.md"


def skills_at_hand(root: Path, names: Sequence[str]) -> tuple[SkillUse, ...]:
    """Return the skills among those named that there are files of, each with the digest of its bytes.

    Args:
        root: The project.
        names: As an agent's definition names them; of `plugin:skill` the part after the colon counts.
    """
    wanted = {name.rpartition(":")[2] for name in names}
    files = {file.parent.name: file for file, _ in skill_files(root) if file.parent.name in wanted} if wanted else {}
    return tuple(SkillUse(name, sha256(file.read_bytes()).hexdigest()) for name, file in sorted(files.items()))
