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
    """Where a skill stands.

    Attributes:
        name: How it is called; a project's own are `project:NAME`, a plugin's `PLUGIN:NAME`.
        file: Its `SKILL.md`.
        path: What the file is called on screen.
        within: What its files must lie in, links followed; itself without links.
    """

    name: str
    file: Path
    path: str
    within: Path

    @property
    def namespace(self) -> str:
        """What stands before its name, or empty."""
        return self.name.rpartition(":")[0]

    def holds(self, file: Path) -> bool:
        """Return whether a file is Markdown that lies where the skill's files must, links followed."""
        try:
            target = file.resolve()
        except (OSError, RuntimeError):  # a circle of links
            return False
        # A link could name a file with secrets in it, and the text of a skill is sent to a model.
        return target.is_relative_to(self.within) and target.suffix.lower() == _MARKDOWN


def skill_files(root: Path, further: Sequence[tuple[Path, str]] = ()) -> Iterator[SkillFile]:
    """Yield the skills that come with the program, with a project, and in further folders, in this order.

    Args:
        root: The project.
        further: Folders of skills, each with what is put before their names, such as a plugin's name.
    """
    ours = data_folder("prompts") / "skills"
    yield from _in_folder(ours, ours, "esper-agents/skills")
    for each in SKILL_FOLDERS:
        yield from _in_folder(root / each, root, each, PROJECT)
    for folder, namespace in further:
        yield from _in_folder(folder, folder, f"{namespace}/skills", namespace)


def skills_in(path: Path) -> Iterator[SkillFile]:
    """Yield the skill that a path names, by its folder or its file, or those of a folder."""
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
    named = (each for each in folder.glob("*.[mM][dD]") if each.name.lower() == usual.name.lower())
    return next((each for each in named if each.is_file()), None)


def find_skill(files: Sequence[SkillFile], name: str) -> SkillFile | None:
    """Return the first skill of a name, or None.

    Args:
        files: In the order in which they count.
        name: As somebody names it; of `plugin:skill` the part after the colon counts where that plugin has none.
    """
    wanted = name.rpartition(":")[2]
    whole = (each for each in files if each.name == name)
    return next(whole, None) or next((each for each in files if each.name.rpartition(":")[2] == wanted), None)


def read_bytes(where: SkillFile, file: Path, notes: DefinitionWarnings) -> bytes:
    """Return the bytes of a file of a skill.

    Raises:
        DefinitionError: It is a link that leads out, cannot be opened, or is too large.
    """
    if not where.holds(file):
        raise notes.refusal("is a link that leads out of its folder", remedy="put a copy in its place")
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        raise notes.refusal(reason, remedy="make it a file that you may read") from error
    if len(raw) > MAX_BYTES:
        raise notes.refusal(f"larger than {MAX_BYTES} bytes", remedy="cut it into sheets of its skill")
    return raw


def skills_at_hand(
    root: Path,
    names: Sequence[str],
    further: Sequence[tuple[Path, str]] = (),
    providers: Mapping[str, str] | None = None,
) -> tuple[SkillUse, ...]:
    """Return the skills among those named that there are files of, each with the digest of its bytes.

    Args:
        root: The project.
        names: As an agent's definition names them.
        further: As for `skill_files`.
        providers: What skills come from, by what stands before their names.
    """
    # What a certificate is made of takes longer to load than a review that reads companions only.
    from esper_agents.domain.certificate import SkillUse

    files = tuple(skill_files(root, further)) if names else ()
    found: list[SkillUse] = []
    for name in sorted(set(names)):
        where = find_skill(files, name)
        if where and (digest := _digest(where)):
            found.append(SkillUse(name, digest, (providers or {}).get(where.namespace, "")))
    return tuple(found)


def _digest(where: SkillFile) -> str:
    """Return the digest of a skill's own file, or nothing where it cannot be used."""
    try:
        return sha256(read_bytes(where, where.file, DefinitionWarnings(where.path))).hexdigest()
    except DefinitionError:
        return ""
