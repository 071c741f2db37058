"""List project files withheld from code in the torch lab: secrets, git internals, ignored files.

Code that Python imports stays readable even if git ignores it, such as built extensions. The names of secrets are
listed in `file_access.toml`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.git.process import ignored_paths
from esper_agents.tools.file_access import is_private

if TYPE_CHECKING:
    from collections.abc import Iterable

# Python imports these, or reads them to find installed packages.
_CODE = re.compile(r".*\.(pyi?|pyc|pyd|pth|dylib|so(\.\d+)*)", re.IGNORECASE)
_METADATA = re.compile(r".*\.(dist|egg)-info", re.IGNORECASE)
_HARNESS = re.compile(r"/\.esper/harness/\w+\.tensors\Z")
# An environment of another interpreter: tens of thousands of files that nothing imports.
_ENVIRONMENT = frozenset(("pyvenv.cfg", "conda-meta"))
# Maximum number of entries examined; unexamined folders are withheld whole.
_MOST_ENTRIES = 200_000
_MOST_LATE_ENTRIES = 10_000
_MOST_REPOSITORIES = 50
_MOST_LEVELS = 100


def withheld_files(root: Path, *, asked: Iterable[Path] = (), environments: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the files and folders of a project that measured code cannot read.

    Args:
        root: The project's folder, or a checkout of another revision.
        asked: Files and folders that the user named. Secrets in a named folder are still withheld, unless they are
            named directly.
        environments: Folders that stay visible: the environment of the interpreter.
    """
    return _Search(
        root.resolve(), {str(each) for each in asked}, {str(environment) for environment in environments}
    ).withheld()


@dataclass(slots=True)
class _Folder:
    """One folder of the project.

    Attributes:
        path: Its absolute path.
        repository: Folder of the repository that it belongs to; that of the project if there is none.
        is_ignored: Whether git ignores it.
        is_asked: Whether the user named it, or a folder that contains it.
        files: Its files, each with whether it can be read.
        folders: Its folders.
    """

    path: str
    repository: str
    is_ignored: bool = False
    is_asked: bool = False
    files: dict[str, bool] = field(default_factory=dict)
    folders: list[_Folder] = field(default_factory=list)


class _Search:
    def __init__(self, root: Path, asked: set[str], environments: set[str]) -> None:
        self._root = str(root)
        self._asked = asked
        self._environments = environments - {self._root}
        self._repositories: set[str] = set()
        self._known: list[_Folder] = []
        # The target of a link that has the name of a secret.
        self._secrets: set[str] = set()
        self._left = {False: _MOST_ENTRIES, True: _MOST_LATE_ENTRIES}

    def withheld(self) -> tuple[Path, ...]:
        root = _Folder(self._root, self._root, is_asked=self._root in self._asked)
        if not ignored_paths(root.path, ["."]):
            self._repositories.add(self._root)
        # Ignored folders come last: they may be large, and most of their files are not code.
        late: list[_Folder] = []
        level = [root]
        for _ in range(_MOST_LEVELS):
            if not level:
                break
            inner = self._look_into(level, is_late=False)
            late += [each for each in inner if each.is_ignored or each.is_asked]
            level = [each for each in inner if not each.is_ignored and not each.is_asked]
        for _ in range(_MOST_LEVELS):
            if not late:
                break
            late = self._look_into(late, is_late=True)
        return tuple(map(Path, self._chosen(root)))

    def _look_into(self, level: list[_Folder], *, is_late: bool) -> list[_Folder]:
        """Record the contents of these folders; return their subfolders."""
        listed = [(folder, entries) for folder in level if (entries := self._listed(folder, is_late=is_late))]
        ignored = self._ignored([(folder.repository, entry.path) for folder, entries in listed for entry in entries])
        for folder, entries in listed:
            self._known.append(folder)
            for entry in entries:
                self._note(folder, entry, is_ignored=entry.path in ignored)
        return [inner for folder, _ in listed for inner in folder.folders]

    def _listed(self, folder: _Folder, *, is_late: bool) -> list[os.DirEntry[str]]:
        """Return the contents of a folder; empty if it is withheld whole."""
        if self._left[is_late] <= 0:
            return []
        try:
            with os.scandir(folder.path) as found:
                entries = list(found)
        except OSError:
            return []
        self._left[is_late] -= len(entries)
        names = {entry.name for entry in entries}
        if folder.is_ignored and names & _ENVIRONMENT:
            return []
        if ".git" in names and folder.path != self._root:
            folder.repository = folder.path
            self._repositories.add(folder.path)
            if len(self._repositories) > _MOST_REPOSITORIES:
                return []
        if not entries:
            self._known.append(folder)
        return entries

    def _ignored(self, entries: Iterable[tuple[str, str]]) -> set[str]:
        paths: dict[str, list[str]] = {}
        for repository, path in entries:
            if repository in self._repositories:
                paths.setdefault(repository, []).append(path)
        return {path for repository, some in paths.items() for path in ignored_paths(repository, some)}

    def _note(self, folder: _Folder, entry: os.DirEntry[str], *, is_ignored: bool) -> None:
        path = entry.path
        is_asked = path in self._asked
        if entry.is_symlink():
            if is_private(entry.name) and not is_asked:
                self._secrets.add(os.path.realpath(path))
        elif not entry.is_dir():
            is_code = bool(_CODE.fullmatch(entry.name) or _METADATA.fullmatch(folder.path) or _HARNESS.search(path))
            is_shown = (is_code or folder.is_asked or not is_ignored) and not is_private(entry.name)
            folder.files[path] = is_asked or is_shown
        elif is_private(f"{entry.name}/-") and not is_asked:
            folder.files[path] = False
        elif path not in self._environments:
            is_asked = is_asked or folder.is_asked
            folder.folders.append(_Folder(path, folder.repository, is_ignored and not is_asked, is_asked))

    def _chosen(self, root: _Folder) -> Iterable[str]:
        """Yield the withheld paths: whole folders if nothing in them can be read."""
        readable: set[str] = set()
        # Inner folders were found after the outer ones.
        for folder in reversed(self._known):
            folder.files |= dict.fromkeys(self._secrets & folder.files.keys(), False)
            is_empty = not folder.files and not folder.folders
            if any(folder.files.values()) or any(self._holds(each, readable) for each in folder.folders) or is_empty:
                readable.add(folder.path)
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            yield from (each for each, is_shown in folder.files.items() if not is_shown)
            for each in folder.folders:
                if self._holds(each, readable):
                    waiting.append(each)
                else:
                    yield each.path

    @staticmethod
    def _holds(folder: _Folder, readable: set[str]) -> bool:
        # In named paths, everything is readable except the secrets found.
        return folder.path in readable or folder.is_asked
