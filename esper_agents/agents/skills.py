"""Skills: their file locations, and the ones available to an agent."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.agents.decoding import MAX_BYTES
from esper_agents.agents.definition_warnings import DefinitionWarnings
from esper_agents.errors import DefinitionError
from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from esper_agents.domain.certificate import SkillUse

SKILL_FOLDERS = (".esper/skills", ".claude/skills")
PROJECT = "project"
_MARKDOWN = ".md"
_MOST_SKILLS = 500


@dataclass(frozen=True, slots=True)
class SkillFile:
    """Location of a skill.

    Attributes:
        name: The skill's name; a project's own skills are `project:NAME`, a plugin's `PLUGIN:NAME`.
        file: Its `SKILL.md`.
        path: Display path of the file.
        within: Folder that must contain the resolved paths of its files; contains no links itself.
    """

    name: str
    file: Path
    path: str
    within: Path

    @property
    def namespace(self) -> str:
        """Prefix of its name, or empty."""
        return self.name.rpartition(":")[0]

    def holds(self, file: Path) -> bool:
        """Return whether a path resolves to a Markdown file in the skill's folder."""
        try:
            target = file.resolve()
        except (OSError, RuntimeError):  # a circle of links
            return False
        # A link could point to a file with secrets, and the text of a skill is sent to a model.
        return target.is_relative_to(self.within) and target.suffix.lower() == _MARKDOWN


def skill_files(root: Path, further: Sequence[tuple[Path, str]] = ()) -> Iterator[SkillFile]:
    """Yield the bundled skills, those of a project, and those in additional folders, in this order.

    Args:
        root: The project.
        further: Additional folders of skills with their name prefixes, such as a plugin's name.
    """
    ours = data_folder("prompts") / "skills"
    yield from _in_folder(ours, ours, "esper-agents/skills")
    for skill_folder in SKILL_FOLDERS:
        yield from _in_folder(root / skill_folder, root, skill_folder, PROJECT)
    for folder, namespace in further:
        yield from _in_folder(folder, folder, f"{namespace}/skills", namespace)


def skills_in(path: Path) -> Iterator[SkillFile]:
    """Yield the skill at a path, given by its folder or its file, or the skills in a folder."""
    folder = path.parent if path.is_file() else path
    if file := _skill_file(folder):
        within = folder.resolve()
        yield SkillFile(within.name, file, str(file), within)
    elif path.is_dir():
        yield from _in_folder(path, path, str(path))


def _in_folder(folder: Path, within: Path, shown: str, namespace: str = "") -> Iterator[SkillFile]:
    try:
        entries = sorted(folder.iterdir())
        within = within.resolve()
    except OSError:
        return
    for entry in entries[:_MOST_SKILLS]:
        if file := _skill_file(entry):
            name = f"{namespace}:{entry.name}" if namespace else entry.name
            yield SkillFile(name, file, f"{shown}/{entry.name}/{file.name}", within)


def _skill_file(folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    usual = folder / "SKILL.md"
    if usual.is_file():
        return usual
    named = (path for path in folder.glob("*.[mM][dD]") if path.name.lower() == usual.name.lower())
    return next((each for each in named if each.is_file()), None)


def find_skill(files: Sequence[SkillFile], name: str) -> SkillFile | None:
    """Return the first skill of that name, or None.

    Args:
        files: The locations, in the order of precedence.
        name: The name; for `plugin:skill`, the part after the colon is used if that plugin has no such skill.
    """
    wanted = name.rpartition(":")[2]
    whole = (file for file in files if file.name == name)
    return next(whole, None) or next((file for file in files if file.name.rpartition(":")[2] == wanted), None)


def read_bytes(where: SkillFile, file: Path, notes: DefinitionWarnings) -> bytes:
    """Return the bytes of a file of a skill.

    Raises:
        DefinitionError: It is a link to a file outside its folder, unreadable, or too large.
    """
    if not where.holds(file):
        raise notes.refusal("is a link to a file outside its folder", remedy="replace it with a copy")
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise notes.refusal(reason, remedy="make it a readable file") from error
    if len(raw) > MAX_BYTES:
        raise notes.refusal(f"larger than {MAX_BYTES} bytes", remedy="split it into sheets of its skill")
    return raw


def skills_at_hand(
    root: Path,
    names: Sequence[str],
    further: Sequence[tuple[Path, str]] = (),
    providers: Mapping[str, str] | None = None,
) -> tuple[SkillUse, ...]:
    """Return the named skills whose files exist, with the digests of their bytes.

    Args:
        root: The project.
        names: Names as in an agent's definition.
        further: As for `skill_files`.
        providers: Providers of skills, by name prefix.
    """
    # The certificate module takes longer to import than a review that only reads companion rules.
    from esper_agents.domain.certificate import SkillUse

    files = tuple(skill_files(root, further)) if names else ()
    found: list[SkillUse] = []
    for name in sorted(set(names)):
        where = find_skill(files, name)
        if where and (digest := _digest(where)):
            found.append(SkillUse(name, digest, (providers or {}).get(where.namespace, "")))
    return tuple(found)


def _digest(where: SkillFile) -> str:
    """Return the digest of a skill's own file; empty if the file cannot be used."""
    try:
        return sha256(read_bytes(where, where.file, DefinitionWarnings(where.path))).hexdigest()
    except DefinitionError:
        return ""
