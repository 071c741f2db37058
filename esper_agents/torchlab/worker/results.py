"""Results of jobs: their JSON, and the parts that several of them have."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any


def _json_name(field: str) -> str:
    return field.removesuffix("_")


# Names of members in JSON for classes with a field such as `class_`.
JSON_NAMES = {"alias_generator": _json_name}


@dataclass(frozen=True, slots=True)
class MissingPart:
    """Part that was not measured, with the reason."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """File that a job left in its scratch folder, with its media type."""

    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """Files in the result of a job."""

    artifacts: tuple[WrittenFile, ...] = ()


@dataclass(frozen=True, slots=True)
class UserFrame:
    """Frame of the user's code: file, line and function."""

    file: str
    line: int
    function: str


def shallow(thing: Any) -> dict[str, Any]:
    """Return the fields of a data class by name, for a class that extends it."""
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def described(thing: Any) -> Any:
    """Return a result as JSON, without the fields that have their default."""
    if is_dataclass(thing):
        given = ((field, getattr(thing, field.name)) for field in fields(thing))
        kept = ((each, part) for each, part in given if each.default is MISSING or part != each.default)
        return {_json_name(each.name): described(part) for each, part in kept}
    if isinstance(thing, dict):
        return {name: described(part) for name, part in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [described(part) for part in thing]
    # Texts of the user's code may hold halves of surrogate pairs, which JSON readers refuse.
    return thing.encode("utf-8", "backslashreplace").decode() if isinstance(thing, str) else thing
