"""ESP271: an action is squashed by `tanh`, and its log-probability is the one before the squashing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.rule import SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_GAUSSIANS = frozenset({"Normal", "MultivariateNormal", "Independent", "LowRankMultivariateNormal"})
# What a correction for the squashing is written with.
_CORRECTING = frozenset({"softplus", "logsigmoid", "log1p", "log", "log_abs_det_jacobian", "TanhTransform"})


class SquashedLogProbability(Rule):
    """A reparameterised action `tanh(u)` with `dist.log_prob(u)` and no correction for `tanh`.

    ## Why it costs
    The density of `tanh(u)` is that of `u` divided by `1 - tanh(u) ** 2`. Without the sum of `log(1 - tanh(u) ** 2)`
    the entropy term of SAC grows without limit as actions go to the edges: the policy saturates at -1 and 1.

    ## When it is right
    A ratio of two log-probabilities of the same `u`, as in PPO: there the correction cancels. Such policies draw with
    `sample`; only actions drawn with `rsample` are reported.

    ## Sources
    Haarnoja et al., "Soft Actor-Critic", appendix C, "Enforcing Action Bounds", equation 21.
    """

    code, name = "ESP271", "squashed-log-probability"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch.distributions import Normal\n"
        "\n"
        "\n"
        "def act(mu, std):\n"
        "    dist = Normal(mu, std)\n"
        "    u = dist.rsample()\n"
        "    action = torch.tanh(u)\n"
        "    return action, dist.log_prob(u).sum(-1)\n"
    )
    good = bad.replace("dist.log_prob(u).sum(-1)", "(dist.log_prob(u) - torch.log(1 - action.pow(2) + 1e-6)).sum(-1)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the log-probabilities of squashed actions that leave the squashing aside."""
        for call in file.calls_ending("log_prob"):
            function = call.function
            if len(call.node.args) != 1 or function.is_module or not _is_gaussian(call, index):
                continue
            if "rsample" not in {each.tail for each in function.calls} or index.reached(function) & _CORRECTING:
                continue
            drawn = call.node.args[0]
            name = drawn.id if isinstance(drawn, ast.Name) and _is_drawn(drawn.id, call, function) else ""
            tanh = next((each for each in function.calls if name and _squashes(each, name)), None)
            if tanh is not None and not _goes_elsewhere(name, (call, tanh), index):
                yield self.hit(
                    call.node,
                    f"the action is `tanh` of {name!r} (line {tanh.line}); this is the log-probability before `tanh`",
                    remedy="subtract `log(1 - action ** 2 + 1e-6)`, summed over the actions",
                    basis=SEEN,
                )


def _is_gaussian(call: Call, index: ProjectIndex) -> bool:
    """Return whether a distribution is a Gaussian as it is, and not one that is transformed."""
    receiver = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
    origins = index.origins(receiver, call.function, call.line) if receiver is not None else ()
    made = [tail_of(dotted(each.value.func)) for each in origins if isinstance(each.value, ast.Call)]
    return bool(made) and len(made) == len(origins) and all(name in _GAUSSIANS for name in made)


def _squashes(call: Call, name: str) -> bool:
    base = call.argument(0, "input") if call.node.args else getattr(call.node.func, "value", None)
    return call.tail == "tanh" and isinstance(base, ast.expr) and dotted(base) == name


def _is_drawn(name: str, call: Call, function: Function) -> bool:
    """Return whether a name holds what `rsample` drew."""
    made = function.last_assignment(name, call.line)
    return made is not None and any(
        isinstance(each, ast.Call) and tail_of(dotted(each.func)) == "rsample" for each in walk(made.value)
    )


def _goes_elsewhere(name: str, calls: tuple[Call, Call], index: ProjectIndex) -> bool:
    """Return whether what was drawn, the action or the log-probability goes to code that may correct it."""
    function = calls[0].function
    names = {dotted(each) for call in calls for each in getattr(call.statement, "targets", ())} | {name}
    for call in function.calls:
        is_torch = call.name.startswith("torch.") or (isinstance(call.node.func, ast.Attribute) and call not in calls)
        is_own = call.receiver in {"self", "cls"} and not index.callees(call)
        if call not in calls and (is_own or not (is_torch or index.callees(call))):
            given = [*call.node.args, *(each.value for each in call.node.keywords)]
            if any(dotted(each) in names for each in given):
                return True
    returned = [statement.value for statement, _ in function.returns if statement.value is not None]
    parts = [part for each in returned for part in (each.elts if isinstance(each, ast.Tuple) else [each])]
    return any(isinstance(part, ast.Name) and part.id == name for part in parts)
