"""Input specifications of the command line: `randn(32,128)`, `name=randint(0,10,(8,))`, `3`, `None`."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class TargetError(Exception):
    """Error for a target or inputs that cannot be used: bad input, not a measurement result.

    Attributes:
        problem: Problem, in lower case without a full stop.
        remedy: How to fix it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.remedy = remedy


@dataclass(slots=True)
class Inputs:
    """Inputs of a target's call.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


_MAKERS: dict[str, Callable[..., torch.Tensor]] = {
    "arange": torch.arange,
    "bernoulli": lambda *size, p=0.5, **more: torch.empty(*size, **more).bernoulli_(p),
    "empty": torch.empty,
    "eye": torch.eye,
    "full": torch.full,
    "linspace": torch.linspace,
    "ones": torch.ones,
    "rand": torch.rand,
    "randint": torch.randint,
    "randn": torch.randn,
    "randperm": torch.randperm,
    "tensor": torch.tensor,
    "zeros": torch.zeros,
}
# Position of the size argument, for makers that draw elements one by one.
_SIZE_AT = {"rand": 0, "randn": 0, "randint": 2}
_REMEDY = 'write it like "randn(32,128)", "x=randint(0,10,(8,))", "rand(4,dtype=float64)", "3" or "None"'


def _literal(node: ast.expr) -> Any:
    match node:
        case ast.Attribute(value=ast.Name(id="torch"), attr=name) | ast.Name(id=name) if isinstance(
            getattr(torch, name, None), (torch.dtype, torch.memory_format)
        ):
            return getattr(torch, name)
        case ast.Call():
            return _call(node)
        case ast.Tuple(elts=parts):
            return tuple(_literal(part) for part in parts)
        case ast.List(elts=parts):
            return [_literal(part) for part in parts]
        case ast.Dict(keys=keys, values=values) if all(isinstance(key, ast.Constant) for key in keys):
            return {ast.literal_eval(key): _literal(each) for key, each in zip(keys, values) if key is not None}  # noqa: B905 - Python 3.10; an AST's keys and values are as many
        case _:
            return ast.literal_eval(node)


def _call(node: ast.Call) -> torch.Tensor:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="torch"), attr=name) if name in _MAKERS:
            args = [_literal(arg) for arg in node.args]
            options = {keyword.arg: _literal(keyword.value) for keyword in node.keywords if keyword.arg}
            return _MAKERS[name](*args, **options)
        case _:
            raise ValueError(f"{ast.unparse(node.func)} is not an input maker; known makers: {', '.join(_MAKERS)}")


class Spec:
    """Input specifications from the command line, evaluated again for each seed."""

    def __init__(self, texts: list[str]) -> None:
        """Parse the specifications.

        Raises:
            TargetError: A text is not a valid input.
        """
        self._args: list[tuple[str, ast.expr]] = []
        self._kwargs: list[tuple[str, str, ast.expr]] = []
        for text in texts:
            match _parsed(text):
                case ast.Call(args=[], keywords=[ast.keyword(arg=str(name), value=node)]):
                    self._kwargs.append((name, text, node))
                case ast.Call(args=[node], keywords=[]) if not isinstance(node, ast.Starred):
                    self._args.append((text, node))
                case _:
                    raise TargetError(f"invalid input {text!r}", _REMEDY)

    def __call__(self) -> Inputs:
        """Return the inputs, drawn from torch's current generator state.

        Raises:
            TargetError: torch rejects one.
        """
        return self.many(1)[0]

    def many(self, calls: int) -> list[Inputs]:
        """Return the inputs of a number of calls: all random numbers of one input in one draw, a slice for each call.

        Raises:
            TargetError: torch rejects one.
        """
        args = [_slices(text, node, calls) for text, node in self._args]
        kwargs = {name: _slices(text, node, calls) for name, text, node in self._kwargs}
        if not kwargs:
            return [Inputs(each) for each in zip(*args, strict=True)] if args else [Inputs() for _ in range(calls)]
        return [
            Inputs(tuple(arg[n] for arg in args), {name: each[n] for name, each in kwargs.items()})
            for n in range(calls)
        ]


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(f"_({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TargetError(f"invalid input {text!r}", _REMEDY) from error


def _slices(text: str, node: ast.expr, calls: int) -> Sequence[Any]:
    """Return an input for each call."""
    if calls > 1:
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _SIZE_AT:
                stacked = _stacked(node, _SIZE_AT[name], calls)
                made: torch.Tensor = _made(text, stacked)
                return made.unbind(0)
            case _:
                pass
    return [_made(text, node) for _ in range(calls)]


def _stacked(node: ast.Call, size_at: int, calls: int) -> ast.Call:
    """Return the maker call for all inputs at once, stacked along a new first dimension."""
    # The size of randint(high, size) is one position earlier than in randint(low, high, size).
    first = size_at if len(node.args) > size_at or size_at == 0 else size_at - 1
    sizes = node.args[first:]
    if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
        size = ast.Tuple(elts=[ast.Constant(calls), *sizes[0].elts], ctx=ast.Load())
    else:
        size = ast.Tuple(elts=[ast.Constant(calls), *sizes], ctx=ast.Load())
    return ast.Call(func=node.func, args=[*node.args[:first], size], keywords=node.keywords)


def _made(text: str, node: ast.expr) -> Any:
    try:
        return _literal(node)
    except (TypeError, ValueError, RuntimeError, RecursionError, OverflowError) as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise TargetError(f"cannot create the input {text!r}: {first}", _REMEDY) from error
