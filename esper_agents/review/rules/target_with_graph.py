"""ESP225: a bootstrapped target carries the graph of the network that it trains."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.bootstrapping import is_environment_step, is_target, last_names, undetached
from esper_agents.review.frameworks import repeats_as_training_step
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.names import walk
from esper_agents.review.network_outputs import carries_graph, network_called
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.model.query import ModelEvent, ModelMatch, Run
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_LOSS = pattern(r"(?i)(?:mse|smooth_?l1|huber|l1)_?loss|loss_fn|loss_func(?:tion)?|loss|criterion|td_loss")
_BACKWARD = frozenset({"backward", "manual_backward"})
# Losses that send gradients through the target on purpose.
_ON_PURPOSE = pattern(
    r"(?i)residual|bellman_residual|baird|shoot|differentia|imagine|imagination|dream|svg|rollout|plan"
)
# Networks that follow another one, and that no optimizer trains.
_ASIDE = pattern(r"(?i)target|old|ema|frozen|teacher|tgt|delayed|lagged")


class TargetWithGraph(Rule):
    """A target `reward + gamma * value` in a loss, with the graph of the network that predicts the value.

    ## Why it costs
    The loss then moves the target towards the estimate as well as the estimate towards the target. The network learns
    to make next values agree with present ones, not with rewards: training is slower, biased, and often diverges.

    ## When it is right
    Residual-gradient methods and planning through a differentiable model. The value of a target network trains
    nothing, but keeps its graph in memory: it is a suggestion.

    ## Sources
    PyTorch tutorial "Reinforcement Learning (DQN)": the expected values are computed under `torch.no_grad()`. Sutton
    and Barto, "Reinforcement Learning", section 9.3: semi-gradient methods.
    """

    code, name = "ESP225", "target-with-graph"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def update(q_net, optimizer, state, action, reward, next_state, done, gamma):\n"
        "    q = q_net(state).gather(1, action).squeeze(1)\n"
        "    target = reward + gamma * q_net(next_state).max(1).values * (1 - done)\n"
        "    loss = F.mse_loss(q, target)\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("gamma * q_net(next_state).max(1).values", "gamma * q_net(next_state).max(1).values.detach()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the targets of regressions that carry a graph."""
        done: set[ast.expr] = set()
        for function in file.functions:
            if _is_on_purpose(function):
                continue
            for given, line in _regressed(function):
                for found in _targets(given, function, line, index):
                    if found.value in done or not _has_graph(found, index):
                        continue
                    done.add(found.value)
                    networks = _networks(found, index)
                    if found.function.file is file and networks and _is_trained(function, index):
                        yield self._found(found, networks, is_here=found.function is function)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the targets that the network which is trained has computed, in trainings on an environment."""
        if not any(map(is_environment_step, index.calls_ending("step"))):
            return
        for run in runs(index):
            for event in run.of_kind(EventKind.TARGET):
                network = _network_of_both(run, event)
                if network is None or not run.is_recorded(event):
                    continue
                yield self.model_match(
                    run.place(event, None),
                    f"the target of this loss carries the graph of {network.text!r} (line {network.at.line}), which "
                    "also makes the prediction, so the loss moves the target towards the estimate",
                    remedy="compute the target under `with torch.no_grad():`",
                    confidence=Confidence.MODERATE,
                    regions=run.regions(event),
                )

    def _found(self, found: Origin, networks: set[str], *, is_here: bool) -> RuleMatch:
        is_aside = all(_ASIDE.search(path) for path in networks)
        what = "this target carries the graph of the network"
        effect = "so the loss also moves the target towards the estimate"
        if is_aside:
            effect = "which keeps memory and trains nothing if the target network has no optimizer"
        return self.hit(
            found.value,
            f"{what}, {effect}",
            remedy="compute it under `with torch.no_grad():`",
            confidence=Confidence.HIGH if is_here and not is_aside else Confidence.MODERATE,
            basis=SEEN if is_here else FOLLOWED,
            severity=Severity.SUGGESTION if is_aside else None,
        )


def _network_of_both(run: Run, event: ModelEvent) -> ModelEvent | None:
    """Return a run of a network in the graph of a target, if another run of it is in that of the prediction alone."""
    target = [each for each in run.forwards if event.graph & ~event.maybe & each.bit and not event.inputs & each.bit]
    own = [each for each in run.forwards if event.inputs & each.bit and not event.graph & each.bit]
    return next((each for each in target if any(each.target == other.target for other in own)), None)


def _is_on_purpose(function: Function) -> bool:
    owner = function.owner.name if function.owner is not None else ""
    return any(_ON_PURPOSE.search(name) for name in (function.name, owner, function.file.path))


def _regressed(function: Function) -> Iterator[tuple[ast.expr, int]]:
    """Yield what a function compares with predictions: arguments of losses, and differences that are squared."""
    for call in function.calls:
        if _LOSS.fullmatch(call.tail) and not without_gradients(call.block) and len(call.node.args) > 1:
            for each in call.node.args[:2]:
                yield each, call.line
        squared = _squared(call)
        if squared is not None and not without_gradients(call.block):
            yield squared.left, call.line
            yield squared.right, call.line
    values = [(each.value, each.block) for assignments in function.assignments.values() for each in assignments]
    values += [(each.value, block) for each, block in function.returns if each.value is not None]
    values += [(call.node, call.block) for call in function.calls if call.tail in {"backward", "manual_backward"}]
    for value, block in values:
        for node in undetached(value) if not without_gradients(block) else ():
            difference = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) else None
            if isinstance(difference, ast.BinOp) and _is_difference(difference):
                yield difference.left, difference.lineno
                yield difference.right, difference.lineno


def _squared(call: Call) -> ast.BinOp | None:
    """Return the difference that a call squares: `(q - target).pow(2)`, `torch.square(q - target)`."""
    if call.tail not in {"pow", "square"}:
        return None
    func = call.node.func
    value = call.node.args[0] if call.name.startswith("torch.") and call.node.args else None
    if value is None and isinstance(func, ast.Attribute):
        value = func.value
    if isinstance(value, ast.Name):
        # `error = reward + gamma * next_value - value`, squared below.
        made = call.function.last_assignment(value.id, call.line)
        is_plain = made is not None and not made.is_unpacked and not without_gradients(made.block)
        value = made.value if made is not None and is_plain else None
    return value if isinstance(value, ast.BinOp) and _is_difference(value) else None


def _is_difference(value: ast.expr) -> bool:
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub)


def _targets(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> Iterator[Origin]:
    """Yield the bootstrapped targets that a value may be, here or in a function of the project that returns it."""
    if "detach" in last_names(value):
        return
    for origin in index.origins(value, function, line):
        made = origin.value
        if is_target(made, is_computed=True):
            yield origin
        call = next((each for each in origin.function.calls if each.node is made), None)
        for called in index.callees(call) if call is not None else ():
            for statement, block in called.returns:
                if statement.value is None or without_gradients(block):
                    continue
                for inner in index.origins(statement.value, called, statement.lineno):
                    if is_target(inner.value, is_computed=True):
                        yield inner


def _has_graph(found: Origin, index: ProjectIndex) -> bool:
    """Return whether a target is surely computed by a network with gradients, and not detached."""
    block = next(
        (
            each.block
            for assignments in found.function.assignments.values()
            for each in assignments
            if each.value is found.value
        ),
        found.function.block,
    )
    if without_gradients(block) or without_gradients(found.function.block):
        return False
    return carries_graph(found.value, found.function, found.line, index)


def _is_trained(start: Function, index: ProjectIndex) -> bool:
    """Return whether a function, what it calls or what leads to it sends something backward."""
    seen = {start: None}
    edge = [start]
    while edge:
        if any(_BACKWARD & index.reached(each) or repeats_as_training_step(each, index) for each in edge):
            return True
        callers = {call.function for function in edge for call in index.callers(function)}
        edge = [each for each in callers if each not in seen]
        seen.update(dict.fromkeys(edge))
    return False


def _networks(found: Origin, index: ProjectIndex) -> set[str]:
    """Return the networks that compute a target."""
    calls = {each.node: each for each in found.function.calls}
    values, seen, paths = [found.value], {found.value}, set[str]()
    for value in values:
        for node in walk(value):
            path = network_called(calls[node], index) if node in calls else ""
            if path and (path.removeprefix("self.").isidentifier() or index.callees(calls[node])):
                paths.add(path)
            made = found.function.last_assignment(node.id, value.lineno) if isinstance(node, ast.Name) else None
            if made is not None and made.value not in seen and not without_gradients(made.block):
                seen.add(made.value)
                values.append(made.value)
    return paths
