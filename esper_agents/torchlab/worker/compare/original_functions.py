"""Original functions of torch and the interpreter, saved before user code runs to detect patches."""

from __future__ import annotations

import builtins
import gc
import math
import os
import random
import signal
import statistics
import sys
import threading
import time
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
import torch.testing
import torch.utils.checkpoint

_MISSING = object()
# Saved here: code that patches functions may also patch those that would detect it.
_callable, _dict, _getattr, _isinstance = callable, dict, getattr, isinstance
_sorted, _type, _vars = sorted, type, vars
_C: Any = torch._C  # noqa: SLF001 - operations live there
_MODULES: tuple[ModuleType, ...] = (
    builtins, time, random, math, statistics, gc, os, signal, sys, threading, torch, torch.nn, torch.nn.functional,
    torch.nn.init, torch.nn.modules.module, torch.linalg, torch.fft, torch.special, torch.autograd, torch.func,
    torch.optim, torch.testing, torch.random, torch.cuda, torch.backends.cuda, torch.backends.cudnn,
    torch.utils.checkpoint, _C, *(getattr(_C, each) for each in ("_nn", "_linalg", "_fft", "_special")),
)  # fmt: skip


def _classes() -> list[type]:
    classes: list[type] = [torch.Tensor, torch.nn.Parameter, torch.autograd.Function, random.Random, threading.Thread]
    classes += [var for var in vars(torch.nn).values() if isinstance(var, type)]
    classes += [var for var in vars(torch.optim).values() if isinstance(var, type)]
    return list(dict.fromkeys(classes))


def _code_of(thing: Any) -> FunctionType | None:
    thing = _getattr(thing, "__func__", thing) if _isinstance(thing, (staticmethod, classmethod)) else thing
    return thing if _isinstance(thing, FunctionType) else None


class _Pristine:
    """Attributes of modules and classes at one time, kept alive so that no other object can get their identity."""

    def __init__(self) -> None:
        self._modules = [(module.__name__, _vars(module), _dict(_vars(module))) for module in _MODULES]
        self._classes = [(f"{cls.__module__}.{cls.__qualname__}", cls, _dict(_vars(cls))) for cls in _classes()]
        functions = {
            f"{name}.{key}": function
            for name, _, known in (*self._modules, *self._classes)
            for key, each in known.items()
            if (function := _code_of(each)) is not None
        }
        self._functions = [
            (name, each, each.__code__, each.__defaults__, each.__kwdefaults__) for name, each in functions.items()
        ]
        self._loaded = {name: sys.modules[name] for name in ("builtins", "time", "random", "torch", "gc", "sys")}

    def replaced(self) -> dict[str, str]:
        found = {**self._in_functions(), **self._in_modules(), **self._in_classes()}
        for name, module in self._loaded.items():
            if sys.modules.get(name) is not module:
                found[f"sys.modules[{name!r}]"] = _described(sys.modules.get(name, _MISSING))
        return _dict(_sorted(found.items()))

    def _in_modules(self) -> dict[str, str]:
        found = {}
        for name, now, known in self._modules:
            for key, was in known.items():
                each = now.get(key, _MISSING)
                if each is was or _is_state(was, each) or _is_torchs(key, each):
                    continue
                if _callable(was) or _callable(each):
                    found[f"{name}.{key}"] = _described(each)
        return found

    def _in_classes(self) -> dict[str, str]:
        found = {}
        for name, cls, known in self._classes:
            now = _vars(cls)
            # A new attribute of a class may hide an inherited one.
            for key in known if now.keys() == known.keys() else {**known, **now}:
                each = now.get(key, _MISSING)
                if each is not known.get(key, _MISSING) and key not in _BOOKKEEPING and not _is_torchs(key, each):
                    found[f"{name}.{key}"] = _described(each)
        return found

    def _in_functions(self) -> dict[str, str]:
        return {
            name: "the same function with other code or defaults"
            for name, each, code, defaults, by_name in self._functions
            if each.__code__ is not code or each.__defaults__ is not defaults or each.__kwdefaults__ is not by_name
        }


# Attributes that Python and torch themselves add to classes in use.
_BOOKKEEPING = frozenset(("__abstractmethods__", "_abc_impl", "__annotations__", "__annotations_cache__", "__doc__"))


# Wrappers that torch's compiler and optimizers put around their own functions on first use.
_WRAPPED = frozenset(("__init__", "__setstate__", "_init_group", "step", "manual_seed", "Storage"))
_TORCH = str(Path(torch.__file__).parent) + os.sep


def _is_torchs(key: str, each: Any) -> bool:
    """Return whether torch itself made a replacement: a known name, replaced by a function from torch's files."""
    if key == "___needs_generation_tag_patch" or (key == "Storage" and _isinstance(each, type)):
        return True
    code = _getattr(_code_of(each), "__code__", None)
    return key in _WRAPPED and code is not None and code.co_filename.startswith(_TORCH)


def _is_state(was: Any, each: Any) -> bool:
    """Return whether a module's attribute is one that the module itself sets on first use."""
    return was is None or _isinstance(was, ModuleType) or _isinstance(each, ModuleType)


def _described(thing: Any) -> str:
    if thing is _MISSING:
        return "removed"
    thing = _getattr(thing, "__func__", thing) if _isinstance(thing, (staticmethod, classmethod)) else thing
    name = _getattr(thing, "__qualname__", None) or f"a {_type(thing).__qualname__}"
    return f"{_getattr(thing, '__module__', None) or '?'}.{name}"


_KNOWN = _Pristine()


def replaced() -> dict[str, str]:
    """Return the names whose objects have changed since this module was imported, with their current objects.

    Covers attributes of modules, attributes of classes (new ones, too), and code and defaults of functions.
    """
    return _KNOWN.replaced()
