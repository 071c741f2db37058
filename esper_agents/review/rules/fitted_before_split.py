"""ESP229: data is scaled by statistics of all rows, and split into training and test data afterwards."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import FOLLOWED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, Class, FileTables, Function

# Transformers of scikit-learn that learn numbers from the rows; encoders of labels and of single rows learn none.
_FITTED = frozenset(
    {"StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "PowerTransformer", "QuantileTransformer", "PCA"}
    | {"SimpleImputer", "KNNImputer", "IterativeImputer", "TruncatedSVD", "SelectKBest", "KernelPCA", "FastICA"}
)
_CENTERS, _SPREADS = frozenset({"mean", "min", "nanmean", "amin"}), frozenset({"std", "max", "var", "nanstd", "amax"})
_ROWS = ("0", "(0,)", "(0, 1)", "None", "[0]", "(0, 2)", "(0, 2, 3)", "(0, 1, 2)", "[0, 2, 3]")
# What splits rows at random or by folds.
_SPLITTING = frozenset({"train_test_split", "random_split"})
_STEPS = 5


@dataclass(frozen=True, slots=True)
class _Fit:
    """A place at which statistics are computed from rows.

    Attributes:
        node: The expression.
        function: The function it stands in.
        name: What computes the statistics, for messages.
    """

    node: ast.expr
    function: Function
    name: str


class FittedBeforeSplit(Rule):
    """Rows that are scaled or reduced by statistics of all of them, and split into parts afterwards.

    ## Why it costs
    The mean, the range or the components are computed from the test rows as well, so the training data knows
    something of what it is tested on. The measured error is too low, most of all for series in time and for few rows.

    ## When it is right
    The statistics are known in advance, or come from the training part alone: split first, call `fit` on the training
    rows, and `transform` on both. Scaling of each row by itself learns nothing from others and is not reported.

    ## Sources
    scikit-learn user guide, "Common pitfalls and recommended practices", section "Data leakage during pre-processing".
    """

    code, name = "ESP229", "fitted-before-split"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from sklearn.model_selection import train_test_split\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "\n"
        "x = StandardScaler().fit_transform(x)\n"
        "x_train, x_test = train_test_split(x, test_size=0.2)\n"
        "x_train = torch.from_numpy(x_train)\n"
    )
    good = (
        "import torch\n"
        "from sklearn.model_selection import train_test_split\n"
        "from sklearn.preprocessing import StandardScaler\n"
        "\n"
        "x_train, x_test = train_test_split(x, test_size=0.2)\n"
        "scaler = StandardScaler().fit(x_train)\n"
        "x_train = torch.from_numpy(scaler.transform(x_train))\n"
        "x_test = torch.from_numpy(scaler.transform(x_test))\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the fits on rows that are split afterwards."""
        if not file.imports_torch and not any("sklearn" in each for each in file.imports.values()):
            return
        done: set[ast.AST] = set()
        for function in file.functions:
            for line, values, node in _splits(function):
                found = None
                for value in values:
                    found = found or _fit_of(value, function, line, index)
                if found is not None and found.function.file is file and found.node not in done:
                    done.add(found.node)
                    yield self._found(found, function, node)
                elif found is not None and found.node not in done:
                    done.add(found.node)
                    yield self._found(_Fit(values[0], function, found.name), function, node)

    def _found(self, fit: _Fit, function: Function, split: ast.AST) -> RuleMatch:
        is_here = fit.function is function
        where = f"line {getattr(split, 'lineno', 0)}"
        if fit.function.file is not function.file:
            where = f"{function.file.path}:{getattr(split, 'lineno', 0)}"
        return self.hit(
            fit.node,
            f"`{fit.name}` learns from all rows, which are split into parts afterwards ({where}): the test rows "
            "influence the training data",
            remedy="split first, compute the statistics from the training part alone, and apply them to both parts",
            confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
        )


def _splits(function: Function) -> Iterator[tuple[int, list[ast.expr], ast.AST]]:
    """Yield the lines that split rows, with the expressions of what is split."""
    imports = function.file.imports
    for call in function.calls:
        if call.tail in _SPLITTING and call.node.args:
            rows = call.node.args if call.tail == "train_test_split" else call.node.args[:1]
            yield call.line, [each for each in rows if not isinstance(each, ast.Starred)], call.node
        elif call.tail == "split" and call.node.args and isinstance(call.node.func, ast.Attribute):
            made = function.last_assignment(call.receiver, call.line)
            value = made.value if made is not None else call.node.func.value
            name = dotted(value.func) if isinstance(value, ast.Call) else ""
            if imports.get(name, name).startswith("sklearn.model_selection."):
                yield call.line, [call.node.args[0]], call.node
    parts: dict[str, list[tuple[str, str, ast.Subscript]]] = {}
    for assignments in function.assignments.values():
        for each in assignments:
            for path, start, end, node in _slices(each.value):
                known = parts.setdefault(path, [])
                for first, last, other in known:
                    is_head = (not start and first and _meet(end, first)) or (
                        not first and start and _meet(last, start)
                    )
                    if is_head:
                        yield min(node.lineno, other.lineno), [node.value], node
                known.append((start, end, node))


def _meet(one: str, other: str) -> bool:
    """Return whether a head and a tail of rows meet: at one bound, or where the tail begins some rows earlier."""
    return one == other or one.startswith(f"{other} - ") or other.startswith(f"{one} - ")


def _slices(value: ast.expr) -> Iterator[tuple[str, str, str, ast.Subscript]]:
    """Yield the slices of rows in an expression, with their bounds: `x[:n]`, `x[n:m]`."""
    for node in walk(value):
        bounds = _bounds(node) if isinstance(node, ast.Subscript) else None
        path = dotted(node.value) if isinstance(node, ast.Subscript) else ""
        if isinstance(node, ast.Subscript) and bounds is not None and path and any(bounds):
            yield path, *bounds, node


def _bounds(node: ast.Subscript) -> tuple[str, str] | None:
    part = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    if not isinstance(part, ast.Slice) or part.step is not None:
        return None
    start, end = (ast.unparse(each) if each is not None else "" for each in (part.lower, part.upper))
    return start, end


def _fit_of(value: ast.expr, function: Function, line: int, index: ProjectIndex, steps: int = _STEPS) -> _Fit | None:
    """Return the fit that a value was computed by, if there is one."""
    names = [node for node in walk(value) if isinstance(node, ast.Name | ast.Attribute) and dotted(node)]
    calls = {call.node: call for call in function.calls}
    for node in walk(value):
        call = calls.get(node) if isinstance(node, ast.Call) else None
        if call is None:
            continue
        fit = _fit_call(call) or _own_fit(call, index) or (_fit_of_callee(call, index, steps - 1) if steps else None)
        if fit is not None:
            return fit
    for node in names if steps else ():
        path = dotted(node)
        fit = _fitted_in_place(path, function, line)
        if fit is not None:
            return fit
        made = function.last_assignment(path, line)
        if made is None or made.is_augmented or isinstance(made.statement, ast.For):
            continue
        scaled = _scaled_by_hand(made, function)
        if scaled is not None:
            return _Fit(scaled, function, ast.unparse(scaled))
        fit = _fit_of(made.value, function, made.line, index, steps - 1)
        if fit is not None:
            return fit
    return None


def _fit_of_callee(call: Call, index: ProjectIndex, steps: int) -> _Fit | None:
    """Return the fit in a function of the project whose result a call is, or in the constructor of a dataset."""
    owner = index.class_called(call.node, call.function)
    if owner is not None:
        return _fit_of_object(owner, index, steps) if "forward" not in owner.methods else None
    for called in index.callees(call):
        for statement, _ in called.returns:
            if statement.value is None:
                continue
            parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            for part in parts:
                fit = _fit_of(part, called, statement.lineno, index, steps)
                if fit is not None and not any(True for _ in _splits(called)):
                    return fit
    return None


def _fit_of_object(owner: Class, index: ProjectIndex, steps: int) -> _Fit | None:
    """Return the fit by which a constructor computes what the object holds, unless it splits the rows itself."""
    init = index.method(owner, "__init__")
    if init is None or any(True for _ in _splits(init)):
        return None
    for path, assignments in init.assignments.items():
        for made in assignments if path.startswith("self.") else ():
            scaled = _scaled_by_hand(made, init)
            if scaled is not None:
                return _Fit(scaled, init, ast.unparse(scaled))
            fit = _fit_of(made.value, init, made.line, index, steps)
            # A scaler that may be given from outside, or is fitted under a condition, may be that of the training part.
            if fit is not None and fit.function is init and not _is_conditional(fit.node, init):
                return fit
    return None


def _is_conditional(node: ast.expr, function: Function) -> bool:
    block = next((call.block for call in function.calls if any(each is node for each in walk(call.statement))), None)
    return block is not None and block is not function.block


def _fit_call(call: Call) -> _Fit | None:
    """Return the fit that a call is: `StandardScaler().fit_transform(x)`."""
    if call.tail != "fit_transform" or not call.node.args:
        return None
    name = _transformer(call)
    return _Fit(call.node, call.function, f"{name}.fit_transform") if name else None


def _own_fit(call: Call, index: ProjectIndex) -> _Fit | None:
    """Return the fit of a class of the project by which a value is scaled: `s.fit(x).transform(x)`, or in two steps."""
    if not call.node.args or call.tail not in {"transform", "fit_transform"}:
        return None
    if call.tail == "fit_transform":
        return _Fit(call.node, call.function, call.path) if _learns(call, index) else None
    given = ast.dump(call.node.args[0])
    for each in call.function.calls:
        is_chained = isinstance(call.node.func, ast.Attribute) and call.node.func.value is each.node
        is_before = is_chained or (each.receiver == call.receiver and each.line <= call.line)
        if each.tail != "fit" or not is_before or not each.node.args or ast.dump(each.node.args[0]) != given:
            continue
        if _transformer(each) or _learns(each, index):
            return _Fit(each.node, each.function, f"{_transformer(each)}.fit" if _transformer(each) else each.path)
    return None


def _learns(call: Call, index: ProjectIndex) -> bool:
    """Return whether a method of the project computes statistics over the rows that it is given, and keeps them."""
    for called in index.callees(call):
        rows = next((name for name in called.parameters if name not in {"self", "cls"}), "")
        for path, assignments in called.assignments.items():
            for made in assignments if path.startswith("self.") and rows else ():
                found = [_is_statistic(node, rows, _CENTERS | _SPREADS, called, made.line) for node in walk(made.value)]
                if any(found):
                    return True
    return False


def _transformer(call: Call) -> str:
    """Return the name of the scikit-learn class whose `fit` a call is; empty if it is another."""
    func = call.node.func
    value: ast.expr | None = func.value if isinstance(func, ast.Attribute) else None
    if value is not None and dotted(value):
        path = dotted(value)
        made = call.function.last_assignment(path, call.line + 1)
        if made is None and call.function.owner is not None:
            attributes = call.function.owner.attributes.get(path, [])
            made = attributes[0] if len(attributes) == 1 else None
        value = made.value if made is not None else value
    if not isinstance(value, ast.Call):
        return ""
    name = tail_of(dotted(value.func))
    if name == "fit" and isinstance(value.func, ast.Attribute) and isinstance(value.func.value, ast.Call):
        name = tail_of(dotted(value.func.value.func))
    known = call.function.file.imports.get(dotted(value.func).partition(".")[0], "")
    return name if name in _FITTED and known.startswith("sklearn") else ""


def _fitted_in_place(path: str, function: Function, line: int) -> _Fit | None:
    """Return a fit on what a path holds, whose numbers are applied to it: `s.fit(x); x = s.transform(x)`."""
    for call in function.calls:
        is_fit = call.tail == "fit" and call.line < line and call.node.args and dotted(call.node.args[0]) == path
        if not is_fit or not _transformer(call):
            continue
        rebound = [each for each in function.assignments.get(path, ()) if call.line < each.line < line]
        applied = any(f"{call.receiver}.transform(" in ast.unparse(each.value) for each in rebound)
        if (applied or not rebound) and not any(are_alternatives(call.block, each.block) for each in rebound):
            used = any(each.tail == "transform" and each.receiver == call.receiver for each in function.calls)
            return _Fit(call.node, function, f"{_transformer(call)}.fit") if used else None
    return None


def _scaled_by_hand(made: Assignment, function: Function) -> ast.expr | None:
    """Return the scaling of a value by its own statistics over rows: `(x - x.mean(0)) / x.std(0)`."""
    value = made.value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Div):
        return None
    top = value.left
    if not isinstance(top, ast.BinOp) or not isinstance(top.op, ast.Sub):
        return None
    path = dotted(top.left)
    if not path or made.target not in {path, path.removeprefix("self."), f"self.{path}"}:
        return None
    is_centered = _is_statistic(top.right, path, _CENTERS, function, made.line)
    is_spread = any(_is_statistic(node, path, _SPREADS, function, made.line) for node in walk(value.right))
    return value if is_centered and is_spread else None


def _is_statistic(node: ast.AST, path: str, names: frozenset[str], function: Function, line: int) -> bool:
    """Return whether an expression is a statistic of a path over its rows, here or by its assignment."""
    if isinstance(node, ast.Name):
        made = function.last_assignment(node.id, line)
        if made is None:
            return False
        values = [made.value]
        if made.is_unpacked and isinstance(made.value, ast.Tuple):
            values = list(made.value.elts)
        return any(
            _is_statistic(each, path, names, function, made.line) for each in values if not isinstance(each, ast.Name)
        )
    if not isinstance(node, ast.Call):
        return False
    tail = tail_of(dotted(node.func))
    if tail not in names or not isinstance(node.func, ast.Attribute):
        return False
    root = dotted(node.func.value)
    of_module = function.file.imports.get(root) in {"numpy", "torch"}
    rest = node.args[1:] if of_module else node.args
    given = dotted(node.args[0]) if of_module and node.args else root
    axes = [*rest[:1], *(each.value for each in node.keywords if each.arg in {"axis", "dim"})]
    return given == path and all(ast.unparse(axis) in _ROWS for axis in axes)
