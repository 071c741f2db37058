"""Which calls move something to an accelerator, or make it there."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.tables import Call

_DEVICE = pattern(r"device|cuda|gpu|rank|\bdev\b|\bmps\b|\bxpu\b", re.IGNORECASE)
_HOST = pattern(r"""["']cpu["']|\bcpu_device\b|torch\.device\(["']cpu["']\)""")
# Whose `.device` is the one that was chosen to run on.
_OWNERS = frozenset({"self", "args", "cfg", "config", "opt", "options", "hparams", "accelerator", "fabric", "trainer"})
_MAKING = frozenset(
    {"tensor", "as_tensor", "from_numpy", "zeros", "ones", "empty", "full", "rand", "randn", "arange", "Tensor"}
)


def moves_to_device(call: Call) -> bool:
    """Return whether a call is a move to a device: `x.cuda()`, `x.to(device)`, `x.to(self.device)`."""
    if not isinstance(call.node.func, ast.Attribute):
        return False
    return is_move(call.node)


def is_move(node: ast.expr) -> bool:
    """Return whether an expression is a move to a device."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr == "cuda":
        return dotted(node.func.value) != "torch"
    if node.func.attr != "to":
        return False
    text = " ".join(ast.unparse(destination) for destination in destinations(node))
    return _DEVICE.search(text) is not None and _HOST.search(text) is None


def follows_another(node: ast.expr) -> bool:
    """Return whether a move goes where another tensor is: `mask.to(x.device)`; mostly both are there already."""
    return isinstance(node, ast.Call) and any(
        isinstance(destination, ast.Attribute)
        and destination.attr == "device"
        and dotted(destination.value).partition(".")[0] not in _OWNERS
        for destination in destinations(node)
    )


def destinations(node: ast.Call) -> list[ast.expr]:
    """Return what a move names as the device to go to."""
    named = [keyword.value for keyword in node.keywords if keyword.arg == "device"]
    return [*node.args[:1], *named]


def is_without_waiting(call: Call) -> bool:
    """Return whether a move asks the host not to wait: `non_blocking=True`."""
    asked = next((keyword.value for keyword in call.node.keywords if keyword.arg == "non_blocking"), None)
    if asked is None and call.tail == "cuda" and len(call.node.args) > 1:
        asked = call.node.args[1]
    return isinstance(asked, ast.Constant) and asked.value is True


def makes_on_device(call: Call) -> bool:
    """Return whether a call makes a tensor on an accelerator at once: `torch.tensor(x, device="cuda")`."""
    if not call.name.startswith("torch.") or call.tail not in _MAKING:
        return False
    asked = next((keyword.value for keyword in call.node.keywords if keyword.arg == "device"), None)
    if asked is None or (isinstance(asked, ast.Attribute) and dotted(asked.value).partition(".")[0] not in _OWNERS):
        return False
    made = call.function.last_assignment(dotted(asked), call.line)
    if made is not None and ".device" in ast.unparse(made.value) and "torch.device" not in ast.unparse(made.value):
        return False
    text = ast.unparse(asked)
    return _DEVICE.search(text) is not None and _HOST.search(text) is None


def makes_from_host(node: ast.expr) -> bool:
    """Return whether an expression makes a tensor of something that lies on the host: `torch.from_numpy(a)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        tail, receiver = node.func.attr, dotted(node.func.value)
        if tail in {"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor"} and receiver in {
            "torch",
            "th",
        }:
            return True
        node = node.func.value
    return False
