"""ESP213: the logarithm of a value that can be exactly zero."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.activations import Activation
from esper_agents.review.endings import activation_of_part
from esper_agents.review.in_place import is_changed_in_place
from esper_agents.review.index import resolve
from esper_agents.review.magnitudes import squared
from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule
from esper_agents.review.unpacked import parts_returned, values_returned
from esper_agents.review.vanishing import exponential_in, is_bare, is_complemented, weighs_itself
from esper_agents.review.zeros import Zero, zero_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_LOGARITHMS = frozenset({"torch.log", "torch.log2", "torch.log10"})
# What gives exact zeros for ordinary inputs: draws from [0, 1), and counts.
_COUNTING = frozenset({"rand", "rand_like", "one_hot", "bincount", "histc"})
_THROUGH = frozenset({"float", "mean", "sum", "to", "double"})
_RELU = frozenset({"torch.relu", "torch.relu_", "torch.nn.functional.relu", "torch.nn.ReLU()"})
_TANH = frozenset({"torch.tanh", "torch.nn.functional.tanh", "torch.nn.Tanh()"})
_CLAMPS = frozenset({"clamp", "clamp_min", "clip", "clamp_", "clamp_min_", "clip_"})
# What takes care of the infinities afterwards.
_CARING = frozenset({"where", "nan_to_num", "masked_fill"})
_WHOLE = pattern(r"\.(?:long|int)\(\)|\.to\((?:dtype=)?torch\.(?:long|int)\w*\)")
_ADD = "add a small number or clamp: `torch.log(x.clamp_min(torch.finfo(x.dtype).eps))`"
_COMPLEMENT = {
    Activation.SIGMOID: "use `F.logsigmoid(-scores)`, which stays finite",
    Activation.SOFTMAX: "clamp it away from 0: `torch.log((1 - p).clamp_min(torch.finfo(p.dtype).eps))`",
}


class LogOfUnclamped(Rule):
    """A logarithm of what is often exactly 0: a ReLU, a count, a spectrum, 1 minus a probability, with nothing added.

    ## Why it costs
    These values are exactly 0 for ordinary inputs: a ReLU for every negative one, `1 - sigmoid(x)` in float32 from
    x = 17 on, because the sigmoid is then rounded to 1. The logarithm is minus infinity, and so is every sum or mean it
    goes into: the loss is infinite. Behind a sigmoid, softmax or tanh the gradient is NaN as well, which ends the
    training.

    ## When it is right
    Something is added to the value or it is clamped above 0, in place as well. What merely might be zero, such as a
    mean or a difference of measurements, is not reported, only what the reviewed files show to be made so; nor is what
    ends as a whole number, such as a bucket. What is zero for peculiar inputs only, such as a norm, a variance,
    `1 - exp(x)` or a draw of `torch.rand`, is a suggestion, and so is an entropy by hand of what was handed in.

    ## Sources
    PyTorch documentation of `torch.nn.functional.logsigmoid`, `torch.log1p` and `torch.nn.BCEWithLogitsLoss`, the last
    on combining sigmoid and logarithm for numerical stability.
    """

    code, name = "ESP213", "log-of-unclamped"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def discriminator_loss(scores):\n"
        "    fake = torch.sigmoid(scores)\n"
        "    return -torch.log(1 - fake).mean()\n"
    )
    good = (
        "import torch\n"
        "import torch.nn.functional as F\n"
        "\n"
        "\n"
        "def discriminator_loss(scores):\n"
        "    return -F.logsigmoid(-scores).mean()\n"
        "\n"
        "\n"
        "def squashed_log_prob(log_prob, action):\n"
        "    return log_prob - torch.log(1 - torch.tanh(action).pow(2) + 1e-6)\n"
        "\n"
        "\n"
        "def log_energy(x):\n"
        "    energy = torch.relu(x)\n"
        "    energy.clamp_(min=1e-8)\n"
        "    return energy.log(), torch.log(x.clamp(min=1e-6)), torch.log1p(torch.relu(x))\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the logarithms of values that are exactly zero for ordinary inputs."""
        for call in file.calls_ending("log", "log2", "log10"):
            value = _operand(call)
            if value is None or _is_cared_for(call):
                continue
            for origin in index.origins(value, call.function, call.line):
                zero = _zero(origin, index) or zero_of(origin, index) or _vanishing(origin, index)
                lifted = origin.function is call.function and is_changed_in_place(dotted(value), call, origin.line)
                if zero is not None and not lifted:
                    yield self._found(call, origin, zero)
                    break
            else:
                yield from self._by_hand(call, value, index)

    def _by_hand(self, call: Call, value: ast.expr, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the logarithms in an entropy or a cross entropy by hand, of what is handed in as it is."""
        is_entropy = weighs_itself(call, value)
        if not call.name.startswith("torch.") and not call.function.file.imports_torch:
            return
        if not (is_entropy or is_complemented(call, value)) or not is_bare(value, call, index):
            return
        if activation_of_part(value, call.function, call.line, index) is not None:
            return
        what = "entropy" if is_entropy else "cross entropy"
        remedy = "use `torch.special.entr(p)`" if is_entropy else "use `F.binary_cross_entropy(p, y)`, which bounds it"
        yield self.hit(
            call.node,
            f"this {what} by hand is NaN or infinite where {ast.unparse(value)!r} is exactly 0",
            remedy=f"{remedy}, or clamp it: `p.clamp_min(torch.finfo(p.dtype).eps)`",
            confidence=Confidence.LOW,
            basis=f"{INFERRED}: nothing in sight keeps it from 0",
            severity=Severity.SUGGESTION,
        )

    def _found(self, call: Call, origin: Origin, zero: Zero) -> RuleMatch:
        here = origin.function is call.function and zero.function is call.function
        return self.hit(
            call.node,
            f"the logarithm of {zero.what} (line {origin.value.lineno}) is minus infinity where that is exactly 0",
            remedy=zero.remedy,
            confidence=Confidence.MODERATE if here and zero.is_likely else Confidence.LOW,
            basis=f"{SEEN if here else FOLLOWED}; {INFERRED} that inputs get that far",
            severity=Severity.WARNING if zero.is_likely else Severity.SUGGESTION,
        )


def _operand(call: Call) -> ast.expr | None:
    """Return what the logarithm is taken of: the argument of `torch.log`, or the tensor before `.log()`."""
    if call.name in _LOGARITHMS:
        return call.argument(0, "input")
    is_method = not call.node.args and not call.node.keywords
    return call.node.func.value if is_method and isinstance(call.node.func, ast.Attribute) else None


def _is_cared_for(call: Call) -> bool:
    around = call.parent
    name = dotted(around.func) if isinstance(around, ast.Call) else ""
    method = around.attr if isinstance(around, ast.Attribute) else name.rpartition(".")[2]
    return method in _CARING or _becomes_whole(call)


def _becomes_whole(call: Call) -> bool:
    """Return whether a logarithm ends as a whole number, such as a bucket: no gradient comes back through that."""
    made = getattr(call.statement, "targets", [])[:1]
    name = dotted(made[0]) if made else ""
    later = [each.statement for each in call.function.assignments.get(name, ()) if name and each.line > call.line]
    return any(_WHOLE.search(ast.unparse(each)) for each in (call.statement, *later))


def _vanishing(origin: Origin, index: ProjectIndex) -> Zero | None:
    """Return why a value is rounded to zero: it sums up exponentials of squares, or is a product with a zero."""
    found = exponential_in(origin, index)
    if found is not None and found.value is not origin.value:
        remedy = "stay with logarithms: `torch.logsumexp(log_weights + log_density, dim)`"
        return Zero("an `exp` of a negative square", remedy, found.function)
    parts = parts_returned(origin.value, origin.function, origin.line, index)
    made = (one for part in parts for one in index.origins(part.value, part.function, part.line))
    found_part = next((zero for each in made if (zero := zero_of(each, index)) is not None), None)
    return found_part or _given_back(origin, index)


def _given_back(origin: Origin, index: ProjectIndex) -> Zero | None:
    """Return why what a function of these files gives back can be zero, whichever way it ends."""
    ways = [
        index.origins(each.value, each.function, each.line)
        for each in values_returned(origin.value, origin.function, index)
    ]
    zeros = [next((zero for one in way if (zero := zero_of(one, index)) is not None), None) for way in ways]
    return zeros[0] if zeros and None not in zeros else None


def _zero(origin: Origin, index: ProjectIndex) -> Zero | None:
    """Return why a value can be exactly zero; None where nothing shows that it can."""
    value = origin.value
    if isinstance(value, ast.Call):
        return _floored_at_zero(value, origin, index)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Sub) and _is_number(value.left, 1):
        return _complement(value.right, origin, index)
    return None


def _floored_at_zero(value: ast.Call, origin: Origin, index: ProjectIndex) -> Zero | None:
    method = value.func.attr if isinstance(value.func, ast.Attribute) else ""
    counted = _counted(value, origin)
    if counted:
        return Zero(f"a `{counted}`", _ADD, origin.function, is_likely=not counted.startswith("rand"))
    if _called(value, origin, index) in _RELU or (method in {"relu", "relu_"} and not value.args):
        return Zero("a `relu`", f"{_ADD}, or write `torch.log1p(x)` where log(1 + x) is meant", origin.function)
    if method in _CLAMPS:
        is_function = resolve(dotted(value.func), origin.function).startswith("torch.")
        floors = [keyword.value for keyword in value.keywords if keyword.arg == "min"] or value.args[is_function:]
        if floors and _is_number(floors[0], 0):
            return Zero(f"a `{method}` at 0", "clamp above 0: `.clamp_min(torch.finfo(x.dtype).eps)`", origin.function)
    return None


def _counted(value: ast.Call, origin: Origin) -> str:
    """Return what draws or counts, and so gives zeros: `torch.rand(n)`, `one_hot(y, n).float().mean(0)`."""
    node: ast.expr = value
    while isinstance(node, ast.Call):
        name = resolve(dotted(node.func), origin.function)
        tail = name.rpartition(".")[2]
        if name.startswith("torch.") and "(" not in name:
            if tail in _COUNTING:
                return tail
            node = node.args[0] if tail in {"mean", "sum"} and node.args else value.func
        elif isinstance(node.func, ast.Attribute) and tail in _THROUGH:
            node = node.func.value
        else:
            return ""
    return ""


def _complement(value: ast.expr, origin: Origin, index: ProjectIndex) -> Zero | None:
    """Return why 1 minus a value can be zero: the value is a probability, or the square of a `tanh`."""
    found = activation_of_part(value, origin.function, origin.line, index)
    if found is not None and found.activation in _COMPLEMENT:
        return Zero(f"1 minus a {found.activation}", _COMPLEMENT[found.activation], found.function)
    base = squared(value, origin.function)
    for each in index.origins(base, origin.function, origin.line) if base is not None else ():
        if isinstance(each.value, ast.Call) and _is_tanh(each.value, each, index):
            remedy = "use `2 * (math.log(2) - x - F.softplus(-2 * x))`, x being what the tanh is taken of"
            return Zero("1 minus the square of a tanh", remedy, each.function)
    return None


def _called(value: ast.Call, origin: Origin, index: ProjectIndex) -> str:
    """Return the resolved path of what is called, that of the layer where a name or attribute holds one."""
    held = index.binding(dotted(value.func), origin.function, origin.line)
    if held is not None and isinstance(held.value, ast.Call) and not held.is_unpacked:
        return resolve(dotted(held.value), held.block.function)
    return resolve(dotted(value.func), origin.function)


def _is_tanh(value: ast.Call, origin: Origin, index: ProjectIndex) -> bool:
    is_method = isinstance(value.func, ast.Attribute) and value.func.attr == "tanh" and not value.args
    return is_method or _called(value, origin, index) in _TANH


def _is_number(node: ast.expr, number: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == number and not isinstance(node.value, bool)
