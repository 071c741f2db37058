"""Build targets and inputs from fake tensors, which have shapes and no memory."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.utils._pytree import tree_map_only

from ..target.input_spec import Inputs
from ..target.own_files import own_file
from ..target.target import LoadedTarget
from .training_step import Stepper


class UncopiedFakeMode(FakeTensorMode):
    """Fake mode that is not copied along with a fake tensor: under a copy, views lose their base."""

    def __deepcopy__(self, memo: dict[int, Any]) -> UncopiedFakeMode:
        return self


def loaded(make: Callable[[], LoadedTarget], mode: FakeTensorMode, root: str) -> tuple[LoadedTarget, str]:
    """Return a target, built on fake tensors if its code allows it, and otherwise the reason.

    Args:
        make: Makes it; called again outside of the mode if that fails.
        mode: The fake tensor mode.
        root: The project, whose modules are then imported again.
    """
    known = set(sys.modules)
    try:
        with mode:
            return make(), ""
    except Exception as error:  # noqa: BLE001 - code that reads numbers while it is built fails with many errors
        why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    for name in set(sys.modules) - known:
        # Modules of the project imported so far contain fake tensors.
        filename = getattr(sys.modules[name], "__file__", None)
        if filename and own_file(root, filename) is not None:
            del sys.modules[name]
    return without_numbers(make(), mode), why


def without_numbers(target: LoadedTarget, mode: FakeTensorMode) -> LoadedTarget:
    """Return a target whose module is a copy on fake tensors."""
    if target.module is None:
        return target
    with FakeCopyMode(mode):
        module = copy.deepcopy(target.module)
    return dataclasses.replace(target, module=module, call=module)


def made_inputs(steps: Stepper, mode: FakeTensorMode, seed: int) -> Inputs:
    """Return fake inputs; made as real ones first if their code reads numbers."""
    try:
        with mode:
            return steps.inputs(seed)
    except Exception:  # noqa: BLE001 - their factory may read numbers; then real tensors are made
        made = steps.inputs(seed)
    args, kwargs = tree_map_only(torch.Tensor, mode.from_tensor, (made.args, made.kwargs))
    return Inputs(args, kwargs)
