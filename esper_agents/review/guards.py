"""Guards: calls and statements that protect the code around them, such as `detach`, `no_grad` and clamping."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Guard:
    """Kind of guard.

    Attributes:
        title: What it is, in a sentence after "the change removes".
        why: What goes wrong without it.
        category: Category of the finding.
        severity: Severity of its removal.
        family: Guards of one family replace one another, such as clamping and an epsilon; empty for one of its own.
        replaced_by: Guards of other kinds that make it unnecessary.
    """

    title: str
    why: str
    category: Category
    severity: Severity = Severity.WARNING
    family: str = ""
    replaced_by: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class GuardUse:
    """Use of a guard in a source.

    Attributes:
        guard: Kind of guard, a key of `GUARDS`.
        line: Line, from 1.
        text: Source of the guard, normalised.
        scope: Name of the function around it; empty for the module.
        subject: Source of the guarded expression, if the guard wraps one.
        statement: First line of the statement around it.
        body: Lines of the guarded block, if the guard is a `with` statement or a decorator.
        number: Number of earlier uses with the same text in the scope.
        keyword: Name of the argument that is the guard, in calls of `subject`; empty if it is none.
    """

    guard: str
    line: int
    text: str
    scope: str
    subject: str = ""
    statement: str = ""
    body: tuple[str, ...] = ()
    number: int = 0
    keyword: str = ""

    @property
    def family(self) -> str:
        """Guards of this family replace one another: the kind itself, unless the table names another."""
        return GUARDS[self.guard].family or self.guard

    @property
    def key(self) -> tuple[str, str]:
        """Kind and text: equal for a guard that moved."""
        return self.guard, self.text


GUARDS = {
    "detach": Guard(
        "`detach`",
        "the result keeps the graph that computed it, and gradients flow through it",
        Category.SILENT_CORRECTNESS,
        replaced_by=frozenset(("no-grad", "item")),
    ),
    "item": Guard(
        "the conversion to a Python number",
        "a tensor that is kept keeps its graph alive",
        Category.MEMORY,
        replaced_by=frozenset(("no-grad", "detach")),
    ),
    "no-grad": Guard(
        "`no_grad`", "the code in it builds graphs and keeps activations alive", Category.MEMORY, family="no-grad"
    ),
    "eval": Guard(
        "the switch to evaluation mode",
        "dropout stays active and batch normalisation updates its statistics",
        Category.SILENT_CORRECTNESS,
    ),
    "train": Guard("the switch to training mode", "the model goes on in evaluation mode", Category.SILENT_CORRECTNESS),
    "clamp": Guard(
        "a bound on values", "values outside it reach what follows", Category.SILENT_CORRECTNESS, family="bound"
    ),
    "epsilon": Guard(
        "a small constant",
        "a zero reaches a division, a logarithm or a root",
        Category.SILENT_CORRECTNESS,
        family="bound",
    ),
    "finite": Guard(
        "a check for finite values", "NaN and Inf pass unnoticed", Category.SILENT_CORRECTNESS, family="bound"
    ),
    "clip-gradients": Guard(
        "gradient clipping", "one large gradient can destroy the parameters", Category.SILENT_CORRECTNESS
    ),
    "unscale": Guard("`unscale_`", "what follows reads gradients that are still scaled", Category.SILENT_CORRECTNESS),
    "zero-grad": Guard(
        "`zero_grad`", "gradients of earlier batches add up", Category.SILENT_CORRECTNESS, Severity.CRITICAL
    ),
    "weights-only": Guard(
        "`weights_only=True`", "loading a file can run code that is in it", Category.SECURITY, Severity.CRITICAL
    ),
    "safe-load": Guard("a safe loader", "loading a file can run code that is in it", Category.SECURITY),
    "set-epoch": Guard("`set_epoch`", "every epoch has the same order of samples", Category.SILENT_CORRECTNESS),
    "barrier": Guard("a barrier", "ranks go on before the others are ready", Category.CORRECTNESS),
    "synchronize": Guard(
        "a synchronisation with the device",
        "times and results are read before the device is done",
        Category.CORRECTNESS,
    ),
    "freeze": Guard("the freezing of parameters", "frozen parameters are trained", Category.SILENT_CORRECTNESS),
    "seed": Guard("a seed", "runs are no longer repeatable", Category.CORRECTNESS),
    "assertion": Guard("an assertion", "what it checked passes unnoticed", Category.CORRECTNESS, family="check"),
    "check": Guard(
        "a check", "what it rejected passes unnoticed", Category.CORRECTNESS, Severity.SUGGESTION, family="check"
    ),
    "early-exit": Guard(
        "an early exit", "the case that it kept out reaches the code below", Category.CORRECTNESS, family="exit"
    ),
    "device": Guard("a move to a device", "tensors on two devices can meet", Category.CORRECTNESS, family="device"),
    "dtype": Guard(
        "a conversion of type",
        "the computation runs in the type of the input, with its range and precision",
        Category.SILENT_CORRECTNESS,
        family="dtype",
    ),
    "copy": Guard("a copy", "writes in place reach the original", Category.SILENT_CORRECTNESS, family="copy"),
    "keepdim": Guard("`keepdim`", "broadcasting pairs other dimensions without an error", Category.SILENT_CORRECTNESS),
    "loss-argument": Guard(
        "an argument of the loss", "other positions count, or the loss has another scale", Category.SILENT_CORRECTNESS
    ),
    "super-init": Guard(
        "the initialisation of the base class", "what it sets up is missing or stale", Category.CORRECTNESS
    ),
    # Often a version or a case that is supported now.
    "raise": Guard(
        "a check that raises",
        "what it rejected passes unnoticed",
        Category.CORRECTNESS,
        Severity.SUGGESTION,
        family="check",
    ),
}

_CALLS = {
    "detach": "detach",
    "detach_": "detach",
    "item": "item",
    "tolist": "item",
    "no_grad": "no-grad",
    "inference_mode": "no-grad",
    "set_grad_enabled": "no-grad",
    "clamp": "clamp",
    "clamp_": "clamp",
    "clamp_min": "clamp",
    "clamp_min_": "clamp",
    "clamp_max": "clamp",
    "clamp_max_": "clamp",
    "clip": "clamp",
    "clip_": "clamp",
    "isfinite": "finite",
    "isnan": "finite",
    "isinf": "finite",
    "nan_to_num": "finite",
    "nan_to_num_": "finite",
    "clip_grad_norm_": "clip-gradients",
    "clip_grad_value_": "clip-gradients",
    "unscale_": "unscale",
    "zero_grad": "zero-grad",
    "safe_load": "safe-load",
    "set_epoch": "set-epoch",
    "barrier": "barrier",
    "wait_for_everyone": "barrier",
    "synchronize": "synchronize",
    "manual_seed": "seed",
    "manual_seed_all": "seed",
    "seed_everything": "seed",
    "set_seed": "seed",
    "cuda": "device",
    "cpu": "device",
    "float": "dtype",
    "double": "dtype",
    "half": "dtype",
    "bfloat16": "dtype",
    "long": "dtype",
    "type_as": "dtype",
    "clone": "copy",
    "copy": "copy",
    "deepcopy": "copy",
}
_KEYWORDS = {
    "weights_only": "weights-only",
    "keepdim": "keepdim",
    "keepdims": "keepdim",
    "device": "device",
    "dtype": "dtype",
    "ignore_index": "loss-argument",
    "reduction": "loss-argument",
    "pos_weight": "loss-argument",
    "label_smoothing": "loss-argument",
}
# Both operands are tensors or numbers, and one of them is the bound.
_BOUNDS = frozenset(("max", "min", "maximum", "minimum"))
_LOGARITHMS = frozenset(("log", "log2", "log10"))
_GRAD_MODES = frozenset(("no_grad", "inference_mode", "set_grad_enabled"))
_DTYPE = re.compile(r"dtype|float|double|half|int\d*$|long|bool", re.IGNORECASE)
# Statements of an early exit with its message.
_MOST_BEFORE_EXIT = 2
# Guards that wrap an expression: what they protect is the expression itself.
_WRAPPING = frozenset(("detach", "item", "clamp", "finite", "device", "dtype", "copy"))
# A number that is printed once keeps nothing alive; one that is kept over steps does.
_KEPT = re.compile(r"append\(|\+=|\] ?=")
_SMALL = 1e-2
# Functions that raise for what they reject, by their names.
_CHECK = re.compile(r"(?:^|_)(?:check|validate|assert|ensure|require|verify)(?:_|$)", re.IGNORECASE)
# Objects whose `train()` runs a training.
_TRAINERS = re.compile(r"trainer|agent|runner|learner|algo", re.IGNORECASE)


def guards_of(scope: ast.AST, lines: Sequence[str]) -> Iterator[GuardUse]:
    """Yield the uses of guards in a function, class body or module, without the functions in it.

    Args:
        scope: A module or definition.
        lines: Lines of the file.
    """
    seen: dict[tuple[str, str], int] = {}
    for use in _uses(scope, [plain(line) for line in lines]):
        number = seen.get(use.key, 0)
        seen[use.key] = number + 1
        yield replace(use, number=number)


def plain(line: str) -> str:
    """Return a line of source with single spaces and double quotes, as guards compare it."""
    return " ".join(line.split()).replace("'", '"')


def _uses(scope: ast.AST, lines: Sequence[str]) -> Iterator[GuardUse]:
    name, statements = getattr(scope, "name", ""), getattr(scope, "body", [])
    for decorator in getattr(scope, "decorator_list", ()):
        if _turns_gradients_off(decorator):
            body = _block(statements, lines)
            yield GuardUse("no-grad", decorator.lineno, f"@{ast.unparse(decorator)}", name, body=body)
    for statement in _statements(statements):
        yield from _of_statement(statement, name, lines)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements, those in blocks included, without the bodies of definitions."""
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        yield each
        for block in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(each, block, []))
        for handler in getattr(each, "handlers", []):
            yield from _statements(handler.body)
        for case in getattr(each, "cases", []):
            yield from _statements(case.body)


def _of_statement(statement: ast.stmt, scope: str, lines: Sequence[str]) -> Iterator[GuardUse]:
    if isinstance(statement, ast.Assert):
        yield GuardUse("assertion", statement.lineno, ast.unparse(statement), scope)
        return
    if isinstance(statement, ast.Raise):
        if statement.exc is not None:
            yield GuardUse("raise", statement.lineno, _short(ast.unparse(statement)), scope)
        return
    yield from _of_block(statement, scope, lines)
    for node in (each for part in _own_expressions(statement) for each in ast.walk(part)):
        line = getattr(node, "lineno", statement.lineno)
        use = _of_expression(node, scope, lines[line - 1])
        if use is not None:
            yield use
        if isinstance(node, ast.Call):
            yield from _of_keywords(node, scope)


def _of_block(statement: ast.stmt, scope: str, lines: Sequence[str]) -> Iterator[GuardUse]:
    """Yield the guards that a whole statement is: an exit, a block without gradients, the freezing of a parameter."""
    if isinstance(statement, ast.If) and (leaving := _exit_of(statement)):
        text = _short(f"if {ast.unparse(statement.test)}: {leaving}")
        yield GuardUse("early-exit", statement.lineno, text, scope, statement=ast.unparse(statement.test))
    if isinstance(statement, ast.Assign) and _freezes(statement):
        yield GuardUse("freeze", statement.lineno, ast.unparse(statement), scope)
    if isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if _turns_gradients_off(item.context_expr):
                text = f"with {ast.unparse(item.context_expr)}"
                yield GuardUse("no-grad", statement.lineno, text, scope, body=_block(statement.body, lines))


def _turns_gradients_off(node: ast.expr) -> bool:
    if _called(node) == "set_grad_enabled":
        return isinstance(node, ast.Call) and bool(node.args) and _is_false(node.args[0])
    return _called(node) in _GRAD_MODES


def _exit_of(statement: ast.If) -> str:
    """Return the exit if a statement does nothing else but leave, with a message at most; empty if it does more."""
    *before, last = statement.body
    is_quiet = len(before) <= _MOST_BEFORE_EXIT and all(isinstance(each, ast.Expr) for each in before)
    is_exit = isinstance(last, ast.Return | ast.Continue | ast.Break)
    return ast.unparse(last) if is_exit and is_quiet and not statement.orelse else ""


def _freezes(statement: ast.Assign) -> bool:
    is_of_grad = any(
        isinstance(target, ast.Attribute) and target.attr == "requires_grad" for target in statement.targets
    )
    return is_of_grad and _is_false(statement.value)


def _of_keywords(node: ast.Call, scope: str) -> Iterator[GuardUse]:
    function = ast.unparse(node.func)
    for keyword in node.keywords:
        guard = _KEYWORDS.get(keyword.arg or "", "")
        is_none = isinstance(keyword.value, ast.Constant) and keyword.value.value in (None, False)
        if guard and not is_none:
            text = _short(ast.unparse(keyword))
            yield GuardUse(guard, keyword.value.lineno, text, scope, function, keyword=keyword.arg or "")


def _of_expression(node: ast.AST, scope: str, statement: str) -> GuardUse | None:
    match node:
        case ast.BinOp(op=ast.Add()):
            return _epsilon(node, scope, statement, _is_small)
        case ast.BinOp(op=ast.Div()):
            return _epsilon(node.right, scope, statement, _is_one)
        case ast.Call():
            called = _called(node)
            if called in _LOGARITHMS and node.args and (use := _epsilon(node.args[0], scope, statement, _is_one)):
                return use
            return _bound(node, scope, statement) if called in _BOUNDS else _of_call(node, called, scope, statement)
        case _:
            return None


def _of_call(node: ast.Call, called: str, scope: str, statement: str) -> GuardUse | None:
    if isinstance(node.func, ast.Attribute):
        if called == "__init__" and _called(node.func.value) == "super":
            return GuardUse("super-init", node.lineno, _short(ast.unparse(node)), scope)
        if called in {"to", "type"} and len(node.args) == 1:
            is_dtype = called == "type" or bool(_DTYPE.search(_last_name(node.args[0])))
            return _call(node, "dtype" if is_dtype else "device", scope, statement)
        if called in {"eval", "train"}:
            return _mode(node, called, scope)
    is_frozen = called == "requires_grad_" and bool(node.args) and _is_false(node.args[0])
    guard = "freeze" if is_frozen else _CALLS.get(called, "check" if _CHECK.search(called) else "no-grad")
    # `no_grad` is a guard where it encloses code: see `_uses`.
    return None if guard == "no-grad" else _call(node, guard, scope, statement)


def _epsilon(node: ast.expr, scope: str, statement: str, is_constant: Callable[[ast.expr], bool]) -> GuardUse | None:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
        return None
    for small, other in ((node.right, node.left), (node.left, node.right)):
        if is_constant(small):
            return GuardUse("epsilon", node.lineno, ast.unparse(node), scope, ast.unparse(other), statement)
    return None


def _bound(node: ast.Call, scope: str, statement: str) -> GuardUse | None:
    """Return the bound that `max(x, 1)` or `torch.maximum(x, eps)` sets; a maximum over values is none."""
    bounds = [arg for arg in node.args if _is_number(arg) or _is_small(arg)]
    others = [arg for arg in node.args if arg not in bounds]
    if len(node.args) != 2 or len(bounds) != 1:  # noqa: PLR2004 - a value and its bound
        return None
    is_dimension = isinstance(node.func, ast.Attribute) and _called(node.func) in {"max", "min"}
    text = _short(ast.unparse(node))
    return None if is_dimension else GuardUse("clamp", node.lineno, text, scope, ast.unparse(others[0]), statement)


def _call(node: ast.Call, guard: str, scope: str, statement: str) -> GuardUse | None:
    text = _short(ast.unparse(node))
    if guard not in _WRAPPING:
        return GuardUse(guard, node.lineno, text, scope)
    if guard == "item" and not _KEPT.search(statement):
        return None
    inner = next(iter(node.args), None)
    if isinstance(node.func, ast.Attribute) and not (node.args and _is_module(node.func.value)):
        inner = node.func.value
    elif guard == "dtype" and not isinstance(node.func, ast.Attribute):
        # `float(x)` is a conversion to a Python number.
        return None
    return None if inner is None else GuardUse(guard, node.lineno, text, scope, ast.unparse(inner), statement)


def _mode(node: ast.Call, called: str, scope: str) -> GuardUse | None:
    """Return the switch of a module's mode; `DataFrame.eval("...")` and the like have other arguments."""
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    receiver = ast.unparse(node.func)
    if len(values) > 1 or (called == "eval" and values) or _TRAINERS.search(receiver):
        return None
    is_eval = called == "eval" or (bool(values) and _is_false(values[0]))
    return GuardUse("eval" if is_eval else "train", node.lineno, ast.unparse(node), scope)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"torch", "np", "numpy", "F", "math", "jnp", "copy"}


def _is_small(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value < _SMALL
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.casefold().strip("_") in {"eps", "epsilon", "tiny"}


def _is_one(node: ast.expr) -> bool:
    return _is_number(node) and ast.literal_eval(node) == 1


def _is_number(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, ast.Constant) and type(inner.value) in {int, float}


def _last_name(node: ast.expr) -> str:
    """Return the last name of an expression, such as `float32` of `torch.float32`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _called(node: ast.expr) -> str:
    """Return the last name of a called function, or of a decorator without a call."""
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement without those of the statements in it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem | ast.keyword):
            yield from (child_node for child_node in ast.iter_child_nodes(child) if isinstance(child_node, ast.expr))


def _block(body: Sequence[ast.stmt], lines: Sequence[str]) -> tuple[str, ...]:
    if not body:
        return ()
    return tuple(line for line in lines[body[0].lineno - 1 : body[-1].end_lineno] if line)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:99]}…"  # noqa: PLR2004 - one line of a message
