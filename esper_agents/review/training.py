"""What a training step looks like: where gradients are made, used and cleared."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import is_periodic, names_in, tests_around
from esper_agents.review.definitions import owner_of
from esper_agents.review.index import Origin, argument_for
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.objects import position_of, resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.renamings import home_of, means_outside
from esper_agents.review.set_gradients import sets_gradients
from esper_agents.review.values import graphs_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.flow import Reach
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables, Function

_BACKWARD = ("backward", "manual_backward")
_IN_PLACE = frozenset({"add_", "sub_"})
_CLEARING = pattern(r"(zero|clear|reset)_?(the_)?grad", re.IGNORECASE)
_OPTIMIZER = pattern(r"opt(im|imi[sz]er)?s?(_|\d|$)|optim|scaler|solver|adam|sgd", re.IGNORECASE)
_NO_NUMBER = pattern(r"isnan|isinf|isfinite")
_CAMEL = pattern(r"^opt[A-Z]")
_NOT_OPTIMIZER = pattern(r"sched|options?$|anneal|warm_?up|plateau|cosine|(?:^|_)lr(?:_|$)", re.IGNORECASE)
_SCHEDULING = pattern(
    r"torch\.optim\.(?:lr_scheduler\.\w+|swa_utils\.SWALR)"
    r"|transformers\.(?:\w+\.)*get_(?:\w*_)?schedule\w*|timm\.scheduler\.(?:\w+\.)*[A-Z]\w*"
    r"|(?:\w+\.)*_?LRScheduler"
)
_OPTIMIZING = pattern(r"(?:\w+\.)*optim\.(?!lr_scheduler\b|swa_utils\b)(?:\w+\.)*\w+|(?:\w+\.)*Optimizer")
_HANDING_OUT_OPTIMIZERS = frozenset({"self.optimizers", "self.configure_optimizers"})
# How many steps from a value to what makes it, and from a call to what it clears, are followed.
_HOPS = 4
# Calls whose result goes over the same parameters as their argument.
_SAME_PARAMETERS = frozenset(
    {"list", "tuple", "set", "iter", "reversed", "sorted", "filter", "chain", "enumerate", "zip"}
)
_PARAMETERS = frozenset({"parameters", "named_parameters", "param_groups", "values", "items"})
_HARMLESS = frozenset(
    {"step", "unscale_", "print", "len", "isinstance", "save", "append", "state_dict", "update", "adjust_learning_rate"}
)


def backward_calls(file: FileTables) -> Iterator[Call]:
    """Yield the calls that send a loss backward: `loss.backward()`, `accelerator.backward(loss)` and their like."""
    yield from file.once("backward calls", lambda: list(filter(is_backward, file.calls_ending(*_BACKWARD))))


def backward_calls_in(function: Function) -> list[Call]:
    """Return the calls of a function, those it defines left out, that send a loss backward."""
    return function.file.once(("backward calls", function), lambda: list(filter(is_backward, function.calls)))


def is_backward(call: Call) -> bool:
    """Return whether a call sends a loss backward; a `backward` that passes on to another is no such call."""
    is_plain = not isinstance(call.node.func, ast.Attribute)
    passes_on = is_plain or call.receiver == "super()" or call.function.name in _BACKWARD
    return call.tail in _BACKWARD and not passes_on and not _is_of_tape(call)


def _is_of_tape(call: Call) -> bool:
    """Return whether a call goes back over the tape of another package: `with wp.Tape() as tape:`."""
    function = call.function
    owner = function.owner
    entered = [name for block in function.blocks if call.receiver in block.targets for name in block.contexts]
    held = (*function.assignments.get(call.receiver, ()), *(owner.attributes.get(call.receiver, ()) if owner else ()))
    made = [dotted(each.value.func) for each in held if isinstance(each.value, ast.Call)]
    return any(tail_of(name.removesuffix("()")).endswith("Tape") for name in (*entered, *made))


def loss_of(backward: Call) -> str:
    """Return the path of what a backward call sends backward; empty where it is no name."""
    first = backward.argument(0)
    if first is not None and backward.tail == "manual_backward":
        return dotted(first)
    if first is not None and re.search(r"accelerator|fabric|engine|booster", backward.receiver):
        return dotted(first)
    if backward.receiver.endswith(".scale()") and isinstance(backward.node.func, ast.Attribute):
        scaled = backward.node.func.value
        return dotted(scaled.args[0]) if isinstance(scaled, ast.Call) and scaled.args else ""
    return backward.receiver


def losses_of(backward: Call) -> set[str]:
    """Return the paths of what a backward call sends backward: both names of `(a + b).backward()`."""
    found = loss_of(backward)
    if found and "(" not in found:
        return {found}
    sent = backward.node.func.value if isinstance(backward.node.func, ast.Attribute) else None
    if isinstance(sent, ast.Call) and tail_of(dotted(sent.func)) == "scale" and sent.args:
        sent = sent.args[0]
    elif backward.argument(0) is not None and re.search(r"accelerator|fabric|engine|booster|^self$", backward.receiver):
        sent = backward.argument(0)
    paths = graphs_in(sent) if sent is not None else set()
    return {path for path in paths if path in backward.function.assignments} or paths


def innermost_training_loops(file: FileTables) -> dict[Block, list[Call]]:
    """Return each loop that itself sends a loss backward, inner loops aside, with the calls that do it."""
    return file.once("innermost training loops", lambda: _innermost_training_loops(file))


def _innermost_training_loops(file: FileTables) -> dict[Block, list[Call]]:
    found: dict[Block, list[Call]] = {}
    for call in backward_calls(file):
        if call.block.loop is not None:
            found.setdefault(call.block.loop, []).append(call)
    return found


@dataclass(frozen=True, slots=True)
class Step:
    """A place where gradients are used up: an optimizer steps, or parameters are changed by hand.

    Attributes:
        call: The call, where it is one.
        block: Where it stands.
        line: The line.
        optimizer: The optimizer, as written; empty for an update by hand.
    """

    call: Call | None
    block: Block
    line: int
    optimizer: str


def steps(function: Function, index: ProjectIndex) -> Iterator[Step]:
    """Yield the steps that a function itself takes."""
    for call in function.calls:
        if is_optimizer_step(call, index):
            handed = call.argument(0) if "scaler" in call.receiver.lower() else None
            optimizer = call.receiver if handed is None else dotted(handed)
            yield Step(call, call.block, call.line, optimizer)
        elif call.tail in _IN_PLACE and any(_reads_grad(each) for each in (*call.node.args, *call.node.keywords)):
            yield Step(None, call.block, call.line, "")
    for target, assignments in function.assignments.items():
        for assignment in assignments:
            if assignment.is_augmented and _reads_grad(assignment.value, target.removesuffix(".data")):
                yield Step(None, assignment.block, assignment.line, "")


def _reads_grad(node: ast.AST, owner: str = "") -> bool:
    """Return whether an expression reads a gradient; that of one path, if one is given."""
    reads = (each for each in walk(node) if isinstance(each, ast.Attribute) and each.attr == "grad")
    return any(not owner or dotted(each.value) == owner for each in reads)


def is_optimizer_step(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call lets an optimizer use the gradients."""
    if call.tail != "step" or not call.receiver:
        return False
    made = _made_by_receiver(call, index)
    kinds = {_kind_of(each, index) for each in made}
    if Kind.OPTIMIZER in kinds or Kind.SCHEDULER in kinds:
        return Kind.OPTIMIZER in kinds
    if kinds == {Kind.OF_THESE_FILES} and not any(_uses_gradients(each, index) for each in made):
        return False
    last = tail_of(call.receiver)
    if _NOT_OPTIMIZER.search(last):
        return False
    return bool(_OPTIMIZER.search(last) or _CAMEL.search(last)) or _is_drawn_from_optimizers(call)


class Kind(Enum):
    """What an object is, as far as what makes it or its annotation shows."""

    OPTIMIZER = auto()
    SCHEDULER = auto()
    OF_THESE_FILES = auto()
    UNKNOWN = auto()


def _kind_of(origin: Origin, index: ProjectIndex) -> Kind:
    owner = _class_of(origin, index)
    if owner is not None:
        names = sorted(index.lineage(owner).foreign)
    elif isinstance(origin.value, ast.Call):
        names = [resolve(dotted(origin.value.func), origin.function)]
    else:
        names = _annotated(dotted(origin.value), origin.function) or _unpacked_from(origin, index)
    if any(_SCHEDULING.fullmatch(name) for name in names):
        return Kind.SCHEDULER
    if any(_OPTIMIZING.fullmatch(name) or name in _HANDING_OUT_OPTIMIZERS for name in names):
        return Kind.OPTIMIZER
    return Kind.UNKNOWN if owner is None else Kind.OF_THESE_FILES


def _unpacked_from(origin: Origin, index: ProjectIndex) -> list[str]:
    """Return the resolved name of the call that hands out a value with others: `a, b = self.optimizers()`."""
    path = dotted(origin.value)
    found = index.binding(path, origin.function, origin.line) if "(" not in path and "[" not in path else None
    is_call = found is not None and found.is_unpacked and isinstance(found.value, ast.Call)
    return [resolve(dotted(found.value.func), found.block.function)] if found is not None and is_call else []  # type: ignore[attr-defined]


def _uses_gradients(origin: Origin, index: ProjectIndex) -> bool:
    """Return whether the `step` of an object of these files may use gradients; in doubt yes."""
    owner = _class_of(origin, index)
    method = index.method(owner, "step") if owner is not None else None
    return method is None or _reads_grad(method.node) or "step" in index.reached(method)


def _class_of(origin: Origin, index: ProjectIndex) -> Class | None:
    """Return the class of these files of which an origin makes an object, or that its annotation names."""
    if isinstance(origin.value, ast.Call):
        return index.class_called(origin.value, origin.function)
    names = _annotated(dotted(origin.value), origin.function)
    classes = (index.class_named(name, origin.function.file) for name in names)
    return next((cls for cls in classes if cls is not None), None)


def _annotated(path: str, function: Function) -> list[str]:
    """Return the resolved names in the annotation of a parameter or of an attribute of the object."""
    found: ast.expr | None = None
    owner = owner_of(function) if path.startswith("self.") else None
    if owner is not None:
        name = path.removeprefix("self.")
        declared = [each for each in owner.node.body if isinstance(each, ast.AnnAssign) and dotted(each.target) == name]
        statements = [*declared, *(each.statement for each in owner.attributes.get(path, ()))]
        found = next((statement.annotation for statement in statements if isinstance(statement, ast.AnnAssign)), None)
    elif not isinstance(function.node, ast.Module):
        given = function.node.args
        listed = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        found = next((each.annotation for each in listed if each.arg == path), None)
    if isinstance(found, ast.Constant) and isinstance(found.value, str):
        try:
            found = ast.parse(found.value, mode="eval").body
        except SyntaxError:
            found = None
    nodes = walk(found) if found is not None else ()
    return [resolve(dotted(node), function) for node in nodes if isinstance(node, ast.Name | ast.Attribute)]


def _made_by_receiver(call: Call, index: ProjectIndex) -> tuple[Origin, ...]:
    """Return what may make the object whose method a call runs."""
    held = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    return makers(held, call.function, call.line, index) if held is not None else ()


def makers(
    value: ast.expr, function: Function, line: int, index: ProjectIndex, hops: int = _HOPS
) -> tuple[Origin, ...]:
    """Return the calls that may make a value, and what of it nothing in sight makes.

    Follows names, functions of these files that return it, tuples that are unpacked, and lists that are looped over.
    """
    key = ("makers", value, function, line, hops)
    return index.once(key, lambda: tuple(dict.fromkeys(_makers(value, function, line, index, hops))))


def _makers(value: ast.expr, function: Function, line: int, index: ProjectIndex, hops: int) -> Iterator[Origin]:
    for origin in index.origins(value, function, line):
        found: list[Origin] = []
        if hops:
            found = list(_behind(origin, index, hops - 1))
        yield from found or [origin]


def _behind(origin: Origin, index: ProjectIndex, hops: int) -> Iterator[Origin]:
    """Yield what makes the value of an origin, where that is another expression."""
    value, function, line = origin.value, origin.function, origin.line
    match value:
        case ast.IfExp():
            yield from makers(value.body, function, line, index, hops)
            yield from makers(value.orelse, function, line, index, hops)
        case ast.Call():
            called = index.function_named(value, function)
            for statement, _ in called.returns if called is not None else ():
                if called is not None and statement.value is not None:
                    yield from makers(statement.value, called, statement.lineno, index, hops)
        case ast.Subscript():
            yield from _elements(Origin(value.value, function, line), index, hops)
        case ast.Name() | ast.Attribute():
            yield from _unpacked(origin, index, hops)
        case _:
            pass


def _unpacked(origin: Origin, index: ProjectIndex, hops: int) -> Iterator[Origin]:
    """Yield what makes a name that a loop draws from a list, or that is unpacked from what a function returns."""
    path = dotted(origin.value)
    found = index.binding(path, origin.function, origin.line) if "(" not in path and "[" not in path else None
    if found is None or not found.is_unpacked:
        return
    function = found.block.function
    if isinstance(found.statement, ast.For):
        if found.statement.target is found.node:
            yield from _elements(Origin(found.value, function, found.line), index, hops)
        return
    at, count = position_of(found)
    called = index.function_named(found.value, function)
    for statement, _ in called.returns if called is not None and count else ():
        if called is not None and isinstance(statement.value, ast.Tuple) and len(statement.value.elts) == count:
            yield from makers(statement.value.elts[at], called, statement.lineno, index, hops)


def _elements(held: Origin, index: ProjectIndex, hops: int) -> Iterator[Origin]:
    """Yield what makes the elements of a list, a tuple or a dict."""
    for origin in index.origins(held.value, held.function, held.line) if hops else ():
        parts: list[ast.expr] = []
        match origin.value:
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
                pass
            case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.DictComp(value=part):
                parts = [part]
            case ast.Call(func=ast.Attribute(value=part, attr="values")):
                yield from _elements(Origin(part, origin.function, origin.line), index, hops - 1)
            case _:
                pass
        for each in parts:
            yield from makers(each, origin.function, origin.line, index, hops - 1)


def _is_drawn_from_optimizers(call: Call) -> bool:
    """Return whether a loop draws what a method is called on from what is named for optimizers."""
    around = (loop for loop in call.block.loops() if call.receiver in loop.targets)
    return any(
        isinstance(each.node, ast.For) and _OPTIMIZER.search(tail_of(dotted(each.node.iter).removesuffix(".values()")))
        for each in around
    )


def closures_of(step: Call, index: ProjectIndex) -> Iterator[Function]:
    """Yield the function of these files that a `step(closure)` runs, where it sends a loss backward."""
    handed = step.argument(0, "closure")
    found = index.local_function(dotted(handed), step.function) if handed is not None else None
    if found is not None and backward_calls_in(found):
        yield found


def is_lbfgs(step: Call, index: ProjectIndex) -> bool:
    """Return whether an optimizer runs its closure several times in each step."""
    found = index.binding(step.receiver, step.function, step.line)
    return found is not None and isinstance(found.value, ast.Call) and tail_of(dotted(found.value.func)) == "LBFGS"


def steps_in(block: Block, index: ProjectIndex) -> bool:
    """Return whether an optimizer steps in a block, directly or in a function that it surely calls."""
    inside = [call for call in block.function.calls if call.block.within(block)]
    return any(
        is_optimizer_step(call, index) or any(next(steps(callee, index), None) for callee in index.callees(call))
        for call in inside
    )


def discarded_by(step: Step, loop: Block) -> list[Call]:
    """Return what clears gradients in every round of a loop whose optimizer steps only every so many rounds."""
    tests = tests_around(step.block, loop) if step.call is not None else []
    if not any(counts_rounds(test, loop.function, step.line) for test in tests):
        return []
    inside = [call for call in loop.function.calls if call.block.within(loop)]
    sent = [call for call in inside if is_backward(call)]
    clears = [call for call in inside if _clears_all_of(call, step)]
    whole = [call for call in (*sent, *clears) if call.block.loop is loop and not any(tests_around(call.block, loop))]
    return clears if clears and sent and len(whole) == len(sent) + len(clears) else []


def counts_rounds(test: ast.expr, function: Function, line: int) -> bool:
    """Return whether a test takes a remainder itself, or reads the name of one that does: `if is_update:`."""
    named = [function.last_assignment(dotted(each), line) for each in walk(test) if isinstance(each, ast.Name)]
    return is_periodic(test) or any(
        each is not None and isinstance(each.value, ast.Compare | ast.BoolOp | ast.UnaryOp) and is_periodic(each.value)
        for each in named
    )


def _clears_all_of(call: Call, step: Step) -> bool:
    """Return whether a call clears what an optimizer was given: by the optimizer, or by the model that made it."""
    if call.tail != "zero_grad":
        return False
    made = step.block.function.last_assignment(step.optimizer, step.line)
    given = names_in(made.value) if made is not None else ()
    return call.receiver == step.optimizer or f"{call.receiver}.parameters" in {
        name.removesuffix("()") for name in given
    }


def is_cleared_now_and_then(step: Step, loop: Block, index: ProjectIndex) -> bool:
    """Return whether an optimizer steps in every round, while gradients are cleared in some only."""
    if step.call is None or any(tests_around(step.block, loop)) or step.block.loop is not loop:
        return False
    inside = [call for call in loop.function.calls if call.block.within(loop)]
    clears = [call for call in inside if clears_gradients(call)]
    others = [call for call in inside if call.tail != "step" and call not in clears and not is_backward(call)]
    found = clearings(loop.function, index)
    if any(each.is_sure and (each.call is None or each.call in others) for each in found):
        return False
    if not clears or not all(_is_rare(clear.block, loop) for clear in clears):
        return False
    return step.call in index.flow(loop.function).first_after(step.call, [*clears, step.call]).events


def _is_rare(block: Block, loop: Block) -> bool:
    """Return whether a block runs every so many rounds, or only where a loss is no number."""
    if any(each.kind is BlockKind.EXCEPT for each in block.chain() if each.within(loop)):
        return True
    return any(is_periodic(test) or _NO_NUMBER.search(ast.unparse(test)) for test in tests_around(block, loop))


def clears_gradients(call: Call) -> bool:
    """Return whether a call's own name says that it clears gradients: `zero_grad`, `p.grad.zero_`."""
    if _CLEARING.search(call.tail):
        return True
    return call.tail in {"zero_", "fill_", "_foreach_zero_"} and "grad" in (call.receiver or dotted_arguments(call))


def dotted_arguments(call: Call) -> str:
    """Return the paths of a call's plain arguments, joined."""
    return " ".join(dotted(arg) for arg in call.node.args)


class Cleared(IntEnum):
    """Whether the gradients that a step uses are cleared."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Clearing:
    """A place where gradients are cleared, by a statement or in a function that is called there.

    Attributes:
        block: Where it stands.
        path: Whose gradients: an optimizer, a module, an iterable of parameters or one tensor; empty if not known.
        line: The line.
        is_leaf: Whether it is one tensor that has a name of its own.
        is_sure: Whether it surely runs; else a method has the same name as one that clears.
        call: The call, if it is one.
    """

    block: Block
    path: str
    line: int
    is_leaf: bool = False
    is_sure: bool = True
    call: Call | None = None


def clearings(function: Function, index: ProjectIndex, hops: int = _HOPS) -> tuple[Clearing, ...]:
    """Return the places in a function, those it defines left out, that clear gradients."""
    return index.once(("clearings", function, hops), lambda: tuple(_clearings(function, index, hops)))


def _clearings(function: Function, index: ProjectIndex, hops: int) -> Iterator[Clearing]:
    for path, assignments in function.assignments.items():
        if path.endswith(".grad"):
            for assignment in assignments:
                if not assignment.is_augmented and not _reads_grad(assignment.value):
                    yield _clearing_of(assignment.node, assignment.block, assignment.line)
    for call in function.calls:
        value = _cleared_by(call)
        if _CLEARING.search(call.tail):
            path = dotted(value) if value is not None else ""
            is_plain = "(" not in path and "[" not in path
            at = None if is_plain or value is None else _clearing_of(value, call.block, call.line, call)
            yield at or Clearing(call.block, path if is_plain else "", call.line, call=call)
        elif value is not None:
            yield _clearing_of(value, call.block, call.line, call)
        elif hops:
            yield from _cleared_in(call, index, hops - 1)


def _cleared_by(call: Call) -> ast.expr | None:
    """Return whose gradients a call clears, if its own name says that it does: `a` of `a.zero_grad()`."""
    held = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    first = call.argument(0)
    if call.tail == "setattr" and isinstance(name := call.argument(1), ast.Constant) and name.value == "grad":
        return first
    if call.tail in {"zero_", "fill_", "_foreach_zero_"}:
        value = first if call.tail == "_foreach_zero_" else held
        return value if value is not None and _is_gradient(value, call) else None
    if not _CLEARING.search(call.tail):
        return None
    is_function = held is None or call.receiver in call.function.file.imports
    return first if is_function else held


def _is_gradient(value: ast.expr, call: Call) -> bool:
    """Return whether a value is a gradient, or several: it reads `.grad`, or is drawn from what does."""
    seen: list[ast.expr] = [value]
    for each in seen:
        if _reads_grad(each) or "grad" in dotted(each):
            return True
        if len(seen) <= _HOPS and isinstance(each, ast.Name) and (source := _source_of(each.id, call.block, call.line)):
            seen.append(source)
    return False


def _cleared_in(call: Call, index: ProjectIndex, hops: int) -> Iterator[Clearing]:
    """Yield what a call clears in the functions of these files that it runs, by what the caller names it."""
    sure = index.callees(call) or _methods_of_class(call, index)
    # What a library made has no method of these files, whatever its name.
    possible = sure or (() if _is_of_library(call, index) else index.possible_callees(call))
    for called in possible:
        for each in clearings(called, index, hops) if called is not call.function else ():
            is_sure = each.is_sure and called in sure
            yield _seen_by_caller(each, call, called, index, is_sure=is_sure)
    if not possible and call.tail not in _HARMLESS and not call.name.startswith("torch."):
        # A function that is not in sight and takes the optimizer may clear by it.
        for given in call.node.args:
            if isinstance(given, ast.Name) and given.id.lower() in {"optimizer", "optim", "opt", "optimiser"}:
                yield Clearing(call.block, given.id, call.line, call=call)


def _methods_of_class(call: Call, index: ProjectIndex) -> tuple[Function, ...]:
    """Return the methods that a call runs on a class, or on an object whose class is known by an annotation."""
    found: dict[Function, None] = {}
    for origin in _made_by_receiver(call, index):
        name = resolve(dotted(origin.value), origin.function)
        owner = _class_of(origin, index) or index.class_named(name, origin.function.file)
        method = index.method(owner, call.tail) if owner is not None else None
        if method is None:
            return ()
        found[method] = None
    return tuple(found)


def _is_of_library(call: Call, index: ProjectIndex) -> bool:
    """Return whether the object whose method a call runs surely is an optimizer or a scheduler of torch."""
    kinds = {_kind_of(each, index) for each in _made_by_receiver(call, index)}
    return bool(kinds) and not kinds & {Kind.UNKNOWN, Kind.OF_THESE_FILES}


def _seen_by_caller(found: Clearing, call: Call, called: Function, index: ProjectIndex, *, is_sure: bool) -> Clearing:
    handed = argument_for(call, called, root_of(found.path)) if found.path else None
    if handed is None:
        path = means_outside(call, called, found.path, index) if found.path else ""
        return Clearing(call.block, path, call.line, found.is_leaf, is_sure, call)
    at = _clearing_of(handed, call.block, call.line, call)
    path = at.path + found.path[len(root_of(found.path)) :] if at.path else ""
    return Clearing(call.block, path, call.line, found.is_leaf and at.is_leaf, is_sure, call)


def _clearing_of(value: ast.expr, block: Block, line: int, call: Call | None = None) -> Clearing:
    """Return the clearing of what a value is or goes over: of `net` for a `p.grad` in `for p in net.parameters()`."""
    owners = parameter_owners(value, block, line)
    path = next(iter(owners)) if len(owners) == 1 else ""
    is_leaf = path == dotted(value).partition(".grad")[0] and ".grad" in dotted(value)
    is_handed = isinstance(value, ast.Name) and path == value.id
    return Clearing(block, path, line, is_leaf or is_handed, call=call)


def parameter_owners(value: ast.expr, block: Block, line: int) -> frozenset[str]:
    """Return the paths that hold the parameters which a value is or goes over; empty if that is not known."""
    return frozenset(_owners(value, block, line, {}, 2 * _HOPS))


def _owners(value: ast.expr, block: Block, line: int, drawn: dict[str, ast.expr], hops: int) -> Iterator[str]:
    match value:
        case ast.Name(id=name):
            source = drawn.get(name) or _source_of(name, block, line)
            if source is None or not hops:
                yield name
                return
            rest = {each: held for each, held in drawn.items() if each != name}
            yield from _owners(source, block, line, rest, hops - 1)
        case ast.ListComp(elt=inner, generators=drawing) | ast.GeneratorExp(elt=inner, generators=drawing):
            names = {name: each.iter for each in drawing for name in _names_in_target(each.target)}
            yield from _owners(inner, block, line, {**drawn, **names}, hops)
        case ast.Attribute(attr=name) if name not in {"grad", "data", "param_groups"}:
            path = dotted(value)
            yield from [path] if "(" not in path and "[" not in path else []
        case _:
            for parameter in _parts_with_parameters(value):
                yield from _owners(parameter, block, line, drawn, hops)


def _parts_with_parameters(value: ast.expr) -> list[ast.expr]:
    """Return the parts of an expression whose parameters it is or goes over."""
    parts: list[ast.expr] = []
    match value:
        case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Starred(value=inner):
            parts = [inner]
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            pass
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Dict(keys=keys, values=values):
            named = zip(keys, values, strict=True)
            parts = [each for key, each in named if isinstance(key, ast.Constant) and key.value == "params"]
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in _PARAMETERS:
            parts = [inner]
        case ast.Call(args=given) if tail_of(dotted(value.func)) in _SAME_PARAMETERS:
            parts = [each for each in given if not isinstance(each, ast.Lambda)]
        case _:
            pass
    return parts


def _names_in_target(target: ast.expr) -> list[str]:
    return [each.id for each in walk(target) if isinstance(each, ast.Name)]


def _source_of(name: str, block: Block, line: int) -> ast.expr | None:
    """Return what a name is drawn from or goes over the same parameters as; None if it stands for itself."""
    for each in block.chain():
        for drawing in getattr(each.node, "generators", ()) if each.kind is BlockKind.COMPREHENSION else ():
            if name in _names_in_target(drawing.target):
                found: ast.expr = drawing.iter
                return found
    function = block.function
    bound = function.last_assignment(name, line + 1)
    if bound is None or bound.is_augmented:
        return None
    if isinstance(bound.statement, ast.For):
        # A round of the training draws a batch, and no parameters.
        trains = any(call.block.within(bound.block) for call in backward_calls_in(function))
        return None if trains else bound.value
    if bound.is_unpacked or bound.line > line:
        return None
    value = bound.value
    is_list = isinstance(value, ast.List | ast.ListComp | ast.Tuple | ast.BinOp)
    is_gradient = isinstance(value, ast.Attribute) and value.attr in {"grad", "data"}
    called = tail_of(dotted(value.func)) if isinstance(value, ast.Call) else ""
    return value if is_list or is_gradient or called in _PARAMETERS | _SAME_PARAMETERS else None


def reaches_clearing(function: Function, index: ProjectIndex) -> Cleared:
    """Return whether a function clears gradients, itself, in those that it defines or through what it calls."""
    found = [clearing for one in (function, *inner_functions(function)) for clearing in clearings(one, index)]
    return max((Cleared.YES if each.is_sure else Cleared.MAYBE for each in found), default=Cleared.NO)


def inner_functions(function: Function) -> Iterator[Function]:
    """Yield the functions that one defines, at any depth."""
    for each in function.inner:
        yield each
        yield from inner_functions(each)


def clears_for(found: Clearing, step: Step, others: Collection[str], index: ProjectIndex) -> Cleared:
    """Return whether a clearing is of the gradients that a step uses.

    Args:
        found: The clearing.
        step: The step.
        others: The other optimizers that step in the same function.
        index: The files of the review.
    """
    most = Cleared.YES if found.is_sure else Cleared.MAYBE
    if found.is_leaf and _is_batch(found.path, step):
        return Cleared.NO
    if not step.optimizer or not found.path or found.path == step.optimizer:
        return most
    wanted = _Objects.named([step.optimizer], step.block.function, step.line, index)
    given = _Objects.named([found.path], found.block.function, found.line, index)
    held = _stepped_on(wanted, index)
    if given.keys == wanted.keys or (held is None and found.path not in others):
        return most
    own = _stepped_on(given, index)
    if held is not None and _shares(own or given, held, found):
        return most
    is_other = _are_apart(wanted if held is None else held, own or given) and (held is not None or own is None)
    return Cleared.NO if is_other else min(most, Cleared.MAYBE)


def _shares(given: _Objects, held: _Objects, found: Clearing) -> bool:
    """Return whether some of the parameters that an optimizer holds are those of what is cleared."""
    if given.keys & held.keys or _is_about(given, held) or _is_about(held, given):
        return True
    owners = parameter_owners(ast.parse(found.path, mode="eval").body, found.block, found.line)
    return bool(owners & held.paths) and given.function is held.function


def is_one_object(one: Step, other: Step, index: ProjectIndex) -> bool:
    """Return whether two steps surely are of one optimizer."""
    at = one.block.function
    first = _Objects.named([one.optimizer], at, one.line, index)
    second = _Objects.named([other.optimizer], other.block.function, other.line, index)
    return bool(first.keys) and first.keys == second.keys


def _is_batch(path: str, step: Step) -> bool:
    """Return whether a path is what the rounds of the training draw."""
    return any(root_of(path) in loop.targets for loop in step.block.loops())


@dataclass(frozen=True, slots=True)
class _Objects:
    """The objects that some paths of a function may mean.

    Attributes:
        paths: The paths.
        function: The function.
        origins: What makes them.
    """

    paths: frozenset[str]
    function: Function
    origins: tuple[Origin, ...]

    @classmethod
    def named(cls, paths: Iterable[str], function: Function, line: int, index: ProjectIndex) -> _Objects:
        known = frozenset(paths)
        parsed = [ast.parse(each, mode="eval").body for each in sorted(known) if "(" not in each and "[" not in each]
        origins = [maker for one in parsed for maker in makers(one, function, line, index)]
        return cls(known, function, tuple(origins))

    @property
    def keys(self) -> frozenset[object]:
        """What tells them from others: the call that makes each, or the name that nothing explains."""
        return frozenset(
            origin.value if isinstance(origin.value, ast.Call) else (_scope_of(origin), dotted(origin.value))
            for origin in self.origins
        )

    @property
    def are_made(self) -> bool:
        """Whether it is known what makes all of them."""
        return bool(self.origins) and all(isinstance(origin.value, ast.Call) for origin in self.origins)


def _scope_of(origin: Origin) -> object:
    path = dotted(origin.value)
    if path.startswith("self."):
        return owner_of(origin.function)
    return home_of(root_of(path), origin.function) or origin.function.file


def _stepped_on(optimizers: _Objects, index: ProjectIndex) -> _Objects | None:
    """Return what holds the parameters that optimizers were made with; None if that is not known."""
    paths: set[str] = set()
    origins: list[Origin] = []
    function = optimizers.function
    for origin in optimizers.origins:
        if not isinstance(origin.value, ast.Call) or _kind_of(origin, index) is not Kind.OPTIMIZER:
            return None
        named = [one.value for one in origin.value.keywords if one.arg == "params"]
        first = next(iter([*origin.value.args[:1], *named]), None)
        held = parameter_owners(first, origin.function.block, origin.line) if first is not None else frozenset()
        if not held:
            return None
        found = _Objects.named(held, origin.function, origin.line, index)
        function = found.function
        paths |= found.paths
        origins += found.origins
    return _Objects(frozenset(paths), function, tuple(origins)) if origins else None


def _is_about(whole: _Objects, part: _Objects) -> bool:
    """Return whether some objects hold or are made with others: `DDP(net)` and `net`, `self` and `self.net`."""
    starts = tuple(f"{path}." for path in whole.paths)
    if starts and any(path.startswith(starts) for path in part.paths):
        return True
    inside = {dotted(name) for origin in whole.origins for name in walk(origin.value)}
    return bool(inside & part.paths)


def _are_apart(one: _Objects, other: _Objects) -> bool:
    """Return whether it is known what makes the objects of both, and none is the same."""
    return one.are_made and other.are_made and not one.keys & other.keys


def cleared_before(step: Call, optimizer: str, index: ProjectIndex) -> list[Call]:
    """Return the calls that clear an optimizer's gradients after they were made and before it steps, on every way.

    Empty where some way leads from a backward to the step without one, and where gradients are set by hand.
    """
    function, flow = step.function, index.flow(step.function)
    clears = [call for call in function.calls if call.tail == "zero_grad" and call.receiver == optimizer]
    if not clears or sets_gradients(function, index):
        return []
    made = [call for call in function.calls if is_backward(call) or may_send_backward(call, index)]
    nearest = flow.last_before(step, [*clears, *made])
    last = [call for call in clears if call in nearest.events]
    if nearest.is_open or len(last) != len(nearest.events):
        return []
    stepping = [call for call in function.calls if call.tail == "step" and call.receiver == step.receiver]
    before = [flow.last_before(call, [*made, *stepping]) for call in last]
    comes_late = any(
        is_backward(call) and call.line > step.line and call.block.loop is step.block.loop for call in made
    )
    return last if last and all(_are_made(each, made, comes_late=comes_late) for each in before) else []


def _are_made(reach: Reach, made: list[Call], *, comes_late: bool) -> bool:
    """Return whether what was made last is gradients, be it in the round before."""
    is_sure = comes_late or (bool(reach.events) and not reach.is_open)
    return is_sure and all(event in made for event in reach.events)


def may_send_backward(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call may send a loss backward in a function of these files."""
    return any("backward" in index.reached(possible_callee) for possible_callee in index.possible_callees(call))
