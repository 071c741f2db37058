"""ESP214: the best weights are kept by reference, and the training goes on changing them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.models import happens_in
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_TRAINING = frozenset({"backward", "manual_backward"})
# What makes a new dictionary of the same tensors.
_SHALLOW = frozenset({"dict", "OrderedDict"})
_USING = frozenset({"load_state_dict", "save"})
_STEPPING = pattern(r"(?:train|fit)(?:_|$)")
_OPTIMIZER = pattern(r"(?:\w+_)?(?:opt|optim|optimi[sz]er)")
_OTHERS = pattern(r"optim|sched|scaler|sampler|loader|(?:^|_)opt$")


class StateKeptWithoutCopy(Rule):
    """The best weights kept as `model.state_dict()`, which holds the very tensors that training goes on changing.

    ## Why it costs
    `state_dict()` copies nothing: its tensors share memory with the parameters, and every step of the optimizer writes
    into both. What is loaded back as the best weights are the last ones, and nothing says so. A shallow
    `state_dict().copy()` is no better.

    ## When it is right
    The state is written to a file at once, or moved to where it is a copy, or the training ends there. Only what is
    kept where scores are compared, in a loop that trains, and loaded, saved or returned afterwards is reported.

    ## Sources
    PyTorch tutorial "Saving and Loading Models": `state_dict()` returns a reference and not a copy, and the best one
    is to be serialised or deep-copied.
    """

    code, name = "ESP214", "state-kept-without-copy"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "def fit(model, loader, optimizer, validate):\n"
        "    best = 0.0\n"
        "    for epoch in range(20):\n"
        "        for x, y in loader:\n"
        "            optimizer.zero_grad()\n"
        "            criterion(model(x), y).backward()\n"
        "            optimizer.step()\n"
        "        score = validate(model)\n"
        "        if score > best:\n"
        "            best, kept = score, model.state_dict()\n"
        "    model.load_state_dict(kept)\n"
    )
    good = bad.replace("model.state_dict()\n", "copy.deepcopy(model.state_dict())\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield where weights are kept by reference while they are trained on."""
        for function in dict.fromkeys(call.function for call in file.calls_ending("state_dict")):
            for target, assignments in function.assignments.items():
                for assignment in assignments:
                    if (path := _state_in(assignment.value)) and _is_for_later(assignment, target, index):
                        yield from self._kept(assignment, path, index)

    def _kept(self, found: Assignment, path: str, index: ProjectIndex) -> Iterator[RuleMatch]:
        function = found.block.function
        is_here = _trains(found.block, index)
        is_known = is_here or any(_trains(call.block, index) for call in index.callers(function))
        if is_known or _may_train(found.block, path, index):
            yield self.hit(
                found.statement,
                f"{found.target.rstrip('[]')!r} shares its tensors with {path!r}: later steps change it as well",
                remedy=f"keep `copy.deepcopy({path}.state_dict())`",
                confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                basis=SEEN if is_here else FOLLOWED if is_known else f"{INFERRED}: a call of the loop trains the model",
                severity=None if is_known else Severity.WARNING,
            )


def _state_in(value: ast.expr) -> str:
    """Return the model whose state a value holds by reference: alone, in a shallow copy, or in a dictionary."""
    parts = value.values if isinstance(value, ast.Dict) else [value]
    match value:
        case ast.DictComp(value=ast.Name(id=held), generators=[ast.comprehension(target=ast.Tuple(elts=[_, name]))]):
            parts = [value.generators[0].iter] if held == dotted(name) else parts
        case _:
            pass
    return next((path for part in parts if (path := _owner_of_state(part))), "")


def _owner_of_state(value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ""
    path = dotted(value.func)
    if path in _SHALLOW and len(value.args) == 1:
        return _owner_of_state(value.args[0])
    path = path.removesuffix("().copy").removesuffix("().items")
    receiver = path.removesuffix(".state_dict")
    is_plain = not value.args and not value.keywords and receiver != path and "(" not in receiver
    return receiver if is_plain and not _OTHERS.search(tail_of(receiver)) else ""


def _is_for_later(found: Assignment, target: str, index: ProjectIndex) -> bool:
    """Return whether a state is kept where scores are compared, as it is, and asked for when that is over."""
    function, arm = found.block.function, found.block
    tests = list(tests_around(arm, arm.loop or function.block))
    if not any(_compares(test) for test in tests) or _ends(arm) or function.assignments.get(f"{target}[]"):
        return False
    if any(each.block is arm and each.line > found.line for each in function.assignments[target]):
        return False
    name = target.rstrip("[]")
    return _is_used(name, function, arm) if name.isidentifier() else _is_used_anywhere(tail_of(name), arm, index)


def _compares(test: ast.expr) -> bool:
    return any(
        isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Lt | ast.Gt | ast.LtE | ast.GtE)
        for each in walk(test)
    )


def _ends(arm: Block) -> bool:
    """Return whether nothing is trained after an arm of an `if`."""
    node = arm.node
    last = node.body[-1] if isinstance(node, ast.If) and arm.kind is BlockKind.IF else None
    return isinstance(last, ast.Break | ast.Return | ast.Raise)


def _is_used(name: str, function: Function, arm: Block) -> bool:
    """Return whether what a name of a function holds is loaded, saved or returned outside an arm."""
    returned = {
        root_of(each) for statement, _ in function.returns if statement.value for each in names_in(statement.value)
    }
    return name in returned or any(
        call.tail in _USING and not call.block.within(arm) and name in {root_of(each) for each in names_in(call.node)}
        for call in function.calls
    )


def _is_used_anywhere(attribute: str, arm: Block, index: ProjectIndex) -> bool:
    """Return whether what an attribute holds is loaded or saved outside an arm, by whoever has the object."""
    return any(
        not call.block.within(arm) and attribute in {tail_of(each) for each in names_in(call.node)}
        for call in index.calls_ending(*sorted(_USING))
    )


def _trains(block: Block, index: ProjectIndex) -> bool:
    return any(happens_in(loop, _TRAINING, index) for loop in block.loops())


def _may_train(block: Block, path: str, index: ProjectIndex) -> bool:
    """Return whether a loop around a block gives the model to code that is not in sight and named for training.

    With an optimizer among its arguments it need not be named so.
    """
    inside = [call for loop in block.loops() for call in block.function.calls if call.block.within(loop)]
    for call in inside:
        given = [dotted(each) for each in (*call.node.args, *(one.value for one in call.node.keywords))]
        is_own = bool(call.receiver) and path.startswith(f"{call.receiver}.") and _STEPPING.match(call.tail) is not None
        if (path not in given and not is_own) or index.possible_callees(call):
            continue
        if _STEPPING.match(call.tail) or any(_OPTIMIZER.fullmatch(tail_of(each)) for each in given):
            return True
    return False
