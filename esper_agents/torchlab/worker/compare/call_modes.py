"""Modes in which a user may call a target: of torch, and of a module."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EVALUATION, AUTOCAST, OTHER_THREAD = "evaluation", "autocast", "another thread"
# A copy of the module, whose parameters have changed since: neither its own address nor its class may decide.
COPY = "a copy of the module"
OTHER_DEFAULT = "float64 by default"


def _autocast() -> contextlib.AbstractContextManager[Any]:
    return torch.autocast("cuda" if torch.cuda.is_initialized() else "cpu", dtype=torch.bfloat16)


@contextlib.contextmanager
def _float64_by_default() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# By the name that reports show.
MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "no_grad": torch.no_grad,
    "inference mode": torch.inference_mode,
    AUTOCAST: _autocast,
    OTHER_THREAD: contextlib.nullcontext,
    OTHER_DEFAULT: _float64_by_default,
}


def in_another_thread(call: Callable[[], Any]) -> Any:
    """Return what a call returns in a thread of its own, as in a server; raise what it raises there."""
    given: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            given.append(call())
        except BaseException as error:  # noqa: BLE001 - the user's error belongs to the caller, whatever its type
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return given[0]


@contextlib.contextmanager
def called_in(mode: str, module: torch.nn.Module | None) -> Iterator[None]:
    """Run a block in a mode.

    Args:
        mode: `given`, `evaluation`, or a name in `MODES`.
        module: Module of the target, if it is one.
    """
    # Flags are restored one by one: a frozen part of a module in training stays in evaluation mode.
    is_evaluated = mode == EVALUATION and module is not None
    flags = [(each, each.training) for each in module.modules()] if is_evaluated and module is not None else []
    try:
        if is_evaluated and module is not None:
            module.eval()
        with MODES[mode]() if mode in MODES else contextlib.nullcontext():
            yield
    finally:
        for each, flag in flags:
            each.training = flag
