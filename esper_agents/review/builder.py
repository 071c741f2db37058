"""The one pass over a syntax tree that fills a file's tables."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.review.names import absolute_module, dotted, root_of, tail_of
from esper_agents.review.tables import LOOPS, Assignment, Block, BlockKind, Call, Class, Function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from esper_agents.review.tables import FileTables

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
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


def fill(file: FileTables) -> None:
    """Fill the tables of a file from its syntax tree.

    Raises:
        RecursionError: The source nests deeper than Python can follow.
    """
    _Pass(file).run()


class _Pass:
    """Where the pass stands: the file, the function, the class, the block and the statement."""

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
        self.withs: list[tuple[Block, list[str]]] = []
        self.handlers: dict[type[ast.stmt], Callable[[Any], None]] = self._handlers()

    def _handlers(self) -> dict[type[ast.stmt], Callable[[Any], None]]:
        return {
            ast.FunctionDef: self._function,
            ast.AsyncFunctionDef: self._function,
            ast.ClassDef: self._class,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.Match: self._match,
            ast.Assign: self._assign,
            ast.AnnAssign: self._annotated,
            ast.AugAssign: self._augmented,
            ast.Expr: self._value,
            ast.Return: self._return,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Delete: self._parts,
            ast.Raise: self._parts,
            ast.Assert: self._parts,
        }

    def run(self) -> None:
        self._body(self.file.tree.body)
        self._resolve()

    def _body(self, statements: Iterable[ast.stmt]) -> None:
        handlers = self.handlers
        for each in statements:
            if handler := handlers.get(each.__class__):
                self.statement = each
                handler(each)

    def _nested(self, block: Block, statements: Sequence[ast.stmt]) -> None:
        outside, self.block = self.block, block
        self._body(statements)
        self.block = outside

    def _open(self, node: ast.AST, kind: BlockKind) -> Block:
        block = Block(node, kind, self.block, self.function, self.block.loop)
        if kind in LOOPS:
            block.loop = block
        self.function.blocks.append(block)
        return block

    def _function(self, node: Definition) -> None:
        for default in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self._expression(default, node)
        function = Function(
            node=node,
            name=node.name,
            file=self.file,
            owner=self.owner if self.is_class_body else None,
            outer=self.block,
            parameters=_parameters(node.args),
            decorators=tuple(dotted(each) for each in node.decorator_list),
        )
        function.blocks.append(Block(node, BlockKind.FUNCTION, None, function))
        self._register(function)
        outside = self.function, self.block, self.is_class_body
        self.function, self.block, self.is_class_body = function, function.block, False
        self._body(node.body)
        self.function, self.block, self.is_class_body = outside

    def _register(self, function: Function) -> None:
        self.file.functions.append(function)
        self.function.inner.append(function)
        if function.owner is not None:
            function.owner.methods[function.name] = function

    def _class(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases, *node.keywords):
            self._expression(each, node)
        found = Class(
            node=node,
            name=node.name,
            file=self.file,
            bases=tuple(dotted(each) for each in node.bases),
            decorators=tuple(dotted(each) for each in node.decorator_list),
        )
        self.file.classes.append(found)
        outside = self.owner, self.is_class_body
        self.owner, self.is_class_body = found, True
        self._nested(self._open(node, BlockKind.CLASS), node.body)
        self.owner, self.is_class_body = outside

    def _if(self, node: ast.If) -> None:
        self._expression(node.test, node)
        self._nested(self._open(node, BlockKind.IF), node.body)
        if node.orelse:
            self._nested(self._open(node, BlockKind.ELSE), node.orelse)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self._expression(node.iter, node)
        block = self._open(node, BlockKind.FOR)
        block.targets = tuple(_bound(node.target))
        outside, self.block = self.block, block
        self._bind(node.target, node.iter, node)
        self._body(node.body)
        self.block = outside
        self._body(node.orelse)

    def _while(self, node: ast.While) -> None:
        block = self._open(node, BlockKind.WHILE)
        outside, self.block = self.block, block
        self._expression(node.test, node)
        self._body(node.body)
        self.block = outside
        self._body(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        block = self._open(node, BlockKind.WITH)
        for item in node.items:
            self._expression(item.context_expr, node)
            if item.optional_vars is not None:
                block.targets += tuple(_bound(item.optional_vars))
                self._bind(item.optional_vars, item.context_expr, node)
        self.withs.append((block, [dotted(item.context_expr) for item in node.items]))
        self._nested(block, node.body)

    def _try(self, node: ast.Try) -> None:
        self._nested(self._open(node, BlockKind.TRY), node.body)
        for handler in node.handlers:
            self._nested(self._open(handler, BlockKind.EXCEPT), handler.body)
        self._body(node.orelse)
        self._body(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._expression(node.subject, node)
        for case in node.cases:
            if case.guard is not None:
                self._expression(case.guard, node)
            self._nested(self._open(case, BlockKind.CASE), case.body)

    def _assign(self, node: ast.Assign) -> None:
        self._expression(node.value, node)
        for target in node.targets:
            self._bind(target, node.value, node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._expression(node.value, node)
            self._bind(node.target, node.value, node)

    def _augmented(self, node: ast.AugAssign) -> None:
        self._expression(node.value, node)
        self._note(node.target, node.value, node, is_augmented=True)

    def _value(self, node: ast.Expr) -> None:
        self._expression(node.value, node)

    def _return(self, node: ast.Return) -> None:
        self.function.returns.append((node, self.block))
        if node.value is not None:
            self._expression(node.value, node)

    def _parts(self, node: ast.stmt) -> None:
        for child in ast.iter_child_nodes(node):
            self._expression(child, node)

    def _import(self, node: ast.Import) -> None:
        for each in node.names:
            bound = each.asname or each.name.partition(".")[0]
            self.file.imports[bound] = each.name if each.asname else bound

    def _import_from(self, node: ast.ImportFrom) -> None:
        is_package = self.file.path.endswith("__init__.py")
        base = absolute_module(self.file.module, is_package=is_package, level=node.level, name=node.module or "")
        for each in node.names:
            self.file.imports[each.asname or each.name] = f"{base}.{each.name}" if base else each.name

    def _bind(self, target: ast.expr, value: ast.expr, statement: ast.stmt, *, is_unpacked: bool = False) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                self._bind(each, value, statement, is_unpacked=True)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value, statement, is_unpacked=True)
        else:
            self._note(target, value, statement, is_unpacked=is_unpacked or isinstance(statement, ast.For))

    def _note(
        self,
        target: ast.expr,
        value: ast.expr,
        statement: ast.stmt,
        *,
        is_augmented: bool = False,
        is_unpacked: bool = False,
    ) -> None:
        path = dotted(target)
        if not path:
            return
        found = Assignment(path, target, value, self.block, statement, is_augmented, is_unpacked)
        if path.endswith("[]"):
            self._expression(target, statement)
        if self.owner is not None and (self.is_class_body or path.startswith("self.")):
            self.owner.attributes.setdefault(path, []).append(found)
        if not self.is_class_body:
            self.function.assignments.setdefault(path, []).append(found)

    def _expression(self, node: ast.AST, parent: ast.AST) -> None:
        kind = node.__class__
        if kind is ast.Name or kind is ast.Constant:
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
                    if each is not None:
                        self._expression(each, node)
            elif child is not None:
                self._expression(child, node)

    def _special(self, node: ast.AST) -> None:
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            self._comprehension(node)
        elif isinstance(node, ast.NamedExpr):
            self._expression(node.value, node)
            self._bind(node.target, node.value, self.statement)

    def _comprehension(self, node: Comprehension) -> None:
        outside = self.block
        for each in node.generators:
            self._expression(each.iter, node)
            self.block = self._open(node, BlockKind.COMPREHENSION)
            self.block.targets = tuple(_bound(each.target))
            for condition in each.ifs:
                self._expression(condition, node)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self._expression(part, node)
        self.block = outside

    def _call(self, node: ast.Call, parent: ast.AST) -> None:
        function = node.func
        path = dotted(function)
        if function.__class__ is ast.Attribute:
            tail: str = function.attr
            receiver = path[: -len(tail) - 1]
        else:
            tail, receiver = tail_of(path), ""
        call = Call(node, path, path, tail, receiver, self.block, self.statement, parent)
        self.function.calls.append(call)
        self.file.calls.append(call)
        if function.__class__ is not ast.Name:
            self._expression(function, node)
        for argument in node.args:
            self._expression(argument, node)
        for keyword in node.keywords:
            self._expression(keyword.value, node)

    def _resolve(self) -> None:
        """Read all paths through the imports, now that every import has been seen."""
        file = self.file
        for call in file.calls:
            call.name = self.meaning(call.path, call.block.function)
            file.by_tail.setdefault(call.tail, []).append(call)
            file.by_name.setdefault(call.name, []).append(call)
        for block, paths in self.withs:
            block.contexts = tuple(self.meaning(path, block.function) for path in paths)
        for function in file.functions:
            function.decorators = tuple(self.meaning(path, function) for path in function.decorators)
        for found in file.classes:
            found.bases = tuple(self.meaning(path, file.functions[0]) for path in found.bases)
            found.decorators = tuple(self.meaning(path, file.functions[0]) for path in found.decorators)

    def meaning(self, path: str, function: Function) -> str:
        root = root_of(path)
        imported = self.file.imports.get(root)
        if imported is None or root in function.parameters:
            return path
        return imported + path[len(root) :]


def _parameters(arguments: ast.arguments) -> tuple[str, ...]:
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    listed += [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return tuple(each.arg for each in listed)


def _bound(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Tuple | ast.List):
        return [name for each in target.elts for name in _bound(each)]
    if isinstance(target, ast.Starred):
        return _bound(target.value)
    return [dotted(target)]
