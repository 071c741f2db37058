"""Run by a test under an interpreter of its own: what `global_state` says after code has changed something for all."""

import builtins
import functools
import gc
import importlib.util
import json
import os
import random
import signal
import sys
import time


def load(folder):
    spec = importlib.util.spec_from_file_location(
        "esper_worker", folder + "/__init__.py", submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["esper_worker"] = module
    spec.loader.exec_module(module)


load(sys.argv[1])

import torch  # noqa: E402 - as the warm parent does: the worker's package comes first
from esper_worker.compare import process_fingerprint as fingerprint  # noqa: E402
from torch import nn  # noqa: E402


def other(*args, **kwargs):
    return args, kwargs


def watch(_frame, _event, _argument):
    return None


def nothing():
    pass


def ordinary_use():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    torch.manual_seed(3)
    model(torch.rand(3, 4)).sum().backward()
    optimizer.step()
    torch.compile(lambda x: x.sin() + 1, backend="eager")(torch.rand(3))
    with torch.profiler.profile():
        torch.rand(3)


def a_function_of_torch():
    torch.matmul = other


def a_clock():
    time.perf_counter = other


def a_method_that_tensors_inherit():
    torch.Tensor.matmul = other


def forward_of_a_layer():
    nn.Linear.forward = other


def code_of_a_function():
    nn.functional.relu.__code__ = other.__code__


def defaults_of_a_function():
    nn.functional.softmax.__defaults__ = (0,)


def call_of_one_class():
    nn.ReLU.__call__ = other


def a_builtin():
    builtins.sorted = functools.partial(sorted, reverse=True)


def a_random_function():
    random.random = other


def the_collector():
    gc.disable()


def a_module():
    sys.modules["time"] = other


def tracing():
    sys.settrace(watch)


def a_handler():
    signal.signal(signal.SIGUSR1, other)


def a_timer():
    signal.signal(signal.SIGALRM, other)
    signal.setitimer(signal.ITIMER_REAL, 1000)


def default_dtype():
    torch.set_default_dtype(torch.float64)


def precision():
    torch.set_float32_matmul_precision("medium")


def precision_by_operation():
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"


def precision_of_all():
    torch.backends.fp32_precision = "tf32"


def precision_by_old_and_new():
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.conv.fp32_precision = "ieee"


def threads():
    torch.set_num_threads(2)


def determinism():
    torch.use_deterministic_algorithms(True)


def denormals():
    torch.set_flush_denormal(True)


def gradients():
    torch.set_grad_enabled(False)


def a_mode():
    torch.set_default_device("meta")


def a_hook_on_all_modules():
    nn.modules.module.register_module_forward_hook(other)


LIBRARIES = []


def a_kernel():
    library = torch.library.Library("aten", "IMPL")
    library.impl("sinc", other, "CPU")
    LIBRARIES.append(library)


def processors():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


SCENARIOS = (
    nothing, ordinary_use, a_function_of_torch, a_clock, a_method_that_tensors_inherit, forward_of_a_layer,
    code_of_a_function, defaults_of_a_function, call_of_one_class, a_builtin, a_random_function,
    the_collector, a_module, tracing, a_handler, a_timer, default_dtype, precision, precision_by_operation,
    precision_of_all, precision_by_old_and_new, threads, determinism,
    denormals, gradients, a_mode, a_hook_on_all_modules, a_kernel, processors,
)  # fmt: skip


def changes(scenario):
    """Return what a scenario changes, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        before = fingerprint.global_state()
        scenario()
        found = fingerprint.patched(before, fingerprint.global_state())
        sys.settrace(None)
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as end:
        found = json.loads(end.read())
    os.waitpid(child, 0)
    return found


torch.set_num_threads(1)
told = {each.__name__: changes(each) for each in SCENARIOS} | {"described": fingerprint.describe()}
sys.stdout.write(json.dumps(told) + "\n")
