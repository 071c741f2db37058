"""Name a reference in the user's terms: an attribute, a variable, a default argument, a cache."""

from __future__ import annotations

import collections
import functools
import gc
import inspect
import sys
import traceback
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

_CACHE = type(functools.lru_cache(lambda: None))
# Types without a name, skipped on the way up.
PASSAGES = (
    *(list, tuple, dict, set, frozenset, collections.deque, functools.partial),
    *(types.CellType, types.TracebackType, types.MethodType, BaseException),
)
_PARTS = ("_buffers", "_parameters", "_modules")


class ReferenceStep:
    """One object on the way up, with the path to the object at the bottom.

    Attributes:
        thing: The object.
        path: Suffix of its name, such as `['loss']`.
        below: The next step down; None at the bottom.
        deep: Number of steps below.
    """

    __slots__ = ("below", "deep", "path", "thing")

    def __init__(self, thing: Any, path: str, below: ReferenceStep | None) -> None:
        self.thing = thing
        self.path = path
        self.below = below
        self.deep: int = below.deep + 1 if below else 0

    def containers(self) -> list[Any]:
        """Return the containers on the way down, such as lists and dictionaries, this one first."""
        found = [self.thing] if _is_container(self.thing) else []
        return found + (self.below.containers() if self.below else [])


@dataclass
class Holder:
    """Named retainer of an object.

    Attributes:
        kind: `attribute`, `class attribute`, `global`, `closure`, `default`, `local`, `cache`, `function` (of autograd)
            or `object`.
        name: Name in the user's terms, such as `Trainer.losses`.
        variable: Last part of the name, as in the source.
        filename: Source file; empty if unknown.
        line: Line of the owner's definition; 0 if unknown.
        owner: Owner of the name.
        rung: Reference step from which the walk reached it.
    """

    kind: str
    name: str
    variable: str
    filename: str
    line: int
    owner: Any
    rung: ReferenceStep

    @property
    def containers(self) -> list[Any]:
        """Containers on the way down, such as lists and dictionaries, the named one first."""
        return self.rung.containers()


def _is_container(thing: Any) -> bool:
    return isinstance(thing, (list, dict, set, frozenset, collections.deque)) and not _is_namespace(thing)


def _is_namespace(thing: Any) -> bool:
    return isinstance(thing, dict) and any(
        getattr(referrer, "__dict__", None) is thing
        for referrer in gc.get_referrers(thing)
        if not isinstance(referrer, dict)
    )


def named(referrer: Any, rung: ReferenceStep) -> Iterator[Holder]:
    """Yield the names of a referrer, if it has any."""
    thing = rung.thing
    if isinstance(referrer, dict):
        yield from _of_namespace(referrer, rung)
    elif isinstance(referrer, types.CellType):
        yield from _of_cell(referrer, rung)
    elif isinstance(referrer, (types.FrameType, types.GeneratorType, types.CoroutineType)):
        yield from _of_frame(referrer, rung)
    elif isinstance(referrer, types.FunctionType):
        yield from _of_function(referrer, rung)
    elif isinstance(referrer, _CACHE):
        wrapped = inspect.unwrap(referrer)
        yield _holder("cache", f"functools cache of {_called(wrapped)}", _called(wrapped), referrer, rung)
    elif isinstance(referrer, torch.autograd.function.FunctionCtx):
        yield from _of_attributes(referrer, rung, "function")
    elif isinstance(referrer, type):
        yield from (
            _holder("class attribute", f"{referrer.__qualname__}.{name}{rung.path}", name, referrer, rung)
            for name, each in vars(referrer).items()
            if each is thing
        )
    elif not isinstance(referrer, (*PASSAGES, types.ModuleType)):
        yield from _of_attributes(referrer, rung, "attribute")


def _of_namespace(namespace: dict[Any, Any], rung: ReferenceStep) -> Iterator[Holder]:
    names = [name for name, each in namespace.items() if each is rung.thing and isinstance(name, str)]
    if "__name__" in namespace and "__builtins__" in namespace:
        filename = str(namespace.get("__file__") or "")
        for name in names:
            yield Holder("global", name + rung.path, name, filename, 0, namespace, rung)
        return
    for owner in gc.get_referrers(namespace):
        if isinstance(owner, type):
            for name in names:
                yield _holder("class attribute", f"{owner.__qualname__}.{name}{rung.path}", name, owner, rung)
        elif isinstance(owner, types.FunctionType) and owner.__dict__ is namespace:
            for name in names:
                yield _holder("attribute", f"{_called(owner)}.{name}{rung.path}", name, owner, rung)
        elif getattr(owner, "__dict__", None) is namespace:
            yield from _of_attributes(owner, rung, "attribute")


def _of_attributes(owner: Any, rung: ReferenceStep, kind: str) -> Iterator[Holder]:
    kind = "function" if isinstance(owner, torch.autograd.function.FunctionCtx) else kind
    cls = type(owner)
    names = [name for name, each in _attributes(owner) if each is rung.thing]
    for name in names:
        path, below = rung.path, rung
        if name in _PARTS and path.startswith("['") and rung.below is not None:
            # Items of a module's own dictionaries are attributes for its author.
            name, _, path = path[2:].partition("']")  # noqa: PLW2901 - the same attribute, by its other name
            below = rung.below
        yield _holder(kind, f"{cls.__qualname__}.{name}{path}", name, owner, below)
    if not names and kind == "function":
        yield _holder(kind, cls.__qualname__, "", owner, rung)
    elif not names and cls.__module__ not in ("builtins", "weakref"):
        yield _holder("object", f"an object of class {cls.__qualname__}", "", owner, rung)


def _attributes(owner: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(owner, "__dict__", {}).items()
    for cls in type(owner).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(owner, name):
                yield name, getattr(owner, name)


def _of_cell(cell: types.CellType, rung: ReferenceStep) -> Iterator[Holder]:
    for closure in gc.get_referrers(cell):
        if not isinstance(closure, tuple):
            continue
        for function in gc.get_referrers(closure):
            if isinstance(function, types.FunctionType) and function.__closure__ is closure:
                place = next(number for number, each in enumerate(closure) if each is cell)
                name = function.__code__.co_freevars[place]
                yield _holder("closure", f"{name}{rung.path}", name, function, rung)


def _of_function(function: types.FunctionType, rung: ReferenceStep) -> Iterator[Holder]:
    below = rung.below.thing if rung.below else None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is rung.thing or (below is not None and parameter.default is below):
            name = f"{parameter.name} of {_called(function)}"
            yield _holder("default", name, parameter.name, function, rung)


def _of_frame(running: Any, rung: ReferenceStep) -> Iterator[Holder]:
    frame = running if isinstance(running, types.FrameType) else getattr(running, "gi_frame", None)
    if frame is None or not is_waiting(frame):
        return
    for name, each in frame.f_locals.items():
        if each is rung.thing:
            code = frame.f_code
            yield Holder(
                "local",
                f"{name}{rung.path} of {code.co_name}",
                name,
                code.co_filename,
                frame.f_lineno,
                code,
                rung,
            )


def _holder(kind: str, name: str, variable: str, owner: Any, rung: ReferenceStep) -> Holder:
    defined = inspect.unwrap(owner) if isinstance(owner, _CACHE) else owner
    if not isinstance(defined, (type, types.FunctionType)):
        defined = type(defined)
    try:
        filename, (_, line) = inspect.getsourcefile(defined) or "", inspect.getsourcelines(defined)
    except (TypeError, OSError):
        module = sys.modules.get(getattr(defined, "__module__", "") or "")
        filename, line = getattr(module, "__file__", None) or "", 0
    return Holder(kind, name, variable, filename, line, owner, rung)


def _called(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def is_waiting(frame: types.FrameType) -> bool:
    """Return whether a frame will continue; otherwise only a traceback keeps it alive."""
    for innermost in sys._current_frames().values():  # noqa: SLF001 - the documented way to other threads' stacks
        if any(running is frame for running, _ in traceback.walk_stack(innermost)):
            return True
    return any(getattr(referrer, "gi_frame", None) is frame for referrer in gc.get_referrers(frame))
