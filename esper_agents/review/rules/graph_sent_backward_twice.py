"""ESP110: a graph is sent backward a second time, after the first backward has freed it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.models import is_model
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve
from esper_agents.review.rule import INFERRED, Rule, RuntimeExpectation
from esper_agents.review.shared_graphs import carried_states, shared_results
from esper_agents.review.training import loss_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables


class GraphSentBackwardTwice(Rule):
    """A backward through the graph of a forward that an earlier backward has already used.

    ## Why it costs
    A backward frees what its graph saved. The next one that reaches the same forward raises: "Trying to backward
    through the graph a second time". With `retain_graph=True` each step keeps the graphs of all steps before, memory
    and time grow with every step, and once the optimizer has changed the weights the old graph raises as well.

    ## When it is right
    Several losses of one forward are added up before one backward, or all but the last keep the graph. A state that
    is carried from batch to batch is detached in between: `hidden = hidden.detach()`.

    ## Sources
    PyTorch documentation of `torch.Tensor.backward` (`retain_graph`), and its example of word-level language
    modelling, which detaches hidden states between batches.
    """

    code, name = "ESP110", "graph-sent-backward-twice"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "rnn, head = nn.GRU(8, 16), nn.Linear(16, 4)\n"
        "optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()])\n"
        "hidden = torch.zeros(1, 32, 16)\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    out, hidden = rnn(x, hidden)\n"
        "    nn.functional.cross_entropy(head(out[-1]), y).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("rnn(x, hidden)\n", "rnn(x, hidden.detach())\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the backwards of training loops that reach one forward twice, for models that are not known."""
        for sent, forward, path in carried_states(file, index):
            if _is_recurrent(forward, index):
                yield self._seen(
                    sent.node,
                    f"this goes back through {forward.path!r} (line {forward.line}) of earlier rounds, because "
                    f"{path!r} carries its graph from round to round",
                    f"detach it between the rounds: `{path} = {path}.detach()`",
                )
        done: set[Call] = set()
        for first, second, forward in shared_results(file, index):
            is_likely = is_model(forward.path, forward, index) or _is_of_noise(forward)
            if is_likely and first not in done and not _is_known_model(forward, index):
                done.add(first)
                made = first.function.last_assignment(loss_of(first), first.line)
                yield self._seen(
                    made.statement if made is not None and not made.is_augmented else first.node,
                    f"this loss carries the graph of {forward.path!r} (line {forward.line}): its backward frees it and "
                    f"the one in line {second.line} goes through it a second time",
                    "detach the result in the loss that does not train it: `critic(fake.detach())`",
                )

    def _seen(self, node: ast.AST, message: str, remedy: str) -> RuleMatch:
        return self.hit(
            node,
            message,
            remedy=remedy,
            confidence=Confidence.MODERATE,
            basis=f"{INFERRED}: if the model has weights",
            severity=Severity.WARNING,
        )

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the backwards that reach a forward whose graph an earlier backward used."""
        for run in runs(index):
            sent = [event for event in run.of_kind(EventKind.BACKWARD) if not event.is_conditional]
            for place, second in enumerate(sent):
                for first in sent[:place]:
                    forward = _shared(run, first, second) or _carried(run, first, second, index)
                    if forward is not None:
                        yield self._found(run, forward, first, second)
                        break

    def _found(self, run: Run, forward: ModelEvent, first: ModelEvent, second: ModelEvent) -> ModelMatch:
        is_carried, is_known = _is_of_earlier_round(forward, second), _is_known(run, forward)
        where = f"line {forward.at.line}"
        if forward.path != second.path:
            where = f"{forward.path}:{forward.at.line}"
        effect = "which raises because the first backward has freed it"
        is_stepped = _is_stepped_between(run, first, second)
        if first.retains:
            effect = "which `retain_graph` keeps, so that time and memory grow with every round"
            effect += "; it raises once the weights are stepped" if is_stepped else ""
        if is_carried:
            message = f"this goes back through the run of {forward.text!r} ({where}) of earlier rounds, {effect}"
            remedy = "detach what one round passes to the next: `hidden = hidden.detach()`"
        else:
            message = f"this goes a second time through the graph of {forward.text!r} ({where}), {effect}"
            remedy = "add up the losses and call `backward` once, or detach the input of one of them"
        return self.model_match(
            run.place(second, None),
            message,
            remedy=remedy,
            confidence=Confidence.HIGH if is_known and not first.retains else Confidence.MODERATE,
            regions=run.regions(second),
            severity=None if is_known and (is_stepped or not first.retains) else Severity.WARNING,
        )


def _shared(run: Run, first: ModelEvent, second: ModelEvent) -> ModelEvent | None:
    """Return a trained model's forward that two backwards surely reach; with a kept graph, one of an earlier round."""
    common = run.expanded(first.graph) & ~first.maybe & second.graph & ~second.maybe
    for forward in run.of_kind(EventKind.FORWARD):
        if not common & forward.bit or forward.name == "frozen" or not run.is_model(forward):
            continue
        is_carried = _is_of_earlier_round(forward, second)
        if is_carried and not _is_known(run, forward):
            continue
        if not first.retains or is_carried:
            return forward
    return None


def _carried(run: Run, first: ModelEvent, second: ModelEvent, index: ProjectIndex) -> ModelEvent | None:
    """Return a forward of an earlier round whose result the same model is given again, if its code is not known.

    Other code may detach the state that it returns, so this counts only if no module of the project does, and one
    returns more than one value.
    """
    rounds = dict(second.loops)
    graph = run.proven(second.graph) & run.proven(first.graph)
    for later in run.of_kind(EventKind.FORWARD):
        is_own = run.is_model(later) and all(rounds.get(loop, number) == number for loop, number in later.loops)
        if not is_own or _is_known(run, later) or later.is_conditional or not run.proven(second.graph) & later.bit:
            continue
        for earlier in run.of_kind(EventKind.FORWARD):
            is_same = earlier.at == later.at and earlier.target == later.target and earlier.number < later.number
            if is_same and graph & earlier.bit and _is_of_earlier_round(earlier, second) and _may_be_recurrent(index):
                return earlier
    return None


def _is_recurrent(forward: Call, index: ProjectIndex) -> bool:
    """Return whether a call runs what is named as a model and may return a state; a known model is left to `ask`."""
    path = forward.path.removesuffix(".forward")
    if _is_known_model(forward, index) or not is_model(path, forward, index):
        return False
    has_modules = any(index.is_module(cls) for file in index.files.values() for cls in file.classes)
    return not has_modules or _may_be_recurrent(index)


def _is_known_model(forward: Call, index: ProjectIndex) -> bool:
    found = index.binding(forward.path, forward.function, forward.line)
    made = found.value if found is not None and not found.is_unpacked else None
    path = resolve(dotted(made.func), forward.function) if isinstance(made, ast.Call) else ""
    return path.startswith("torch.nn.") or index.class_of(forward.node.func, forward.function, forward.line) is not None


def _is_of_noise(forward: Call) -> bool:
    """Return whether a call is given noise that was drawn in its function, as a generator is."""
    function = forward.function
    for given in forward.node.args:
        made = function.last_assignment(given.id, forward.line) if isinstance(given, ast.Name) else None
        value = made.value if made is not None else given
        drawn = {resolve(dotted(each.func), function) for each in walk(value) if isinstance(each, ast.Call)}
        if drawn & {"torch.randn", "torch.rand", "torch.randn_like"}:
            return "." not in forward.path or forward.path.startswith("self.")
    return False


def _may_be_recurrent(index: ProjectIndex) -> bool:
    """Return whether a module of the project returns more than one value, and none detaches what it returns."""
    found = [
        method
        for file in index.files.values()
        for cls in file.classes
        for name, method in cls.methods.items()
        if name == "forward"
    ]
    if any(call.tail in {"detach", "detach_"} for method in found for call in method.calls):
        return False
    return any(isinstance(each.value, ast.Tuple) for method in found for each, _ in method.returns)


def _is_of_earlier_round(forward: ModelEvent, second: ModelEvent) -> bool:
    rounds = dict(second.loops)
    return any(number < rounds.get(loop, number) for loop, number in forward.loops)


def _is_known(run: Run, forward: ModelEvent) -> bool:
    """Return whether the code of a model is known: other code may detach the state that it returns."""
    held = run.object(forward)
    return held is not None and (held.cls is not None or bool(held.library))


def _is_stepped_between(run: Run, first: ModelEvent, second: ModelEvent) -> bool:
    return any(first.number < step.number < second.number for step in run.of_kind(EventKind.STEP))
