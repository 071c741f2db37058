"""Inputs and outputs of a target: names of tensors, numbers that are losses, exceptions."""

from __future__ import annotations

import dis
import inspect
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ..target.input_spec import Inputs
    from ..target.target import LoadedTarget


def is_raised_on_purpose(error: Exception, target: LoadedTarget) -> bool:
    """Return whether user code itself raised an exception by `raise` or `assert`, not an operation that it called."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None or target.in_project(last.tb_frame.f_code.co_filename) is None:
        return False
    return last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


@contextmanager
def eager() -> Iterator[None]:
    """Run compiled code eagerly: a compiled graph has no user lines."""
    if "torch._dynamo" not in sys.modules:
        # Read when user code imports the compiler; importing it here would take seconds.
        os.environ["TORCH_COMPILE_DISABLE"] = "1"
        yield
    elif hasattr(torch.compiler, "set_stance"):
        with torch.compiler.set_stance("force_eager"):
            yield
    else:
        yield


def is_scalar(thing: Any) -> bool:
    """Return whether an object is one floating-point number, as losses are."""
    if isinstance(thing, torch.Tensor):
        return thing.numel() == 1 and thing.ndim == 0 and thing.is_floating_point()
    return isinstance(thing, float)


def named(call: Callable[..., Any], inputs: Inputs) -> dict[str, Any]:
    """Return the tensors of inputs by their argument names in the target."""
    forward = call.forward if isinstance(call, torch.nn.Module) else call
    try:
        bound = inspect.signature(forward).bind(*inputs.args, **inputs.kwargs).arguments
    except (TypeError, ValueError):
        bound = {f"args[{number}]": each for number, each in enumerate(inputs.args)} | inputs.kwargs
    return {name.removeprefix("."): each for name, each in leaves(bound, is_named=True).items()}


def leaves(thing: Any, name: str = "", *, is_named: bool = False) -> dict[str, Any]:
    """Return the leaves of nested containers, by path."""
    if isinstance(thing, dict):
        parts = [(f"{name}.{key}" if is_named else f"{name}[{key!r}]", each) for key, each in thing.items()]
    elif isinstance(thing, (list, tuple)):
        names = getattr(thing, "_fields", None)
        parts = [(f"{name}.{names[n]}" if names else f"{name}[{n}]", each) for n, each in enumerate(thing)]
    elif hasattr(thing, "__dataclass_fields__"):
        parts = [(f"{name}.{key}", getattr(thing, key)) for key in thing.__dataclass_fields__]
    else:
        return {name or "output": thing}
    return {path: leaf for key, each in parts for path, leaf in leaves(each, key).items()}
