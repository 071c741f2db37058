"""Whether a candidate can tell from its surroundings that its calls are timed, by probes in both kinds of process."""

import json
from contextlib import suppress

import pytest

from esper_agents.torchlab.compare.compare import ComparisonRequest, compare
from esper_agents.torchlab.compare.measure import Arm
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.lab import Lab, LabSettings
from esper_agents.torchlab.target import TargetSpec

torch = pytest.importorskip("torch", reason="no torch: NOTHING was compared")

PAIR = """
import gc
import json
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

IMPORTED = time.monotonic()
CALLS = 0


def read(path):
    try:
        return Path(path).read_text()
    except OSError as error:
        return str(error.errno)


def links(folder):
    return sorted(re.sub("[0-9]+", "N", plain(os.readlink(f"{folder}/{each}"))) for each in os.listdir(folder)
                  if os.path.islink(f"{folder}/{each}"))


def plain(text):
    return re.sub("worker-[^/ ]+", "worker", text)


STATUS = ("Groups", "NSpid", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp", "Seccomp_filters",
          "Threads", "TracerPid", "Uid", "Umask")
PROBES = {
    "number of processors": lambda: len(os.sched_getaffinity(0)),
    "processors the kernel allows": lambda: len(re.findall("[0-9]+", read("/proc/self/status").split(
        "Cpus_allowed_list:")[1].split("\\n")[0])),
    "modules": lambda: sorted(sys.modules),
    "descriptors": lambda: links("/proc/self/fd"),
    "environment": lambda: {name: plain(each) for name, each in os.environ.items()},
    "number of its folder": lambda: bool(re.fullmatch("worker-[0-9]+", Path(os.environ["HOME"]).name)),
    "files of its folder": lambda: sorted({*os.listdir(os.environ["HOME"])} - {"probed.json"}),
    "maps by name": lambda: sorted({line.split(maxsplit=5)[5].strip() for line in read("/proc/self/maps").splitlines()
                                    if len(line.split(maxsplit=5)) > 5}),
    "threads": lambda: (threading.active_count(), len(os.listdir("/proc/self/task"))),
    "signals": lambda: [str(signal.getsignal(each)) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD,
                        signal.SIGALRM, signal.SIGPROF)],
    "status": lambda: {line.split(":")[0]: plain(line) for line in read("/proc/self/status").splitlines()
                       if line.split(":")[0] in STATUS and not line.startswith("NSpid")},
    "arguments": lambda: [sys.argv, read("/proc/self/cmdline")],
    "parent": lambda: [os.getppid(), os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()],
    "cgroup": lambda: read("/proc/self/cgroup"),
    "limits": lambda: [resource.getrlimit(getattr(resource, name)) for name in sorted(dir(resource))
                       if name.startswith("RLIMIT_") and name not in {"RLIMIT_AS", "RLIMIT_DATA"}],
    "limit of addresses": lambda: resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY,
    "flags": lambda: str(sys.flags),
    "collector": lambda: [gc.isenabled(), gc.get_threshold(), gc.get_debug(), len(gc.callbacks)],
    "tracing": lambda: [str(sys.gettrace()), str(sys.getprofile()), sys.getswitchinterval(), sys.getrecursionlimit()],
    "torch": lambda: [torch.get_num_threads(), torch.get_num_interop_threads(), torch.is_grad_enabled(),
                      torch.is_inference_mode_enabled(), str(torch.get_default_dtype()),
                      torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
                      torch.backends.mkldnn.enabled, torch.is_autocast_enabled()],
    "hooks": lambda: [torch.utils._python_dispatch._len_torch_dispatch_stack(), torch._C._len_torch_function_stack(),
                      len(torch.nn.modules.module._global_forward_hooks)],
    "paths": lambda: [plain(each) for each in sys.path],
    "warnings": lambda: str(sys.warnoptions),
    "output": lambda: [os.isatty(1), sys.stdout.line_buffering, type(sys.stdout).__name__],
    "niceness": lambda: [os.nice(0), os.sched_getscheduler(0)],
    "age": lambda: time.monotonic() - IMPORTED > 30,
}


def probe():
    global CALLS
    CALLS += 1
    # Processes make over 200 calls before the first timed one; those that are observed make fewer.
    if CALLS in (3, 300):
        found = {"calls": CALLS}
        for name, look in PROBES.items():
            try:
                found[name] = look()
            except Exception as error:
                found[name] = repr(error)
        Path(tempfile.gettempdir(), "probed.json").write_text(json.dumps(found))


def get_inputs():
    return (torch.randn(16, 16),)


def baseline(x):
    return torch.tanh(x)


def candidate(x):
    probe()
    return torch.tanh(x)
"""


class WatchedLab(Lab):
    """Lab that reads what the candidate left in a process's folder before the folder is deleted."""

    probed = None

    def worker(self, **options):
        handle = super().worker(**options)
        kill = handle.kill

        def read_and_kill():
            # Other processes, such as those of the baseline, leave none.
            with suppress(OSError):
                self.probed.append(json.loads((handle.scratch / "probed.json").read_text()))
            kill()

        handle.kill = read_and_kill
        return handle


@pytest.fixture(scope="module")
def probed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("probed")
    (folder / "pair.py").write_text(PAIR)
    arms = [Arm(TargetSpec(f"pair.py:{name}"), folder) for name in ("baseline", "candidate")]
    with WatchedLab(folder, LabSettings(timeout_s=60)) as lab:
        lab.probed = []
        question = ComparisonRequest(effort=Effort.QUICK, has_extras=False)
        verdict = compare(lab, *arms, question).result["verdict"]
        # Each process may have another processor, which is no difference of the arms.
        assert verdict["outcome"] not in {"wrong", "error"}, verdict
        # The first process of the candidate is observed, the second one chooses lengths of batches.
        assert len(lab.probed) > 6
        assert (lab.probed[0]["calls"], lab.probed[-1]["calls"]) == (3, 300)
        return lab.probed


def names():
    space = {}
    exec(PAIR, space)  # noqa: S102 - the test's own text
    return sorted(space["PROBES"])


@pytest.mark.parametrize("name", names())
def test_a_probe_sees_the_same_where_calls_are_observed_and_where_they_are_timed(probed, name):
    observed, *timed = [found[name] for found in probed]
    others = [found for found in timed if found != observed]
    assert not others, f"observed {str(observed)[:400]}, timed {str(others[0])[:400]}"


def test_no_process_can_read_from_its_folder_how_many_came_before_it(probed):
    assert not any(found["number of its folder"] for found in probed)
