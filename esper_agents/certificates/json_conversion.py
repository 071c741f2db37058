"""Convert domain values to JSON and back with strict validation."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache, partial
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from esper_agents.certificates.strict_json import LARGEST_INTEGER, refuse
from esper_agents.domain.plain_text import is_plain, plain
from esper_agents.errors import IntegrityError

T = TypeVar("T")

# Readers allow 64 levels; the statement and the certificate use up to ten of them.
_MOST_DEPTH = 50
_TOO_DEEP = f"(nested deeper than {_MOST_DEPTH} levels)"
# Stands for no default.
_NEVER = object()
_LARGE = re.compile(r"-?[1-9][0-9]{15,}")


def to_json(thing: object, depth: int = 0) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Return a domain value as JSON without floats and with plain text only.

    A float becomes the decimal string of `repr` (`0.1`, `nan`), because canonical forms of floats differ between
    readers; an integer beyond 53 bits becomes a decimal string. A value nested deeper than 50 levels is replaced by a
    note; its digest is recorded next to it.

    Raises:
        TypeError: A part is neither JSON nor a domain value.
    """
    if isinstance(thing, str):
        return plain(str(thing))
    if thing is None or isinstance(thing, bool):
        return thing
    if depth > _MOST_DEPTH and isinstance(thing, (Mapping, list, tuple)):
        return _TOO_DEEP
    if isinstance(thing, int):
        return int(thing) if abs(thing) <= LARGEST_INTEGER else _digits(thing)
    if isinstance(thing, float):
        return repr(float(thing))
    kind: Any = thing.__class__
    if members := _fields(kind):
        return _fields_of(thing, members, depth)
    if isinstance(thing, (list, tuple)):
        return [to_json(each, depth + 1) for each in thing]
    if isinstance(thing, Mapping):
        return _members(thing, depth)
    raise TypeError(f"a certificate cannot hold {type(thing).__name__}")


def from_json(shape: type[T], value: object, where: str = "") -> T:
    """Return the domain value of a type that a JSON value contains.

    Members with a default are optional, so that later versions can add members.

    Raises:
        IntegrityError: A member is missing, unknown or of a wrong type, or a string is not plain text.
    """
    try:
        kind: Any = shape
        found: T = _reader(kind)(value)
    except (_MisfitError, IntegrityError, KeyError, TypeError):
        # The fast reader has no location: the slow one reports the error, or accepts the value.
        found = _read(shape, value, where or shape.__name__.lower())
    return found


class _MisfitError(Exception):
    """A value does not match its type, or needs the slow reader."""


@cache
def _reader(shape: Any) -> Callable[[Any], Any]:  # noqa: PLR0911 - one for each kind of shape
    """Return a fast reader of a type: it accepts nothing that `_read` refuses, and gives the same result."""
    if is_dataclass(shape):
        return _dataclass_reader(shape)
    match get_origin(shape) or shape:
        case builtin if builtin is str:
            return _text
        case builtin if builtin in {bool, int}:
            return partial(_scalar, builtin)
        case builtin if builtin is tuple:
            return partial(_items, _reader(get_args(shape)[0]))
        case builtin if builtin in {dict, Mapping}:
            return partial(_mapping, _reader(get_args(shape)[1]))
        case special if special is Any:
            return _anything
        case enum if isinstance(enum, type) and issubclass(enum, StrEnum):
            return {str(each): each for each in enum}.__getitem__
        case _:
            return lambda value: _read(shape, value, "")


def _dataclass_reader(shape: Any) -> Callable[[Any], Any]:
    readers = {name: _reader(hint) for name, hint in _hints(shape).items()}
    names = frozenset(field.name for field in fields(shape))

    def read(value: Any) -> Any:
        if value.__class__ is not dict or not value.keys() <= names:
            raise _MisfitError
        return shape(**{name: readers[name](each) for name, each in value.items()})

    return read


def _scalar(shape: type, value: Any) -> Any:
    if value.__class__ is not shape:
        raise _MisfitError
    return value


def _text(value: Any) -> Any:
    if value.__class__ is not str or not is_plain(value):
        raise _MisfitError
    return value


def _items(read: Callable[[Any], Any], value: Any) -> tuple[Any, ...]:
    if value.__class__ is not list:
        raise _MisfitError
    return tuple(map(read, value))


def _mapping(read: Callable[[Any], Any], value: Any) -> dict[str, Any]:
    if value.__class__ is not dict:
        raise _MisfitError
    return {_text(key): read(each) for key, each in value.items()}


def _anything(value: Any) -> Any:
    kind = value.__class__
    if kind is str:
        return _text(value)
    if kind is dict:
        return {_text(key): _anything(each) for key, each in value.items()}
    return [_anything(each) for each in value] if kind is list else value


def _fields_of(thing: object, members: tuple[tuple[str, Any], ...], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, absent in members:
        value = getattr(thing, name)
        if absent is _NEVER or value != absent:
            found[name] = plain(value) if value.__class__ is str else to_json(value, depth + 1)
    return found


def _members(mapping: Mapping[Any, object], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, each in mapping.items():
        name = plain(str(key))
        # Two keys may differ only in characters that are replaced; both must be kept.
        while name in found:
            name += "'"
        found[name] = to_json(each, depth + 1)
    return found


def _digits(number: int) -> str:
    # str() refuses integers of more than 4300 digits.
    return str(number) if abs(number) < 10**4000 else hex(number)


def _read(shape: Any, value: Any, where: str) -> Any:  # noqa: PLR0911 - one for each kind of shape
    if is_dataclass(shape):
        return _read_dataclass(shape, value, where)
    match get_origin(shape) or shape:
        case builtin if builtin in {str, bool, int}:
            return _read_scalar(builtin, value, where)
        case builtin if builtin is tuple:
            _want(isinstance(value, list), where, "a list")
            inner = get_args(shape)[0]
            return tuple(_read(inner, each, f"{where}[{index}]") for index, each in enumerate(value))
        case builtin if builtin in {dict, Mapping}:
            _want(isinstance(value, dict), where, "an object")
            inner = get_args(shape)[1]
            return {_read(str, key, where): _read(inner, each, f"{where}.{key}") for key, each in value.items()}
        case special if special is Literal:
            _want(value in get_args(shape), where, f"one of {', '.join(map(repr, get_args(shape)))}")
            return value
        case special if special is Any:
            return _read_any(value, where)
        case enum:
            _want(issubclass(enum, StrEnum) and value in tuple(enum), where, f"one of {', '.join(enum)}")
            return enum(value)


def _read_dataclass(shape: Any, value: Any, where: str) -> Any:
    _want(isinstance(value, dict), where, "an object")
    hints = _hints(shape)
    for name in value:
        if name not in hints:
            refuse(f"{where} has an unknown member {name!a}")
    required = {field.name for field in fields(shape) if field.default is MISSING and field.default_factory is MISSING}
    for name in sorted(required - set(value)):
        refuse(f"{where} has no {name}")
    return shape(**{name: _read(hints[name], each, f"{where}.{name}") for name, each in value.items()})


def _read_scalar(shape: type, value: Any, where: str) -> Any:
    if shape is int and isinstance(value, str) and _LARGE.fullmatch(value) and abs(int(value)) > LARGEST_INTEGER:
        return int(value)
    _want(type(value) is shape, where, {str: "a text", int: "an integer", bool: "true or false"}[shape])
    if shape is str and not is_plain(value):
        refuse(f"{where} holds a control character or half a surrogate pair")
    return value


def _read_any(value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return {_read(str, key, where): _read_any(each, where) for key, each in value.items()}
    if isinstance(value, list):
        return [_read_any(each, where) for each in value]
    return _read(str, value, where) if isinstance(value, str) else value


def _want(holds: bool, where: str, what: str) -> None:  # noqa: FBT001 - a claim
    if not holds:
        refuse(f"{where[:200]!a} wants {what}")


@cache
def _fields(shape: Any) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a dataclass; empty for anything else.

    Each has the default with which it is omitted, see `domain.finding.ABSENT`, or `_NEVER`.
    """
    if not is_dataclass(shape):
        return ()
    return tuple(
        (field.name, field.default if field.metadata.get("is_absent_by_default") else _NEVER) for field in fields(shape)
    )


@cache
def _hints(shape: type) -> dict[str, Any]:
    return get_type_hints(shape)
