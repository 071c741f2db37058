"""Convert domain types to JSON text and back, with validation on decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

# Tool arguments and outputs as stored in the ledger. External input is validated at every level.
JsonObject: TypeAlias = Mapping[str, Any]


# Building an adapter takes milliseconds. Any annotation is accepted as a shape, unions included.
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(shape: Any) -> TypeAdapter[Any]:
    found = _ADAPTERS.get(shape)
    if found is None:
        from pydantic import TypeAdapter

        found = _ADAPTERS[shape] = TypeAdapter(shape)
    return found


def encode(thing: object, shape: Any = None) -> str:
    """Return a domain value as compact JSON text.

    Args:
        thing: A domain value.
        shape: Its type annotation, if its class is not enough (unions).
    """
    return str(_adapter(type(thing) if shape is None else shape).dump_json(thing, warnings=False).decode())


def decode(shape: type[T], text: str | bytes) -> T:
    """Return the domain value parsed from JSON text.

    Raises:
        pydantic.ValidationError: The text is not a valid `shape`.
    """
    value: T = _adapter(shape).validate_json(text)
    return value


def parsed(shape: type[T], value: JsonObject) -> T:
    """Return the data class that a JSON object stands for; unlike `decode`, nothing is converted between types.

    Raises:
        ValueError: The object is not a valid `shape`.
    """
    found: T = _adapter(shape).validate_json(json.dumps(value), strict=True)
    return found


def first_problem(error: ValueError) -> str:
    """Return the first invalid member of a value that `parsed` refused, such as `'peak.step': field required`."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return f"{'.'.join(map(str, first['loc']))[:100]!r}: {first['msg'].lower()}"


def plain(thing: object) -> JsonObject:
    """Return a data class as a JSON object, without the fields that have their default."""
    told: JsonObject = _adapter(type(thing)).dump_python(thing, mode="json", by_alias=True, exclude_defaults=True)
    return told


def checked(shape: type[T], thing: T) -> T:
    """Return a value as it would be decoded from JSON.

    Raises:
        ValueError: It cannot be encoded as JSON, or would not decode to a `shape`.
    """
    return decode(shape, encode(thing, shape))


def carried(text: str) -> str:
    r"""Return text that UTF-8 can encode; surrogate escapes from the operating system become `\udcff` and the like."""
    return text.encode("utf-8", "backslashreplace").decode()


def canonical(value: JsonObject | Sequence[Any]) -> bytes:
    """Return canonical JSON bytes, identical for equal values: sorted members, no spaces, UTF-8.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")
