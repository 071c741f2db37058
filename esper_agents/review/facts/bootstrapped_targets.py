"""Bootstrapped targets of reinforcement learning: gradients, ends of episodes, target networks."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.bootstrapping import is_bootstrapped, last_names, undetached
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.network_outputs import carries_graph
from esper_agents.review.patterns import pattern
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, FileTables, Function

_TERMINAL = pattern(
    r"done|term|mask|not_?end|final|finish|alive|continue|trunc|valid|episode_over|is_last|nonzero", re.IGNORECASE
)
_STORING = frozenset(
    {
        "add",
        "push",
        "append",
        "store",
        "put",
        "remember",
        "store_transition",
        "cache",
        "record",
        "add_experience",
        "insert",
    }
)
_LOSSES = pattern(
    r"mse_?loss|smooth_?l1_?loss|huber_?loss|l1_?loss|loss_fn|loss_func|criterion|td_loss|\bloss\b", re.IGNORECASE
)
_UPDATING = pattern(
    r"load_state_dict|copy_\(|lerp_\(|\.mul_\(|polyak|soft_update|hard_update|update_target|sync_target|ema_update|\.data\s*="
    r"|copy\.deepcopy|target_update|\.update\("
)


class BootstrappedTargets(FactQuery):
    """Targets `reward + gamma * value`: detached, masked at the end of an episode, with a target network."""

    name = "bootstrapped-targets"
    topics = ("reinforcement learning",)
    claim = "targets carry gradients or look past the end of an episode"
    category = Category.SILENT_CORRECTNESS
    unseen = "the scale of the rewards and how the environment behaves"
    bad = (
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def update(self, state, action, reward, next_state, done):\n"
        "    q = self.q_net(state).gather(1, action)\n"
        "    target = reward + self.gamma * self.q_net(next_state).max(1).values * (1 - done)\n"
        "    loss = F.mse_loss(q, target)\n"
        "    self.optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    self.optimizer.step()\n"
    )
    good = bad.replace(".max(1).values", ".max(1).values.detach()")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about targets, stored ends of episodes and target networks."""
        for file in files:
            for function in file.functions:
                for found in [each for held in function.assignments.values() for each in held]:
                    if is_bootstrapped(found):
                        yield from self._target(file, function, found, index)
                yield from self._limits(file, function)
            yield from self._networks(file, index)

    def _target(self, file: FileTables, function: Function, found: Assignment, index: ProjectIndex) -> Iterator[Fact]:
        name = found.target
        masked = _reads_terminal(function)
        if not masked:
            text = f"`{name}` has no mask for terminal states, so values past the end of an episode count"
            remedy = "multiply the next value by `(1 - done)`"
            is_given = any(map(_TERMINAL.search, function.parameters))
            assumption = "" if is_given else "episodes end in terminal states"
            yield self.problem(file, found.statement, text, remedy, assumption=assumption)
        is_free = without_gradients(found.block) or not _is_used_with_graph(name, function, found.line)
        if not is_free and carries_graph(found.value, function, found.line, index):
            is_aside = any("target" in each.lower() for each in last_names(found.value))
            text = f"`{name}` carries the graph of the network, so the loss also moves the target towards the estimate"
            remedy = "compute it under `with torch.no_grad():`"
            if is_aside:
                text = f"`{name}` builds a graph through the target network, which costs memory and trains nothing"
                yield self.fact(file, found.statement, Assessment.SHOULD_CHECK, text, remedy)
            else:
                yield self.problem(file, found.statement, text, remedy)
        elif masked and (without_gradients(found.block) or ".detach()" in ast.unparse(found.value)):
            rest = " and is masked at terminal states" if any(map(_TERMINAL.search, last_names(found.value))) else ""
            assessment = Assessment.FINE if rest else Assessment.DESCRIPTION
            yield self.fact(file, found.statement, assessment, f"`{name}` carries no graph{rest}")

    def _limits(self, file: FileTables, function: Function) -> Iterator[Fact]:
        """Yield where the end of an episode is stored without telling a time limit from a terminal state."""
        joined = {
            path: found
            for path, held in function.assignments.items()
            for found in held
            if "." not in path and _joins_limit(found.value)
        }
        for call in function.calls:
            names = {each.id for argument in call.node.args for each in walk(argument) if isinstance(each, ast.Name)}
            names |= {keyword.value.id for keyword in call.node.keywords if isinstance(keyword.value, ast.Name)}
            own = sorted(names & joined.keys())
            if call.tail in _STORING and own and len(names) > 1 and not {"terminated", "truncated"} & names:
                text = f"`{own[0]}` is true at a time limit too, so the value of the state reached there counts as 0"
                remedy = "store `terminated` for the target, and use the joined flag only to reset"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _networks(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield target networks that nothing updates."""
        seen: set[str] = set()
        for function in file.functions:
            for path, held in function.assignments.items():
                name = tail_of(path)
                value = held[0].value
                if "target" not in name.lower() or name in seen or not isinstance(value, ast.Call):
                    continue
                made = index.class_of(held[0].node, function, held[0].line + 1) or index.class_called(value, function)
                is_copy = tail_of(dotted(value.func)) == "deepcopy"
                if (made is None or not index.is_module(made)) and not is_copy:
                    continue
                seen.add(name)
                # A target that never was a copy of another network is fixed on purpose, as in random distillation.
                is_meant = is_copy or any(
                    call.tail == "load_state_dict" and tail_of(call.receiver) == name for call in function.calls
                )
                if is_meant and not _is_updated(name, function, index):
                    text = f"nothing updates `{path}` after it is made, so targets stay those of the first weights"
                    remedy = (
                        f"call `{path}.load_state_dict(...)` every so many steps, or move it by a share of the weights"
                    )
                    yield self.problem(file, held[0].statement, text, remedy)


def _reads_terminal(function: Function) -> bool:
    """Return whether a function reads something that is named for the end of an episode; in doubt yes."""
    reads = {each.id for each in walk(function.node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    held = {each.attr for each in walk(function.node) if isinstance(each, ast.Attribute)}
    texts = {
        str(each.value)
        for each in walk(function.node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }
    return any(_TERMINAL.search(name) for name in reads | held | texts) or bool({"d", "ds", "m"} & reads)


def _is_used_with_graph(name: str, function: Function, since: int) -> bool:
    """Return whether a loss of the function takes a target as it is."""
    for call in function.calls:
        if call.line > since and _LOSSES.search(call.path):
            given = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
            if any(
                isinstance(below_call, ast.Name) and below_call.id == name
                for value in given
                for below_call in undetached(value)
            ):
                return True
    for path, held in function.assignments.items():
        for each in held if "loss" in path.lower() else ():
            inner = [node for node in undetached(each.value) if isinstance(node, ast.Name)]
            if each.line > since and any(node.id == name for node in inner):
                return True
    return False


def _joins_limit(value: ast.expr) -> bool:
    """Return whether a value is true both at a terminal state and at a time limit: `terminated or truncated`."""
    names = set(last_names(value))
    has_both = any("terminated" in name for name in names) and any("truncated" in name for name in names)
    is_joined = isinstance(value, ast.BoolOp | ast.BinOp) or (
        isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"logical_or", "bitwise_or", "maximum"}
    )
    return has_both and is_joined


def _is_updated(name: str, made_in: Function, index: ProjectIndex) -> bool:
    """Return whether some function other than the one that makes a target network changes it, or a loop in that one."""
    for file in index.files.values():
        if name not in file.text and "target" not in file.text:
            continue
        for function in file.functions:
            text = ast.unparse(function.node) if function is not made_in and not function.is_module else ""
            if "target" in text.lower() and _UPDATING.search(text):
                return True
    return any(
        "target" in ast.unparse(call.statement).lower()
        and _UPDATING.search(ast.unparse(call.statement))
        and (call.block.loop is not None or "update" in call.tail)
        for call in made_in.calls
        if isinstance(call.statement, ast.Expr | ast.Assign | ast.AugAssign)
    )
