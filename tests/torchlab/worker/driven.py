"""Run by a test under an interpreter of its own: what is done with CUDA devices, where a driver of the test's has four.

Run as `python driven.py WORKER_FOLDER [LIBCUDA]`.
"""

import ctypes
import importlib
import importlib.util
import json
import sys
from types import SimpleNamespace

# What is loaded under a name is found by it later: this one comes before torch could load the driver of the machine.
LIBRARIES = [ctypes.CDLL(each) for each in sys.argv[2:]]

import torch  # noqa: E402 - see above

USED = (1, 3)
done = []


class Driver:
    """Stands for what torch has of a driver; notes what it is asked to do."""

    here = 3

    def switch(self, index):
        before = self.here
        self.here = index
        return before

    def install(self):
        has = {
            "getDeviceCount": lambda: 4,
            "hasPrimaryContext": lambda index: index in USED,
            "maybeExchangeDevice": self.switch,
            "synchronize": lambda: done.append(f"waited for {self.here}"),
            "setMemoryFraction": lambda fraction, index: done.append(f"{fraction} of {index}"),
        }
        for name, function in has.items():
            setattr(torch._C, f"_cuda_{name}", function)


def load(folder):
    spec = importlib.util.spec_from_file_location(
        "esper_worker", folder + "/__init__.py", submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["esper_worker"] = module
    spec.loader.exec_module(module)
    return [
        importlib.import_module(f"esper_worker.{each}")
        for each in ("process.devices", "target.input_spec", "target.target", "compare.timing_job")
    ]


driver = Driver()
driver.install()
devices, inputs, target, timing = load(sys.argv[1])
told = {}


def noted(name):
    told[name] = list(done)
    done.clear()


def make_inputs():
    done.append("made")
    return inputs.Inputs((1,))


# What a candidate would do to be waited for less.
for owner, name in ((torch.cuda, "synchronize"), (torch._C, "_cuda_synchronize")):
    setattr(owner, name, lambda *_: done.append("asked the candidate"))

devices.wait("cuda:1")
noted("waits")
devices.wait("cpu")
noted("waits_of_the_cpu")
run = target.LoadedTarget("t", "function", None, None, "/", None, lambda _: done.append("called"), make_inputs, "cuda")
timing.run(run, {"phase": "warm", "calls": 1, "train": False, "seed": 0}, None)
noted("warm")

torch.cuda._initialized = True
devices.wait("cpu")
noted("waits_of_the_cpu_that_uses_cuda")
torch.cuda._get_device_properties = lambda index: SimpleNamespace(total_memory=(8 << 30) * (index + 1))
for device, size in (("cpu", 1 << 30), ("cuda", 2 << 30), ("cuda:1", 4 << 30), ("cuda:2", 99 << 30)):
    devices.bound(device, size)
noted("bounds")
told["here"] = driver.here

for device in ("cuda:4", "cuda:0"):
    try:
        told[device] = devices.usable(device)
    except inputs.TargetError as error:
        told[device] = [error.problem, error.remedy]
if LIBRARIES:
    told["driver"] = devices.driver_version()
sys.stdout.write(json.dumps(told) + "\n")
