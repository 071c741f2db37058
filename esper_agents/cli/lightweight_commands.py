"""Typer command classes that convert parameters without pydantic, which takes 0.1 s to load.

Values that it cannot convert are passed to pydantic, so that all error messages are the same.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from collections.abc import Callable


class QuickCommand(TyperCommand):
    """Command whose parameters are strings, flags, choices, paths that need not exist, or lists of these."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        return _quickened(super().get_params(ctx))


class QuickGroup(TyperGroup):
    """Command group with the same restrictions on its own parameters."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        return _quickened(super().get_params(ctx))


def _quickened(params: list[Any]) -> list[Any]:
    for param in params:
        described = getattr(param, "type_descriptor", None)
        if described is not None and "get_runtime_param" not in vars(param):
            param.get_runtime_param = _Converter(described.annotation, param.get_runtime_param).here
    return params


class _Converter:
    """Converter of the value of one parameter."""

    def __init__(self, annotation: Any, usual: Callable[[], Any]) -> None:
        self.annotation = annotation
        self.usual = usual

    def here(self) -> _Converter:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value of a parameter."""
        is_list = param.multiple or param.nargs == -1
        if value is None:
            return () if is_list else None
        try:
            if not is_list:
                return _plain(value, self.annotation)
            (kind,) = get_args(self.annotation)
            return [_plain(each, kind) for each in value]
        except (TypeError, ValueError):
            return self.usual().coerce(value, param=param, ctx=ctx)


def _plain(value: Any, kind: Any) -> Any:
    if get_origin(kind) is not None or not isinstance(kind, type):
        raise TypeError(kind)
    if isinstance(value, kind):
        return value
    if isinstance(value, str) and issubclass(kind, Path | Enum):
        return kind(value)
    raise TypeError(kind)
