"""Find the object that a name such as `file.py:function` refers to, in files or installed packages."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bare_packages import imported_without_packages
from .input_spec import TargetError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType


def runnable(root: str, name: str) -> Callable[[], Any]:
    """Return a user's function that can be called without arguments.

    Raises:
        TargetError: There is no such function, or it needs arguments.
    """
    _, function = find(root, name)
    if not callable(function):
        raise TargetError(f"{name!r} is a {type(function).__name__}, which cannot be called", "name a function")
    refuse_required(repr(name), function, "give its arguments defaults")
    made: Callable[[], Any] = function
    return made


def find(root: str, name: str) -> tuple[ModuleType, Any]:
    """Return the imported module of a name, and the object that it refers to.

    Raises:
        TargetError: There is no such object, or a class in the path needs arguments.
    """
    where, colon, path = name.rpartition(":")
    if not colon or not where or not path:
        raise TargetError(f"invalid target name {name!r}", "write FILE.py:FUNCTION or PACKAGE.MODULE:CLASS.METHOD")
    module = imported(root, where)
    found: Any = module
    for part in path.split("."):
        owner = found
        try:
            found = inspect.getattr_static(owner, part) if part.startswith("__") else getattr(owner, part)
        except AttributeError as error:
            known = sorted(each for each, thing in vars(module).items() if callable(thing) and not each.startswith("_"))
            near = ", ".join(known[:8]) or "nothing that can be called"
            raise TargetError(f"{where!r} has no {path!r}", f"it has {near}") from error
        if inspect.isclass(owner) and inspect.isfunction(found) and _is_method(owner, part):
            found = getattr(_instance(name, owner), part)
    return module, found


def _is_method(owner: type, name: str) -> bool:
    return not isinstance(inspect.getattr_static(owner, name), (staticmethod, classmethod))


def _instance(name: str, owner: type) -> Any:
    refuse_required(f"{owner.__name__} in {name!r}", owner, "name a function that makes the object and calls it")
    return owner()


def imported(root: str, where: str) -> ModuleType:
    """Return the imported module of a file or a dotted name.

    Raises:
        TargetError: There is no such module.
    """
    if not where.endswith(".py"):
        try:
            return imported_without_packages(root, where, lambda: importlib.import_module(where))
        except ModuleNotFoundError as error:
            if error.name is not None and (where == error.name or where.startswith(error.name + ".")):
                raise TargetError(
                    f"there is no module {where!r}",
                    "name a module of the project or of the interpreter, or FILE.py:NAME",
                ) from error
            raise
    path = Path(root, where)
    if not path.is_file():
        raise TargetError(f"there is no file {where!r}", "name a file of the project, as FILE.py:FUNCTION")
    dotted = _dotted(Path(root), path)
    if dotted is not None:
        # A file of a package is imported as a module of it, or its relative imports would fail.
        return imported_without_packages(root, dotted, lambda: importlib.import_module(dotted))
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return imported_without_packages(root, path.stem, lambda: _run_file(where, path))


def _run_file(where: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{where!r} cannot be imported", "name a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _dotted(root: Path, path: Path) -> str | None:
    folder, parts = path.resolve().parent, [path.stem]
    while (folder / "__init__.py").is_file() and folder != root.resolve():
        parts.insert(0, folder.name)
        folder = folder.parent
    if len(parts) == 1:
        return None
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    return ".".join(parts)


def required(thing: Callable[..., Any]) -> list[str]:
    """Return the names of an object's required arguments; empty if its signature is unknown."""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def refuse_required(what: str, thing: Callable[..., Any], remedy: str) -> None:
    """Raise an error if an object needs arguments.

    Raises:
        TargetError: It needs arguments.
    """
    if missing := required(thing):
        raise TargetError(f"{what} needs arguments: {', '.join(missing)}", remedy)
