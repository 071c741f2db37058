"""Files of a project that a model may read: known to git or addable, without links and secrets."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.errors import EvidenceError
from esper_agents.git.files import ignored_files, listed_files
from esper_agents.git.process import toplevel
from esper_agents.paths import PUBLISHED, is_published
from esper_agents.review.discover import LEFT_OUT
from esper_agents.tools.file_access import is_ignored, is_private, readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from esper_agents.tools.tool import ToolContext

MOST_FILES = 200_000


def project_files(context: ToolContext, path: str = ".", *, ignored: bool = False) -> tuple[str, ...]:
    """Return the files of the project in a folder, or a single named file, relative to the project and sorted.

    Under git, these are the tracked files and the untracked ones that are not ignored. Without git,
    hidden folders, environments and generated folders are omitted. Published certificates belong to a folder of them
    alone.

    Args:
        context: The project.
        path: A file or a folder.
        ignored: Whether to include ignored files.

    Raises:
        EvidenceError: It does not exist, is withheld from models, or contains too many files.
    """
    target = readable(context, path)
    root = context.root.resolve()
    ignored = ignored or is_ignored(context, target.relative_to(root).as_posix())
    inside = target.relative_to(root).as_posix()
    if target.is_file():
        return (inside,)
    listed = _walked(root, target) if ignored or toplevel(root) is None else _known_to_git(root, inside)
    # Certificates quote code; a search for it must not find them instead.
    is_theirs = inside == PUBLISHED or inside.startswith(f"{PUBLISHED}/")
    found = {each for each in listed if is_theirs or not is_published(each)}
    if len(found) > MOST_FILES:
        raise EvidenceError(f"{path!r} holds over {MOST_FILES} files", remedy="work in a smaller folder")
    return tuple(sorted(_plain(root, found)))


def withheld_in(context: ToolContext, path: str = ".") -> dict[str, str]:
    """Return the paths in a folder that are withheld from models, with the reasons; an ignored folder is one entry.

    Args:
        context: The project.
        path: A folder, or a file that a model may read.
    """
    root = context.root.resolve()
    target = readable(context, path)
    if target.is_file() or toplevel(root) is None:
        return {}
    inside = f":(literal){target.relative_to(root).as_posix()}"
    private = {
        listed_file: "its name is that of a secret"
        for listed_file in listed_files(root, inside) or ()
        if is_private(listed_file)
    }
    # Users do not name environments, caches and generated folders.
    told = [
        ignored_file for ignored_file in ignored_files(root, inside) or () if not _is_of_programs(root, ignored_file)
    ]
    return private | dict.fromkeys(told, "git ignores it")


def _is_of_programs(root: Path, path: str) -> bool:
    folders = [parent for parent in (root / path).relative_to(root).parents if parent.parts]
    folders += [Path(path)] if path.endswith("/") else []
    return any(_is_left_out(root / folder) for folder in folders)


def _known_to_git(root: Path, inside: str) -> list[str]:
    listed = listed_files(root, f":(literal){inside}")
    if listed is None:
        raise EvidenceError("git cannot list the project's files", remedy="run `git status` in the project")
    return listed


def _walked(root: Path, folder: Path) -> Iterator[str]:
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not _is_left_out(Path(place, each))]
        for name in names:
            count += 1
            if count > MOST_FILES + 1:
                return
            yield Path(place, name).relative_to(root).as_posix()


def _is_left_out(folder: Path) -> bool:
    return folder.name.startswith(".") or folder.name in LEFT_OUT or (folder / "pyvenv.cfg").exists()


def _plain(root: Path, paths: Iterable[str]) -> Iterator[str]:
    """Yield the paths that are regular files in regular folders: a link may point anywhere."""
    is_own: dict[str, bool] = {}
    for path in paths:
        folder = path.rpartition("/")[0] or "."
        if folder not in is_own:
            is_own[folder] = (root / folder).resolve() == root / folder
        if is_own[folder] and not is_private(path) and _is_plain_file(f"{root}/{path}"):
            yield path


def _is_plain_file(file: str) -> bool:
    try:
        return stat.S_ISREG(os.lstat(file).st_mode)
    except (OSError, ValueError):
        return False
