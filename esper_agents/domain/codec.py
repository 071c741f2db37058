"""Convert domain types to JSON text and back, with validation on decoding."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

# Arguments and outputs of tools as they stand in the ledger. Deeply checked where outside text comes in.
JsonObject: TypeAlias = Mapping[str, Any]


# Making one takes milliseconds; any annotation is a shape, unions included.
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
        shape: Its annotation, where its own class does not say it (unions).
    """
    return str(_adapter(type(thing) if shape is None else shape).dump_json(thing, warnings=False).decode())


def decode(shape: type[T], text: str | bytes) -> T:
    """Return the domain value that JSON text holds.

    Raises:
        pydantic.ValidationError: The text does not hold a `shape`.
    """
    value: T = _adapter(shape).validate_json(text)
    return value


def checked(shape: type[T], thing: T) -> T:
    """Return a value as it will be read back from JSON.

    Raises:
        ValueError: It cannot be written as JSON, or would not be read back as a `shape`.
    """
    return decode(shape, encode(thing, shape))


def carried(text: str) -> str:
    r"""Return text as UTF-8 can carry it: what the system handed over undecoded is shown as `\udcff`."""
    return text.encode("utf-8", "backslashreplace").decode()


def canonical(value: JsonObject | Sequence[Any]) -> bytes:
    """Return JSON bytes that equal values share: sorted members, no spaces, UTF-8.

    Raises:
        ValueError: A number is NaN or infinite.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")
