"""Find the retainers of an object: walk up Python's references to one that has a name in the source."""

from __future__ import annotations

import collections
import gc
import os
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import FOLDER
from .reference_names import PASSAGES, Holder, ReferenceStep, is_waiting, named

_MOST_RUNGS = 400
_DEEPEST = 16
_MOST_FOREIGN = 2


def holders(thing: Any, is_own: Callable[[str], bool]) -> list[Holder]:
    """Return the retainers of an object, nearest first; empty if Python's garbage collector does not track it.

    Args:
        thing: The object.
        is_own: Whether a file is the user's. An object of a library is named by the user's object that retains
            it, and by the library's name only without one.
    """
    foreign: list[Holder] = []
    queue = collections.deque([ReferenceStep(thing, "", None)])
    seen = {id(thing)}
    owners: set[int] = set()
    while queue and len(seen) < _MOST_RUNGS:
        rung = queue.popleft()
        found: list[Holder] = []
        for referrer in gc.get_referrers(rung.thing):
            if id(referrer) in seen or _is_ours(referrer):
                continue
            seen.add(id(referrer))
            names = [each for each in named(referrer, rung) if not _is_ours(each.owner)]
            found += [name for name in names if is_own(name.filename)]
            others = [name for name in names if not is_own(name.filename)]
            foreign += others
            queue += [
                each for each in (*_further(referrer, rung, names), *_behind(others, owners)) if each.deep < _DEEPEST
            ]
        if found:
            return found
    return foreign[:_MOST_FOREIGN]


def _further(referrer: Any, rung: ReferenceStep, names: list[Holder]) -> list[ReferenceStep]:
    """Return the step to an unnamed referrer, if it may have referrers."""
    is_dead_frame = isinstance(referrer, types.FrameType) and not is_waiting(referrer)
    if names or not (is_dead_frame or isinstance(referrer, PASSAGES)):
        return []
    return [ReferenceStep(referrer, _accessor(referrer, rung.thing) + rung.path, rung)]


def _behind(names: list[Holder], owners: set[int]) -> list[ReferenceStep]:
    """Return the steps to the owners of library names.

    Optimizers are omitted: they hold all parameters, whose own names are more useful.
    """
    rungs = []
    for name in names:
        is_optimizer = isinstance(name.owner, torch.optim.Optimizer)
        if name.kind in ("attribute", "object") and id(name.owner) not in owners and not is_optimizer:
            owners.add(id(name.owner))
            path = name.name[len(type(name.owner).__qualname__) :] if name.kind == "attribute" else ""
            rungs.append(ReferenceStep(name.owner, path, name.rung))
    return rungs


def referred(things: list[Any]) -> set[int]:
    """Return the objects that Python references, by `id`: found in one pass over all objects."""
    wanted = {id(thing) for thing in things}
    found: set[int] = set()
    for referrer in gc.get_referrers(*things):
        if referrer is not things and not _is_ours(referrer):
            found |= wanted & {id(referent) for referent in gc.get_referents(referrer)}
    return found


def _is_ours(thing: Any) -> bool:
    if type(thing).__module__.startswith((__package__ or "?").rpartition(".")[0]):
        return True
    if isinstance(thing, types.FrameType):
        return thing.f_code.co_filename.startswith(FOLDER + os.sep)
    return False


def _accessor(container: Any, thing: Any) -> str:
    if isinstance(container, dict):
        key = next((key for key, each in container.items() if each is thing), None)
        return f"[{key!r}]" if isinstance(key, str) else ""
    return ""
