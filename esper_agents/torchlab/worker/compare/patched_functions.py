"""Detection of patched library functions and of whether the project patched them."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from ..process import channel, worker_process
from ..target import backward as gradients
from ..target import call_results as handling
from ..target import module_state as parameters
from ..target import pytrees as structure
from ..target import target
from . import background_work as aftermath
from . import float64_reference as precision
from . import rounding_noise as noise
from . import step_runner as stage
from . import tensor_bundle as bundle
from . import tensor_bytes, timed_inputs

if TYPE_CHECKING:
    from types import ModuleType

    from ..target.target import LoadedTarget

_MODULES = [
    aftermath,
    bundle,
    channel,
    gradients,
    handling,
    noise,
    parameters,
    precision,
    stage,
    structure,
    target,
    tensor_bytes,
    timed_inputs,
    worker_process,
]
_CLASSES = (bundle.Bundle, bundle.Piece, channel.Channel, stage.Stage, target.LoadedTarget)
_vars = vars


def watch(module: ModuleType) -> None:
    """Add a module to those whose functions must not change; it has been imported whole."""
    _MODULES.append(module)
    _KNOWN.update(_functions_of(module))


def _functions_of(module: ModuleType) -> dict[str, tuple[Any, Any]]:
    named = ((name, each) for name, each in _vars(module).items() if not name.startswith("__"))
    return {f"{module.__name__}.{name}": (each, getattr(each, "__code__", None)) for name, each in named}


def _functions() -> dict[str, tuple[Any, Any]]:
    found: dict[str, tuple[Any, Any]] = {}
    for module in _MODULES:
        found |= _functions_of(module)
    for kind in _CLASSES:
        for name, each in _vars(kind).items():
            found[f"{kind.__qualname__}.{name}"] = each, getattr(each, "__code__", None)
    return found


_KNOWN = _functions()


def replaced_of_ours() -> dict[str, str]:
    """Return the names in the measuring code itself that have changed since this module was imported."""
    now = _functions()
    gone = (object(), None)
    return {
        name: "something else"
        for name, (was, code) in _KNOWN.items()
        if now.get(name, gone)[0] is not was or now.get(name, gone)[1] is not code
    }


def is_by_user(target: LoadedTarget, name: str) -> bool:
    """Return whether a replacement comes from the user's files, or has no known origin.

    Args:
        target: Target whose project counts.
        name: Replaced name, such as `torch.Tensor.clone`.
    """
    thing = _found(name)
    for _ in range(8):
        if isinstance(thing, (staticmethod, classmethod)):
            thing = thing.__func__
        elif isinstance(thing, functools.partial):
            thing = thing.func
        else:
            break
    code = getattr(thing, "__code__", None)
    if code is None:
        return True
    return not code.co_filename.startswith("<") and target.in_project(code.co_filename) is not None


def _found(name: str) -> Any:
    """Return the object of a dotted name; None if it no longer exists."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        module = sys.modules.get(".".join(parts[:length]))
        if module is not None:
            found: Any = module
            for part in parts[length:]:
                found = vars(found).get(part) if hasattr(found, "__dict__") else None
            return found
    return None
