"""Reports as the schema says: real ones are valid, and what was changed in them is not."""

from __future__ import annotations

import json
from copy import deepcopy
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from esper_agents.torchlab import report as reports
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements.nan import MEASUREMENT, NanOptions, run
from esper_agents.torchlab.target import TargetSpec

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")

SCHEMA = json.loads(Path(reports.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
PROJECT = Path(__file__).parent / "nan_project"
ROWS = ("randn(4,8)",)
RUNS = {
    "first": ("faulty.py:where_gradient", ROWS, {"train": True}),
    "inf-to-nan": ("faulty.py:hand_made_softmax", ROWS, {}),
    "outside": ("faulty.py:bad_batch", (), {}),
    "layers": ("faulty.py:wild_weights", ("randn(4,256)",), {"train": True, "lr": 0.1}),
    "uninitialised": ("faulty.py:uninitialised", ROWS, {}),
    "optimizer": ("faulty.py:own_optimizer", (), {}),
    "clean": ("clean.py:masked_division", ROWS, {}),
    "skipped": ("clean.py:guarded_by_hand", (), {}),
}


@pytest.fixture(scope="module")
def made():
    """Reports of real searches as they stand in a file: one whole, and the same with the results of others."""
    found = {}
    with Lab(PROJECT) as lab:
        whole = json.loads(run(lab, TargetSpec("faulty.py:divides", ROWS), NanOptions(steps=1), None).text())
        with lab.worker() as worker:
            for name, (target, inputs, options) in RUNS.items():
                worker.load(TargetSpec(target, inputs))
                request = {"steps": 4, "train": False, **options}
                result = MEASUREMENT.conclusions({"result": worker.ask("nan", request).result})
                found[name] = {**whole, "request": request, "result": result}
    return {"whole": whole, **found}


def problems(body):
    return sorted(f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in VALIDATOR.iter_errors(body))


def test_the_schema_is_one_of_draft_2020_12():
    Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_and_the_program_know_the_same_reports():
    assert set(SCHEMA["properties"]["schema"]["enum"]) == reports._SCHEMAS
    assert set(SCHEMA["properties"]["kind"]["enum"]) == reports._KINDS
    assert SCHEMA["$defs"]["NanResult"]["properties"]["status"]["enum"] == ["clean", "inf", "nan"]


def test_the_schema_follows_from_the_data_classes_of_the_measurements():
    path = Path(__file__).parents[2] / "checks" / "report_schema.py"
    spec = spec_from_file_location("report_schema", path)
    written = module_from_spec(spec)
    spec.loader.exec_module(written)
    assert json.loads(written.text()) == SCHEMA, "run `python checks/report_schema.py`"
    without_kinds = deepcopy(SCHEMA)
    without_kinds["properties"]["kind"]["enum"] = []
    assert written.generated(without_kinds) == SCHEMA


def test_every_kind_of_report_has_the_schema_of_its_result():
    kinds = {
        each["if"]["properties"]["kind"]["const"]
        for each in SCHEMA["allOf"]
        if "result" in each["then"].get("properties", {})
    }
    assert kinds == reports._KINDS


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["whole", *RUNS])
def test_a_real_report_is_what_the_schema_says(made, name):
    assert problems(made[name]) == []


def test_the_words_of_a_target_that_is_asked_for_are_those_of_the_schema():
    assert set(TargetSpec("a.py:b").request()) <= set(SCHEMA["$defs"]["target"]["properties"])


def _more(body):
    body["more"] = 1


def _other_kind(body):
    body["kind"] = "guess"


def _no_environment(body):
    del body["environment"]


def _zero_in_place_of_absent(body):
    body["environment"]["cpu"]["affinity"] = 0


def _no_torch(body):
    del body["environment"]["torch"]


def _text_for_time(body):
    body["started_at"] = "yesterday"


def _folder_in_a_name(body):
    body["artifacts"] = [{"name": "../x", "sha256": "0" * 64, "size_bytes": 1, "media_type": "image/png"}]


def _hand_made_digest(body):
    body["artifacts"] = [{"name": "x", "sha256": "APPROVED", "size_bytes": 1, "media_type": "image/png"}]


def _clean_with_a_cause(body):
    body["result"]["status"] = "clean"


def _fault_without_a_cause(body):
    del body["result"]["cause"]


def _unknown_field_of_a_result(body):
    body["result"]["score"] = 10


def _arms_of_one_target(body):
    body["arms"] = {"baseline": body["target"], "candidate": body["target"]}


@pytest.mark.parametrize(
    "change",
    [
        _more,
        _other_kind,
        _no_environment,
        _zero_in_place_of_absent,
        _no_torch,
        _text_for_time,
        _folder_in_a_name,
        _hand_made_digest,
        _clean_with_a_cause,
        _fault_without_a_cause,
        _unknown_field_of_a_result,
        _arms_of_one_target,
    ],
)
def test_a_report_that_was_changed_is_refused(made, change):
    body = deepcopy(made["first"])
    change(body)

    assert problems(body)
