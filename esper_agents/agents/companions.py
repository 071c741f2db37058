"""Companion changes declared in skill front matter: a change here requires a change there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import decode
from esper_agents.agents.definition_warnings import DefinitionWarnings
from esper_agents.agents.front_matter import read_document
from esper_agents.agents.skills import read_bytes, skill_files
from esper_agents.errors import DefinitionError, UsageError
from esper_agents.review.companion import CompanionRule
from esper_agents.review.source import Unreadable

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.agents.skills import SkillFile
    from esper_agents.agents.strict_yaml import FieldContent

_KEY = "companions"
_LOOKS = "write `companions:` as a list of `when:`, `then:` and `why:`, globs in quotes"


@dataclass(frozen=True, slots=True)
class Declared:
    """The companion rules declared by the skills of a project.

    Attributes:
        companions: The rules, by file and in order.
        unreadable: The skills whose rules cannot be parsed, with the reasons.
    """

    companions: tuple[CompanionRule, ...]
    unreadable: tuple[Unreadable, ...]


def declared_companions(root: Path) -> Declared:
    """Return the companion rules declared by the skills of a project and by the bundled skills.

    Args:
        root: The project; `SKILL.md` is read in each folder of `.esper/skills` and `.claude/skills`.
    """
    found: list[CompanionRule] = []
    unreadable: list[Unreadable] = []
    for skill_file in skill_files(root):
        if not skill_file.holds(skill_file.file):
            continue
        try:
            found += companions_of(skill_file)
        except DefinitionError as error:
            problem = error.problem.removeprefix(f"{skill_file.path}: ")
            unreadable.append(Unreadable(skill_file.path, problem, error.remedy, error.line))
    return Declared(tuple(found), tuple(unreadable))


def companions_of(where: SkillFile) -> list[CompanionRule]:
    """Return the companion rules declared by one skill.

    Raises:
        DefinitionError: The file cannot be used, or its companion rules cannot be parsed.
    """
    notes = DefinitionWarnings(where.path)
    raw = read_bytes(where, where.file, notes)
    if _KEY.encode() not in raw:
        return []
    declared = read_document(decode(raw, notes), notes).fields.get(_KEY)
    if declared is None:
        return []
    if not isinstance(declared.content, list):
        raise notes.refusal("`companions` is not a list", remedy=_LOOKS, line=declared.line)
    return [_companion(each, notes, declared.line) for each in declared.content]


def _companion(held: FieldContent, notes: DefinitionWarnings, line: int) -> CompanionRule:
    if not isinstance(held, dict) or not held.keys() <= {"when", "then", "why"}:
        raise notes.refusal("a companion rule does not consist of `when`, `then` and `why`", remedy=_LOOKS, line=line)
    why = held.get("why", "")
    if not isinstance(why, str):
        raise notes.refusal("the `why` of a companion rule is not text", remedy=_LOOKS, line=line)
    try:
        return CompanionRule(_globs(held.get("when")), _globs(held.get("then")), why, notes.path)
    except UsageError as error:
        raise notes.refusal(error.problem, remedy=error.remedy, line=line) from error


def _globs(held: FieldContent | None) -> tuple[str, ...]:
    if isinstance(held, str):
        return (held,) if held else ()
    if isinstance(held, list):
        return tuple(each for each in held if isinstance(each, str))
    return ()
