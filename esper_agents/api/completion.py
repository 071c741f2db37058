"""Names for shell completion: agents, rules, and the newest certificates and sessions of the project."""

from __future__ import annotations

from pathlib import Path

from esper_agents.paths import data_folder


def agent_names() -> list[str]:
    """Return the names of the bundled agents and of those that the project defines."""
    bundled = sorted(file.stem for file in data_folder("prompts").glob("agents/*.md"))
    own = sorted(file.stem for file in (_root() / ".esper" / "agents").glob("*.md"))
    return [*bundled, *(f"project:{name}" for name in own)]


def rule_codes() -> list[tuple[str, str]]:
    """Return the codes of the built-in rules, from the first line of each file, with the names of the files."""
    found = []
    for file in Path(__file__).parents[1].joinpath("review", "rules").glob("**/[!_]*.py"):
        with file.open(encoding="utf-8") as lines:
            found.append((lines.readline()[3:9], file.stem.replace("_", "-")))
    return sorted(found)


def recent_ids(kind: str) -> list[tuple[str, str]]:
    """Return the newest IDs of the project, each with a description; none if they cannot be read.

    Args:
        kind: `certificate` or `session`.
    """
    from esper_agents.paths import project_home, project_key
    from esper_agents.storage.recent_ids import recent_ids

    key = project_key(_root())
    return recent_ids(project_home(key) / "esper.db", key, kind)


def _root() -> Path:
    """Return the git work tree around the working directory, or that directory, without starting git."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
