"""Import of modules without the `__init__.py` of packages that fails."""

from __future__ import annotations

import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from traceback import walk_tb
from typing import TYPE_CHECKING

from .own_files import own_file
from .result import PackageNotRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

_MOST_PACKAGES = 16
_MOST_TEXT = 300

# Packages of this process whose `__init__.py` was not run, by name.
_not_run: dict[str, PackageNotRun] = {}


def packages_not_run() -> tuple[PackageNotRun, ...]:
    """Return the packages whose `__init__.py` was not run in this process."""
    return tuple(_not_run.values())


class _BareLoader(Loader):
    """Loader that creates a package without running its `__init__.py`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:  # noqa: ARG002 - the interface
        return None

    def exec_module(self, module: ModuleType) -> None:
        package = _not_run[module.__name__]

        def lacks(name: str) -> object:
            missing = f"module {module.__name__!r} has no attribute {name!r}"
            raise AttributeError(f"{missing}: {package.file} was not run, because it raised {package.error}")

        vars(module)["__getattr__"] = lacks


class _BareFinder(MetaPathFinder):
    """Finder of the packages in `_not_run`."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname not in _not_run:
            return None
        found = PathFinder.find_spec(fullname, path, target)
        if found is None or found.submodule_search_locations is None:
            return None
        bare = ModuleSpec(fullname, _BareLoader(), origin=found.origin, is_package=True)
        bare.submodule_search_locations = list(found.submodule_search_locations)
        return bare


_FINDER = _BareFinder()


def imported_without_packages(root: str, target: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Return the module that `load` imports; packages whose `__init__.py` fails are left bare if it imports without.

    Args:
        root: The project; the `__init__.py` of other packages always run.
        target: Name of the module, which always runs.
        load: Imports the module.

    Raises:
        Exception: The first exception of the import, if the module cannot be imported without these packages either.
    """
    before, known = set(sys.modules), dict(_not_run)
    try:
        return load()
    except Exception as error:  # noqa: BLE001 - any exception of user code
        first = error
    failure: Exception = first
    while (
        (found := _failed_package(root, target, failure))
        and found[0] not in _not_run
        and len(_not_run) < _MOST_PACKAGES
    ):
        name, init = found
        _not_run[name] = PackageNotRun(init, f"{type(failure).__name__}: {failure}".partition("\n")[0][:_MOST_TEXT])
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
        _forget(root, before)
        try:
            return load()
        except Exception as error:  # noqa: BLE001 - any exception of user code
            failure = error
    _not_run.clear()
    _not_run.update(known)
    _forget(root, before)
    raise first


def _failed_package(root: str, target: str, error: Exception) -> tuple[str, str] | None:
    """Return the package that was being imported first when an exception was raised, and its `__init__.py`."""
    for frame, _ in walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if frame.f_code.co_name != "<module>" or not path.endswith(f"{os.sep}__init__.py"):
            continue
        name, own = str(frame.f_globals.get("__name__")), own_file(root, path)
        if own is not None and name != target.removesuffix(".__init__"):
            return name, own
    return None


def _forget(root: str, before: set[str]) -> None:
    """Remove the project's modules that were imported since, so that they are imported again."""
    for name in set(sys.modules) - before:
        path = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
        if isinstance(path, str) and own_file(root, path) is not None:
            del sys.modules[name]
