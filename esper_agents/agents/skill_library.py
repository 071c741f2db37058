"""The skill library of a project: listed in one line each, searched, read on demand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import remove_unsafe
from esper_agents.agents.front_matter_fields import one_line
from esper_agents.agents.skill_files import read_purpose, read_skill, read_text, sheet_files
from esper_agents.agents.skills import SkillFile, find_skill, skill_files
from esper_agents.domain.skill import Skill, SkillReference, SkillText
from esper_agents.errors import DefinitionError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from esper_agents.domain.agent import Agent

LISTING = "esper skills list"
_MOST_DESCRIPTION, _MOST_SHEETS = 400, 40
# Limit for the text that a search reads, because a project may be malicious.
_MOST_CHARACTERS, _MOST_SHEETS_SEARCHED = 10_000_000, 1_000
_MOST_QUERY = 1_000
_WORD = re.compile(r"[a-z0-9]{3,}")
_EMPTY_WORDS = frozenset(("and", "for", "how", "it", "not", "that", "the", "thi", "use", "what", "when", "with"))
# A Markdown file named in a body, as in "load `gradient-management.md` before such work".
_NAMED_SHEET = re.compile(r"(?<![\w-])([\w-]{2,64})\.md\b")


@dataclass(frozen=True)
class SkillLibrary:
    """The skills available in a project.

    Attributes:
        files: Their locations, in the order of name lookup.
        unusable: Errors for folders that could not be searched for skills.
    """

    files: tuple[SkillFile, ...]
    unusable: tuple[DefinitionError, ...] = ()

    @cached_property
    def _read(self) -> tuple[Mapping[str, Skill], tuple[DefinitionError, ...]]:
        skills: dict[str, Skill] = {}
        refused: list[DefinitionError] = []
        characters = 0
        for file in self.files:
            if characters > _MOST_CHARACTERS:
                problem = f"the skills before it exceed {_MOST_CHARACTERS} characters in total; it is not read"
                refused.append(DefinitionError(file.path, problem, remedy="remove unused skills"))
                break
            try:
                skill = read_skill(file)
            except DefinitionError as error:
                refused.append(error)
                continue
            characters += len(skill.body)
            if skills.setdefault(file.name, skill) is not skill:
                problem = f"the name {file.name!r} is already used by {skills[file.name].path}"
                refused.append(DefinitionError(file.path, problem, remedy="rename its folder"))
        return skills, tuple(refused)

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The usable skills, by name."""
        return self._read[0]

    @property
    def refused(self) -> tuple[DefinitionError, ...]:
        """The errors for unusable files."""
        return (*self._read[1], *self.unusable)

    def get(self, name: str) -> Skill:
        """Return a skill by its name.

        Raises:
            NotFoundError: There is no skill of this name.
            DefinitionError: Its file cannot be used.
        """
        return read_skill(self._file(name))

    def index(self, names: Sequence[str] | None = None) -> tuple[tuple[str, str], ...]:
        """Return the skill index for a model: the name of every skill, with its purpose and sheets in one line.

        Args:
            names: Names as in an agent's definition, of which unknown ones are omitted; None for all skills.
        """
        found = self.files if names is None else filter(None, (find_skill(self.files, name) for name in names))
        chosen = (_readable(each) for each in dict.fromkeys(found))
        return tuple((_safe(each.name), _line(each)) for each in chosen if each)

    def index_for(self, agent: Agent) -> tuple[tuple[str, str], ...]:
        """Return the index of the skills referenced in an agent's definition; see `references`."""
        return self.index([reference.skill for reference in self.references(agent) if reference.skill])

    def load(self, name: str, sheet: str = "") -> SkillText:
        """Return the text of a skill, or of one of its sheets.

        Args:
            name: The skill's name, `plugin:skill`, the name of a sheet, or words of its purpose.
            sheet: The name of the sheet, with or without `.md`; empty for the skill's own text.

        Raises:
            NotFoundError: No skill matches the name, or the skill has no such sheet.
            UsageError: The words match more than one skill equally well.
            DefinitionError: The file cannot be used.
        """
        if sheet:
            return read_text(self._file(name), sheet)
        found = self.find(name)
        return read_text(self._file(found.skill), found.sheet)

    def find(self, wanted: str) -> SkillReference:
        """Return the skill or sheet that matches a name or words of its purpose.

        Raises:
            NotFoundError: No skill matches.
            UsageError: The words match more than one skill equally well.
        """
        asked = one_line(wanted)[:_MOST_QUERY]
        named = self._named(asked) or self._sheet(asked, self.files)
        if named or " " in asked:
            return named or self._by_words(asked)
        raise self._unknown(asked)

    def references(self, agent: Agent) -> tuple[SkillReference, ...]:
        """Return the skills and sheets that an agent's definition references, found here or not.

        Args:
            agent: Its `skills` field is read, and every `NAME.md` in its instructions that is a sheet or a skill here.
        """
        found = [self._named(skill) or SkillReference(skill, "", "") for skill in agent.skills]
        own = {each.skill for each in found}
        nearest = sorted(self.files, key=lambda each: each.name not in own)
        in_body = dict.fromkeys(_NAMED_SHEET.findall(agent.body))
        found += filter(None, (self._sheet(name, nearest) or self._named(name) for name in in_body))
        return tuple({(each.skill, each.sheet, each.skill or each.wanted): each for each in found}.values())

    def _file(self, name: str) -> SkillFile:
        if found := find_skill(self.files, one_line(name)):
            return found
        raise self._unknown(one_line(name)[:_MOST_QUERY])

    def _unknown(self, name: str) -> NotFoundError:
        return NotFoundError("skill", name, (file.name for file in self.files), listing=LISTING)

    def _named(self, name: str) -> SkillReference | None:
        found = find_skill(self.files, name.removesuffix(".md"))
        return SkillReference(name, found.name, "") if found else None

    def _sheet(self, name: str, files: Sequence[SkillFile]) -> SkillReference | None:
        wanted = name.removesuffix(".md").rpartition("/")[2]
        for file in files:
            for sheet in self._sheets[file]:
                if sheet.rpartition("/")[2] == wanted:
                    return SkillReference(name, file.name, sheet)
        return None

    @cached_property
    def _sheets(self) -> Mapping[SkillFile, tuple[str, ...]]:
        return {file: tuple(sheet_files(file)) for file in self.files}

    def _by_words(self, asked: str) -> SkillReference:
        words = _words(asked)
        fit = {each: len(words & said) for each, said in self._said.items()}
        most = max(fit.values(), default=0)
        best = [each for each in self._said if fit[each] == most]
        if not words or 2 * most < len(words):
            raise self._unknown(asked)
        if len({skill for skill, _ in best}) > 1:
            names = ", ".join(repr(f"{skill} {sheet}".strip()) for skill, sheet in best[:3])
            raise UsageError(f"more than one skill matches {asked!r}: {names}", remedy="name one of them")
        # Of equally matching skills and sheets, prefer the one with the fewest other words.
        return SkillReference(asked, *min(best, key=lambda each: len(self._said[each])))

    @cached_property
    def _said(self) -> Mapping[tuple[str, str], frozenset[str]]:
        """Words of the purpose of every skill and sheet."""
        said = {(name, ""): _words(f"{name} {each.description}") for name, each in self.skills.items()}
        sheets = [(self._file(name), sheet) for name, each in self.skills.items() for sheet in each.sheets]
        for where, sheet in sheets[:_MOST_SHEETS_SEARCHED]:
            said[where.name, sheet] = _words(f"{sheet} {read_purpose(where, sheet)}")
        return said


def load_skills(root: Path, further: Sequence[tuple[Path, str]] = ()) -> SkillLibrary:
    """Return the bundled skills, those of a project, and those in additional folders.

    Args:
        root: The project, whose own skills are named `project:NAME`.
        further: Additional folders of skills with their name prefixes, such as a plugin's name.
    """
    return SkillLibrary(tuple(skill_files(root, further)))


def _readable(where: SkillFile) -> Skill | None:
    try:
        return read_skill(where)
    except DefinitionError:
        return None


def _line(skill: Skill) -> str:
    description = _safe(skill.description)
    if len(description) > _MOST_DESCRIPTION:
        description = description[:_MOST_DESCRIPTION].rsplit(" ", 1)[0] + " ..."
    sheets = ", ".join(_safe(sheet) for sheet in skill.sheets[:_MOST_SHEETS])
    return f"{description} Sheets: {sheets}." if sheets else description


def _safe(text: str) -> str:
    return one_line(remove_unsafe(text))


def _words(text: str) -> frozenset[str]:
    """Return the significant words of a text, without a plural `s`."""
    return frozenset(each.rstrip("s") for each in _WORD.findall(text.lower())) - _EMPTY_WORDS
