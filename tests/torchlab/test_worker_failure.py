"""Results of measurement processes are untrusted: what is missing or of the wrong type is a named error."""

from importlib.util import find_spec

import pytest

from esper_agents.errors import EvidenceError
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurement import measurement
from esper_agents.torchlab.measurements.nan import NanOptions, run
from esper_agents.torchlab.report import MeasurementReport
from esper_agents.torchlab.target import TargetSpec
from esper_agents.torchlab.worker_failure import WorkerError

# Runs in the measurement process, and answers in place of the job.
FORGER = """
import sys

def step():
    for name, module in list(sys.modules.items()):
        if name.endswith("nan.job"):
            module.replace = lambda found, **more: {"steps_run": 1}
"""


@pytest.mark.parametrize(
    ("kind", "result", "named"),
    [
        ("memory", {"device": 3}, "'device': input should be a valid string"),
        ("memory", {"peak": {"peak_bytes": 1}}, "'peak.allocated_bytes': field required"),
        ("memory", {"out_of_memory": {"phase": "forward", "step": "1", "message": ""}}, "'out_of_memory.step'"),
        ("nan", {"steps_run": 1, "skipped_steps": []}, "'status': field required"),
        ("nan", {"status": "fine", "steps_run": 1, "skipped_steps": []}, "'status': input should be 'clean'"),
        ("explain", {"breaks": [{"effect": "ends"}]}, "'breaks.0.path': field required"),
        ("explain", {"settles": {"sizes": "no"}}, "'settles.sizes'"),
        ("export", {"missing": []}, "'attempts': field required"),
        ("export", {"attempts": {"strict": {"outcome": "good"}}, "missing": []}, "'attempts.strict.outcome'"),
        ("scaffold", {"target": "a.py:f", "harness": ""}, "'kind': field required"),
    ],
)
def test_an_invalid_result_is_an_error_that_names_the_member(kind, result, named):
    with pytest.raises(EvidenceError) as refused:
        measurement(kind).concluded(MeasurementReport(kind, {"result": result}))
    assert named in refused.value.problem
    assert refused.value.remedy == "measure again"


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_code_that_forges_the_result_of_its_measurement_is_refused(tmp_path):
    tmp_path.joinpath("forger.py").write_text(FORGER)
    with Lab(tmp_path) as lab, pytest.raises(EvidenceError, match="invalid result: 'status'"):
        run(lab, TargetSpec("forger.py:step"), NanOptions(steps=1), None)


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_the_text_of_an_exception_may_hold_half_a_surrogate_pair(tmp_path):
    tmp_path.joinpath("broken.py").write_text('def step():\n    raise ValueError("no \\udcff here")\n')
    with Lab(tmp_path) as lab, pytest.raises(WorkerError, match=r"ValueError: no \\udcff here"):
        run(lab, TargetSpec("broken.py:step"), NanOptions(steps=1), None)
