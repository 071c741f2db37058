"""Policy updates of reinforcement learning: ratios, advantages, entropy, samples and buffers."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.network_outputs import carries_graph
from esper_agents.review.patterns import pattern
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_LOG_PROB = pattern(r"\w*log_?p(?:rob|i|as|a)?s?(?:_\w+)?|\w*logp\w*", re.IGNORECASE)
_OLD = pattern(r"old|prev|behav|sampled|b_logp", re.IGNORECASE)
_ADVANTAGE = pattern(r"\w*adv(?:antage)?s?(?:_\w+)?|deltas?|td_errors?", re.IGNORECASE)
_ENTROPY = pattern(r"(?:\w+_)?entrop(?:y|ies)(?:_mean|_bonus)?", re.IGNORECASE)
_TEMPERATURE = pattern(r"alpha|temp|entropy|kl|dual", re.IGNORECASE)
_BUFFER = pattern(r"replay|buffer|memory|\brb\b", re.IGNORECASE)
_STORING = frozenset({"add", "push", "append", "store", "put", "remember", "store_transition", "extend"})


class PolicyUpdates(FactQuery):
    """Ratios with old log probabilities, weights of the policy gradient, the sign of the entropy, stored graphs."""

    name = "policy-updates"
    topics = ("reinforcement learning",)
    claim = "the policy is updated by something else than its own actions and advantages"
    category = Category.SILENT_CORRECTNESS
    bad = (
        "def update(self, states, actions, returns):\n"
        "    dist = self.policy(states)\n"
        "    log_prob = dist.log_prob(actions)\n"
        "    value = self.critic(states)\n"
        "    advantage = returns - value\n"
        "    loss = -(log_prob * advantage).mean()\n"
        "    loss.backward()\n"
    )
    good = bad.replace("returns - value\n", "returns - value.detach()\n")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about policy losses and what they are made of."""
        normalised = [each for file in files if file.imports_torch for each in self._normalised(file)]
        yield from normalised[:1]
        for file in files:
            for function in file.functions:
                yield from self._ratios(file, function, index)
                yield from self._weights(file, function, index)
                yield from self._entropy(file, function)
                yield from self._samples(file, function)
                yield from self._stored(file, function, index)

    def _ratios(self, file: FileTables, function: Function, index: ProjectIndex) -> Iterator[Fact]:
        for call in function.calls:
            inner = call.argument(0) if call.name == "torch.exp" else getattr(call.node.func, "value", None)
            if call.tail != "exp" or not isinstance(inner, ast.BinOp) or not isinstance(inner.op, ast.Sub):
                continue
            new, old = inner.left, inner.right
            if not all(_LOG_PROB.fullmatch(tail_of(dotted(_bare(each)))) for each in (new, old)):
                continue
            if without_gradients(call.block) or not isinstance(old, ast.Name):
                continue
            if _OLD.search(old.id) and carries_graph(old, function, call.line, index):
                text = f"`{old.id}` carries a graph, so the ratio's gradient cancels: take it from the rollout"
                remedy = f"store `{old.id}` under `torch.no_grad()` when the action is taken"
                yield self.problem(file, call.node, text, remedy)
            elif old.id in function.parameters and not function.assignments.get(old.id):
                text = f"the ratio compares with `{old.id}`, which the caller stored"
                yield self.fact(file, call.node, Assessment.DESCRIPTION, text)

    def _weights(self, file: FileTables, function: Function, index: ProjectIndex) -> Iterator[Fact]:
        """Yield advantages that send the policy's gradient into the critic."""
        for node in walk(function.node):
            if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
                continue
            parts = [_negated(each) for each in (node.left, node.right)]
            names = [tail_of(dotted(part)) for part in parts]
            for weight, name, other in ((parts[1], names[1], names[0]), (parts[0], names[0], names[1])):
                is_pair = _ADVANTAGE.fullmatch(name) and (_LOG_PROB.fullmatch(other) or other in {"ratio", "ratios"})
                if not is_pair or not isinstance(weight, ast.Name):
                    continue
                made = function.last_assignment(name, node.lineno)
                if made is None or without_gradients(made.block) or made.is_unpacked:
                    continue
                if carries_graph(made.value, function, made.line, index):
                    text = f"`{name}` carries the critic's graph, so the policy loss also trains the critic"
                    yield self.problem(file, node, text, f"write `{name}.detach()`")
                elif isinstance(made.value, ast.BinOp) and ".detach()" in ast.unparse(made.value):
                    yield self.fact(
                        file, node, Assessment.DESCRIPTION, f"`{name}` weighs the policy gradient without a graph"
                    )

    def _entropy(self, file: FileTables, function: Function) -> Iterator[Fact]:
        for path, held in function.assignments.items():
            for found in held:
                if "loss" not in path.lower() or found.is_unpacked or _TEMPERATURE.search(path):
                    continue
                for part, is_added in _signed(found.value, is_added=True):
                    name = next((each for each in walk(part) if _is_entropy(each)), None)
                    if name is None or not is_added or not _is_plain(part):
                        continue
                    made = function.last_assignment(dotted(name), found.line)
                    source = ast.unparse(made.value) if made is not None and not made.is_unpacked else ""
                    if ".entropy(" in source and "-" not in source:
                        text = f"`{path}` adds `{dotted(name)}`, so the step makes the policy less random, not more"
                        remedy = f"subtract it: `- coefficient * {dotted(name)}`"
                        yield self.problem(file, found.statement, text, remedy)

    def _samples(self, file: FileTables, function: Function) -> Iterator[Fact]:
        """Yield log probabilities of an action that is sampled again."""
        drawn = [call for call in function.calls if call.tail in {"sample", "rsample"} and call.receiver]
        for call in function.calls:
            action = call.argument(0, "value") if call.tail == "log_prob" else None
            again = next((each for each in drawn if each.node is action), None)
            if again is None:
                continue
            if any(each is not again and each.receiver == again.receiver for each in drawn):
                text = "this is the log probability of a new sample, not of the action that was taken"
                remedy = f"write `action = {again.path}()` once, and `{call.path}(action)`"
                yield self.problem(file, call.node, text, remedy)

    def _normalised(self, file: FileTables) -> Iterator[Fact]:
        for path, held in [each for function in file.functions for each in function.assignments.items()]:
            for found in held:
                text = ast.unparse(found.value)
                name = tail_of(path)
                if _ADVANTAGE.fullmatch(name) and ".std()" in text and ".mean()" in text:
                    message = f"normalising `{name}` gives NaN for a batch of one sample, whose `std` is NaN"
                    yield self.fact(file, found.statement, Assessment.OPEN, message)

    def _stored(self, file: FileTables, function: Function, index: ProjectIndex) -> Iterator[Fact]:
        """Yield outputs of networks that a replay buffer keeps with their graphs."""
        for call in function.calls:
            if call.tail not in _STORING or not _BUFFER.search(call.receiver) or without_gradients(call.block):
                continue
            given = [
                each for value in call.node.args for each in (value.elts if isinstance(value, ast.Tuple) else [value])
            ]
            kept = next((each for each in given if isinstance(each, ast.Name) and _keeps(each, call, index)), None)
            if kept is not None:
                text = f"`{call.receiver}` keeps the graph of `{kept.id}` for every stored step, so memory grows"
                remedy = f"store `{kept.id}.detach()`, or act under `with torch.no_grad():`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)


def _keeps(value: ast.Name, call: Call, index: ProjectIndex) -> bool:
    return value.id != "action" and carries_graph(value, call.function, call.line, index)


def _bare(node: ast.expr) -> ast.expr:
    """Return what a chain of `detach()`, `squeeze()` and subscripts is applied to."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return node


def _negated(node: ast.expr) -> ast.expr:
    return node.operand if isinstance(node, ast.UnaryOp) else node


def _is_plain(part: ast.expr) -> bool:
    """Return whether a part of a sum is a product without signs and calls, but for means and sums."""
    nodes = list(walk(part))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    is_signed = any(isinstance(node, ast.UnaryOp | ast.Sub) for node in nodes)
    return not is_signed and all(tail_of(dotted(call.func)) in {"mean", "sum"} and not call.args for call in calls)


def _is_entropy(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and _ENTROPY.fullmatch(node.id) is not None


def _signed(value: ast.expr, *, is_added: bool) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the parts of a sum, each with whether it is added."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub):
        yield from _signed(value.left, is_added=is_added)
        yield from _signed(value.right, is_added=is_added is isinstance(value.op, ast.Add))
    elif isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub):
        yield from _signed(value.operand, is_added=not is_added)
    else:
        yield value, is_added
