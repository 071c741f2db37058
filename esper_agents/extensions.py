"""Extensions that other Python packages provide through entry points."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from esper_agents.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.metadata import EntryPoint


# Importing a third-party module may raise any of these.
_WHAT_IMPORTS_RAISE = (
    *(ImportError, SyntaxError, OSError, ValueError),
    *(AttributeError, LookupError, NameError, RuntimeError, TypeError),
)


@dataclass(frozen=True, slots=True)
class Extension:
    """An object that another package provides.

    Attributes:
        where: Group and name of the entry point, for messages.
        name: The entry point's name.
        thing: The object that it refers to.
        provider: Distribution and version, such as `birds 1.0`.
    """

    where: str
    name: str
    thing: Any
    provider: str

    def provider_of(self, defined: object) -> str:
        """Return the provider with the digest of the file that defines one of its classes or functions."""
        try:
            source = inspect.getsourcefile(defined)  # type: ignore[arg-type] # raises TypeError for what has none
            digest = sha256(Path(source).read_bytes()).hexdigest() if source else ""
        except (TypeError, OSError):
            digest = ""
        return f"{self.provider} sha256:{digest}" if digest else self.provider

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that it provides: a path, or the folders of a package.

        Raises:
            DefinitionError: It is neither a path nor a package.
        """
        if isinstance(self.thing, (str, Path)):
            return (Path(self.thing),)
        places = getattr(self.thing, "__path__", None) or [Path(each).parent for each in self._file()]
        if not isinstance(self.thing, ModuleType) or not places:
            remedy = "make it name a `pathlib.Path` or a package"
            raise DefinitionError(self.where, "is neither a path nor a package", remedy=remedy)
        return tuple(map(Path, places))

    def _file(self) -> tuple[str, ...]:
        file = getattr(self.thing, "__file__", None)
        return (file,) if file else ()


def extension_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, by name."""
    return tuple(sorted(_all_points(tuple(sys.path)).select(group=group), key=lambda each: (each.name, each.value)))


@cache
def _all_points(_: tuple[str, ...]) -> Any:
    # Scanning the installed distributions takes 7 ms, and there are several groups.
    return entry_points()


def load_extension(point: EntryPoint) -> Extension:
    """Return the object that an entry point refers to.

    Raises:
        DefinitionError: It cannot be imported.
    """
    provider = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
    where = f"{point.group}: {point.name}"
    try:
        return Extension(where, point.name, point.load(), provider)
    except _WHAT_IMPORTS_RAISE as error:
        remedy = f"install or repair {provider}, which provides it"
        raise DefinitionError(where, f"cannot be imported: {error}", remedy=remedy) from error


def extensions(group: str) -> Iterator[Extension]:
    """Yield the extensions that other packages provide for a group, sorted by name.

    Raises:
        DefinitionError: One of them cannot be imported.
    """
    yield from map(load_extension, extension_points(group))
