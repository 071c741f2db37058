"""Replace secrets before anything is digested or recorded, and count them.

The patterns of secrets are in `certificates/secrets.toml`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache, cached_property, lru_cache
from operator import is_
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from esper_agents.paths import data_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
_MARK = "[struck out: "
# Shorter values are common words.
_SHORTEST = 12


@dataclass(frozen=True, slots=True)
class RedactedValue(Generic[T]):
    """Value without secrets.

    Attributes:
        value: The value, with each secret replaced by `[struck out: NAME]`.
        count: Number of replaced secrets.
    """

    value: T
    count: int


def redacted(value: T, *, known: Iterable[str] = ()) -> RedactedValue[T]:
    """Return a string, a JSON value or a domain value with its secrets replaced. Idempotent.

    Args:
        value: Any value; parts without text are unchanged. Member names are redacted, too.
        known: Secrets of this machine, replaced wherever they occur; see `secrets_of`.
    """
    secrets = tuple(sorted({each for each in known if len(each) >= _SHORTEST}, key=len, reverse=True))
    if _is_clean(value, secrets):
        return RedactedValue(value, 0)
    strike = _Strike(secrets)
    return RedactedValue(strike.out_of(value), strike.count)


def _is_clean(value: object, known: tuple[str, ...]) -> bool:
    """Return whether one scan over all texts of a value shows that it contains no secret; most values are clean."""
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=_opened)
    except (TypeError, ValueError, RecursionError):
        return False
    # JSON escapes some characters; the hints contain none of them.
    is_known = any(each in text or json.dumps(each, ensure_ascii=False)[1:-1] in text for each in known)
    return not is_known and not _has_hint(text.lower())


def _opened(value: Any) -> Any:
    """Return the JSON-compatible content of another value; None if it contains no text."""
    if names := _members(value.__class__):
        return {name: getattr(value, name) for name in names}
    return dict(value) if isinstance(value, Mapping) else None


def without_keys(text: str) -> str:
    """Return a text without its multi-line private keys; the number of lines is unchanged."""

    def mark(found: re.Match[str]) -> str:
        return shape.mark + "\n" * found[0].count("\n")

    for shape in _shapes():
        if shape.spans_lines and any(hint in text.lower() for hint in shape.hints):
            text = shape.pattern.sub(mark, text)
    return text


def redaction_count(text: str) -> int:
    """Return the number of secrets replaced in a text."""
    return text.count(_MARK)


def secrets_of(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of environment variables whose names suggest a secret."""
    found = (text for name, text in environment.items() if _speaks_of_a_secret(name) and not text.startswith("/"))
    return tuple(text for text in found if len(text) >= _SHORTEST)


@lru_cache(maxsize=1024)
def _speaks_of_a_secret(name: str) -> bool:
    return bool(_SECRET_NAME.search(name))


class _Strike:
    def __init__(self, known: tuple[str, ...]) -> None:
        self.known = known
        self.count = 0

    def out_of(self, value: Any) -> Any:
        """Return a value without secrets; the same object if it contains none."""
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self._text(value)
        if isinstance(value, (list, tuple)):
            found = [self.out_of(each) for each in value]
            return value if all(map(is_, found, value)) else type(value)(found)
        if names := _members(value.__class__):
            struck = {name: each for name in names if (each := self.out_of(old := getattr(value, name))) is not old}
            return replace(value, **struck) if struck else value
        if isinstance(value, Mapping):
            members = [(self._text(str(key)), self.out_of(each)) for key, each in value.items()]
            is_same = all(a is b and c is d for (a, c), (b, d) in zip(members, value.items(), strict=True))
            return value if is_same else dict(members)
        return value

    def _text(self, text: str) -> str:
        if len(text) < _SHORTEST - 1:
            return text
        for secret in self.known:
            if secret in text:
                self.count += text.count(secret)
                text = text.replace(secret, f"{_MARK}a secret of this machine]")
        lowered = text.lower()
        if not _has_hint(lowered):
            return text
        for shape in _shapes():
            if any(hint in lowered for hint in shape.hints):
                text, count = shape.pattern.subn(shape.mark, text)
                self.count += count
        return text


@cache
def _members(shape: Any) -> tuple[str, ...]:
    """Return the field names of a dataclass; empty for anything else."""
    return tuple(field.name for field in fields(shape)) if is_dataclass(shape) else ()


@dataclass(frozen=True)
class _Shape:
    mark: str
    hints: tuple[str, ...]
    text: str
    spans_lines: bool

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        # Compiling all of them takes longer than listing certificates, and most texts have no hint.
        return re.compile(self.text)


def _has_hint(lowered: str) -> bool:
    # Nearly every text that is recorded comes here; a loop takes half the time of a generator.
    for hint in _hints():  # noqa: SIM110
        if hint in lowered:
            return True
    return False


@cache
def _hints() -> tuple[str, ...]:
    return tuple(dict.fromkeys(hint for shape in _shapes() for hint in shape.hints))


@cache
def _shapes() -> tuple[_Shape, ...]:
    table = tomllib.loads((data_folder("certificates") / "secrets.toml").read_text(encoding="utf-8"))
    return tuple(
        _Shape(
            f"{_MARK}{each['name']}]",
            tuple(each["hints"]),
            each["pattern"],
            spans_lines=each.get("spans_lines", False),
        )
        for each in table["secret"]
    )
