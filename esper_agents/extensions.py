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


# A module of somebody else may raise anything of these while it is defined.
_WHAT_IMPORTS_RAISE = (
    *(ImportError, SyntaxError, OSError, ValueError),
    *(AttributeError, LookupError, NameError, RuntimeError, TypeError),
)


@dataclass(frozen=True, slots=True)
class Extension:
    """Something that another package brings.

    Attributes:
        where: Group and name of the entry point, as messages have it.
        name: The entry point's name.
        thing: What it names.
        provider: Distribution and version, such as `birds 1.0`.
    """

    where: str
    name: str
    thing: Any
    provider: str

    def provider_of(self, defined: object) -> str:
        """Return the provider with the digest of the file that defines a class or function of it."""
        try:
            source = inspect.getsourcefile(defined)  # type: ignore[arg-type] # raises TypeError for what has none
            digest = sha256(Path(source).read_bytes()).hexdigest() if source else ""
        except (TypeError, OSError):
            digest = ""
        return f"{self.provider} sha256:{digest}" if digest else self.provider

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that it stands for: a path, or the package whose folder it is.

        Raises:
            DefinitionError: It is neither.
        """
        if isinstance(self.thing, (str, Path)):
            return (Path(self.thing),)
        places = getattr(self.thing, "__path__", None) or [Path(each).parent for each in self._file()]
        if not isinstance(self.thing, ModuleType) or not places:
            remedy = "let it name a `pathlib.Path` or a package"
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
    # Looking through what is installed takes 7 ms, and there are several groups.
    return entry_points()


def load_extension(point: EntryPoint) -> Extension:
    """Return what an entry point names.

    Raises:
        DefinitionError: It cannot be imported.
    """
    provider = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown"
    where = f"{point.group}: {point.name}"
    try:
        return Extension(where, point.name, point.load(), provider)
    except _WHAT_IMPORTS_RAISE as error:
        remedy = f"install or mend {provider}, which names it"
        raise DefinitionError(where, f"cannot be imported: {error}", remedy=remedy) from error


def extensions(group: str) -> Iterator[Extension]:
    """Yield what other packages bring to a group, by name.

    Raises:
        DefinitionError: Something of it cannot be imported.
    """
    yield from map(load_extension, extension_points(group))
