"""A process that measures memory as a worker does: a line of JSON in asks for a job, a line out is its result.

Run as `python memory_process.py WORKER_FOLDER SCRATCH`.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import sys
import traceback

import torch
import torch._dynamo  # what every optimizer imports, before anything is looked at

WORKER, SCRATCH = sys.argv[1:]


def _package():
    spec = importlib.util.spec_from_file_location(
        "esper_worker", f"{WORKER}/__init__.py", submodule_search_locations=[WORKER]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["esper_worker"] = module
    spec.loader.exec_module(module)


def _answer(asked):
    load = importlib.import_module("esper_worker.target.target").load
    job = importlib.import_module(importlib.import_module("esper_worker.jobs").MODULES[asked["job"]], "esper_worker")
    request = {**asked["request"], "scratch": SCRATCH}
    if asked["job"] == "memory_estimate":
        return job.run(None, {**request, "root": asked["root"], "target": asked["target"]}, lambda *_: None)
    return job.run(load(asked["root"], **asked["target"]), request, lambda *_: None)


def main():
    torch.set_num_threads(1)
    _package()
    # The worker's own modules too are no concern of a leak's.
    importlib.import_module("esper_worker.memory.job")
    for line in sys.stdin:
        # Each target finds a process with as little in it as a worker that was just forked.
        gc.collect()
        gc.freeze()
        asked = json.loads(line)
        try:
            told = {"result": importlib.import_module("esper_worker.results").described(_answer(asked))}
        except Exception as error:  # noqa: BLE001 - what the job raised is the answer
            told = {"error": type(error).__name__, "message": str(error), "trace": traceback.format_exc()}
        sys.__stdout__.write(json.dumps(told, allow_nan=False) + "\n")
        sys.__stdout__.flush()


main()
