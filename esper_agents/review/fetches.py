"""Where the host asks the device for a value: by a method, by a conversion, or by showing a tensor."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.device_values import DeviceValues
from esper_agents.review.models import forward_calls_in
from esper_agents.review.names import dotted
from esper_agents.review.patterns import pattern
from esper_agents.review.training import backward_calls_in, loss_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Function

FETCHING = ("item", "tolist", "numpy", "cpu")
CONVERTING = ("float", "int", "bool", "round")
# Calls that write, print or draw what they are given, and read it for that.
SHOWING = (
    *("print", "write", "set_postfix", "set_postfix_str", "set_description", "set_description_str"),
    *("info", "debug", "warning", "log", "log_metric", "log_metrics", "log_dict", "add_scalar", "add_scalars"),
)
# Calls that make a picture, a histogram or a file.
DRAWING = (
    *("add_histogram", "add_image", "add_images", "add_figure", "add_embedding", "add_graph", "add_video", "add_mesh"),
    *(
        "add_pr_curve",
        "savefig",
        "imshow",
        "show",
        "Histogram",
        "Image",
        "Video",
        "save_image",
        "imsave",
        "save",
        "watch_gradients",
    ),
)
_LOGGERS = pattern(
    r"log(?:ger|ging|s)?|_?log(?:ger)?|\w*logger|LOG(?:GER)?|\w*(?:wandb|mlflow|neptune|comet|aim)\w*|run|experiment"
)
_WRITERS = pattern(r"(?:\w*(?:writer|tb|tensorboard|board|summary|tracker|logger|experiment)\w*|sw)", re.IGNORECASE)


def is_fetch(call: Call) -> bool:
    """Return whether a call is a fetch of its own: `.cpu()` before `.numpy()` is one fetch, not two.

    A `.numpy()` alone reads memory of the host: it refuses a tensor that lies elsewhere.
    """
    if not isinstance(call.node.func, ast.Attribute) or call.node.args or call.node.keywords:
        return False
    is_first_half = isinstance(call.parent, ast.Attribute) and call.parent.attr in FETCHING
    return not is_first_half and (call.tail != "numpy" or ".cpu()" in f".{call.receiver}")


def shows(call: Call) -> bool:
    """Return whether a call prints or logs what it is given; `self.log` of a framework picks its own moments."""
    last = call.receiver.rpartition(".")[2].rstrip("()[]")
    match call.tail:
        case "print":
            return call.receiver in {"", "rich", "console", "self.console"}
        case "write":
            return call.receiver.rstrip("()") in {"tqdm", "tqdm.tqdm", "pbar", "sys.stdout", "bar"}
        case "add_scalar" | "add_scalars":
            return bool(_WRITERS.fullmatch(last))
        case "set_postfix" | "set_postfix_str" | "set_description" | "set_description_str":
            return bool(call.receiver)
        case _:
            return last != "self" and _LOGGERS.fullmatch(last) is not None


def draws(call: Call) -> bool:
    """Return whether a call makes a picture, a histogram or a file of what it is given."""
    last = call.receiver.rpartition(".")[2].rstrip("()[]")
    match call.tail:
        case "savefig" | "imshow" | "show" | "imsave":
            return call.name.startswith(("matplotlib.", "plt.", "pylab.")) or last in {"fig", "figure", "ax"}
        case "Histogram" | "Image" | "Video":
            return call.name.startswith("wandb.")
        case "save_image":
            return call.name in {"torchvision.utils.save_image", "save_image", "vutils.save_image", "utils.save_image"}
        case "save":
            return call.name == "torch.save"
        case tail:
            return tail in DRAWING and bool(_WRITERS.fullmatch(last))


def shown(call: Call) -> Iterator[ast.expr]:
    """Yield the values that a printing or logging call reads, those in f-strings and dicts one by one."""
    for arg in call.node.args:
        yield from _values(arg)
    for keyword in call.node.keywords:
        yield from _values(keyword.value)


def _values(node: ast.expr) -> Iterator[ast.expr]:
    inner = _inside(node)
    if inner is None:
        yield node
    else:
        for each in inner:
            yield from _values(each)


def _inside(node: ast.expr) -> list[ast.expr] | None:
    """Return what a text or a collection is made of; None for a value of its own."""
    match node:
        case ast.JoinedStr():
            return [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
        case ast.Dict(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.BinOp(left=ast.Constant(value=str()), op=ast.Mod()) | ast.BinOp(op=ast.Mod(), right=ast.Tuple()):
            return [node.right]
        case ast.Starred():
            return [node.value]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format") | ast.Name(id="str" | "dict")):
            return [*node.args, *(keyword.value for keyword in node.keywords)]
        case _:
            return None


def device_values(function: Function, index: ProjectIndex) -> DeviceValues:
    """Return what is known of a function's tensors: its losses, and what its models gave back."""
    return index.once(("device values", function), lambda: DeviceValues(function, _made(function, index), index))


def _made(function: Function, index: ProjectIndex) -> frozenset[str]:
    losses = {loss_of(call) for call in backward_calls_in(function)}
    outputs = {call.node for call in forward_calls_in(function, index)}
    made = {
        target
        for target, assignments in function.assignments.items()
        if any(assignment.value in outputs and not assignment.is_augmented for assignment in assignments)
    }
    return frozenset((losses | made) - {""})


def shows_tensor(call: Call, index: ProjectIndex) -> bool:
    """Return whether a printing or logging call reads a tensor that the step made."""
    known = device_values(call.function, index)
    return any(known.holds(each, call.line + 1) for each in shown(call))


def bound_to(call: Call) -> str:
    """Return the name that a call's result is bound to; empty where it is used at once."""
    statement = call.statement
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return dotted(statement.targets[0])
    return ""
