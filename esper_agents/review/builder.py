"""The one pass over a syntax tree that fills a file's tables."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, TypeAlias

from esper_agents.review.blocks import Block, BlockKind
from esper_agents.review.expressions import ExpressionPass, bound
from esper_agents.review.names import absolute_module, dotted, root_of
from esper_agents.review.stars import names_from_stars
from esper_agents.review.tables import Class, Function, Import

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from esper_agents.review.tables import FileTables

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def fill(file: FileTables) -> None:
    """Fill the tables of a file from its syntax tree.

    Raises:
        RecursionError: The source nests deeper than Python can follow.
    """
    _Pass(file).run()


class _Pass(ExpressionPass):
    """The pass over a file's statements."""

    def __init__(self, file: FileTables) -> None:
        super().__init__(file)
        self.withs: list[tuple[Block, list[str]]] = []
        self.stars: list[str] = []
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
        # They are bound to the pass, which would keep the whole tree alive in a circle.
        self.handlers.clear()

    def _body(self, statements: Iterable[ast.stmt]) -> None:
        handlers = self.handlers
        for statement in statements:
            if handler := handlers.get(statement.__class__):
                self.statement = statement
                handler(statement)

    def _nested(self, block: Block, statements: Sequence[ast.stmt]) -> None:
        outside, self.block = self.block, block
        self._body(statements)
        self.block = outside

    def _function(self, node: Definition) -> None:
        for default in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.expression(default, node)
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
            self.expression(each, node)
        found = Class(
            node=node,
            name=node.name,
            file=self.file,
            bases=tuple(dotted(_generic(base)) for base in node.bases),
            decorators=tuple(dotted(each) for each in node.decorator_list),
        )
        self.file.classes.append(found)
        outside = self.owner, self.is_class_body
        self.owner, self.is_class_body = found, True
        self._nested(self.open_block(node, BlockKind.CLASS), node.body)
        self.owner, self.is_class_body = outside

    def _if(self, node: ast.If) -> None:
        self.expression(node.test, node)
        self._nested(self.open_block(node, BlockKind.IF), node.body)
        if node.orelse:
            self._nested(self.open_block(node, BlockKind.ELSE), node.orelse)

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        self.expression(node.iter, node)
        block = self.open_block(node, BlockKind.FOR)
        block.targets = tuple(bound(node.target))
        outside, self.block = self.block, block
        self.bind(node.target, node.iter, node)
        self._body(node.body)
        self.block = outside
        self._body(node.orelse)

    def _while(self, node: ast.While) -> None:
        block = self.open_block(node, BlockKind.WHILE)
        outside, self.block = self.block, block
        self.expression(node.test, node)
        self._body(node.body)
        self.block = outside
        self._body(node.orelse)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        block = self.open_block(node, BlockKind.WITH)
        for item in node.items:
            self.expression(item.context_expr, node)
            if item.optional_vars is not None:
                block.targets += tuple(bound(item.optional_vars))
                self.bind(item.optional_vars, item.context_expr, node)
        self.withs.append((block, [dotted(item.context_expr) for item in node.items]))
        self._nested(block, node.body)

    def _try(self, node: ast.Try) -> None:
        self._nested(self.open_block(node, BlockKind.TRY), node.body)
        for handler in node.handlers:
            self._nested(self.open_block(handler, BlockKind.EXCEPT), handler.body)
        self._body(node.orelse)
        self._body(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self.expression(node.subject, node)
        for case in node.cases:
            if case.guard is not None:
                self.expression(case.guard, node)
            self._nested(self.open_block(case, BlockKind.CASE), case.body)

    def _assign(self, node: ast.Assign) -> None:
        self.expression(node.value, node)
        for target in node.targets:
            self.bind(target, node.value, node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.expression(node.value, node)
            self.bind(node.target, node.value, node)

    def _augmented(self, node: ast.AugAssign) -> None:
        self.expression(node.value, node)
        self.note(node.target, node.value, node, is_augmented=True)

    def _value(self, node: ast.Expr) -> None:
        self.expression(node.value, node)

    def _return(self, node: ast.Return) -> None:
        self.function.returns.append((node, self.block))
        if node.value is not None:
            self.expression(node.value, node)

    def _parts(self, node: ast.stmt) -> None:
        for child in ast.iter_child_nodes(node):
            self.expression(child, node)

    def _import(self, node: ast.Import) -> None:
        for name in node.names:
            bound = name.asname or name.name.partition(".")[0]
            self.file.imports[bound] = name.name if name.asname else bound
        names = tuple(name.name for name in node.names)
        self.file.import_statements.append(Import(node, names, self.block))

    def _import_from(self, node: ast.ImportFrom) -> None:
        is_package = self.file.path.endswith("__init__.py")
        base = absolute_module(self.file.module, is_package=is_package, level=node.level, name=node.module or "")
        names = tuple(f"{base}.{each.name}" if base else each.name for each in node.names)
        self.file.import_statements.append(Import(node, names, self.block))
        for each, name in zip(node.names, names, strict=True):
            if each.name == "*":
                self.stars.append(base)
            else:
                self.file.imports[each.asname or each.name] = name

    def _resolve(self) -> None:
        """Read all paths through the imports, now that every import has been seen."""
        file = self.file
        if self.stars:
            file.imports = names_from_stars(file, self.stars) | file.imports
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


def _generic(base: ast.expr) -> ast.expr:
    """Return the class that a base means: `Base` of `Base[T]`."""
    return base.value if isinstance(base, ast.Subscript) else base
