"""Skills: knowledge that an agent loads on demand."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.agent import DefinitionWarning


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as defined by its `SKILL.md`.

    Attributes:
        name: The skill's name; a project's own skills are `project:NAME`, a plugin's `PLUGIN:NAME`.
        description: Its purpose and when to load it.
        sheets: Names of its additional sheets, such as `gradient-management`.
        body: The main text, as Markdown.
        path: Display path of the file.
        sha256: Digest of the file's bytes.
        oddities: Warnings about the file.
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
    """A loaded text of a skill: the main text or a sheet.

    Attributes:
        skill: The skill's name.
        sheet: The sheet's name; empty for the main text.
        text: The text below the front matter.
        path: Display path of the file.
        sha256: Digest of the file's bytes.
    """

    skill: str
    sheet: str
    text: str
    path: str
    sha256: str


@dataclass(frozen=True, slots=True)
class SkillReference:
    """A reference to a skill or a sheet in an agent definition.

    Attributes:
        wanted: The name in the definition.
        skill: The name of the matching skill; empty if there is none.
        sheet: The name of its sheet; empty if the reference means the skill itself.
    """

    wanted: str
    skill: str
    sheet: str
