"""Remedies for each kind of graph break, keyed by the kind's page in the PyTorch documentation."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.torchlab.worker.target.source_place import TracedFailure

_CHANGES = {
    "branch": (
        "The condition depends on a tensor's values. Compute both sides and choose with torch.where, or write them as "
        "functions and call torch.cond; a condition about shapes or configuration should read those instead."
    ),
    "item": (
        "Keep the number a tensor: most arithmetic takes a 0-d tensor in place of a float. Where Python needs it, take "
        "it outside, or set torch._dynamo.config.capture_scalar_outputs = True, as fullgraph=True "
        "does by itself."
    ),
    "tolist": "Keep the tensor, or call .tolist() outside the compiled function; only integers can be traced so.",
    "dynamic shape": (
        "The size of the result depends on the values. Keep the shape: torch.where, masked_fill or a product with the "
        "mask. Otherwise set torch._dynamo.config.capture_dynamic_output_shape_ops = True, as fullgraph=True does by "
        "itself, and say with torch._check what holds for the size."
    ),
    "print": (
        "Take the output out of the compiled function, or put it behind `if not torch.compiler.is_compiling()`. If it "
        "must stay, torch._dynamo.config.reorderable_logging_functions.add(print) moves it to the end of the graph."
    ),
    "text": "Format tensors and objects outside the compiled function: their text is made from values.",
    "logging": (
        "Log outside the compiled function, or behind `if not torch.compiler.is_compiling()`; methods added to "
        "torch._dynamo.config.ignore_logging_functions are dropped while compiled."
    ),
    "warning": (
        "Warn before the compiled function is called, or behind `if not torch.compiler.is_compiling()`: a warning "
        "changes the interpreter's state."
    ),
    "clock": "Take the time outside the compiled function; under a compiler a time inside it measures nothing anyway.",
    "random": (
        "Draw with torch (torch.rand, generator=...) and keep the result a tensor, or draw in Python outside and hand "
        "the number in."
    ),
    "file": "Read and write files outside the compiled function, and hand in what was read as tensors.",
    "numpy": (
        "Use the torch function of the same name. NumPy calls are traced only where NumPy is installed and "
        "torch._dynamo.config.trace_numpy is on."
    ),
    "copy": "Clone tensors with .clone(), and copy Python objects outside the compiled function.",
    "builtin": (
        "Dynamo cannot trace this builtin or method with these arguments. Do it in torch, or before the compiled "
        "function, and hand in the result."
    ),
    "C function": (
        "This function is written in C and dynamo sees nothing of it. Use a torch function, call it outside, or make "
        "it an operator with torch.library.custom_op and a fake implementation."
    ),
    "skipped function": (
        "PyTorch keeps this function out of graphs on purpose. Call it outside the compiled function, or write what it "
        "does in torch."
    ),
    "disabled": (
        "The function is marked with torch.compiler.disable. Take the mark off, or call it before or after the "
        "compiled function, where it cuts nothing in two."
    ),
    "asked for": "The code calls torch._dynamo.graph_break(): remove the call.",
    "optimizer": (
        "Optimizers hold graph breaks of their own. Compile the model with its loss rather than the whole step, or "
        "compile opt.step as a function of its own."
    ),
    "backward": (
        "Call .backward() outside the compiled function: compile the forward pass with the loss, and autograd runs a "
        "compiled backward. torch._dynamo.config.trace_autograd_ops = True traces it where it can."
    ),
    "autograd.grad": (
        "Take gradients with torch.func.grad inside the graph, or call torch.autograd.grad outside the compiled "
        "function."
    ),
    "autograd function": (
        "Keep the autograd.Function to what can be traced: static forward and backward, only tensors in "
        "save_for_backward, no side effects; or make it a torch.library.custom_op with register_autograd."
    ),
    "requires_grad": "Set requires_grad before the compiled function is called.",
    "hook": (
        "Register the hook outside the compiled function. Hooks on intermediate results need "
        "torch._dynamo.config.compiled_autograd = True."
    ),
    "in place": (
        "Return a new tensor, or copy it into the input after the compiled function: a change of size, storage or "
        "dtype in place cannot be recorded."
    ),
    "side effect": (
        "The code changes something outside itself. Return the new state and assign it outside, or keep it in a "
        "registered buffer."
    ),
    "generator": (
        "A generator cannot be compiled itself. Compile a function that consumes it, or return a list or a stacked "
        "tensor."
    ),
    "context manager": (
        "Enter the context manager outside the compiled function, or use torch's own, such as torch.no_grad and "
        "torch.autocast, which can be traced."
    ),
    "exception": (
        "The code raises while it is traced. Check the inputs before the compiled function, or use torch._check, which "
        "is recorded."
    ),
    "fake": (
        "Shapes were computed without values, and the result does not fit. Give the custom operator a correct "
        "register_fake: the shape and dtype that it promises must be those that the operator returns."
    ),
    "data pointer": "Compare tensors by shape or by name: addresses mean nothing in a graph.",
    "class definition": "Define the class at module level: one made inside the function is another on each call.",
    "identity": "Give the class plain attributes and methods in Python: dynamo cannot see how it compares or hashes.",
    "nested": "Pass plain tensors: sparse and nested ones are traced only in part.",
    "module": "Build modules in __init__ and call each by its name; index a ModuleList with constants only.",
    "parameter": "Create parameters in __init__, not inside the compiled function.",
    "recurrent": "Set torch._dynamo.config.allow_rnn = True, or write the cell's loop in torch.",
    "higher order": (
        "Give torch.cond, torch.while_loop and torch.scan functions without side effects, whose branches return "
        "tensors of equal shape and dtype, and hand in every tensor as an operand."
    ),
    "distributed": "Use the functional collectives of torch.distributed, or communicate outside.",
    "script": "Compile the original eager module: what torch.jit made cannot be traced again.",
    "backend": "Autograd could not be traced ahead of time: keep .item() and branches on values out of the backward.",
    "recompile limit": "Remove the cause of the recompilations; raising the limit only buys time.",
    "profiler": "Start and stop the profiler outside the compiled function.",
    "unpacking": "Index the sequence instead of unpacking it: the number of parts must be known.",
}
_GENERIC = (
    "Dynamo cannot trace this line. Move it out of the compiled function, write it in torch operations, or mark its "
    "function with torch.compiler.disable, so that the cut is where it costs least."
)
_IN_LOOP = " It stands in a loop, so the whole function runs eagerly: make the loop's body a function of its own."

_PAGES: dict[str, tuple[int, ...]] = {
    "branch": (34, 35, 170, 360),
    "item": (33, 124),
    "tolist": (109,),
    "dynamic shape": (18, 36, 37, 38, 70, 246, 7596),
    "logging": (291, 296),
    "numpy": (105, 106, 157, 158, 159, 185, 231, 232, 250, 290, 293, 294, 298, 300),
    "copy": (179, 4198),
    "builtin": (59, 60, 156, 174, 175, 193, 213, 270, 6025),
    "text": (5, 20, 21, 184, 459, 569, 1275, 1584, 2483, 2852, 5380, 6053, 7968, 8315, 9198),
    "C function": (7, 177, 808, 2861),
    "skipped function": (8, 9, 68, 102),
    "disabled": (98, 99, 269, 4297),
    "asked for": (25, 30, 275, 284, 4636),
    "optimizer": (358,),
    "backward": (123, 165, 166, 442, 1042, 7054),
    "autograd.grad": (371, 372, 373, 1140, 1381, 1724, 4927, 5748, 6663, 7299, 9186),
    "autograd function": (19, 85, 138, 139, 140, 144, 145, 346, 347, 348, 352, 2019, 2464, 4372, 6297),
    "requires_grad": (125, 181, 206, 225, 7324, 8985),
    "hook": (13, 29, 83, 100, 101, 108, 7444),
    "in place": (56, 58, 72, 107, 110, 126, 127, 128, 129, 130, 220, 240, 241, 242, 247, 4197),
    "side effect": (67, 92, 93, 96, 97, 169, 189, 271, 467, 1297, 4413, 7502),
    "generator": (3, 118, 120, 253, 2549, 8335),
    "context manager": (66, 142, 221, 262, 263, 274, 2533),
    "exception": (28, 50, 51, 57, 63, 77, 88, 89, 111, 273),
    "fake": (64, 80, 87, 90, 112, 4315, 5173),
    "data pointer": (27, 5976),
    "class definition": (75, 8977, 368, 3383, 4271),
    "identity": (141, 176, 191, 194, 364, 365, 366, 367, 682, 871, 1220, 4749, 9316),
    "nested": (15, 16, 44, 233, 245, 277, 374),
    "module": (31, 32, 119, 121, 153, 161, 202, 211, 281, 1177),
    "parameter": (226, 227, 228, 229, 235, 237, 244, 264),
    "recurrent": (14,),
    "higher order": (40, 41, 42, 73, 74, *range(301, 329), *range(335, 346), 349, 350, 351),
    "distributed": (172, 210, 1750, 2696, 3343, 9300, 9860),
    "script": (266, 267, 357, 4695),
    "backend": (219,),
    "recompile limit": (39,),
    "profiler": (212, 370),
    "unpacking": (61, 62),
}
_BY_PAGE = {f"GB{page:04d}": name for name, pages in _PAGES.items() for page in pages}

# For breaks without a documented page, and for versions of torch without pages.
_BY_WORDS = (
    (r"builtin (operator )?`?print\b|BuiltinVariable\(print\)", "print"),
    (r"builtin (operator )?`?open\b|BuiltinVariable\(open\)|\bio\.|TextIO|FileIO", "file"),
    (r"\b_?warnings\.warn", "warning"),
    (r"`time\.|module: time\b", "clock"),
    (r"\bRandom\b|\brandom\.|module: random\b", "random"),
    (r"\bLogger\b|module: logging", "logging"),
    (r"\bnumpy\b|\bndarray\b", "numpy"),
    (r"torch/optim|optim/optimizer|Optimizer\.", "optimizer"),
    (r"\bcopy\.(deep)?copy|deepcopy", "copy"),
    (r"profiler", "profiler"),
)
_OLDER = (
    (r"generic_jump|[Dd]ata.dependent (branch|jump)", "branch"),
    (r"Tensor\.item|_local_scalar_dense", "item"),
    (r"[Dd]ynamic (output )?shape|data.dependent.*shape", "dynamic shape"),
    (r"Tensor\.backward", "backward"),
    (r"generator", "generator"),
    (r"context manager|ContextWrapping", "context manager"),
    (r"graph_break\(\)|call to graph_break", "asked for"),
    (r"compiler\.disable|torch\._dynamo\.disable", "disabled"),
    (r"call_function BuiltinVariable", "builtin"),
    (r"skip function|in skipfiles", "skipped function"),
)


def change_for(reported: TracedFailure) -> str:
    """Return the remedy for a graph break or a failed outcome."""
    text = _CHANGES.get(cause_of(reported), _GENERIC)
    if reported.after == "graph break in loop":
        text += _IN_LOOP
    return text


def cause_of(reported: TracedFailure) -> str:
    """Return the name of the cause of a break, such as `branch` or `item`; `unknown` if the table has no entry."""
    known = _BY_PAGE.get(reported.page or "", "")
    said = " ".join(each or "" for each in (reported.kind, reported.explanation, reported.context, reported.outside))
    if known in {"builtin", "C function", "skipped function", "asked for", "context manager", ""}:
        known = _first(_BY_WORDS, said) or known
    return known or _first(_OLDER, said) or "unknown"


def _first(table: Iterable[tuple[str, str]], said: str) -> str:
    return next((name for words, name in table if re.search(words, said)), "")
