"""ESP218: a layer takes the place of one whose weights an optimizer already has."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import are_alternatives, names_in
from esper_agents.review.model.knowledge import ResultKind
from esper_agents.review.model.modules import GIVERS
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import FOLLOWED, SEEN, FileRule
from esper_agents.review.weighted_layers import has_weights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.heap import HeapObject
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_OPTIMIZERS = "torch.optim."
_PARAMETERS = frozenset({"parameters", "named_parameters"})


class LayerReplacedAfterOptimizer(FileRule):
    """A new layer put into a model, or a new model, after the optimizer was given the old parameters.

    ## Why it costs
    The optimizer holds the tensors that it was given, and those of the layer that is gone are among them. The new layer
    gets gradients and is never changed: a head that was put in for fine-tuning stays as random as it was made.

    ## When it is right
    The new layer is to stay as it is, or its parameters are added by `add_param_group`, or the optimizer is made again
    afterwards: the last two are looked for in the function.

    ## Sources
    PyTorch documentation of `torch.optim`, "Constructing it": an optimizer is given the parameters to optimise.
    """

    code, name = "ESP218", "layer-replaced-after-optimizer"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "from torchvision.models import resnet18\n"
        "\n"
        "model = resnet18()\n"
        "optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)\n"
        "model.fc = nn.Linear(512, 10)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    nn.functional.cross_entropy(model(x), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("model.fc = nn.Linear(512, 10)\n", "").replace(
        "model = resnet18()\n", "model = resnet18()\nmodel.fc = nn.Linear(512, 10)\n"
    )

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the layers that come too late for the optimizer."""
        made = [call for name, calls in file.by_name.items() if name.startswith(_OPTIMIZERS) for call in calls]
        for call in made:
            model, optimizer = _model_of(call), _bound_to(call)
            if not model or not optimizer:
                continue
            for path, assignments in call.function.assignments.items():
                for each in assignments if path.startswith((f"{model}.", f"{model}[")) else ():
                    if _is_late(each, call) and _makes_layer(each) and _is_used(optimizer, each):
                        yield self.hit(
                            each.statement,
                            f"{optimizer!r} was made before (line {call.line}) and does not have the weights "
                            f"of this {path.rstrip('[]')!r}",
                            remedy=f"make {optimizer!r} after it",
                            basis=SEEN,
                        )
        for function in file.functions:
            yield from self._between_methods(function) if function.owner is not None else ()

    def _between_methods(self, function: Function) -> Iterator[RuleMatch]:
        """Yield the layers of methods that are called after the optimizer of their model was made."""
        methods = function.owner.methods if function.owner is not None else {}
        for made, model in _optimizers_of(function, methods):
            for call in function.calls:
                called = methods.get(call.tail) if call.receiver == "self" else None
                if called is None or not _is_after(call, made, model) or made.target in called.assignments:
                    continue
                for path, each in ((path, each) for path, found in called.assignments.items() for each in found):
                    if path.startswith((f"{model}.", f"{model}[")) and _makes_layer(each):
                        yield self.hit(
                            each.statement,
                            f"{made.target!r} is made before (line {made.line}; this method is called at line "
                            f"{call.line}) and does not have the weights of this {path.rstrip('[]')!r}",
                            remedy=f"make {made.target!r} after it",
                            basis=FOLLOWED,
                        )

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the layers and models of all files that are made after the optimizer that is to train them."""
        if any(index.calls_ending("add_param_group")):
            return
        for run in runs(index):
            for owner in _owners(run):
                for event in _late(run, owner):
                    yield self._found(run, event, owner)

    def _found(self, run: Run, event: ModelEvent, owner: _Owner) -> ModelMatch:
        made = owner.optimizer
        where = f"line {made.at.line}" if made.at is not None else "above"
        if made.at is not None and made.code is not None and made.code.file.path != event.path:
            where = f"{made.code.file.path}:{made.at.line}"
        what = f"the weights of this {event.text!r}"
        if event.kind is EventKind.FORWARD:
            what = f"the weights of {event.text!r} as it is here, which was made after it"
        return self.model_match(
            run.place(event, None),
            f"the optimizer that trains this model was made before ({where}) and does not have {what}",
            remedy="make the optimizer after it",
            confidence=Confidence.MODERATE,
            regions=run.regions(event) if event.kind is EventKind.FORWARD else (),
        )


@dataclass(frozen=True, slots=True)
class _Owner:
    """An optimizer of a run with the model whose parameters it was given.

    Attributes:
        optimizer: The optimizer.
        model: The model.
    """

    optimizer: HeapObject
    model: HeapObject


def _owners(run: Run) -> list[_Owner]:
    """Return the optimizers that a run steps, with their models; none if it is unknown what one has."""
    heap, found = run.entry.heap, []
    for ident in dict.fromkeys(event.target for event in run.of_kind(EventKind.STEP)):
        held = heap.objects[ident] if ident >= 0 else None
        if held is not None and held.kind is ResultKind.SCHEDULER:
            continue
        models = held.fields.get(GIVERS, ()) if held is not None and held.kind is ResultKind.OPTIMIZER else ()
        if held is None or not models:
            return []
        found += [_Owner(held, heap[model]) for model in models]
    return found


def _late(run: Run, owner: _Owner) -> Iterator[ModelEvent]:
    """Yield where a model gets weights, or is made again, after its optimizer, and is trained then."""
    newest = max((each.optimizer.ident for each in _owners(run)), default=-1)
    trained = [event for event in run.forwards if run.is_sent_backward(event)]
    model = owner.model
    for event in run.of_kind(EventKind.SET_MODULE):
        is_late = event.target == model.ident and event.value > newest
        is_run = any(each.target == model.ident and each.number > event.number for each in trained)
        has_new = any(has_weights(name) for name in event.name.split())
        if is_late and is_run and has_new and _is_stepped(run, owner, event.number):
            yield event
    if any(event.target == model.ident for event in run.of_kind(EventKind.FORWARD)):
        return
    for event in trained:
        new = run.object(event)
        if new is None or new.ident <= newest or new.is_open or not _is_stepped(run, owner, event.number):
            continue
        if (new.cls is not None and new.cls is model.cls) or (new.library and new.library == model.library):
            yield event
            return


def _is_stepped(run: Run, owner: _Owner, since: int) -> bool:
    return any(each.target == owner.optimizer.ident and each.number >= since for each in run.of_kind(EventKind.STEP))


def _optimizers_of(function: Function, methods: dict[str, Function]) -> Iterator[tuple[Assignment, str]]:
    """Yield the attributes that a method sets to an optimizer, made here or in another method, with its model."""
    if any(function.file.calls_ending("add_param_group")):
        return
    for path, assignments in function.assignments.items():
        for each in assignments if path.startswith("self.") else ():
            name = dotted(each.value.func) if isinstance(each.value, ast.Call) else ""
            maker = methods.get(name.removeprefix("self.")) if name.startswith("self.") else None
            inside = [statement.value for statement, _ in maker.returns] if maker is not None else [each.value]
            for call in (maker or function).calls:
                if call.node in inside and len(inside) == 1 and call.name.startswith(_OPTIMIZERS):
                    model = _model_of(call)
                    yield from [(each, model)] if model.startswith("self.") else ()


def _is_after(call: Call, made: Assignment, model: str) -> bool:
    """Return whether a call comes after an optimizer was made, which is not made again, for the same model."""
    known = call.function.assignments
    is_anew = any(each.line > made.line for path in (made.target, model) for each in known.get(path, ()))
    return call.line > made.line and not is_anew and not are_alternatives(call.block, made.block)


def _model_of(call: Call) -> str:
    """Return the model whose parameters, as they are or sorted into lists, an optimizer is made with."""
    first = call.argument(0, "params")
    if isinstance(first, ast.Name):
        made = call.function.last_assignment(first.id, call.line)
        first = made.value if made is not None and not made.is_unpacked else first
    paths = {dotted(each) for each in walk(first) if isinstance(each, ast.Call)} if first is not None else set()
    found = {each.removesuffix(".parameters()") for each in paths if each.endswith(".parameters()")}
    filled = names_in(first) if first is not None and not found else frozenset()
    for each in call.function.calls:
        loop = each.block.loop
        is_filled = each.tail == "append" and (each.receiver in filled or not each.receiver)
        if loop is None or not isinstance(loop.node, ast.For) or not is_filled:
            continue
        over = dotted(loop.node.iter)
        if {*map(dotted, each.node.args)} & {*loop.targets} and tail_of(over.removesuffix("()")) in _PARAMETERS:
            found.add(over.rpartition(".")[0])
    path = found.pop() if len(found) == 1 else ""
    return path if "()" not in path else ""


def _bound_to(call: Call) -> str:
    statement = call.statement
    is_whole = isinstance(statement, ast.Assign) and statement.value is call.node and len(statement.targets) == 1
    return dotted(statement.targets[0]) if is_whole and isinstance(statement, ast.Assign) else ""


def _is_late(found: Assignment, made: Call) -> bool:
    model = root_of(_model_of(made))
    known = made.function.assignments.get(model, ()) if model != "self" else ()
    is_same = not any(made.line < each.line < found.line for each in known)
    return is_same and found.line > made.line and not are_alternatives(found.block, made.block)


def _makes_layer(found: Assignment) -> bool:
    """Return whether an assignment makes a layer of torch."""
    value = found.value
    name = resolve(dotted(value.func), found.block.function) if isinstance(value, ast.Call) else ""
    return name.startswith("torch.nn.") and name.count(".") == 2 and name.split(".")[2][:1].isupper()  # noqa: PLR2004 - torch, nn and the layer


def _is_used(optimizer: str, found: Assignment) -> bool:
    """Return whether an optimizer is used after a layer was made, as it is."""
    function = found.block.function
    if any(each.line > found.line for each in function.assignments.get(optimizer, ())):
        return False
    later = [call for call in function.calls if call.line >= found.line]
    if any(call.tail == "add_param_group" and call.receiver == optimizer for call in later):
        return False
    returned = any(
        statement.value is not None and optimizer in names_in(statement.value) for statement, _ in function.returns
    )
    return returned or any(call.receiver == optimizer for call in later)
