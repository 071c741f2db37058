"""The tools that are made from descriptors of measurements."""

from __future__ import annotations

import subprocess
import sys

from esper_agents.tools.registry import load_tools
from esper_agents.torchlab.measurement import measurement_kinds

TOOLS = load_tools().tools


def test_every_measurement_but_that_of_lines_is_a_tool():
    assert {f"torch-{each}" for each in measurement_kinds() - {"watch"}} <= set(TOOLS)
    assert "torch-watch" not in TOOLS


def test_finding_the_tools_imports_no_measurement():
    code = (
        "import sys; from esper_agents.tools.registry import load_tools; load_tools();"
        "print([m for m in sys.modules if m.startswith('esper_agents.torchlab.measurements.')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_schema_is_made_from_the_options_with_the_defaults_of_agents():
    found = TOOLS["torch-nan"].use.schema["properties"]
    assert list(found) == ["target", "inputs", "inputs_from", "steps", "train"]
    assert found["steps"]["default"] == 20
    assert TOOLS["torch-data"].use.schema["properties"]["effort"]["enum"] == ["quick", "normal"]


def test_the_command_that_repeats_a_call_names_what_differs_from_its_own_defaults():
    nan, memory = TOOLS["torch-nan"], TOOLS["torch-memory"]
    assert nan.rerun({"target": "a.py:f"}) == "esper torch nan a.py:f --steps 20"
    assert nan.rerun({"target": "a.py:f", "steps": 10, "train": True}) == "esper torch nan a.py:f --train"
    assert memory.rerun({"target": "a.py:f", "inputs": ["randn(2)"]}) == "esper torch memory a.py:f --input 'randn(2)'"


def test_a_call_that_version_0_1_0_recorded_with_quick_still_runs_and_is_repeated_with_effort():
    profile = TOOLS["torch-profile"]
    recorded = {"target": "a.py:f", "inputs": ["randn(2)"], "train": False}
    quick = profile.validate({**recorded, "quick": True})
    assert (quick["effort"], quick["train"]) == ("quick", False)
    assert profile.validate({**recorded, "quick": False})["effort"] == "normal"
    assert profile.rerun({**recorded, "quick": True}).endswith(" --input 'randn(2)' --effort quick")
