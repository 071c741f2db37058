"""The diagnosis beside `torch._dynamo.explain`, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents.torchlab import worker

SCRIPT = """
import importlib, importlib.util, json, sys, warnings
warnings.simplefilter("ignore")
folder, root = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    "esper_worker", folder + "/__init__.py", submodule_search_locations=[folder]
)
sys.modules["esper_worker"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["esper_worker"])
import torch
torch.set_num_threads(1)
job = importlib.import_module("esper_worker.explain.job")
load = importlib.import_module("esper_worker.target.target").load
described = importlib.import_module("esper_worker.results").described
import torch._dynamo
told = {}
for name in ("straight", "cut", "tail", "skipped", "nested"):
    target = load(root, "model.py:" + name, texts=["randn(4, 8)"], inputs_from=None, seed=0)
    ours = job.run(target, {}, lambda what, fraction: None)
    theirs = torch._dynamo.explain(target.call)(*target.inputs(0).args)
    told[name] = [
        [ours.explain.graph_count, ours.explain.graph_break_count, ours.explain.op_count],
        [theirs.graph_count, theirs.graph_break_count, theirs.op_count],
        len(json.dumps(described(ours), allow_nan=False)) > 0,
    ]
print("told", json.dumps(told))
"""
MODEL = """
import torch


def straight(x):
    return torch.relu(x) * 2

def cut(x):
    y = x.sin()
    print("cut")
    return y.cos() + 1

def tail(x):
    y = x.sin()
    print("tail")
    return y

def skipped(x):
    for step in range(3):
        x = x + step
        print(step)
    return x

def nested(x):
    return cut(x * 2) * 3
"""


@pytest.mark.slow
def test_it_counts_as_torch_explain_does(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    script = [sys.executable, "-c", SCRIPT, str(Path(worker.__file__).parent), str(tmp_path)]
    environment = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": str(tmp_path)}
    ran = subprocess.run(script, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-2000:]
    found = json.loads(ran.stdout.rpartition("told ")[2])
    assert {name: counts for name, (counts, _, _) in found.items()} == {
        "straight": [1, 0, 2],
        "cut": [2, 1, 1],
        "tail": [1, 0, 0],
        "skipped": [0, -1, 0],
        "nested": [4, 3, 3],
    }
    assert all(ours == theirs for ours, theirs, _ in found.values())
