"""Load the target of a measurement from the user's files and create fresh inputs for it."""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..process.devices import usable
from .captured_calls import CapturedInputs
from .input_spec import Inputs, Spec, TargetError
from .lookup import find, refuse_required, required
from .own_files import own_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

# Default names of the function that makes inputs.
_INPUT_NAMES = ("get_inputs", "make_inputs", "example_inputs")


@dataclass
class LoadedTarget:
    """Target loaded from the user's code, ready to run.

    Attributes:
        name: Name as given by the user.
        kind: `function`, `module` (an nn.Module) or `step` (a callable from a factory, such as a training step).
        file: User file of the target, relative to the root; None if it is in no user file.
        line: First line of its definition.
        root: Absolute path of the project.
        module: The nn.Module, if it is one.
        call: Callable, run as `call(*args, **kwargs)`.
        make_inputs: Makes inputs with torch's current generator state.
        device: Device for its inputs.
        notes: State that jobs keep between requests.
    """

    name: str
    kind: str
    file: str | None
    line: int | None
    root: str
    module: torch.nn.Module | None
    call: Callable[..., Any]
    make_inputs: Callable[[], Inputs] = field(default=Inputs)
    device: str = "cpu"
    notes: dict[str, Any] = field(default_factory=dict)

    def inputs(self, seed: int) -> Inputs:
        """Return new inputs for a seed; torch's and Python's generators are left seeded with it."""
        seed_all(seed)
        if isinstance(self.make_inputs, CapturedInputs):
            return on_device(self.make_inputs.at(seed), self.device)
        return on_device(self.make_inputs(), self.device)

    def many(self, calls: int) -> list[Inputs]:
        """Return new inputs for a number of calls, with the current generator states."""
        if isinstance(self.make_inputs, (Spec, CapturedInputs)):
            return self.make_inputs.many(calls)
        return [self.make_inputs() for _ in range(calls)]

    def in_project(self, filename: str) -> str | None:
        """Return a file's path relative to the project if it is the user's own, not torch's, Python's or ours."""
        return own_file(self.root, filename)


def seed_all(seed: int) -> None:
    """Seed the common random generators of PyTorch code."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def on_device(inputs: Inputs, device: str) -> Inputs:
    """Return the inputs with every tensor on a device."""
    return inputs if device == "cpu" else mapped(inputs, lambda each: each.to(device))


def mapped(inputs: Inputs, change: Callable[[torch.Tensor], torch.Tensor]) -> Inputs:
    """Return the inputs with a function applied to every tensor, in lists, tuples and dictionaries, too."""

    def go(thing: Any) -> Any:
        if isinstance(thing, torch.Tensor):
            return change(thing)
        if isinstance(thing, dict):
            return {name: go(each) for name, each in thing.items()}
        if type(thing) in {list, tuple}:
            return type(thing)(go(each) for each in thing)
        return thing

    return Inputs(go(inputs.args), go(inputs.kwargs))


def load(
    root: str,
    name: str,
    *,
    texts: list[str],
    inputs_from: str | None,
    seed: int,
    device: str = "cpu",
    captured: dict[str, str] | None = None,
) -> LoadedTarget:
    """Import the target `name` and determine how to run it.

    Args:
        root: The project's folder; it and its `src` are put first on the import path.
        name: `file.py:function` or `package.module:Class.method`.
        texts: Input specifications, as in `Spec`.
        inputs_from: `FILE:FUNCTION` that returns the inputs, instead of texts.
        seed: Seed of the generators before any user object is built.
        device: Device for modules and inputs.
        captured: `file` of recorded calls whose inputs replace all others; empty during recording.

    Raises:
        TargetError: There is no such target, or it cannot be used this way.
    """
    device = usable(device)
    put_on_path(root)
    seed_all(seed)
    module, found = find(root, name)
    file, line = definition_of(root, found, module)
    seed_all(seed)
    has_inputs = captured is not None or bool(texts or inputs_from or _conventional(module))
    kind, call = as_callable(name, found, has_inputs=has_inputs)
    network = call if isinstance(call, torch.nn.Module) else None
    if network is not None and device != "cpu":
        network.to(device)
    target = LoadedTarget(name, kind, file, line, root, network, call, device=device)
    if captured is None:
        target.make_inputs = _maker(root, target, module, texts, inputs_from)
    elif captured["file"]:
        target.make_inputs = CapturedInputs(captured["file"])
    return target


def put_on_path(root: str) -> None:
    """Put a project's folder and its `src` first on the import path."""
    for folder in (f"{root}/src", root):
        if Path(folder).is_dir() and folder not in sys.path:
            sys.path.insert(0, folder)


def definition_of(root: str, found: Any, module: ModuleType | None = None) -> tuple[str | None, int | None]:
    """Return the file, relative to the project, and the line of an object's definition; None outside the project.

    Args:
        root: The project's folder.
        found: A function, class, method or module object.
        module: Module to name if the definition is unknown.
    """
    thing = inspect.unwrap(found) if callable(found) else found
    thing = getattr(thing, "__func__", thing)
    if isinstance(thing, torch.nn.Module):
        thing = type(thing)
    try:
        file = inspect.getsourcefile(thing)
        _, line = inspect.getsourcelines(thing)
    except (TypeError, OSError):
        file, line = getattr(module, "__file__", None), 1
    own = own_file(root, file) if file else None
    return own, line if own else None


def as_callable(name: str, found: Any, *, has_inputs: bool) -> tuple[str, Callable[..., Any]]:
    """Return the kind of a target, as in `LoadedTarget`, and what to call; factories are run.

    Args:
        name: Name as given by the user.
        found: The object of that name.
        has_inputs: Whether inputs are available, so that a callable with optional arguments is no factory.

    Raises:
        TargetError: It cannot be called.
    """
    if isinstance(found, torch.nn.Module):
        return "module", found
    if inspect.isclass(found):
        refuse_required(repr(name), found, f"write a function without arguments that returns a {found.__name__}")
        found = found()
        if isinstance(found, torch.nn.Module):
            return "module", found
        if callable(found):
            return "step", found
        raise TargetError(
            f"{name!r} makes an object of type {type(found).__name__}, which cannot be called",
            "name one of its methods",
        )
    if not callable(found):
        raise TargetError(
            f"{name!r} is of type {type(found).__name__}, which cannot be called", "name a function or an nn.Module"
        )
    # It needs no arguments: a factory if its result is callable, otherwise the target itself.
    made = None if required(found) or (has_inputs and _takes_any(found)) else found()
    if isinstance(made, torch.nn.Module):
        return "module", made
    if callable(made) and not isinstance(made, torch.Tensor):
        return "step", made
    return "function", found


def _takes_any(found: Callable[..., Any]) -> bool:
    try:
        return bool(inspect.signature(found).parameters)
    except (TypeError, ValueError):
        return True  # built in: its signature is unknown


def _conventional(module: ModuleType) -> Callable[[], Any] | None:
    return next((made for input_name in _INPUT_NAMES if callable(made := getattr(module, input_name, None))), None)


def _maker(
    root: str, target: LoadedTarget, module: ModuleType, texts: list[str], inputs_from: str | None
) -> Callable[[], Inputs]:
    if texts:
        return Spec(texts)
    taken = target.call if target.module is None else target.module.forward
    # A function found by default name is for targets with arguments; a named one is for this target.
    function = find(root, inputs_from)[1] if inputs_from else _conventional(module) if _takes_any(taken) else None
    if function is None:
        if missing := required(taken):
            raise TargetError(
                f"{target.name!r} needs inputs: {', '.join(missing)}",
                'give --input "randn(32,128)" for each, or --inputs FILE:FUNCTION, or define get_inputs() beside it',
            )
        return Inputs
    refuse_required(repr(inputs_from or "get_inputs"), function, "give its arguments defaults")
    return lambda: _as_inputs(function())


def _as_inputs(made: Any) -> Inputs:
    match made:
        case Inputs():
            return made
        case (tuple() | list() as args, dict() as kwargs) if all(isinstance(each, str) for each in kwargs):
            return Inputs(tuple(args), kwargs)
        case dict() if made and all(isinstance(each, str) and each.isidentifier() for each in made):
            return Inputs((), made)
        case tuple() | list():
            return Inputs(tuple(made))
        case _:
            return Inputs((made,))
