"""Detection of work outside a call: threads, other processes and deferred callbacks."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import sys
import time
from typing import Any

import torch

from ..process import confine
from .tensor_bundle import capture

# Saved before user code ran; later patches have no effect here.
_process_time_ns = time.process_time_ns
_thread_time_ns = time.thread_time_ns
_sleep = time.sleep
_getcwd = os.getcwd
_waitid = os.waitid
_cpu_state = torch.default_generator.get_state
_cpu_seed = torch.default_generator.manual_seed
_python_state = random.getstate
_python_seed = random.seed
_functions_on: Any = torch._C._len_torch_function_stack  # noqa: SLF001 - no public name
_dispatches_on: Any = torch._C._len_torch_dispatch_stack  # noqa: SLF001 - no public name
# State that torch's compiler keeps for itself.
_COMPILERS = ("_TORCHINDUCTOR_", "TORCHINDUCTOR_", "TRITON_")
_WINDOW_S = 0.004
_LIMITS = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_NOFILE", "RLIMIT_STACK")


def clocks_ns() -> tuple[int, int]:
    """Return the processor time of this thread, and the total of all other threads of this process."""
    own = _thread_time_ns()
    return own, _process_time_ns() - own


def has_children() -> bool:
    """Return whether this process has child processes, running or zombie."""
    try:
        _waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def work_while_idle_ns(windows: int = 3) -> int:
    """Sleep for some milliseconds and return the processor time that other threads of this process used meanwhile."""
    most = 0
    for _ in range(windows):
        _, before = clocks_ns()
        _sleep(_WINDOW_S)
        most = max(most, clocks_ns()[1] - before)
    return most


def seed(number: int) -> None:
    """Seed the common random generators of PyTorch code, bypassing patches of `torch.manual_seed`."""
    _cpu_seed(number)
    _python_seed(number)
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        numpy.random.seed(number % 2**32)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)


def generators() -> dict[str, str]:
    """Return digests of the states of the common random generators of PyTorch code."""
    states: dict[str, Any] = {"torch": _cpu_state(), "python": repr(_python_state())}
    numpy = sys.modules.get("numpy")
    if numpy is not None and hasattr(numpy, "random"):
        states["numpy"] = repr(numpy.random.get_state())
    if torch.cuda.is_initialized():
        states |= {f"cuda:{number}": each for number, each in enumerate(torch.cuda.get_rng_state_all())}
    return {name: capture(state).digest() for name, state in states.items()}


def surroundings(scratch: str) -> dict[str, Any]:
    """Return process state that code can change for later code.

    Args:
        scratch: Scratch folder of this process, which differs between processes and is removed from every path.
    """
    return {
        "environment": {
            name: hashlib.blake2b(each.replace(scratch, "").encode(), digest_size=6).hexdigest()
            for name, each in os.environ.items()
            if not name.startswith(_COMPILERS)
        },
        "folder": _getcwd().replace(scratch, ""),
        "niceness": os.nice(0),
        "limits": {name: _limit(name) for name in _LIMITS},
    }


def _limit(name: str) -> list[int] | str:
    if confine.is_as_confined(name):
        return "as confined"
    return list(resource.getrlimit(getattr(resource, name)))


def modes() -> tuple[int, int]:
    """Return the number of active function and dispatch modes of torch: both rewrite operations of other code."""
    return _functions_on(), _dispatches_on()
