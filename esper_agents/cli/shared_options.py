"""Options that commands share: written once, as the parameters of what makes one thing of them."""

from __future__ import annotations

from functools import wraps
from inspect import Parameter, Signature, signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

    Command = Callable[..., None]


def gathered(make: Callable[..., Any], into: str) -> Callable[[Command], Command]:
    """Give a command the options of `make` in place of one parameter, which takes what `make` returns of them.

    Args:
        make: Each of its parameters is an option.
        into: The name of the command's parameter.
    """
    shared = _options(make)

    def give(command: Command) -> Command:
        @wraps(command)
        def run(**given: Any) -> None:
            made = make(**{each.name: given.pop(each.name) for each in shared})
            command(**given, **{into: made})

        own = {each.name: [each] for each in _options(command, into)}
        options = [each for name in signature(command).parameters for each in own.get(name, shared)]
        # Typer looks at both.
        vars(run)["__signature__"] = Signature(options)
        run.__annotations__ = {each.name: each.annotation for each in options}
        return run

    return give


def _options(function: Callable[..., Any], left_out: str = "") -> list[Parameter]:
    """Return the parameters of a function but one, with their annotations as what they stand for."""
    # What is returned or left out may have a type that is imported for checkers alone.
    told = {name: each for name, each in function.__annotations__.items() if name not in {left_out, "return"}}
    known = get_type_hints(SimpleNamespace(__annotations__=told), function.__globals__, include_extras=True)
    return [
        each.replace(kind=Parameter.KEYWORD_ONLY, annotation=known[each.name])
        for each in signature(function).parameters.values()
        if each.name != left_out
    ]
