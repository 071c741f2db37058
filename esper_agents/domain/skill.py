"""Skills: knowledge that an agent loads on demand."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.agent import DefinitionWarning


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill, as its `SKILL.md` says it.

    Attributes:
        name: How it is called; a project's own are `project:NAME`, a plugin's `PLUGIN:NAME`.
        description: What it is for and when to load it.
        sheets: Names of the sheets beside it, such as `gradient-management`.
        body: Its own text, as Markdown.
        path: What its file is called on screen.
        sha256: Digest of the file's bytes.
        oddities: What was odd about the file.
    """

    name: str
    description: str
    sheets: tuple[str, ...]
    body: str
    path: str
    sha256: str
    oddities: tuple[DefinitionWarning, ...]


@dataclass(frozen=True, slots=True)
class SkillText:
    """A text of a skill, as it was loaded.

    Attributes:
        skill: The skill's name.
        sheet: The sheet's name; empty for the skill's own text.
        text: What stands below the front matter.
        path: What the file is called on screen.
        sha256: Digest of the file's bytes.
    """

    skill: str
    sheet: str
    text: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SkillReference:
    """A skill or a sheet that a definition tells its agent to load.

    Attributes:
        wanted: As the definition names it.
        skill: The name of the skill there is; empty where there is none.
        sheet: The name of its sheet; empty where the skill itself is meant.
    """

    wanted: str
    skill: str
    sheet: str
