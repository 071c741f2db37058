"""Fingerprint of this process: settings of torch and the interpreter, and patched functions."""

from __future__ import annotations

import gc
import hashlib
import os
import platform
import shutil
import signal
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

import torch

from ..process import confine
from ..process.devices import driver_version
from .original_functions import replaced

# Saved here, so that later patches by user code are not called.
_gettrace, _getprofile, _getsignal = sys.gettrace, sys.getprofile, signal.getsignal
_affinity = getattr(os, "sched_getaffinity", None)
_sorted = sorted
_SIGNALS = tuple(sorted(signal.valid_signals()))
# Variables that affect torch's computations; of values that contain a path, only the last part is shown.
_PREFIXES = (
    "ATEN_", "CUBLAS_", "CUDA_", "DNNL_", "GOMP_", "HIP_", "KMP_", "MALLOC_", "MKL_", "MPS_", "NCCL_",
    "NVIDIA_TF32", "OMP_", "ONEDNN_", "OPENBLAS_", "PYTORCH_", "ROCM_", "TORCH", "TRITON_",
)  # fmt: skip
# Dispatch keys under which an operation computes, not only infers shapes.
_COMPUTES = ("/CPU", "/AutogradCPU", "/Autograd", "/CompositeImplicitAutograd", "/CompositeExplicitAutograd")
# Locations do not affect results.
_PLACES = ("_DIR", "_PATH", "_HOME", "_FILE", "_ROOT")
_NAMES = ("LD_PRELOAD", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTHONMALLOC", "GLIBC_TUNABLES", "CXX")
_DETERMINISTIC: Any = torch.utils.deterministic
_LIBRARIES = ("numpy", "triton", "torchvision", "torchaudio")
_TINY, _HALF = sys.float_info.min, 0.5
# Permitted float32 rounding inside operations, by torch's names of backend and operation; empty before torch 2.9.
_precision: Any = getattr(torch._C, "_get_fp32_precision_getter", None)  # noqa: SLF001 - uniform access to all of them
_PRECISIONS = {
    "fp32_precision": ("generic", "all"),
    "cuda.matmul.fp32_precision": ("cuda", "matmul"),
    "cudnn.fp32_precision": ("cuda", "all"),
    "cudnn.conv.fp32_precision": ("cuda", "conv"),
    "cudnn.rnn.fp32_precision": ("cuda", "rnn"),
    "mkldnn.fp32_precision": ("mkldnn", "all"),
    "mkldnn.matmul.fp32_precision": ("mkldnn", "matmul"),
    "mkldnn.conv.fp32_precision": ("mkldnn", "conv"),
    "mkldnn.rnn.fp32_precision": ("mkldnn", "rnn"),
}


def describe() -> dict[str, Any]:
    """Return a description of this process: Python, torch, devices, threads, precision, determinism and compiler.

    Unknown facts are `unknown`, missing ones `absent`. Initialises CUDA if present.
    """
    return {
        "python": _python(),
        "version": str(torch.__version__),
        "git_version": str(torch.version.git_version),
        "is_debug": bool(torch.version.debug),
        "build_sha256": hashlib.sha256(torch.__config__.show().encode()).hexdigest(),
        "cuda": torch.version.cuda or "absent",
        "hip": torch.version.hip or "absent",
        "cuda_driver": driver_version() or "absent",
        "cudnn": torch.backends.cudnn.version() or "absent",
        "devices": _devices(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "interop_threads": torch.get_num_interop_threads(),
        "backends": {
            "mkldnn": torch.backends.mkldnn.is_available(),
            "mkl": torch.backends.mkl.is_available(),
            "openmp": torch.backends.openmp.is_available(),
        },
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "cxx": "found" if any(map(shutil.which, ("g++", "clang++", "c++"))) else "absent",
        "settings": _environment(),
        "flags": flags(),
    }


def global_state() -> dict[str, Any]:
    """Return the state that code could have changed for later code, cheap enough to query before and after a call.

    Returns:
        `flags`: settings of torch and the interpreter. `replaced`: names such as `torch.matmul` or `time.perf_counter`
        whose object has changed since this module was imported, with the current objects.
    """
    return {"flags": flags() | _surroundings(), "replaced": replaced()}


def patched(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the differences between two results of `global_state`: `name`, `before` and `after`, by name."""
    found = []
    for kind in ("flags", "replaced"):
        one, other = before[kind], after[kind]
        found += [
            {"name": name, "before": one.get(name, "untouched"), "after": other.get(name, "untouched")}
            for name in _sorted({*one, *other})
            if one.get(name) != other.get(name)
        ]
    return found


def flags() -> dict[str, Any]:
    """Return torch's global settings, by the function or attribute that reads them."""
    cuda, cudnn, mkldnn = torch.backends.cuda.matmul, torch.backends.cudnn, torch.backends.mkldnn
    return {
        "num_threads": torch.get_num_threads(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "default_device": str(torch.get_default_device()),
        "float32_matmul_precision": _agreed(torch.get_float32_matmul_precision),
        "cuda.matmul.allow_tf32": _agreed(lambda: cuda.allow_tf32),
        "cuda.matmul.allow_fp16_reduced_precision_reduction": bool(cuda.allow_fp16_reduced_precision_reduction),
        "cuda.matmul.allow_bf16_reduced_precision_reduction": bool(cuda.allow_bf16_reduced_precision_reduction),
        "cudnn.allow_tf32": _agreed(lambda: cudnn.allow_tf32),
        "cudnn.enabled": bool(cudnn.enabled),
        "cudnn.benchmark": bool(cudnn.benchmark),
        "cudnn.deterministic": bool(cudnn.deterministic),
        "mkldnn.enabled": bool(getattr(mkldnn, "enabled", True)),
        "mkldnn.deterministic": bool(getattr(mkldnn, "deterministic", False)),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic_algorithms_warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill_uninitialized_memory": bool(_DETERMINISTIC.fill_uninitialized_memory),
        "flush_denormal": _TINY * _HALF == 0.0,
        "rounds_to_nearest": 1.0 + _TINY == 1.0 and 1.0 - _TINY == 1.0,
        "grad_enabled": torch.is_grad_enabled(),
        "inference_mode": torch.is_inference_mode_enabled(),
        "anomaly_mode": torch.is_anomaly_enabled(),
        "autocast.cpu": torch.is_autocast_enabled("cpu"),
        "autocast.cuda": torch.is_autocast_enabled("cuda"),
        "autocast.cpu_dtype": str(torch.get_autocast_dtype("cpu")).removeprefix("torch."),
        "autocast.cache": torch.is_autocast_cache_enabled(),
        "sdp.flash": torch.backends.cuda.flash_sdp_enabled(),
        "sdp.math": torch.backends.cuda.math_sdp_enabled(),
        "sdp.memory_efficient": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "mha.fastpath": torch.backends.mha.get_fastpath_enabled(),
        "nnpack": torch.backends.nnpack.is_available(),
        "module_hooks": _module_hooks(),
        "function_modes": torch._C._len_torch_function_stack(),  # noqa: SLF001 - no public name
        "dispatch_modes": torch._C._len_torch_dispatch_stack(),  # noqa: SLF001 - no public name
        "profiler": bool(torch.autograd._profiler_enabled()),  # type: ignore[attr-defined] # noqa: SLF001 - no public name
        "kernels": _kernels(),
        **({name: _precision(*of) for name, of in _PRECISIONS.items()} if _precision is not None else {}),
    }


def _agreed(read: Callable[[], bool | str]) -> bool | str:
    """Return an old switch; `mixed` if new ones are set so that torch refuses to report the old one."""
    try:
        return read()
    except RuntimeError:
        return "mixed"


def _surroundings() -> dict[str, Any]:
    """Return process settings around torch: tracing, collector, signals, processors."""
    state: dict[str, Any] = {
        "sys.trace": _described(_gettrace()),
        "sys.profile": _described(_getprofile()),
        "sys.switch_interval": sys.getswitchinterval(),
        "gc.enabled": gc.isenabled(),
        "gc.threshold": list(gc.get_threshold()),
        "gc.callbacks": [_described(callback) for callback in gc.callbacks],
        "affinity": _processors(),
        "signals": {_signal_name(each): _described(_getsignal(each)) for each in _SIGNALS if _is_handled(each)},
        "timer": list(signal.getitimer(signal.ITIMER_REAL)) != [0.0, 0.0],
    }
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is not None:
        state["sys.monitoring"] = [name for each in range(6) if (name := monitoring.get_tool(each)) is not None]
    return state


def _processors() -> str:
    if _affinity is None:
        return "absent"
    processors = _affinity(0)
    return "as given" if confine.has_processors(processors) else str(_sorted(processors))


def _is_handled(number: int) -> bool:
    handler = _getsignal(number)
    return callable(handler) and handler is not signal.default_int_handler


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _python() -> dict[str, Any]:
    has_gil = getattr(sys, "_is_gil_enabled", None)
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "has_gil": True if has_gil is None else bool(has_gil()),
        "optimize": sys.flags.optimize,
        "is_debug": hasattr(sys, "gettotalrefcount"),
    }


def _devices() -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = [{"type": "cpu"}]
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            known = torch.cuda.get_device_properties(number)
            devices.append(
                {
                    "type": "cuda",
                    "index": number,
                    "name": known.name,
                    "capability": f"{known.major}.{known.minor}",
                    "memory_bytes": known.total_memory,
                    "multiprocessors": known.multi_processor_count,
                }
            )
    if torch.backends.mps.is_available():
        devices.append({"type": "mps"})
    return devices


def _environment() -> dict[str, str]:
    return {
        name: " ".join(part.rpartition("/")[2] for part in each.split())
        for name, each in _sorted(os.environ.items())
        if (name.startswith(_PREFIXES) and not name.endswith(_PLACES)) or name in _NAMES
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"


def _kernels() -> list[str]:
    """Return torch's own operations with an implementation registered from Python, such as `aten/mm/CPU`."""
    known = torch.library._impls  # noqa: SLF001 - no public name
    return _sorted(each for each in known if each.startswith("aten/") and each.endswith(_COMPUTES))


def _module_hooks() -> int:
    module = torch.nn.modules.module
    return sum(
        len(hooks)
        for name, hooks in vars(module).items()
        if name.startswith("_global_") and name.endswith("hooks") and isinstance(hooks, dict)
    )


def _described(thing: Any) -> str:
    if thing is None:
        return "absent"
    name = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{getattr(thing, '__module__', '?')}.{name}"
