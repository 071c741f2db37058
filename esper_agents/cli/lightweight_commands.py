"""Typer command classes that convert parameters without pydantic, which takes 0.1 s to load.

Values that it cannot convert are passed to pydantic, so that all error messages are the same.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_name
from typer.models import DefaultPlaceholder

from esper_agents.cli.old_options import with_current_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import typer
    from typer.models import CommandInfo


class LightweightCommand(TyperCommand):
    """Command whose parameters are strings, flags, choices, paths that need not exist, or lists of these."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with old names of options as well."""
        return super().parse_args(ctx, _with_current_names(self, args))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        return _quickened(super().get_params(ctx))


class LightweightGroup(TyperGroup):
    """Command group with the same restrictions on its own parameters."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group, with old names of options as well."""
        return super().parse_args(ctx, _with_current_names(self, args))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including `--help`."""
        return _quickened(super().get_params(ctx))


def only(app: typer.Typer, words: Sequence[str]) -> None:
    """Drop the commands of an application that a command line does not name.

    Args:
        app: The application, made for this command line alone.
        words: The command line; a subcommand that the group does not have leaves the group whole.
    """
    app.registered_commands = [
        registered_command for registered_command in app.registered_commands if _name(registered_command) == words[0]
    ]
    for group in app.registered_groups:
        inner = group.typer_instance
        if inner is None:
            continue
        if wanted := [
            registered_command
            for registered_command in inner.registered_commands
            if _name(registered_command) in words[1:2]
        ]:
            group.typer_instance = copy(inner)
            group.typer_instance.registered_commands = wanted


def make_lightweight(app: typer.Typer) -> None:
    """Let all commands of an application convert their parameters without pydantic."""
    for command in app.registered_commands:
        if command.cls is TyperCommand or command.cls is None:
            command.cls = LightweightCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            make_lightweight(group.typer_instance)
            if isinstance(group.typer_instance.info.cls, DefaultPlaceholder):
                group.cls = LightweightGroup


def _with_current_names(command: Any, words: list[str]) -> list[str]:
    known = {name for param in command.params for name in param.opts}
    return with_current_names(command.name or "", known, words)


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))


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
