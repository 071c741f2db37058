"""Statements of a source as units that two versions of it are compared by: each statement without its block."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.in_place_forms import in_place_consequence
from esper_agents.review.inlined_names import with_values_inlined
from esper_agents.review.renamed_names import rename
from esper_agents.review.syntax_edits import SyntaxEdit, compare_expressions, compare_values, same, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ScopeNode: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert, ast.Delete)
_BLOCKS = frozenset(("body", "orelse", "finalbody", "handlers", "cases"))
_EXITS = (ast.Return, ast.Continue, ast.Break, ast.Raise)
_MESSAGES = frozenset(
    ("print", "log", "debug", "info", "warning", "warn", "error", "exception", "critical", "skip", "fail", "echo")
)
# Two assignments to one name, or two returns, are versions of one statement even if they have little in common.
_SAME_ROLE = 0.5
# What follows if a call that stands alone is gone; true wherever it stood.
_GONE = {
    "zero_grad": "gradients of earlier batches add up",
    "backward": "no gradient is computed here",
    "step": "nothing is updated here",
    "eval": "dropout and batch normalisation stay as they are",
    "train": "dropout and batch normalisation stay as they are",
    "clip_grad_norm_": "one large gradient can destroy the parameters",
    "clip_grad_value_": "one large gradient can destroy the parameters",
    "unscale_": "what follows reads gradients that are still scaled",
    "__init__": "the base class is not initialised here",
    "manual_seed": "runs are not repeatable",
    "set_epoch": "every epoch has the same order of samples",
    "barrier": "ranks go on before the others are ready",
    "synchronize": "what follows may run before the device is done",
    "requires_grad_": "the parameters keep their setting",
    "register_buffer": "the tensor is neither moved nor saved with the module",
    "register_parameter": "the tensor is not trained",
    "reset_parameters": "the parameters keep their first values",
    "flush": "the output stays in the buffer",
    "close": "the file stays open",
}


@dataclass(frozen=True)
class Unit:
    """Statement, or the head of one with a block.

    Attributes:
        kind: Type of the statement, such as `If`, `else` or `decorator`.
        node: Its syntax tree.
        parent: Number of the unit whose block it is in; -1 for the scope itself.
        line: Line, from 1.
    """

    kind: str
    node: ast.AST
    parent: int
    line: int

    @cached_property
    def key(self) -> str:
        """Text that is equal for the same statement."""
        parts = [ast.dump(each) if isinstance(each, ast.AST) else str(each) for each in self._own()]
        return f"{self.kind} {' '.join(parts)}"

    def _own(self) -> Iterator[object]:
        """Yield the parts of the node without its blocks."""
        if self.kind in {"else", "finally", "Try"}:
            return
        if self.kind == "decorator":
            yield self.node
            return
        for name, value in ast.iter_fields(self.node):
            if name in _BLOCKS or name in {"decorator_list", "returns", "type_comment", "type_params"}:
                continue
            if isinstance(self.node, _DEFINITIONS) and name == "name":
                continue
            yield from value if isinstance(value, list) else [value]

    @property
    def is_import(self) -> bool:
        """Whether it is an import: what it binds differs only where it is used."""
        return isinstance(self.node, ast.Import | ast.ImportFrom)

    @cached_property
    def shown(self) -> str:  # noqa: C901, PLR0911, PLR0912 - one case for each kind of statement
        """Its source in one short line."""
        match self.node:
            case _ if self.kind in {"else", "finally"}:
                return self.kind
            case _ if self.kind == "decorator":
                return f"@{shown(self.node)}"
            case ast.If(test=test):
                return f"if {shown(test)}"
            case ast.While(test=test):
                return f"while {shown(test)}"
            case ast.For(target=target, iter=over) | ast.AsyncFor(target=target, iter=over):
                return f"for {shown(target)} in {shown(over)}"
            case ast.With(items=items) | ast.AsyncWith(items=items):
                return f"with {', '.join(shown(item) for item in items)}"
            case ast.Try():
                return "try"
            case ast.ExceptHandler(type=kind):
                return f"except {shown(kind)}" if kind else "except"
            case ast.Match(subject=subject):
                return f"match {shown(subject)}"
            case ast.match_case(pattern=pattern):
                return f"case {shown(pattern)}"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                return f"def {name}"
            case ast.ClassDef(name=name):
                return f"class {name}"
            case node:
                return shown(node)

    @property
    def released(self) -> str:
        """Predicate of the statements in its block after the unit is gone."""
        match self.node:
            case ast.If(test=test):
                return f"no longer depends on `{shown(test)}`" if self.kind == "If" else "runs in both cases"
            case ast.For() | ast.AsyncFor() | ast.While():
                return f"no longer runs in `{self.shown}`"
            case ast.With() | ast.AsyncWith():
                return f"no longer runs under `{self.shown}`"
            case ast.Try():
                return "no longer runs in a `try`"
            case _:
                return f"no longer stands under `{self.shown}`"

    @property
    def bound(self) -> str:
        """Predicate of the statements that are now in its block."""
        match self.node:
            case ast.If(test=test):
                return f"now runs only if `{shown(test)}`" if self.kind == "If" else "now runs in the other case only"
            case ast.For() | ast.AsyncFor() | ast.While():
                return f"now runs in `{self.shown}`"
            case ast.With() | ast.AsyncWith():
                return f"now runs under `{self.shown}`"
            case ast.Try():
                return "now runs in a `try`"
            case _:
                return f"now stands under `{self.shown}`"

    def consequence_of_loss(self, body: Sequence[Unit]) -> str:
        """Return what follows if the unit and its block are gone, after a colon; empty if that depends on the code."""
        if isinstance(self.node, ast.If) and body and isinstance(body[-1].node, _EXITS):
            return f": the code below now runs if `{shown(self.node.test)}` as well"
        if isinstance(self.node, ast.Expr) and isinstance(self.node.value, ast.Call):
            function = self.node.value.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            return f": {_GONE[name]}" if name in _GONE else ""
        if isinstance(self.node, ast.Assert):
            return ": what it checked passes unnoticed"
        return ""

    def similarity(self, other: Unit) -> float:
        """Return how likely two units are versions of one statement, from 0 to 1."""
        one, two = type(self.node), type(other.node)
        if one is not two and not (isinstance(self.node, _SIMPLE) and isinstance(other.node, _SIMPLE)):
            return 0.0
        if (self.kind in {"else", "finally", "decorator"}) is not (other.kind in {"else", "finally", "decorator"}):
            return 0.0
        ratio = SequenceMatcher(None, self._text, other._text, autojunk=False).ratio()
        return max(ratio, _SAME_ROLE) if one is two and _has_same_role(self.node, other.node) else ratio

    @cached_property
    def _text(self) -> str:
        node = self.node
        return ast.unparse(node) if isinstance(node, (*_SIMPLE, ast.expr)) else self.shown

    def compare(self, new: Unit) -> Iterator[SyntaxEdit]:
        """Yield the differences to a later version of the same statement."""
        is_message = _is_message(self.node)
        for each in _compare(self.node, new.node):
            located = replace(each, line=each.line or new.line, base_line=each.base_line or self.line)
            yield located if is_message else replace(located, is_message=False)


@dataclass(frozen=True)
class SyntaxScope:
    """Function, class body or module, without the definitions in it.

    Attributes:
        name: Qualified name; empty for the module.
        node: Its syntax tree.
    """

    name: str
    node: ScopeNode

    @property
    def line(self) -> int:
        """Line of its definition, from 1."""
        return getattr(self.node, "lineno", 1)

    @cached_property
    def units(self) -> list[Unit]:
        """Its statements, each before those in its block."""
        found: list[Unit] = []
        if not isinstance(self.node, ast.Module):
            found += [Unit("decorator", each, -1, each.lineno) for each in self.node.decorator_list]
            found.append(Unit(type(self.node).__name__, self.node, -1, self.node.lineno))
        _collect(self.node.body, -1, found, is_class=isinstance(self.node, ast.ClassDef))
        return found

    @cached_property
    def keys(self) -> list[tuple[str, str]]:
        """Keys of its statements with those of the statements around them."""
        return [(unit.key, self.units[unit.parent].key if unit.parent >= 0 else "") for unit in self.units]

    @property
    def imported(self) -> dict[str, tuple[str, int]]:
        """Origins and lines of the names that its imports bind."""
        found: dict[str, tuple[str, int]] = {}
        for unit in self.units:
            match unit.node:
                case ast.ImportFrom(module=module, names=names, level=level):
                    start = f"{'.' * level}{module or ''}"
                    found |= {name.asname or name.name: (f"{start}.{name.name}", unit.line) for name in names}
                case ast.Import(names=names):
                    found |= {name.asname or name.name: (name.name, unit.line) for name in names}
                case _:
                    continue
        return found

    @property
    def lines(self) -> int:
        """Number of lines of its definition."""
        return (getattr(self.node, "end_lineno", None) or self.line) - self.line + 1

    def with_values_inlined(self) -> SyntaxScope:
        """Return the scope with values in the place of names that are read once, by the next statement."""
        node = with_values_inlined(self.node)
        return self if node is self.node else SyntaxScope(self.name, node)  # type: ignore[arg-type] # of the same type

    def renamed(self, names: Mapping[str, str]) -> SyntaxScope:
        """Return the scope with other names."""
        node = copy.deepcopy(self.node)
        rename(node, names)
        return SyntaxScope(self.name, node)


def scopes_of(tree: ast.Module) -> dict[str, SyntaxScope]:
    """Return the scopes of a source by qualified name, outer ones first; annotations and docstrings are removed.

    Of definitions with one name, such as the two parts of a property, each has its number in its name.
    """
    _strip(tree)
    found: dict[str, SyntaxScope] = {"": SyntaxScope("", tree)}
    pending: list[tuple[str, ast.AST]] = [("", tree)]
    while pending:
        name, node = pending.pop(0)
        for each in _inner(node):
            inner = f"{name}.{each.name}".lstrip(".")
            number = 1
            while inner in found:
                number += 1
                inner = f"{name}.{each.name}".lstrip(".") + f"#{number}"
            found[inner] = SyntaxScope(inner, each)
            pending.append((inner, each))
    return found


def _inner(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield child
        else:
            yield from _inner(child)


def _strip(tree: ast.Module) -> None:
    """Remove annotations and docstrings; a field that only has an annotation stays a field."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                is_class = isinstance(node, ast.ClassDef)
                block[:] = [kept for each in block if (kept := _stripped(each, is_class=is_class)) is not None]


def _stripped(node: ast.stmt, *, is_class: bool) -> ast.stmt | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return None
    if isinstance(node, ast.Pass):
        return None
    if isinstance(node, ast.AnnAssign):
        if node.value is not None:
            return ast.copy_location(ast.Assign([node.target], node.value), node)
        # The field of a data class.
        return ast.copy_location(ast.Expr(node.target), node) if is_class else None
    return node


def _collect(body: Sequence[ast.stmt], parent: int, found: list[Unit], *, is_class: bool = False) -> None:
    for each in body:
        if isinstance(each, _DEFINITIONS):
            continue
        number = len(found)
        found.append(Unit(type(each).__name__, each, parent, each.lineno))
        for name in ("body", "orelse", "finalbody"):
            block = getattr(each, name, None)
            if not isinstance(block, list) or not block:
                continue
            inside = number
            is_elif = name == "orelse" and isinstance(each, ast.If) and len(block) == 1 and isinstance(block[0], ast.If)
            if name != "body" and not is_elif:
                inside = len(found)
                word = "finally" if name == "finalbody" else "else"
                found.append(Unit(word, each, number, block[0].lineno))
            _collect(block, inside, found, is_class=is_class)
        for handler in (*getattr(each, "handlers", ()), *getattr(each, "cases", ())):
            inside = len(found)
            line = handler.lineno if isinstance(handler, ast.ExceptHandler) else handler.pattern.lineno
            found.append(Unit(type(handler).__name__, handler, number, line))
            _collect(handler.body, inside, found, is_class=is_class)


def _has_same_role(old: ast.AST, new: ast.AST) -> bool:
    match old, new:
        case (ast.Assign(), ast.Assign()):
            return [ast.dump(target) for target in old.targets] == [ast.dump(target) for target in new.targets]
        case (ast.AugAssign(), ast.AugAssign()):
            return same(old.target, new.target)
        case (ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Return(), _):
            return True
        case _:
            return False


def _is_message(node: ast.AST) -> bool:
    """Return whether the texts in a statement are messages for people."""
    if isinstance(node, ast.Raise | ast.Assert):
        return True
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _MESSAGES


def _compare(  # noqa: C901, PLR0912 - one case for each kind of statement
    old: ast.AST, new: ast.AST
) -> Iterator[SyntaxEdit]:
    match old, new:
        case (ast.expr(), ast.expr()):
            yield from compare_expressions(old, new)
        case (ast.Assign(), ast.Assign()):
            if [ast.dump(target) for target in old.targets] != [ast.dump(target) for target in new.targets]:
                now, before = (", ".join(shown(target) for target in side.targets) for side in (new, old))
                yield SyntaxEdit(f"assigns to `{now}` instead of `{before}`")
            yield from compare_values(new.targets[0], old.value, new.value)
        case (ast.AugAssign(), ast.AugAssign()) if same(old.target, new.target) and type(old.op) is type(new.op):
            yield from compare_expressions(old.value, new.value)
        case (ast.Expr(), ast.Expr()):
            yield from compare_expressions(old.value, new.value)
        case (ast.Return(value=ast.expr() as before), ast.Return(value=ast.expr() as after)):
            yield from compare_expressions(before, after, "")
        case (ast.Assert(), ast.Assert()):
            yield from compare_expressions(old.test, new.test, "the condition")
            if old.msg is not None and new.msg is not None:
                yield from compare_expressions(old.msg, new.msg)
        case (ast.Raise(exc=ast.expr() as before), ast.Raise(exc=ast.expr() as after)):
            yield from compare_expressions(before, after)
        case (ast.If() | ast.While(), ast.If() | ast.While()):
            yield from compare_expressions(old.test, new.test, "the condition")
        case (ast.For() | ast.AsyncFor(), ast.For() | ast.AsyncFor()):
            yield from compare_expressions(old.target, new.target)
            yield from compare_expressions(old.iter, new.iter, "the iterable of the loop")
        case (ast.With() | ast.AsyncWith(), ast.With() | ast.AsyncWith()) if len(old.items) == len(new.items):
            for one, other in zip(old.items, new.items, strict=True):
                yield from compare_expressions(one.context_expr, other.context_expr)
        case (ast.FunctionDef() | ast.AsyncFunctionDef(), ast.FunctionDef() | ast.AsyncFunctionDef()):
            yield from _parameters(old.args, new.args)
        case (ast.ClassDef(), ast.ClassDef()):
            before_bases, after_bases = (", ".join(shown(base) for base in side.bases) for side in (old, new))
            yield SyntaxEdit(f"the bases are `({after_bases})` instead of `({before_bases})`")
        case _:
            follow = in_place_consequence(old, new)
            yield SyntaxEdit(f"`{shown(new)}` instead of `{shown(old)}`", follow)


def _parameters(old: ast.arguments, new: ast.arguments) -> Iterator[SyntaxEdit]:
    before, after = (dict(_defaults(each)) for each in (old, new))
    for name, default in before.items():
        if name not in after:
            yield SyntaxEdit(f"the parameter `{name}` is gone")
            continue
        now = after[name]
        if default is not None and now is not None:
            yield from compare_expressions(default, now, f"the default of `{name}`")
        elif (default is None) is not (now is None):
            yield SyntaxEdit(f"the parameter `{name}` {'has a' if default is None else 'lost its'} default")
    for name in after:
        if name not in before:
            yield SyntaxEdit(f"has the new parameter `{name}`")
    if list(before) != list(after) and sorted(before) == sorted(after):
        yield SyntaxEdit(f"the parameters are in another order: `{', '.join(after)}`")


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    yield from ((each.arg, default) for each, default in zip(positional, [*missing, *arguments.defaults], strict=True))
    if arguments.vararg:
        yield f"*{arguments.vararg.arg}", None
    yield from ((each.arg, default) for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    if arguments.kwarg:
        yield f"**{arguments.kwarg.arg}", None
