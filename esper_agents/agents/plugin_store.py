"""Installed plugins: copies in the data directory, stored by the digest at installation."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.agents.plugins import load_plugin, read_plugin
from esper_agents.atomic_file import write_atomically
from esper_agents.errors import DefinitionError, NotFoundError, StorageError
from esper_agents.paths import home
from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.agents.plugins import Plugin, PluginFiles

_INDEX = "installed.json"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SCRATCH = ".esper-"


@dataclass(frozen=True, slots=True)
class Installed:
    """The installed plugins.

    Attributes:
        plugins: The plugins by name.
        refused: Errors for plugins whose files have changed since installation; the others remain usable.
    """

    plugins: tuple[Plugin, ...] = ()
    refused: tuple[DefinitionError, ...] = ()


def installed_plugins() -> Installed:
    """Return the installed plugins; one whose files have changed since installation is rejected."""
    plugins: list[Plugin] = []
    refused: list[DefinitionError] = []
    folder = plugins_folder()
    for name, digest in sorted(_read_index(folder).items()):
        try:
            plugins.append(_as_added(folder, name, digest))
        except DefinitionError as error:
            refused.append(error)
    return Installed(tuple(plugins), tuple(refused))


def plugins_with(folders: Sequence[Path]) -> Installed:
    """Return the installed plugins together with those of additional folders, which take precedence.

    Raises:
        DefinitionError: One of the folders cannot be used, or two of them have the same name.
    """
    further: dict[str, Plugin] = {}
    for folder in folders:
        plugin = load_plugin(folder)
        if other := further.get(plugin.name):
            problem = f"is a plugin named {plugin.name!r}, as {str(other.folder)!r} is"
            raise DefinitionError(str(folder), problem, remedy="omit one of them")
        further[plugin.name] = plugin
    added = installed_plugins()
    rest = (each for each in added.plugins if each.name not in further)
    return Installed((*further.values(), *rest), added.refused)


def _as_added(folder: Path, name: str, digest: str) -> Plugin:
    remedy = f"esper plugins remove {name}, then add it again"
    try:
        plugin = load_plugin(folder / digest)
    except DefinitionError as error:
        raise DefinitionError(error.path, f"plugin {name!r}: {error.problem}", remedy=remedy) from error
    if plugin.sha256 != digest:
        problem = f"plugin {name!r} has changed since it was added"
        raise DefinitionError(str(plugin.folder), problem, remedy=remedy)
    return replace(plugin, name=name)


def add_plugin(source: Path) -> Plugin:
    """Copy the used files of a plugin into the data directory, replacing one of the same name, and return the copy.

    Raises:
        DefinitionError: It cannot be used; see `plugins.read_plugin`.
        StorageError: The data directory is not writable.
        BusyError: Another process held the lock on the plugin folder for too long.
    """
    read = read_plugin(source)
    name, digest = read.plugin.name, read.plugin.sha256
    with _changing() as folder:
        if not (folder / digest).is_dir():
            _copy(read, folder / digest)
        _write_index(folder, {**_read_index(folder), name: digest})
    return replace(read.plugin, folder=plugins_folder() / digest)


def remove_plugin(name: str) -> str:
    """Remove a plugin from the data directory and return its digest.

    Raises:
        NotFoundError: There is no plugin of that name.
        StorageError: The data directory is not writable.
        BusyError: Another process held the lock on the plugin folder for too long.
    """
    with _changing() as folder:
        known = dict(_read_index(folder))
        if name not in known:
            raise NotFoundError("plugin", name, known, listing="esper plugins list")
        digest = known.pop(name)
        _write_index(folder, known)
    return digest


def plugins_folder() -> Path:
    """Return the folder of the installed plugins."""
    return home() / "plugins"


@contextmanager
def _changing() -> Iterator[Path]:
    """Yield the folder of the installed plugins under a lock; remove unused copies afterwards."""
    folder = plugins_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = locks.locked(folder / ".lock")
        try:
            yield folder
            kept = {*_read_index(folder).values()}
            for path in folder.iterdir():
                if path.is_dir() and path.name not in kept:
                    shutil.rmtree(path)
        finally:
            locks.release(lock)
    except OSError as error:
        problem = f"{str(folder)!r} cannot be written: {(error.strerror or 'unknown reason').lower()}"
        raise StorageError(problem, remedy="make it a writable folder, or set ESPER_HOME") from error


def _copy(read: PluginFiles, target: Path) -> None:
    """Write a plugin's files to a new folder atomically."""
    scratch = Path(tempfile.mkdtemp(dir=target.parent, prefix=_SCRATCH))
    for path, data in read.contents.items():
        file = scratch / PurePosixPath(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    scratch.rename(target)


def _read_index(folder: Path) -> Mapping[str, str]:
    """Return the digests of the installed plugins by name.

    Raises:
        DefinitionError: The index was not written by this program.
    """
    file = folder / _INDEX
    try:
        found = json.loads(file.read_text(encoding="utf-8"))["plugins"]
        return {str(name): str(digest) for name, digest in found.items() if _DIGEST.fullmatch(str(digest))}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DefinitionError(str(file), "cannot be read", remedy="delete it, and add your plugins again") from error


def _write_index(folder: Path, known: Mapping[str, str]) -> None:
    text = json.dumps({"plugins": dict(known)}, indent=2, sort_keys=True)
    write_atomically(folder / _INDEX, text.encode(), mode=0o600)
