"""Uses of parameters in the source of a callable: shapes, kinds of values and compared texts."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

# Members that only a tensor, a mapping, or a probability distribution has among the usual arguments.
_TENSOR = frozenset(
    (
        *("shape", "size", "dim", "ndim", "device", "dtype", "view", "reshape", "permute", "transpose", "unsqueeze"),
        *("squeeze", "flatten", "contiguous", "detach", "new_zeros", "expand", "gather", "masked_fill", "chunk"),
        *("float", "long", "bool", "numel", "is_cuda", "backward", "argmax", "softmax", "matmul", "repeat", "clone"),
        *("exp", "pow", "norm", "abs", "clamp", "sqrt", "requires_grad", "fill_", "zero_", "narrow", "unbind", "mT"),
    )
)
_MAPPING = frozenset(("items", "keys", "values", "get", "setdefault"))
_DISTRIBUTION = frozenset(("log_prob", "rsample", "entropy", "icdf", "cdf"))
_PATTERN = frozenset(("rearrange", "reduce", "repeat", "pack", "unpack", "Rearrange", "Reduce"))
_TOKEN = re.compile(r"\([^)]*\)|\.\.\.|\w+")
_MOST_DIMENSIONS = 6


@dataclass
class ParameterUse:
    """Uses of one parameter.

    Attributes:
        shape: Names of its dimensions, such as `b`, `c`, `h`, `w`; empty if unknown.
        kinds: `tensor`, `mapping`, `distribution`, `iterable`, `length` or `callable`.
        texts: Texts with which it is compared.
        types: Names of the classes for which it is checked.
    """

    shape: tuple[str, ...] = ()
    kinds: set[str] = field(default_factory=set)
    texts: dict[str, None] = field(default_factory=dict)
    types: dict[str, None] = field(default_factory=dict)


def uses_of(thing: Any) -> dict[str, ParameterUse]:
    """Return the uses of the parameters of a function, a method, a class or its object; empty without source."""
    code = thing.__init__ if inspect.isclass(thing) else getattr(thing, "forward", thing)
    code = code if inspect.isroutine(code) else getattr(code, "__call__", code)  # noqa: B004 - the code of the call
    try:
        return _uses(inspect.unwrap(code))
    except TypeError:
        # It cannot be hashed.
        return {}


@lru_cache(maxsize=256)
def _uses(code: Any) -> dict[str, ParameterUse]:
    found: dict[str, ParameterUse] = {}
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return found
    function = tree.body[0]
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return found
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    found = {argument.arg: ParameterUse() for argument in arguments}
    assigned: set[str] = set()
    for statement in function.body:
        known = {name: use for name, use in found.items() if name not in assigned}
        for node in ast.walk(statement):
            _note(node, known)
        # From here on, the name may stand for another value.
        assigned |= {
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
    return found


def _note(node: ast.AST, known: dict[str, ParameterUse]) -> None:
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=value) if use := _shape_owner(value, known):
            if not use.shape and all(isinstance(each, ast.Name) for each in names):
                use.shape = tuple(ast.unparse(each) for each in names)[:_MOST_DIMENSIONS]
        case ast.Call(func=function, args=args):
            _note_call(function, args, known)
        case ast.Attribute(value=ast.Name(id=name), attr=member) if name in known:
            for kind, members in (("tensor", _TENSOR), ("mapping", _MAPPING), ("distribution", _DISTRIBUTION)):
                if member in members:
                    known[name].kinds.add(kind)
        case ast.For(iter=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)) if name in known:
            known[name].kinds.add("iterable")
        case ast.Compare(left=ast.Name(id=name), comparators=[compared]) if name in known:
            parts = compared.elts if isinstance(compared, (ast.Tuple, ast.List, ast.Set)) else [compared]
            known[name].texts |= {
                part.value: None for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
            }
        case _:
            return


def _shape_owner(value: ast.expr, known: dict[str, ParameterUse]) -> ParameterUse | None:
    """Return the parameter whose shape an expression is: `x.shape` or `x.size()`."""
    match value:
        case ast.Attribute(value=ast.Name(id=name), attr="shape") if name in known:
            return known[name]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="size"), args=[]) if name in known:
            return known[name]
        case _:
            return None


def _note_call(function: ast.expr, args: list[ast.expr], known: dict[str, ParameterUse]) -> None:
    called = ast.unparse(function).rpartition(".")[2]
    if isinstance(function, ast.Name) and function.id in known:
        known[function.id].kinds.add("callable")
    texts = [arg.value for arg in args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    names = [arg.id for arg in args if isinstance(arg, ast.Name) and arg.id in known]
    if called == "isinstance" and names and len(args) > 1:
        types = args[1].elts if isinstance(args[1], ast.Tuple) else [args[1]]
        known[names[0]].types |= {each.id: None for each in types if isinstance(each, ast.Name)}
    if called == "len" and names:
        known[names[0]].kinds.add("length")
    if called in _PATTERN and texts and names and isinstance(args[0], ast.Name):
        tokens = tuple(_TOKEN.findall(texts[0].partition("->")[0]))
        if tokens and "..." not in tokens and not known[names[0]].shape:
            known[names[0]].shape = tokens[:_MOST_DIMENSIONS]
    if called == "einsum" and texts:
        operands = texts[0].partition("->")[0].split(",")
        for text, each in zip(operands, args[1:], strict=False):
            tokens = tuple(_TOKEN.findall(text) if " " in text.strip() else text.strip())
            if isinstance(each, ast.Name) and each.id in known and "." not in tokens and "..." not in tokens:
                known[each.id].shape = known[each.id].shape or tokens[:_MOST_DIMENSIONS]
