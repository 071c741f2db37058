"""The part of the pass over a syntax tree that reads expressions: calls, comprehensions and what is bound."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.blocks import LOOPS, Block, BlockKind
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.tables import Assignment, Call, Function

if TYPE_CHECKING:
    from esper_agents.review.tables import Class, FileTables

Comprehension: TypeAlias = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp

# What an expression may hold further expressions in; names, constants and operators hold none.
_CHILDREN: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Attribute: ("value",),
    ast.Await: ("value",),
    ast.BinOp: ("left", "right"),
    ast.BoolOp: ("values",),
    ast.Compare: ("left", "comparators"),
    ast.Dict: ("keys", "values"),
    ast.FormattedValue: ("value", "format_spec"),
    ast.IfExp: ("test", "body", "orelse"),
    ast.JoinedStr: ("values",),
    ast.Lambda: ("body",),
    ast.List: ("elts",),
    ast.Set: ("elts",),
    ast.Slice: ("lower", "upper", "step"),
    ast.Starred: ("value",),
    ast.Subscript: ("value", "slice"),
    ast.Tuple: ("elts",),
    ast.UnaryOp: ("operand",),
    ast.Yield: ("value",),
    ast.YieldFrom: ("value",),
    ast.keyword: ("value",),
}
# Most expressions are one of these, and hold no others: to ask each time before the call takes less than the calls.
_LEAVES = frozenset({ast.Name, ast.Constant})
_SEVERAL = (ast.Tuple, ast.List)


class ExpressionPass:
    """Where the pass stands, and what it does with an expression there.

    Attributes:
        file: The file whose tables are filled.
        function: The function it is in.
        block: The block it is in.
        owner: The class it is in.
        is_class_body: Whether it is in the body of that class, and in none of its methods.
        statement: The statement it is at.
    """

    def __init__(self, file: FileTables) -> None:
        self.file = file
        module = Function(node=file.tree, name="<module>", file=file, owner=None, outer=None)
        module.blocks.append(Block(file.tree, BlockKind.FUNCTION, None, module))
        file.functions.append(module)
        self.function = module
        self.block = module.block
        self.owner: Class | None = None
        self.is_class_body = False
        self.statement: ast.stmt = ast.Pass()

    def open_block(self, node: ast.AST, kind: BlockKind) -> Block:
        """Return a new block inside the one that the pass is in."""
        block = Block(node, kind, self.block, self.function, self.block.loop)
        if kind in LOOPS:
            block.loop = block
        self.function.blocks.append(block)
        return block

    def bind(self, target: ast.expr, value: ast.expr, statement: ast.stmt, *, is_unpacked: bool = False) -> None:
        """Note what a target binds, each name of a tuple by itself."""
        if isinstance(target, _SEVERAL):
            parts = _parts(target, value)
            for place, each in enumerate(target.elts):
                part = value if parts is None else parts[place]
                self.bind(each, part, statement, is_unpacked=is_unpacked or parts is None)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, value, statement, is_unpacked=True)
        else:
            self.note(target, value, statement, is_unpacked=is_unpacked or isinstance(statement, ast.For))

    def note(
        self,
        target: ast.expr,
        value: ast.expr,
        statement: ast.stmt,
        *,
        is_augmented: bool = False,
        is_unpacked: bool = False,
    ) -> None:
        """Note the binding of one path, in the function and, where it is the class's, in the class."""
        path = dotted(target)
        if not path:
            return
        found = Assignment(path, target, value, self.block, statement, is_augmented, is_unpacked)
        if path.endswith("[]"):
            self.expression(target, statement)
        if self.owner is not None and (self.is_class_body or path.startswith("self.")):
            self.owner.attributes.setdefault(path, []).append(found)
        if not self.is_class_body:
            self.function.assignments.setdefault(path, []).append(found)

    def expression(self, node: ast.AST, parent: ast.AST) -> None:
        """Note the calls and bindings in an expression."""
        kind = node.__class__
        if kind in _LEAVES:
            return
        if kind is ast.Call:
            self._call(node, parent)  # type: ignore[arg-type]
            return
        fields = _CHILDREN.get(kind)
        if fields is None:
            self._special(node)
            return
        for name in fields:
            child = getattr(node, name)
            if child.__class__ is list:
                for each in child:
                    if each.__class__ not in _LEAVES and each is not None:
                        self.expression(each, node)
            elif child.__class__ not in _LEAVES and child is not None:
                self.expression(child, node)

    def _special(self, node: ast.AST) -> None:
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self._comprehension(node)
        elif isinstance(node, ast.NamedExpr):
            self.expression(node.value, node)
            self.bind(node.target, node.value, self.statement)

    def _comprehension(self, node: Comprehension) -> None:
        outside = self.block
        for generator in node.generators:
            self.expression(generator.iter, node)
            self.block = self.open_block(node, BlockKind.COMPREHENSION)
            self.block.targets = tuple(bound(generator.target))
            for condition in generator.ifs:
                self.expression(condition, node)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.expression(part, node)
        self.block = outside

    def _call(self, node: ast.Call, parent: ast.AST) -> None:
        function = node.func
        path = dotted(function)
        held: ast.expr = function
        if function.__class__ is ast.Attribute:
            tail: str = function.attr
            receiver = path[: -len(tail) - 1]
            held = function.value
        else:
            tail, receiver = tail_of(path), ""
        call = Call(node, path, path, tail, receiver, self.block, self.statement, parent)
        self.function.calls.append(call)
        self.file.calls.append(call)
        if held.__class__ not in _LEAVES:
            self.expression(function, node)
        for argument in node.args:
            if argument.__class__ not in _LEAVES:
                self.expression(argument, node)
        for keyword in node.keywords:
            if keyword.value.__class__ not in _LEAVES:
                self.expression(keyword.value, node)


def _parts(target: ast.Tuple | ast.List, value: ast.expr) -> list[ast.expr] | None:
    """Return what each name of a tuple is bound to, where a tuple as long is assigned to it."""
    if not isinstance(value, ast.Tuple | ast.List) or len(value.elts) != len(target.elts):
        return None
    is_starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts))
    return None if is_starred else value.elts


def bound(target: ast.expr) -> list[str]:
    """Return the paths that a target binds."""
    if isinstance(target, ast.Tuple | ast.List):
        return [name for elt in target.elts for name in bound(elt)]
    if isinstance(target, ast.Starred):
        return bound(target.value)
    return [dotted(target)]
