"""Lint skills: report lines that could mislead a reader or prevent loading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from esper_agents.agents.companions import companions_of
from esper_agents.agents.decoding import decode
from esper_agents.agents.definition_warnings import DefinitionWarnings, shorten
from esper_agents.agents.front_matter import read_document
from esper_agents.agents.skill_files import path_of, read_sheet, sheet_files
from esper_agents.agents.skills import read_bytes
from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from esper_agents.agents.skills import SkillFile
    from esper_agents.domain.agent import DefinitionWarning
    from esper_agents.domain.skill import Skill

# Fields defined by the format and read here.
_KNOWN = frozenset(("name", "description", "license", "compatibility", "metadata", "version", "companions", "facts"))
# Claude Code fields about when and how a skill is offered there, without meaning here.
_WITHOUT_EFFECT = frozenset(
    (
        *("agent", "argument-hint", "context", "disable-model-invocation", "effort", "model", "paths"),
        *("user-invocable", "user-invokable", "when-to-use"),
    )
)
_GRANTS = frozenset(("allowed-tools", "hooks", "tools"))
_MOST_DESCRIPTION = 1_024
_MOST_LINES = 500
_LINK = re.compile(r"\]\(<?(?P<target>[^)\s>#]+\.md)(?:#[^)\s]*)?>?\)")


def lint_skill(where: SkillFile, skill: Skill) -> tuple[DefinitionWarning, ...]:
    """Return all warnings about one skill and its sheets by file and line, including those from reading it.

    Args:
        where: Location of the skill; its files are read again to locate the lines.
        skill: The skill as read from there.

    Raises:
        DefinitionError: One of its sheets, or its companion rules, cannot be used.
    """
    notes = DefinitionWarnings(where.path)
    raw = read_bytes(where, where.file, notes)
    # Warnings about the text itself were recorded when it was read.
    text = decode(raw, DefinitionWarnings(where.path))
    fields = read_document(text, DefinitionWarnings(where.path)).fields
    _check_fields({key: field.line for key, field in fields.items()}, notes)
    if len(skill.description) > _MOST_DESCRIPTION:
        line = fields["description"].line if "description" in fields else 1
        notes.add(line, f"description is longer than {_MOST_DESCRIPTION} characters", "move details into the body")
    if (lines := skill.body.count("\n") + 1) > _MOST_LINES:
        notes.add(_MOST_LINES, f"{lines} lines are loaded at once", "move parts of them into sheets of the skill")
    sheets = sheet_files(where)
    _check_links(where, text, notes)
    companions_of(where)
    in_sheets = [odd for name in sheets for odd in _lint_sheet(where, name)]
    for name in _unnamed(sheets, text):
        notes.add(
            1, f"sheet {shorten(name)} is not named in the skill, so no agent loads it", f"state when to load {name}"
        )
    return (*sorted((*skill.oddities, *notes.all()), key=lambda each: each.line), *in_sheets)


def _check_fields(lines: Mapping[str, int], notes: DefinitionWarnings) -> None:
    for written, line in lines.items():
        key = written.strip().lower().replace("_", "-")
        if key in _GRANTS:
            notes.add(line, f"{shorten(written)} grants nothing here", "delete it, or leave it for Claude Code")
        elif key not in _KNOWN | _WITHOUT_EFFECT:
            notes.add(line, f"unknown field {shorten(written)}", "correct its name or delete it")


def _check_links(where: SkillFile, text: str, notes: DefinitionWarnings) -> None:
    for number, target in _links(text):
        file = where.file.parent / target
        if not file.is_file() or not where.holds(file):
            notes.add(number, f"names a missing sheet: {shorten(target)}", "correct its name or delete it")


def _links(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        for found in _LINK.finditer(line):
            if "://" not in found["target"] and not found["target"].startswith("/"):
                yield number, found["target"]


def _lint_sheet(where: SkillFile, name: str) -> tuple[DefinitionWarning, ...]:
    notes = DefinitionWarnings(path_of(where, sheet_files(where)[name]))
    read_sheet(where, name, notes)
    # Sheets need no front matter.
    return tuple(odd for odd in notes.all() if odd.problem != "no front matter")


def _unnamed(sheets: Collection[str], text: str) -> list[str]:
    return [name for name in sheets if name.rpartition("/")[2] not in text]


def lint_all(
    files: Collection[SkillFile], skills: Mapping[str, Skill]
) -> tuple[list[DefinitionWarning], list[DefinitionError]]:
    """Return the warnings about the given skills, and the errors for their unusable files.

    Args:
        files: Their locations; unreadable ones are ignored.
        skills: The skills as read from there, by name.
    """
    warnings: list[DefinitionWarning] = []
    refused: list[DefinitionError] = []
    for file in files:
        skill = skills.get(file.name)
        if skill is None or skill.path != file.path:
            continue
        try:
            warnings += lint_skill(file, skill)
        except DefinitionError as error:
            refused.append(error)
    return warnings, refused
