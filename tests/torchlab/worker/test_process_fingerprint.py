"""What a worker says of itself, and what it names when code has changed something for all that runs after it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

HERE = Path(__file__).parent
WORKER = Path(__file__).parents[3] / "esper_agents/torchlab/worker"
# What is done, the name under which it is told, and what stands there after.
CHANGED = {
    "a_function_of_torch": {"torch.matmul": "__main__.other"},
    "a_clock": {"time.perf_counter": "__main__.other"},
    "a_method_that_tensors_inherit": {"torch.Tensor.matmul": "__main__.other"},
    "forward_of_a_layer": {"torch.nn.modules.linear.Linear.forward": "__main__.other"},
    "code_of_a_function": {"torch.nn.functional.relu": "the same function with other code or defaults"},
    "defaults_of_a_function": {"torch.nn.functional.softmax": "the same function with other code or defaults"},
    "call_of_one_class": {"torch.nn.modules.activation.ReLU.__call__": "__main__.other"},
    "a_builtin": {"builtins.sorted": "functools.a partial"},
    "a_random_function": {"random.random": "__main__.other"},
    "the_collector": {"gc.enabled": False},
    "a_module": {"sys.modules['time']": "__main__.other"},
    "tracing": {"sys.trace": "__main__.watch"},
    "a_handler": {"signals": {"SIGUSR1": "__main__.other"}},
    "a_timer": {"signals": {"SIGALRM": "__main__.other"}, "timer": True},
    "default_dtype": {"default_dtype": "float64"},
    "precision": {
        "float32_matmul_precision": "medium",
        "cuda.matmul.allow_tf32": True,
        "cuda.matmul.fp32_precision": "tf32",
        "mkldnn.matmul.fp32_precision": "bf16",
    },
    "precision_by_operation": {"float32_matmul_precision": "mixed", "mkldnn.matmul.fp32_precision": "bf16"},
    "precision_by_old_and_new": {
        "float32_matmul_precision": "high",
        "cuda.matmul.allow_tf32": True,
        "cuda.matmul.fp32_precision": "tf32",
        "cudnn.allow_tf32": "mixed",
        "cudnn.conv.fp32_precision": "ieee",
    },
    "threads": {"num_threads": 2},
    "determinism": {"deterministic_algorithms": True},
    "denormals": {"flush_denormal": True},
    "gradients": {"grad_enabled": False},
    "a_mode": {"default_device": "meta", "function_modes": 1},
    "a_hook_on_all_modules": {"module_hooks": 1},
    "a_kernel": {"kernels": ["aten/sinc/CPU"]},
}


@pytest.fixture(scope="module")
def told():
    command = [sys.executable, "-W", "ignore", str(HERE / "changing.py"), str(WORKER)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LD_PRELOAD": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.sample(1)
@pytest.mark.parametrize("scenario", ["nothing", "ordinary_use"])
def test_ordinary_use_of_torch_changes_nothing(told, scenario):
    assert told[scenario] == []


@pytest.mark.sample(7)
@pytest.mark.parametrize("scenario", CHANGED)
def test_what_was_changed_for_all_is_named_with_what_stands_there_now(told, scenario):
    assert {each["name"]: each["after"] for each in told[scenario]} == CHANGED[scenario]


def test_a_precision_for_all_is_named_for_each_backend_and_operation(told):
    changed = {each["name"]: each["after"] for each in told["precision_of_all"]}
    new = {name: after for name, after in changed.items() if name.endswith("fp32_precision")}
    assert set(new.values()) == {"tf32"}
    assert {"fp32_precision", "cuda.matmul.fp32_precision", "mkldnn.rnn.fp32_precision"} <= new.keys()
    assert {changed["float32_matmul_precision"], changed["cuda.matmul.allow_tf32"]} == {"mixed"}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is only one processor to be bound to")
def test_being_bound_to_other_processors_is_named(told):
    assert [each["name"] for each in told["processors"]] == ["affinity"]


def test_names_that_nobody_touched_are_told_as_such(told):
    assert [each["before"] for each in told["a_clock"]] == ["untouched"]


def test_a_worker_describes_its_torch(told):
    described = told["described"]

    assert described["version"] == version("torch")
    assert re.fullmatch(r"[0-9a-f]{40}", described["git_version"])
    assert described["cpu_capability"] in {"DEFAULT", "AVX2", "AVX512", "NEON", "SVE256", "ZVECTOR", "VSX", "unknown"}
    assert described["devices"][0] == {"type": "cpu"}
    assert described["settings"]["OMP_NUM_THREADS"] == "1"
    assert described["python"]["version"] == sys.version.split()[0]
    assert described["flags"]["num_threads"] == 1
    assert re.fullmatch(r"\d+\.\d|absent", described["cuda_driver"])


def test_settings_show_no_folders(told):
    assert not [each for each in told["described"]["settings"].values() if "/" in each]
