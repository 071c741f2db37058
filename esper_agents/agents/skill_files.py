"""Read a skill and its sheets."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import decode
from esper_agents.agents.definition import read_description
from esper_agents.agents.definition_warnings import DefinitionWarnings, shorten
from esper_agents.agents.front_matter import read_document
from esper_agents.agents.front_matter_fields import FieldReader, one_line
from esper_agents.agents.skills import read_bytes
from esper_agents.domain.skill import Skill, SkillText
from esper_agents.errors import DefinitionError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from esper_agents.agents.front_matter import FrontMatterDocument
    from esper_agents.agents.skills import SkillFile

_MOST_SHEETS = 200
_HEAD_BYTES = 8_000
_SUFFIX = ".md"


def read_skill(where: SkillFile) -> Skill:
    """Return the skill defined by its `SKILL.md`.

    Raises:
        DefinitionError: It is a link to a file outside its folder, unreadable, too large, empty or binary.
    """
    notes = DefinitionWarnings(where.path)
    raw = read_bytes(where, where.file, notes)
    document = read_document(decode(raw, notes), notes)
    fields = FieldReader(document.fields, notes)
    _note_name(where, fields, notes)
    description = read_description(fields, document, notes)
    if not document.body.strip():
        notes.add(1, "there is no text below the front matter", "write the content of the skill")
    digest, sheets = sha256(raw).hexdigest(), tuple(sheet_files(where))
    return Skill(where.name, description, sheets, document.body, where.path, digest, notes.all())


def read_text(where: SkillFile, sheet: str = "") -> SkillText:
    """Return the text of a skill, or of one of its sheets.

    Args:
        where: The skill.
        sheet: The name of the sheet, with or without folder and `.md`; empty for the skill's own text.

    Raises:
        NotFoundError: There is no such sheet.
        DefinitionError: The file cannot be used.
    """
    name = find_sheet(where, sheet) if sheet else ""
    file = sheet_files(where)[name] if name else where.file
    notes = DefinitionWarnings(path_of(where, file))
    raw = read_bytes(where, file, notes)
    document = read_document(decode(raw, notes), notes)
    return SkillText(where.name, name, document.body, notes.path, sha256(raw).hexdigest())


def read_purpose(where: SkillFile, sheet: str) -> str:
    """Return the purpose of a sheet from its description or its first words; empty if it has neither."""
    notes = DefinitionWarnings(where.path)
    try:
        raw = read_bytes(where, sheet_files(where)[sheet], notes)
        head = raw if len(raw) < _HEAD_BYTES else raw[:_HEAD_BYTES].rpartition(b"\n")[0]
        document = read_document(decode(head, notes), notes)
        return read_description(FieldReader(document.fields, notes), document, notes)
    except DefinitionError:
        return ""


def sheet_files(where: SkillFile) -> Mapping[str, Path]:
    """Return up to 200 sheets of a skill, in its folder and below, by name."""
    folder = where.file.parent
    found = sorted((*folder.glob("*.md"), *folder.glob("[!.]*/*.md")))
    sheets = (each for each in found if each != where.file and each.is_file())
    named = {sheet.relative_to(folder).as_posix().removesuffix(_SUFFIX): sheet for sheet in sheets}
    return dict(list(named.items())[:_MOST_SHEETS])


def find_sheet(where: SkillFile, sheet: str) -> str:
    """Return the full name of a sheet.

    Raises:
        NotFoundError: There is no sheet of that name.
    """
    sheets = sheet_files(where)
    wanted = sheet.strip().removesuffix(_SUFFIX)
    found = next((each for each in sheets if wanted in {each, each.rpartition("/")[2]}), None)
    if found is None:
        raise NotFoundError("sheet", sheet, sheets, listing=f"esper skills show {where.name}")
    return found


def read_sheet(where: SkillFile, name: str, notes: DefinitionWarnings) -> FrontMatterDocument:
    """Return a sheet, split into front matter and body.

    Raises:
        DefinitionError: The file cannot be used.
    """
    return read_document(decode(read_bytes(where, sheet_files(where)[name], notes), notes), notes)


def path_of(where: SkillFile, file: Path) -> str:
    """Return the display path of a skill's file."""
    return f"{where.path.rpartition('/')[0]}/{file.relative_to(where.file.parent).as_posix()}"


def _note_name(where: SkillFile, fields: FieldReader, notes: DefinitionWarnings) -> None:
    folder, written = where.name.rpartition(":")[2], one_line(fields.text("name"))
    if written and written != folder:
        notes.add(
            fields.line("name"),
            f"name {shorten(written)} differs from the folder's name, which is used",
            f"write `name: {folder}`, or rename the folder",
        )
