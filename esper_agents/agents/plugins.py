"""Plugins: folders of agents, commands and skills in the Claude Code format; nothing is run."""

from __future__ import annotations

import codecs
import json
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from esper_agents.agents.decoding import MAX_BYTES, remove_unsafe
from esper_agents.agents.definition import as_name
from esper_agents.agents.front_matter_fields import one_line
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MANIFEST = ".claude-plugin/plugin.json"
_MARKETPLACE = ".claude-plugin/marketplace.json"
# Prefix of the names of a project's own agents.
_TAKEN_NAMES = frozenset(("project", "esper-agents"))
_NOT_LOOKED_INTO = frozenset((".git", "node_modules", "__pycache__", ".venv"))
NO_DEFINITIONS = frozenset(("readme.md", "claude.md", "agents.md", "contributing.md", "changelog.md", "license.md"))
_SKILL = "skill.md"
_MOST_FILES = 2_000
_MOST_BYTES = 20_000_000
_LONGEST = 400
_VERSION = re.compile(r"[\w.+-]{1,60}")
_WIDE_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class PluginPart(StrEnum):
    """Type of a plugin file, by its folder unless the manifest names other folders."""

    AGENTS = "agents"
    COMMANDS = "commands"
    SKILLS = "skills"


@dataclass(frozen=True, slots=True)
class Plugin:
    """A plugin as read from its folder.

    Attributes:
        name: Prefix of the names of its agents, commands and skills, followed by a colon.
        version: Version in its manifest, or empty.
        description: Description in its manifest, or empty.
        folder: Path of the folder.
        sha256: Digest of the paths and bytes of its files.
        files: The files of each part, relative to the folder, in order.
        skill_folders: The folders that contain one folder per skill.
        passed_over: Ignored files: hooks, servers, scripts, pictures.
    """

    name: str
    version: str
    description: str
    folder: Path
    sha256: str
    files: Mapping[PluginPart, tuple[str, ...]]
    skill_folders: tuple[Path, ...]
    passed_over: tuple[str, ...]

    @property
    def provider(self) -> str:
        """Name, version and digest in one line, in the form used by certificates."""
        version = f" {self.version}" if self.version else ""
        return f"plugin {self.name}{version} sha256:{self.sha256}"

    @property
    def names(self) -> Mapping[PluginPart, tuple[str, ...]]:
        """Names in each part, as `plugin:NAME`; an agent's own name may differ from its file's name."""
        named = {part: [path.stem for path in self.paths(part)] for part in (PluginPart.AGENTS, PluginPart.COMMANDS)}
        named[PluginPart.SKILLS] = [
            path.parent.name for path in self.paths(PluginPart.SKILLS) if path.name.lower() == _SKILL
        ]
        return {part: tuple(f"{self.name}:{name}" for name in names) for part, names in named.items()}

    def paths(self, part: PluginPart) -> tuple[Path, ...]:
        """Return the paths of the definitions of a part, without other documents."""
        named = (PurePosixPath(each) for each in self.files[part])
        return tuple(self.folder / each for each in named if each.name.lower() not in NO_DEFINITIONS)


@dataclass(frozen=True, slots=True)
class PluginFiles:
    """A plugin with the bytes of its files, over which its digest is computed.

    Attributes:
        plugin: The plugin.
        contents: Bytes by path, including the manifest.
    """

    plugin: Plugin
    contents: Mapping[str, bytes]


def load_plugin(folder: Path) -> Plugin:
    """Return the plugin in a folder; see `read_plugin`."""
    return read_plugin(folder).plugin


def read_plugin(folder: Path) -> PluginFiles:
    """Return the plugin in a folder, with the bytes of all used files.

    Raises:
        DefinitionError: It is not a plugin, or a file to be used is a link, binary or too large.
    """
    if not folder.is_dir():
        raise DefinitionError(str(folder), "is not a folder", remedy="name the folder that contains `.claude-plugin`")
    found = tuple(_walk(folder))
    contents = {MANIFEST: _bytes_of(folder, MANIFEST)} if MANIFEST in found else {}
    manifest = _Manifest(folder, _members(folder, contents.get(MANIFEST)))
    parts = {part: tuple(each for each in found if manifest.part_of(each) is part) for part in PluginPart}
    if MANIFEST not in found and not any(parts.values()):
        raise _no_plugin(folder, found)
    size = 0
    for each in sorted(path for paths in parts.values() for path in paths):
        contents[each] = _bytes_of(folder, each)
        size += len(contents[each])
        if size > _MOST_BYTES:
            raise DefinitionError(str(folder), f"has more than {_MOST_BYTES} bytes", remedy="remove large files")
    plugin = Plugin(
        name=manifest.name(),
        version=version if _VERSION.fullmatch(version := manifest.text("version")) else "",
        description=manifest.text("description"),
        folder=folder,
        sha256=_digest(contents),
        files=parts,
        skill_folders=manifest.skill_folders(parts[PluginPart.SKILLS]),
        passed_over=tuple(each for each in found if each not in contents),
    )
    return PluginFiles(plugin, contents)


def _digest(contents: Mapping[str, bytes]) -> str:
    # Line separators cannot occur in a valid path here.
    lines = "".join(f"{sha256(contents[path]).hexdigest()} {path}\0" for path in sorted(contents))
    return sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _no_plugin(folder: Path, found: tuple[str, ...]) -> DefinitionError:
    if _MARKETPLACE in found:
        return DefinitionError(str(folder), "is a marketplace of plugins", remedy="name the folder of one of them")
    problem = f"is not a plugin: it contains neither {MANIFEST} nor agents, commands or skills"
    return DefinitionError(str(folder), problem, remedy="name the folder that contains `.claude-plugin`")


def _walk(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the files of a folder, in order; a link is yielded itself and not followed.

    Raises:
        DefinitionError: The folder has too many files, or cannot be read.
    """
    count = 0
    for place, folders, files in os.walk(folder, onerror=_refuse_unreadable):
        inside = Path(place).relative_to(folder)
        links = [each for each in folders if Path(place, each).is_symlink()]
        folders[:] = sorted(each for each in folders if each not in (*_NOT_LOOKED_INTO, *links))
        count += len(files) + len(links) + len(folders)
        if count > _MOST_FILES:
            raise DefinitionError(str(folder), f"contains more than {_MOST_FILES} files", remedy="remove some of them")
        yield from ((inside / each).as_posix() for each in sorted((*files, *links)))


def _refuse_unreadable(error: OSError) -> None:
    problem = (error.strerror or "cannot be read").lower()
    raise DefinitionError(str(error.filename), problem, remedy="make it readable") from error


def _link(path: Path) -> DefinitionError:
    return DefinitionError(str(path), "is a link", remedy="replace it with a copy")


def _bytes_of(folder: Path, path: str) -> bytes:
    """Return the bytes of a text file.

    Raises:
        DefinitionError: It is a link, not a regular file, too large, binary, or unreadable.
    """
    place = folder / path
    if place.is_symlink():
        raise _link(place)
    try:
        read = read_plain(place, MAX_BYTES, follow=False)
    except (OSError, ValueError) as error:
        problem = (getattr(error, "strerror", None) or str(error)).lower()
        raise DefinitionError(str(place), problem, remedy="make it a readable file") from error
    if read is None:
        raise DefinitionError(str(place), "is not a regular file", remedy="delete it, or replace it with a text file")
    if len(read.data) > MAX_BYTES:
        raise DefinitionError(str(place), f"is larger than {MAX_BYTES} bytes", remedy="split it into sheets")
    if b"\0" in read.data and not read.data.startswith(_WIDE_MARKS):
        raise DefinitionError(str(place), "is binary", remedy="replace it with a Markdown file, or delete it")
    return read.data


def _members(folder: Path, data: bytes | None) -> Mapping[str, Any]:
    if data is None:
        return {}
    where = str(folder / MANIFEST)
    try:
        found = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise DefinitionError(
            where, "is not valid JSON", remedy="write one JSON object with a `name`", line=line
        ) from error
    if not isinstance(found, dict):
        raise DefinitionError(where, "is not a JSON object", remedy='write {"name": "..."}')
    return found


class _Manifest:
    """Parser of `plugin.json`: it makes names safe and rejects paths that leave the plugin."""

    def __init__(self, folder: Path, members: Mapping[str, Any]) -> None:
        self.folder = folder
        self.members = members
        self.roots = tuple((root, part) for part in PluginPart for root in self._roots(part))

    def text(self, key: str) -> str:
        written = self.members.get(key)
        return remove_unsafe(one_line(written))[:_LONGEST] if isinstance(written, str) else ""

    def name(self) -> str:
        name = as_name(self.text("name")) or as_name(self.folder.absolute().name)
        if not name or name in _TAKEN_NAMES:
            problem = f"a plugin cannot be named {name or self.folder.name!r}"
            raise DefinitionError(str(self.folder / MANIFEST), problem, remedy="give it another `name`")
        return name

    def part_of(self, path: str) -> PluginPart | None:
        """Return the part that a file, or a link in place of a folder, belongs to; None if it is not used."""
        place = PurePosixPath(path)
        is_link_to_folder = not place.suffix and (self.folder / path).is_symlink()
        if place.suffix.lower() != ".md" and not is_link_to_folder:
            return None
        fitting = [(root, part) for root, part in self.roots if place.is_relative_to(root)]
        # If folders named by the manifest are nested, the innermost one decides.
        return max(fitting, key=lambda each: len(each[0].parts))[1] if fitting else None

    def _roots(self, part: PluginPart) -> Iterator[PurePosixPath]:
        """Yield the folders and files of a part: its default folder, and those named by the manifest.

        Raises:
            DefinitionError: One of them is not a path within the plugin.
        """
        yield PurePosixPath(part)
        named = self.members.get(part, [])
        for each in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
            path = PurePosixPath(str(each))
            if path.is_absolute() or ".." in path.parts:
                problem = f"`{part}` names {str(each)[:60]!r}, which is not a path within the plugin"
                raise DefinitionError(str(self.folder / MANIFEST), problem, remedy=f'write "./{part}/NAME"')
            yield path

    def skill_folders(self, files: tuple[str, ...]) -> tuple[Path, ...]:
        """Return the folders that contain skills, with one folder per skill."""
        skills = [PurePosixPath(file).parent for file in files if PurePosixPath(file).name.lower() == _SKILL]
        return tuple(dict.fromkeys(self.folder / skill.parent for skill in skills))
