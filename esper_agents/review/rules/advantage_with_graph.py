"""ESP231: the advantage of a policy gradient carries the graph of the value network."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.bootstrapping import is_environment_step, last_names, undetached
from esper_agents.review.model.query import EventKind, runs
from esper_agents.review.names import dotted, walk
from esper_agents.review.network_outputs import carries_graph
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.query import ModelMatch
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_LOG_PROBABILITY = pattern(r"(?i)(?:\w*_)?(?:log_?p(?:rob|i)?s?|logprobs?|ratios?)(?:_\w+)?")
_REGRESSION = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss", "MSELoss", "SmoothL1Loss"})
_STEPS = 3


class AdvantageWithGraph(Rule):
    """A log-probability times an advantage that is still connected to the value network.

    ## Why it costs
    The gradient of the policy loss then also flows into the critic: it raises or lowers the predicted values so that
    the policy loss falls, not so that they become right. The critic is biased, and the policy follows it.

    ## When it is right
    The difference is detached, `(returns - values).detach()`, or the values were computed under `torch.no_grad()`.
    Deterministic policy gradients send gradients through the critic on purpose and have no log-probability.

    ## Sources
    Sutton and Barto, "Reinforcement Learning", section 13.5: the advantage is a factor of the gradient. PyTorch
    example "reinforcement_learning/actor_critic.py", which takes `value.item()`.
    """

    code, name = "ESP231", "advantage-with-graph"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def update(policy, critic, optimizer, states, actions, returns):\n"
        "    values = critic(states).squeeze(-1)\n"
        "    advantage = returns - values\n"
        "    policy_loss = -(policy(states).log_prob(actions) * advantage).mean()\n"
        "    value_loss = torch.nn.functional.mse_loss(values, returns)\n"
        "    optimizer.zero_grad()\n"
        "    (policy_loss + value_loss).backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("advantage = returns - values\n", "advantage = (returns - values).detach()\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the products of a log-probability and an advantage with a graph."""
        if not file.imports_torch:
            return
        for function in file.functions:
            if not any(call.tail in {"log_prob", "mean", "sum", "append", "backward"} for call in function.calls):
                continue
            done: set[str] = set()
            for product, line in _products(function):
                for factor, other in ((product.left, product.right), (product.right, product.left)):
                    if ast.unparse(factor) in done or not _is_log_probability(other, function, line):
                        continue
                    values = _values_of(factor, function, line)
                    found = next((each for each in values if _is_trained(each, function, line, index)), None)
                    if found is not None:
                        done.add(ast.unparse(factor))
                        yield self._found(product, factor, found)

    def ask(self, index: ProjectIndex) -> Iterator[ModelMatch]:
        """Yield the factors of log-probabilities that hold the graph of a network, in trainings on an environment."""
        if not any(map(is_environment_step, index.calls_ending("step"))):
            return
        for run in runs(index):
            for weight in run.of_kind(EventKind.WEIGHT):
                forwards = [each for each in run.forwards if weight.graph & each.bit]
                if not forwards or not run.flows_backward(weight) or not run.is_recorded(weight):
                    continue
                yield self.model_match(
                    run.place(weight, None),
                    f"the log-probability is multiplied by what carries the graph of {forwards[-1].text!r} (line "
                    f"{forwards[-1].at.line}), so the policy loss also trains the value network",
                    remedy="detach the advantage: `log_probability * advantage.detach()`",
                    confidence=Confidence.MODERATE,
                    regions=run.regions(weight),
                )

    def _found(self, product: ast.BinOp, factor: ast.expr, value: ast.expr) -> RuleMatch:
        shown, name = ast.unparse(factor), ast.unparse(value)
        return self.hit(
            product,
            f"the factor `{shown}` carries the graph of `{name}`, so the policy loss also trains the value network",
            remedy=f"multiply by `{shown}.detach()`" if isinstance(factor, ast.Name | ast.Attribute) else "detach it",
            confidence=Confidence.HIGH if isinstance(value, ast.Name) else Confidence.MODERATE,
            basis=SEEN if isinstance(value, ast.Name) else INFERRED,
        )


def _products(function: Function) -> Iterator[tuple[ast.BinOp, int]]:
    """Yield the products in the statements of a function that record gradients, with their lines."""
    values = [(each.value, each.block) for made in function.assignments.values() for each in made]
    values += [(each.value, block) for each, block in function.returns if each.value is not None]
    values += [(call.node, call.block) for call in function.calls if call.tail in {"backward", "append"}]
    seen: set[ast.AST] = set()
    for value, block in values:
        for node in undetached(value) if not without_gradients(block) else ():
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and node not in seen:
                seen.add(node)
                yield node, node.lineno


def _is_log_probability(value: ast.expr, function: Function, line: int, steps: int = _STEPS) -> bool:
    """Return whether a value is the logarithm of the probability of an action, or a ratio of two."""
    while isinstance(value, ast.UnaryOp):
        value = value.operand
    for node in undetached(value):
        if isinstance(node, ast.Call) and dotted(node.func).endswith(".log_prob"):
            return True
        if isinstance(node, ast.Name | ast.Attribute) and _LOG_PROBABILITY.fullmatch(last_names(node)[0]):
            made = function.last_assignment(dotted(node), line)
            is_number = made is not None and isinstance(made.value, ast.Constant)
            return not is_number and (made is None or not without_gradients(made.block))
        made = function.last_assignment(node.id, line) if isinstance(node, ast.Name) and steps else None
        if (
            made is not None
            and not isinstance(made.statement, ast.For)
            and _is_log_probability(made.value, function, made.line, steps - 1)
        ):
            return True
    return False


def _values_of(factor: ast.expr, function: Function, line: int, steps: int = _STEPS) -> list[ast.expr]:
    """Return what a factor subtracts from something, if neither the difference nor that is detached."""
    while isinstance(factor, ast.UnaryOp):
        factor = factor.operand
    if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Sub):
        if _is_standardised(factor):
            return _values_of(factor.left, function, line, steps)
        return [factor.right]
    if isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Div):
        return _values_of(factor.left, function, line, steps)
    if isinstance(factor, ast.Name) and steps:
        made = function.last_assignment(factor.id, line)
        if made is not None and _is_kept(made):
            return _values_of(made.value, function, made.line, steps - 1)
    return []


def _is_standardised(difference: ast.BinOp) -> bool:
    """Return whether a difference is `advantage - advantage.mean()`."""
    path = dotted(difference.left)
    return bool(path) and ast.unparse(difference.right).startswith(f"{path}.mean(")


def _is_kept(made: Assignment) -> bool:
    return not made.is_augmented and not made.is_unpacked and not without_gradients(made.block)


def _is_trained(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a value surely carries the graph of a network: one that is called here, or that a loss trains."""
    parts = list(undetached(value))
    if len(parts) < sum(1 for _ in walk(value)):
        return False
    if carries_graph(value, function, line, index):
        return True
    path = dotted(value)
    made = function.last_assignment(path, line) if path else None
    if not path or (made is not None and (without_gradients(made.block) or ".detach" in ast.unparse(made.value))):
        return False
    for call in function.calls:
        is_regression = call.tail in _REGRESSION or (call.tail == "pow" and call.receiver == "")
        if (
            is_regression
            and not without_gradients(call.block)
            and any(_is_part(path, each) for each in call.node.args[:2])
        ):
            return True
    return False


def _is_part(path: str, argument: ast.expr) -> bool:
    """Return whether a loss is given a value as it is, or squeezed."""
    while isinstance(argument, ast.Call) and isinstance(argument.func, ast.Attribute):
        if argument.func.attr not in {"squeeze", "view", "reshape", "flatten", "unsqueeze", "float"}:
            return False
        argument = argument.func.value
    return dotted(argument) == path
