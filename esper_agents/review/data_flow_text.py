"""Data flow of a function in words: its statements as steps from values through calls to names."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from esper_agents.review.tables import FunctionNode

_LONGEST_VALUE, _LONGEST_STEP = 56, 185
_ARROW = " -> "
_LONGEST_HEAD = 90
_CHORES = frozenset(
    {"print", "len", "isinstance", "warn", "warning", "info", "debug", "super", "size", "int", "float", "list", "tuple"}
    | {"range", "dim", "max", "min", "get", "hasattr", "getattr", "str", "format", "append", "update", "join"}
)
# Calls that a training or an evaluation consists of.
_TRAINING = frozenset(
    {"backward", "step", "zero_grad", "DataLoader", "clip_grad_norm_", "clip_grad_value_", "eval", "train", "model"}
    | {"net", "criterion", "load_state_dict", "optimizer", "forward", "save", "all_reduce", "DistributedDataParallel"}
)
# Names by which modules are usually imported.
_MODULES = frozenset({"torch", "F", "nn", "np", "math", "einops", "functional", "os", "json", "optax", "random"})
_LOSS = pattern(r"(?i)(?:^|[._])(?:\w*loss\w*|optim\.\w+|\w*scheduler)$")


@dataclass(frozen=True, slots=True)
class FlowStep:
    """One step of the data flow.

    Attributes:
        line: Line of the statement.
        text: The step, such as "`x` -> `fc` (Linear) -> `h`".
        around: Conditions and loops around it, outermost first.
        weight: 0 if it only prepares sizes, checks or prints; 2 if it runs layers, trains or returns; 3 if it
            makes a call in question.
        inside: Lines of the blocks around it, outermost first; an `else` counts as minus its line.
    """

    line: int
    text: str
    around: tuple[str, ...] = ()
    weight: int = 1
    inside: tuple[int, ...] = ()

    @property
    def whole(self) -> str:
        """The step with what is around it."""
        return ", ".join((*self.around, self.text)) if self.around else self.text


def flow_steps(
    node: FunctionNode, label: Callable[[str], str], imported: Collection[str] = (), leading: Collection[str] = ()
) -> tuple[FlowStep, ...]:
    """Return the steps of a function in order.

    Args:
        node: Definition of the function.
        label: Returns the kind of layer that a path such as `self.fc` holds; empty if it holds none.
        imported: Names that the file imports: what is called on them are functions, not methods of a value.
        leading: Calls such as `self.loss` whose steps weigh most.
    """
    return tuple(_steps(node.body, (), _Writer(label, imported, leading)))


def condensed(steps: Sequence[FlowStep], most: int) -> tuple[FlowStep, ...]:
    """Return steps in at most so many: neighbours are joined, and those that say least left away."""
    ranked = sorted(range(len(steps)), key=lambda place: (-steps[place].weight, place))
    for count in range(len(steps), 0, -1):
        kept = [steps[place] for place in sorted(ranked[:count])]
        for only_blocks in (True, False):
            found = _joined(kept, only_blocks=only_blocks)
            if len(found) <= most:
                return found
    return ()


def _joined(steps: Sequence[FlowStep], *, only_blocks: bool) -> tuple[FlowStep, ...]:
    """Return steps with neighbours under the same conditions in one, as far as they fit."""
    found: list[FlowStep] = []
    for step in steps:
        last = found[-1] if found else None
        is_joinable = last is not None and last.inside == step.inside and bool(step.inside or not only_blocks)
        text = _chained(last.text, step.text) if last is not None else ""
        if last is not None and is_joinable and len(text) + len(last.whole) - len(last.text) <= _LONGEST_STEP:
            found[-1] = replace(last, text=text, weight=max(last.weight, step.weight))
        else:
            found.append(step)
    return tuple(found)


def _chained(first: str, second: str) -> str:
    """Return two steps as one; what the first binds and the second begins with is named once."""
    *_, bound = first.rpartition(_ARROW)
    begins, arrow, rest = second.partition(_ARROW)
    is_next = arrow and bound == begins and (rest.endswith(f"{_ARROW}{bound}") or rest == "returned")
    return f"{first.removesuffix(bound)}{rest}" if is_next else f"{first}; {second}"


def _steps(body: Sequence[ast.stmt], around: tuple[str, ...], writer: _Writer) -> Iterator[FlowStep]:
    for statement in body:
        match statement:
            case ast.If():
                yield from _branches(statement, around, writer)
            case ast.For(target=target, iter=over, body=inner) | ast.AsyncFor(target=target, iter=over, body=inner):
                head = f"for each `{_source(target)}` of {_quoted(over)}"
                yield from _within(inner, (*around, head), statement, writer)
            case ast.While(test=test, body=inner):
                yield from _within(inner, (*around, f"while `{_source(test)}`"), statement, writer)
            case ast.With(items=items, body=inner) | ast.AsyncWith(items=items, body=inner):
                head = "under " + ", ".join(f"`{_source(item.context_expr)}`" for item in items)
                yield from _within(inner, (*around, head), statement, writer)
            case ast.Try(body=inner, orelse=other, finalbody=last):
                yield from _steps((*inner, *other, *last), around, writer)
            case _:
                text = writer.statement(statement)
                if text:
                    yield FlowStep(statement.lineno, _cut(text, _LONGEST_STEP), around, writer.weight(statement))


def _within(
    body: Sequence[ast.stmt], around: tuple[str, ...], statement: ast.stmt, writer: _Writer
) -> Iterator[FlowStep]:
    """Yield the steps of a block; its head is written at its first step, and its line at the others."""
    *outer, head = around
    for number, each in enumerate(_steps(body, (), writer)):
        if number == 0:
            shown, line = (*outer, _cut(head, _LONGEST_HEAD), *each.around), statement.lineno
        else:
            shown, line = each.around or (f"in the block of line {statement.lineno}",), each.line
        yield replace(each, line=line, around=shown, inside=(statement.lineno, *each.inside))


def _branches(statement: ast.If, around: tuple[str, ...], writer: _Writer) -> Iterator[FlowStep]:
    words = _source(statement.test)
    inner, other = statement.body, statement.orelse
    if all(isinstance(each, ast.Raise | ast.Assert | ast.Pass) for each in inner) and not other:
        if isinstance(inner[0], ast.Raise):
            yield FlowStep(statement.lineno, f"raises if `{words}`", around, 0)
        return
    for head, body, mark in ((f"if `{words}`", inner, 1), ("else", other, -1)):
        for number, each in enumerate(_steps(body, (), writer)):
            line = statement.lineno if number == 0 and mark > 0 else each.line
            yield replace(
                each, line=line, around=(*around, head, *each.around), inside=(mark * statement.lineno, *each.inside)
            )


class _Writer:
    """Writes statements and values as steps."""

    def __init__(self, label: Callable[[str], str], imported: Collection[str], leading: Collection[str]) -> None:
        self._label = label
        self._leading = leading
        self._imported = imported

    def weight(self, statement: ast.stmt) -> int:
        """Return how much a statement says about the data flow: 0 to 3."""
        paths = [dotted(each.func) for each in walk(statement) if isinstance(each, ast.Call)]
        if any(path in self._leading for path in paths):
            return 3
        if isinstance(statement, ast.Return):
            return 2 if statement.value else 1
        names = {path.rpartition(".")[2] for path in paths}
        if names & _TRAINING or any(self._label(path) or _LOSS.search(path) for path in paths):
            return 2
        return int(bool(names - _CHORES))

    def statement(self, statement: ast.stmt) -> str:
        """Return a plain statement in words; empty if it does nothing that is worth a line."""
        match statement:
            case ast.Return(value=value):
                return f"{self.value(value)}{_ARROW}returned" if value is not None else "returns early"
            case ast.Assign(targets=[target], value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                return f"{self.value(value)}{_ARROW}`{_source(target)}`"
            case ast.AugAssign(target=target, value=value):
                mark = _OPERATORS.get(type(statement.op), "?")
                return f"`{_source(target)}` {mark}= {self.value(value)}"
            case ast.Expr(value=ast.Call(func=func) as value):
                return self.value(value) if self._label(dotted(func)) else _quoted(value)
            case ast.Expr(value=value) if not isinstance(value, ast.Constant):
                return self.value(value)
            case _:
                return ""

    def value(self, node: ast.expr) -> str:
        """Return an expression in words: calls as a chain from their first argument."""
        match node:
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS and _has_call(node):
                return f"{self._part(left)} {_OPERATORS[type(op)]} {self._part(right)}"
            case ast.Tuple(elts=parts) if _has_call(node) and len(parts) <= 3:  # noqa: PLR2004 - fits on a line
                return ", ".join(self._part(each) for each in parts)
            case ast.Await(value=value):
                return self.value(value)
            case ast.Subscript(value=value, slice=part) if _has_call(value):
                return f"{self.value(value)}{_ARROW}`[{_source(part, 30)}]`"
            case _:
                return _quoted(node)

    def _part(self, node: ast.expr) -> str:
        text = self.value(node)
        is_simple = isinstance(node, ast.BinOp) or _ARROW not in text
        return text if is_simple and not isinstance(node, ast.BinOp) else f"({text})"

    def _call(self, node: ast.Call) -> str:
        path = dotted(node.func)
        kind = self._label(path)
        if kind or path.startswith("self.") or not isinstance(node.func, ast.Attribute) or self._is_module(node.func):
            return self._from_arguments(node, path, kind)
        # A method of a tensor: the value before the dot goes through it.
        rest = [*map(ast.unparse, node.args), *(_keyword(keyword) for keyword in node.keywords)]
        return f"{self.value(node.func.value)}{_ARROW}`.{node.func.attr}({_cut(', '.join(rest), 32)})`"

    def _is_module(self, node: ast.Attribute) -> bool:
        """Return whether an attribute is of a module by its name: `F.relu`, `torch.cat`."""
        root = dotted(node).partition(".")[0]
        return "(" not in dotted(node) and (root in self._imported or root in _MODULES)

    def _from_arguments(self, node: ast.Call, path: str, kind: str) -> str:
        name = f"`{path.removeprefix('self.')}`" if path and "(" not in path else f"`{_source(node.func)}`"
        name = name.replace("[]", "[...]")
        operation = f"{name} ({kind})" if kind else name
        if not node.args:
            given = ", ".join(_keyword(keyword) for keyword in node.keywords)
            return f"`{_cut(path or ast.unparse(node.func))}({_cut(given, 60)})`" if not kind else f"{operation}"
        first, *others = node.args
        more = [*map(ast.unparse, others), *(_keyword(keyword) for keyword in node.keywords)]
        extra = f" with `{_cut(', '.join(more), 48)}`" if more else ""
        chained = self.value(first.value if isinstance(first, ast.Starred) else first)
        return f"{chained}{_ARROW}{operation}{extra}"


_OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.MatMult: "@",
    ast.Pow: "**",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
}


def _has_call(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for each in walk(node))


def _keyword(each: ast.keyword) -> str:
    return f"{each.arg}={ast.unparse(each.value)}" if each.arg else f"**{ast.unparse(each.value)}"


def _quoted(node: ast.expr) -> str:
    return f"`{_source(node)}`"


def _source(node: ast.AST, most: int = _LONGEST_VALUE) -> str:
    return _cut(ast.unparse(node).replace("`", "'"), most)


def _cut(text: str, most: int = _LONGEST_VALUE) -> str:
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 4].rstrip()
    return f"{cut}{'`' * (cut.count('`') % 2)}..."
