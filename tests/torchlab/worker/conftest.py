"""A warm process that measures memory: importing what it needs takes longer than all tests together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[3] / "esper_agents" / "torchlab" / "worker"
PROJECT = Path(__file__).parents[1] / "memory_project"


@pytest.fixture(scope="session")
def ask(tmp_path_factory):
    """Return what runs a job on a target in a process of its own: `ask(job, target, *inputs, root=..., **request)`."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("memory_process.py")), str(WORKER)]
    scratch = tmp_path_factory.mktemp("scratch")
    process = subprocess.Popen(
        [*command, str(scratch)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )

    def run(job, target, *inputs, root=PROJECT, **request):
        asked = {
            "job": job,
            "root": str(root),
            "target": {"name": target, "texts": list(inputs), "inputs_from": None, "seed": 0},
            "request": request,
        }
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
        assert "result" in told, told.get("trace")
        return told["result"]

    yield run
    process.stdin.close()
    process.stdout.close()
    process.wait()


@pytest.fixture(scope="session")
def driven(tmp_path_factory):
    """Return what `driven.py` told: what is done with CUDA devices, on a machine that has none."""
    here, folder = Path(__file__).parent, tmp_path_factory.mktemp("driver")
    library = []
    if shutil.which("cc"):
        (folder / "driver.c").write_text("int cuDriverGetVersion(int *v) { *v = 12080; return 0; }\n")
        library = [str(folder / "libcuda.so")]
        built = ["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", *library, str(folder / "driver.c")]
        subprocess.run(built, check=True)
    command = [sys.executable, "-W", "ignore", str(here / "driven.py"), str(WORKER), *library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
