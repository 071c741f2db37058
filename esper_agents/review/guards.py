"""Guards: calls and statements that protect the code around them, such as `detach`, `no_grad` and clamping."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True)
class Guard:
    """Kind of guard.

    Attributes:
        title: What it is, in a sentence after "the change removes".
        why: What goes wrong without it.
        category: Category of the finding.
        severity: Severity of its removal.
        family: Guards of one family replace one another, such as clamping and an epsilon.
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
    """

    guard: str
    line: int
    text: str
    scope: str
    subject: str = ""
    statement: str = ""
    body: tuple[str, ...] = ()
    number: int = 0

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
}
# Guards that wrap an expression: what they protect is the expression itself.
_WRAPPING = frozenset(("detach", "item", "clamp", "finite"))
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
    for use in _uses(scope, [plain(each) for each in lines]):
        number = seen.get(use.key, 0)
        seen[use.key] = number + 1
        yield replace(use, number=number)


def plain(line: str) -> str:
    """Return a line of source with single spaces and double quotes, as guards compare it."""
    return " ".join(line.split()).replace("'", '"')


def _uses(scope: ast.AST, lines: Sequence[str]) -> Iterator[GuardUse]:
    name, statements = getattr(scope, "name", ""), getattr(scope, "body", [])
    for decorator in getattr(scope, "decorator_list", ()):
        if _called(decorator) in {"no_grad", "inference_mode"}:
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
    if isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if _called(item.context_expr) in {"no_grad", "inference_mode"}:
                text = f"with {ast.unparse(item.context_expr)}"
                yield GuardUse("no-grad", statement.lineno, text, scope, body=_block(statement.body, lines))
    whole = lines[statement.lineno - 1]
    for node in (each for part in _own_expressions(statement) for each in ast.walk(part)):
        use = _of_expression(node, scope, whole)
        if use is not None:
            yield use


def _of_expression(node: ast.AST, scope: str, statement: str) -> GuardUse | None:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _epsilon(node, scope, statement)
    if not isinstance(node, ast.Call):
        return None
    called = _called(node)
    if any(each.arg == "weights_only" and _is_true(each.value) for each in node.keywords):
        return GuardUse("weights-only", node.lineno, "weights_only=True", scope, ast.unparse(node.func), statement)
    if called in {"eval", "train"} and isinstance(node.func, ast.Attribute):
        return _mode(node, called, scope)
    is_frozen = called == "requires_grad_" and bool(node.args) and _is_false(node.args[0])
    guard = "freeze" if is_frozen else _CALLS.get(called, "check" if _CHECK.search(called) else "no-grad")
    # `no_grad` is a guard where it encloses code: see `_uses`.
    return None if guard == "no-grad" else _call(node, guard, scope, statement)


def _epsilon(node: ast.BinOp, scope: str, statement: str) -> GuardUse | None:
    for small, other in ((node.right, node.left), (node.left, node.right)):
        if _is_small(small):
            return GuardUse("epsilon", node.lineno, ast.unparse(node), scope, ast.unparse(other), statement)
    return None


def _call(node: ast.Call, guard: str, scope: str, statement: str) -> GuardUse | None:
    text = _short(ast.unparse(node))
    if guard not in _WRAPPING:
        return GuardUse(guard, node.lineno, text, scope)
    if guard == "item" and not _KEPT.search(statement):
        return None
    inner = next(iter(node.args), None)
    if isinstance(node.func, ast.Attribute) and not (node.args and _is_module(node.func.value)):
        inner = node.func.value
    return None if inner is None else GuardUse(guard, node.lineno, text, scope, ast.unparse(inner), statement)


def _mode(node: ast.Call, called: str, scope: str) -> GuardUse | None:
    """Return the switch of a module's mode; `DataFrame.eval("...")` and the like have other arguments."""
    values = [*node.args, *(each.value for each in node.keywords)]
    receiver = ast.unparse(node.func)
    if len(values) > 1 or (called == "eval" and values) or _TRAINERS.search(receiver):
        return None
    is_eval = called == "eval" or (bool(values) and _is_false(values[0]))
    return GuardUse("eval" if is_eval else "train", node.lineno, ast.unparse(node), scope)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in {"torch", "np", "numpy", "F", "math", "jnp"}


def _is_small(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float) and 0 < node.value < _SMALL
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.casefold().strip("_") in {"eps", "epsilon", "tiny"}


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


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
            yield from (each for each in ast.iter_child_nodes(child) if isinstance(each, ast.expr))


def _block(body: Sequence[ast.stmt], lines: Sequence[str]) -> tuple[str, ...]:
    if not body:
        return ()
    return tuple(each for each in lines[body[0].lineno - 1 : body[-1].end_lineno] if each)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else f"{line[:99]}…"  # noqa: PLR2004 - one line of a message
