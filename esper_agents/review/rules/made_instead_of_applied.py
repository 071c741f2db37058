"""ESP137: a layer or a loss is made with tensors as its settings, instead of being applied to them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.tensor_kinds import Tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOSSES = frozenset(
    {"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "CrossEntropyLoss", "NLLLoss", "BCELoss", "BCEWithLogitsLoss"}
    | {"KLDivLoss", "CosineEmbeddingLoss", "TripletMarginLoss", "MarginRankingLoss", "CTCLoss", "PoissonNLLLoss"}
)
_ACTIVATIONS = frozenset(
    {"ReLU", "ReLU6", "LeakyReLU", "GELU", "SiLU", "ELU", "SELU", "Tanh", "Sigmoid", "Softmax", "LogSoftmax"}
    | {"Softplus", "Mish", "Hardswish", "Dropout", "Flatten", "Identity"}
)
_FUNCTIONS = {
    "MSELoss": "F.mse_loss",
    "CrossEntropyLoss": "F.cross_entropy",
    "BCEWithLogitsLoss": "F.binary_cross_entropy_with_logits",
    "ReLU": "torch.relu",
    "GELU": "F.gelu",
    "Softmax": "torch.softmax",
    "Sigmoid": "torch.sigmoid",
    "Tanh": "torch.tanh",
}


class MadeInsteadOfApplied(Rule):
    """`nn.MSELoss(prediction, target)` or `nn.ReLU(x)`: the tensors become settings of a new module.

    ## Why it costs
    `nn.MSELoss` and `nn.ReLU` are classes. What such a line returns is a module and no tensor: `loss.backward()` raises
    an `AttributeError`, or a tensor that has several values is asked for its truth.

    ## When it is right
    The module is made first and then called, `nn.MSELoss()(prediction, target)`, or the function of that name is
    called: `F.mse_loss(prediction, target)`.

    ## Sources
    PyTorch documentation of `torch.nn.MSELoss` (its arguments are `size_average`, `reduce`, `reduction`) and of
    `torch.nn.ReLU` (`inplace`).
    """

    code, name = "ESP137", "made-instead-of-applied"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = "from torch import nn\n\n\ndef step(model, x, y):\n    loss = nn.MSELoss(model(x), y)\n    loss.backward()\n"
    good = bad.replace("MSELoss(", "MSELoss()(")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the modules that are made with tensors as settings."""
        for call in file.calls_ending(*sorted(_LOSSES | _ACTIVATIONS)):
            if call.name == f"torch.nn.{call.tail}" and not call.node.keywords and _is_misused(call, index):
                instead = _FUNCTIONS.get(call.tail)
                yield self.hit(
                    call.node,
                    f"this makes a `{call.tail}` with {_given(call)} as its settings: the result is a module and no "
                    "tensor",
                    remedy=f"write `nn.{call.tail}()({_given(call)})`" + (f", or call `{instead}`" if instead else ""),
                    basis=SEEN,
                )


def _given(call: Call) -> str:
    text = ", ".join(ast.unparse(each) for each in call.node.args)
    return text if len(text) <= 40 else "..."  # noqa: PLR2004 - a screen's line


def _is_misused(call: Call, index: ProjectIndex) -> bool:
    """Return whether the first argument of a class surely is a tensor, or the result is used as a loss."""
    arguments = call.node.args
    if not arguments or any(isinstance(each, ast.Starred | ast.Constant) for each in arguments):
        return False
    if any(Tensors(call.function, call.line, index).holds(each) for each in arguments[:2]):
        return call.tail in _ACTIVATIONS or len(arguments) > 1
    return call.tail in _LOSSES and len(arguments) > 1 and _is_sent_backward(call)


def _is_sent_backward(call: Call) -> bool:
    """Return whether the result of a call is sent backward under the name that it gets."""
    statement = call.statement
    names = [dotted(each) for each in statement.targets] if isinstance(statement, ast.Assign) else []
    is_whole = isinstance(statement, ast.Assign) and statement.value is call.node
    return is_whole and any(each.tail == "backward" and each.receiver in names for each in call.function.calls)
