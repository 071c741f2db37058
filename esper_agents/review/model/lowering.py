"""Lower Python syntax to instructions, once per function."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING

from esper_agents.review.model import ir
from esper_agents.review.model.lowering_names import (
    bound_names,
    is_main_guard,
    is_number,
    names_read,
    none_test,
    template,
)
from esper_agents.review.names import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.tables import FileTables

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
# A literal with more numbers is a table, whose single elements decide nothing.
_MOST_NUMBERS = 64
_COMPREHENSIONS = {ast.ListComp: "list", ast.SetComp: "list", ast.DictComp: "dict", ast.GeneratorExp: "generator"}


def lower_module(file: FileTables) -> ir.Code:
    """Return the code of a file's module level; functions in it are lowered with it."""
    code = ir.Code("<module>", "<module>", file, 1, max(len(file.lines), 1), file.tree)
    _Lowering(code, is_module=True).statements(file.tree.body)
    return code


class _Lowering:
    """Lowering of one function or module."""

    def __init__(self, code: ir.Code, *, is_module: bool = False) -> None:
        self.code = code
        self.block: ir.Block = code.body
        self.is_module = is_module
        self.hidden = 0
        self.renamed: list[dict[str, str]] = []

    # Helpers

    def temp(self) -> int:
        self.code.temporaries += 1
        return self.code.temporaries - 1

    def emit(self, instruction: ir.Instruction) -> None:
        self.block.append(instruction)

    def at(self, node: ast.AST) -> ir.SourcePosition:
        line: int = getattr(node, "lineno", 1)
        return ir.SourcePosition(line, getattr(node, "col_offset", 0) + 1, getattr(node, "end_lineno", None) or line)

    @contextmanager
    def into(self, block: ir.Block) -> Iterator[None]:
        before, self.block = self.block, block
        try:
            yield
        finally:
            self.block = before

    def lowered(self, statements: Sequence[ast.stmt]) -> ir.Block:
        block: ir.Block = []
        with self.into(block):
            self.statements(statements)
        return block

    def name(self, name: str) -> str:
        return next((names[name] for names in reversed(self.renamed) if name in names), name)

    def hide(self) -> str:
        self.hidden += 1
        return f"#{self.hidden}"

    def const(self, value: object) -> int:
        dst = self.temp()
        self.emit(ir.Const(dst, value))
        return dst

    # Statements

    def statements(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)

    def _expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _assign(self, node: ast.Assign) -> None:
        if len(node.targets) == 1 and self._assign_by_element(node.targets[0], node.value):
            return
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value, node, node.value)

    def _assign_by_element(self, target: ast.expr, value: ast.expr) -> bool:
        """Lower `a, b = x, y` as two assignments, so that no tuple hides the values."""
        if not (isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List)):
            return False
        if len(target.elts) != len(value.elts):
            return False
        if any(isinstance(each, ast.Starred) for each in (*target.elts, *value.elts)):
            return False
        values = [self.value(each) for each in value.elts]
        for each, temp, source in zip(target.elts, values, value.elts, strict=True):
            self.assign(each, temp, target, source)
        return True

    def _annassign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name) and isinstance(self.code.node, ast.ClassDef):
            self.code.declared.append(node.target.id)
        if node.value is not None:
            self.assign(node.target, self.value(node.value), node, node.value)

    def _augassign(self, node: ast.AugAssign) -> None:
        old, change, dst = self.value(node.target), self.value(node.value), self.temp()
        self.emit(ir.Op(dst, "augmented", type(node.op).__name__, (old, change), self.at(node)))
        self.assign(node.target, dst, node, None)

    def assign(self, target: ast.expr, src: int, node: ast.AST, source: ast.expr | None) -> None:
        """Bind a target; `source` is the expression of the value, None if it was computed from the target."""
        at = self.at(node)
        if isinstance(target, ast.Name):
            name = self.name(target.id)
            self.code.local_names.add(name)
            self.emit(ir.StoreName(name, src, at, source is None or target.id in names_read(source)))
        elif isinstance(target, ast.Attribute):
            text = dotted(target)
            obj = self.value(target.value)
            reads = source is None or text in names_read(source)
            self.emit(ir.SetAttr(obj, target.attr, src, at, text, reads))
        elif isinstance(target, ast.Subscript):
            obj, index = self.value(target.value), self.value(target.slice)
            text = dotted(target.value)
            self.emit(ir.SetItem(obj, index, src, at, text, source is None or text in names_read(source)))
        elif isinstance(target, ast.Starred):
            self.assign(target.value, src, node, source)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, src, node, source)

    def _unpack(self, target: ast.Tuple | ast.List, src: int, node: ast.AST, source: ast.expr | None) -> None:
        temps = tuple(self.temp() for _ in target.elts)
        star = next((place for place, each in enumerate(target.elts) if isinstance(each, ast.Starred)), -1)
        self.emit(ir.Unpack(temps, src, star))
        for each, temp in zip(target.elts, temps, strict=True):
            self.assign(each, temp, node, source)

    def _if(self, node: ast.If) -> None:
        if self.is_module and is_main_guard(node.test):
            self.code.main.append(self.lowered(node.body))
            return
        test = self.value(node.test)
        name, is_then = none_test(node.test)
        then, other = self.lowered(node.body), self.lowered(node.orelse)
        self.emit(ir.Branch(test, then, other, self.at(node.test), self.name(name), is_then))

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        iterable, element = self.value(node.iter), self.temp()
        body: ir.Block = []
        with self.into(body):
            self.assign(node.target, element, node.target, node.iter)
            self.statements(node.body)
        orelse, last = self.lowered(node.orelse), node.body[-1].end_lineno or node.lineno
        at = ir.SourcePosition(node.lineno, node.col_offset + 1, node.lineno)
        self.emit(ir.Loop(iterable, element, [], -1, body, orelse, at, last, key=dotted(node.iter)))

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        head: ir.Block = []
        with self.into(head):
            test = self.value(node.test)
        body, orelse, last = self.lowered(node.body), self.lowered(node.orelse), node.body[-1].end_lineno or node.lineno
        at = ir.SourcePosition(node.lineno, node.col_offset + 1, node.lineno)
        self.emit(ir.Loop(-1, -1, head, test, body, orelse, at, last))

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        self._enter(node, node.items)

    _asyncwith = _with

    def _enter(self, node: ast.With | ast.AsyncWith, items: Sequence[ast.withitem]) -> None:
        if not items:
            self.statements(node.body)
            return
        item = items[0]
        context, entered = self.value(item.context_expr), self.temp()
        body: ir.Block = []
        with self.into(body):
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered, item.optional_vars, item.context_expr)
            self._enter(node, items[1:])
        self.emit(ir.With(context, entered, body, self.at(item.context_expr)))

    def _try(self, node: ast.Try) -> None:
        handlers = []
        for handler in node.handlers:
            block: ir.Block = []
            with self.into(block):
                if handler.name:
                    self.code.local_names.add(handler.name)
                    self.emit(ir.StoreName(handler.name, self.const(handler.name), self.at(handler)))
                self.statements(handler.body)
            handlers.append(block)
        body, orelse, final = self.lowered(node.body), self.lowered(node.orelse), self.lowered(node.finalbody)
        self.emit(ir.Try(body, tuple(handlers), orelse, final))

    _trystar = _try

    def _match(self, node: ast.Match) -> None:
        subject = self.value(node.subject)
        self._cases(node, subject, node.cases)

    def _cases(self, node: ast.Match, subject: int, cases: Sequence[ast.match_case]) -> None:
        if not cases:
            return
        case, test = cases[0], self.temp()
        then: ir.Block = []
        other: ir.Block = []
        value = case.pattern.value if isinstance(case.pattern, ast.MatchValue) else None
        right = self.value(value) if value is not None else -1
        operands = (subject, right) if right >= 0 else (subject,)
        self.emit(ir.Op(test, "compare", "Eq" if right >= 0 else "match", operands, self.at(node)))
        with self.into(then):
            for name in bound_names(case.pattern):
                self.code.local_names.add(name)
                self.emit(ir.StoreName(name, subject, self.at(node)))
            self.statements(case.body)
        with self.into(other):
            self._cases(node, subject, cases[1:])
        self.emit(ir.Branch(test, then, other, self.at(node)))

    def _return(self, node: ast.Return) -> None:
        self.emit(ir.Return(self.value(node.value) if node.value is not None else -1, self.at(node)))

    def _raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self.value(node.exc)
        self.emit(ir.Leave("raise"))

    def _assert(self, node: ast.Assert) -> None:
        self.value(node.test)

    def _break(self, _: ast.Break) -> None:
        self.emit(ir.Leave("break"))

    def _continue(self, _: ast.Continue) -> None:
        self.emit(ir.Leave("continue"))

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.emit(ir.StoreName(self.name(target.id), self.const(None), self.at(node)))
            elif isinstance(target, ast.Subscript):
                obj, func, dst, at = self.value(target.value), self.temp(), self.temp(), self.at(node)
                self.emit(ir.Attr(func, obj, "clear", at))
                self.emit(ir.Call(dst, func, (), (), (), at, f"{dotted(target.value)}.clear"))

    def _global(self, node: ast.Global | ast.Nonlocal) -> None:
        self.code.outer_names.update(node.names)

    _nonlocal = _global

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        dst = self.function(node, node.name)
        self.code.local_names.add(node.name)
        self.emit(ir.StoreName(node.name, dst, self.at(node)))

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> None:
        bases = tuple(self.value(base) for base in node.bases if not isinstance(base, ast.Starred))
        code = self._code(node.name, node)
        code.owner = node.name
        _Lowering(code).statements(node.body)
        dst = self.temp()
        self.emit(ir.MakeClass(dst, node.name, bases, code, self.at(node)))
        self.code.local_names.add(node.name)
        self.emit(ir.StoreName(node.name, dst, self.at(node)))

    def _code(self, name: str, node: _FunctionNode | ast.ClassDef) -> ir.Code:
        outer = "" if self.code.name == "<module>" else f"{self.code.qualname}."
        last = node.end_lineno or node.lineno
        made = ir.Code(name, f"{outer}{name}", self.code.file, node.lineno, last, node)
        self.code.inner.append(made)
        return made

    def function(self, node: _FunctionNode, name: str) -> int:
        """Lower a function definition or a lambda."""
        decorators = () if isinstance(node, ast.Lambda) else tuple(self.value(each) for each in node.decorator_list)
        given, code = node.args, self._code(name, node)
        positional = [*given.posonlyargs, *given.args]
        code.parameters = tuple(each.arg for each in positional)
        code.keyword_only = tuple(each.arg for each in given.kwonlyargs)
        code.rest = given.vararg.arg if given.vararg else ""
        code.extra = given.kwarg.arg if given.kwarg else ""
        code.local_names |= {*code.parameters, *code.keyword_only, code.rest, code.extra}
        if isinstance(self.code.node, ast.ClassDef):
            code.owner = self.code.name
        pairs = [
            *zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True),
            *((each, value) for each, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value),
        ]
        defaults = tuple((each.arg, self.value(value)) for each, value in pairs)
        inner = _Lowering(code)
        inner.renamed = [
            {old: new for names in self.renamed for old, new in names.items() if old not in code.local_names}
        ]
        code.lower = inner.function_body
        dst = self.temp()
        self.emit(ir.MakeFunction(dst, code, defaults, decorators, self.at(node)))
        return dst

    def function_body(self) -> None:
        """Lower the body of the function, when it is called for the first time."""
        node = self.code.node
        if isinstance(node, ast.Lambda):
            self.emit(ir.Return(self.value(node.body), self.at(node.body)))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self.statements(node.body)

    # Expressions

    def value(self, node: ast.expr) -> int:
        """Lower an expression; return the temporary that holds its value."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        result: int = self.const(None) if method is None else method(node)
        return result

    def _constant(self, node: ast.Constant) -> int:
        return self.const(node.value)

    def _name(self, node: ast.Name) -> int:
        dst = self.temp()
        self.emit(ir.Load(dst, self.name(node.id)))
        return dst

    def _attribute(self, node: ast.Attribute) -> int:
        obj, dst = self.value(node.value), self.temp()
        self.emit(ir.Attr(dst, obj, node.attr, self.at(node)))
        return dst

    def _subscript(self, node: ast.Subscript) -> int:
        obj, index, dst = self.value(node.value), self.value(node.slice), self.temp()
        self.emit(ir.Item(dst, obj, index, self.at(node)))
        return dst

    def _call(self, node: ast.Call) -> int:
        func = self.value(node.func)
        args = tuple(self.value(each.value if isinstance(each, ast.Starred) else each) for each in node.args)
        stars = tuple(place for place, each in enumerate(node.args) if isinstance(each, ast.Starred))
        keywords = tuple((each.arg or "", self.value(each.value)) for each in node.keywords)
        dst = self.temp()
        self.emit(ir.Call(dst, func, args, stars, keywords, self.at(node), dotted(node.func)))
        return dst

    def _operator(self, node: ast.expr, kind: str, name: str, *operands: ast.expr) -> int:
        temps = tuple(self.value(each) for each in operands)
        dst = self.temp()
        self.emit(ir.Op(dst, kind, name, temps, self.at(node)))
        return dst

    def _binop(self, node: ast.BinOp) -> int:
        return self._operator(node, "binary", type(node.op).__name__, node.left, node.right)

    def _unaryop(self, node: ast.UnaryOp) -> int:
        kind = "not" if isinstance(node.op, ast.Not) else "unary"
        return self._operator(node, kind, type(node.op).__name__, node.operand)

    def _boolop(self, node: ast.BoolOp) -> int:
        return self._operator(node, "and" if isinstance(node.op, ast.And) else "or", "", *node.values)

    def _compare(self, node: ast.Compare) -> int:
        name = type(node.ops[0]).__name__ if len(node.ops) == 1 else "chain"
        return self._operator(node, "compare", name, node.left, *node.comparators)

    def _joinedstr(self, node: ast.JoinedStr) -> int:
        parts = [each.value for each in node.values if isinstance(each, ast.FormattedValue)]
        return self._operator(node, "text", template(node), *parts)

    def _slice(self, node: ast.Slice) -> int:
        parts = [each for each in (node.lower, node.upper, node.step) if each is not None]
        return self._operator(node, "slice", "", *parts)

    def _ifexp(self, node: ast.IfExp) -> int:
        test, hidden = self.value(node.test), self.hide()
        then: ir.Block = []
        other: ir.Block = []
        for block, value in ((then, node.body), (other, node.orelse)):
            with self.into(block):
                self.emit(ir.StoreName(hidden, self.value(value), self.at(value)))
        name, is_then = none_test(node.test)
        self.emit(ir.Branch(test, then, other, self.at(node.test), self.name(name), is_then))
        dst = self.temp()
        self.emit(ir.Load(dst, hidden))
        return dst

    def _namedexpr(self, node: ast.NamedExpr) -> int:
        src = self.value(node.value)
        self.assign(node.target, src, node, node.value)
        return src

    def _await(self, node: ast.Await) -> int:
        return self.value(node.value)

    def _lambda(self, node: ast.Lambda) -> int:
        return self.function(node, "<lambda>")

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> int:
        self.code.is_generator = True
        src = self.value(node.value) if node.value is not None else self.const(None)
        dst = self.temp()
        self.emit(ir.Yield(dst, src, self.at(node), isinstance(node, ast.YieldFrom)))
        return dst

    _yieldfrom = _yield

    def _table(self, node: ast.List | ast.Tuple | ast.Set) -> int:
        """Lower a long literal of numbers: its elements are some number."""
        number, dst = self.temp(), self.temp()
        self.emit(ir.Op(number, "slice", "", (), self.at(node)))
        self.emit(ir.Build(dst, type(node).__name__.lower(), (number,) * len(node.elts), (), (), self.at(node)))
        return dst

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> int:
        if len(node.elts) > _MOST_NUMBERS and all(is_number(each) for each in node.elts):
            return self._table(node)
        items = tuple(self.value(each.value if isinstance(each, ast.Starred) else each) for each in node.elts)
        stars = tuple(place for place, each in enumerate(node.elts) if isinstance(each, ast.Starred))
        dst = self.temp()
        self.emit(ir.Build(dst, type(node).__name__.lower(), items, (), stars, self.at(node)))
        return dst

    _list = _tuple = _set = _sequence

    def _dict(self, node: ast.Dict) -> int:
        keys = tuple(-1 if key is None else self.value(key) for key in node.keys)
        items = tuple(self.value(each) for each in node.values)
        dst = self.temp()
        self.emit(ir.Build(dst, "dict", items, keys, (), self.at(node)))
        return dst

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> int:
        kind = _COMPREHENSIONS[type(node)]
        holder, hidden = self.temp(), self.hide()
        self.emit(ir.Build(holder, kind, (), (), (), self.at(node)))
        self.emit(ir.StoreName(hidden, holder, self.at(node)))
        self._generators(node, node.generators, hidden)
        dst = self.temp()
        self.emit(ir.Load(dst, hidden))
        return dst

    _listcomp = _setcomp = _generatorexp = _dictcomp = _comprehension

    def _generators(
        self,
        node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp,
        generators: Sequence[ast.comprehension],
        hidden: str,
    ) -> None:
        at = self.at(node)
        if not generators:
            key = node.key if isinstance(node, ast.DictComp) else None
            index = self.value(key) if key is not None else self.const(None)
            src = self.value(node.value if isinstance(node, ast.DictComp) else node.elt)
            obj = self.temp()
            self.emit(ir.Load(obj, hidden))
            self.emit(ir.SetItem(obj, index, src, at, "", reads_itself=False))
            return
        first = generators[0]
        iterable, element = self.value(first.iter), self.temp()
        self.renamed.append({name: f"{name}{hidden}" for name in bound_names(first.target)})
        body: ir.Block = []
        with self.into(body):
            self.assign(first.target, element, first.target, first.iter)
            for test in first.ifs:
                self.value(test)
            self._generators(node, generators[1:], hidden)
        self.renamed.pop()
        head = ir.SourcePosition(at.line, at.column, at.end_line)
        self.emit(
            ir.Loop(
                iterable, element, [], -1, body, [], head, at.end_line, is_comprehension=True, key=dotted(first.iter)
            )
        )
