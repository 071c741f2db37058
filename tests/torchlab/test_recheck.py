"""Whether a kept report holds: conclusions are worked out anew, and files beside it are compared with their digests."""

from __future__ import annotations

import json

import pytest

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab.measurements.nan import MEASUREMENT
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.report import SCHEMA, MeasurementReport, OutputFile, read

CLEAN = {"status": "clean", "steps_run": 3, "skipped_steps": [], "reached": []}


@pytest.fixture
def kept(tmp_path):
    """Return a folder with a report and an artifact, and what changes the report."""
    (tmp_path / "trace.json").write_text("{}")
    made = OutputFile(tmp_path / "trace.json", "application/json")
    body = {
        "schema": SCHEMA,
        "kind": "nan",
        "started_at": "2026-11-21T10:00:00.000Z",
        "result": MEASUREMENT.conclusions({"result": CLEAN}),
        "artifacts": [made.described()],
    }

    def kept(change=lambda _: None):
        changed = json.loads(MeasurementReport("nan", body).text())
        change(changed)
        (tmp_path / "report.json").write_text(json.dumps(changed))
        return read(tmp_path / "report.json"), tmp_path

    return kept


def test_a_report_that_nobody_touched_holds(kept):
    found = recheck(*kept())
    assert found.says.startswith("no NaN and no Inf reached an output")
    assert (found.artifacts, found.absent) == (("trace.json",), ())


def test_an_artifact_that_lies_elsewhere_is_said_to_be_absent(kept):
    report, folder = kept()
    (folder / "trace.json").unlink()
    assert recheck(report, folder).absent == ("trace.json",)


def test_an_artifact_that_was_changed_is_found_out(kept):
    report, folder = kept()
    (folder / "trace.json").write_text("[]")
    with pytest.raises(IntegrityError, match=r"'trace\.json' does not match its digest in the report"):
        recheck(report, folder)


def test_a_file_outside_the_folder_is_not_looked_at(kept):
    report, folder = kept(lambda body: body["artifacts"][0].update(name="../secret"))
    (folder.parent / "secret").write_text("x")
    assert recheck(report, folder).absent == ("../secret",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda body: body["result"].update(headline="NaN"), "conclusions do not follow .*: headline"),
        (lambda body: body["result"].update(steps_run=4), "conclusions do not follow .*: headline"),
        (lambda body: body["result"].pop("status"), "the report lacks measurements for its conclusions"),
        (lambda body: body.update(result=[]), "the report lacks measurements for its conclusions"),
        (lambda body: body.update(artifacts=None), "the report lacks measurements for its conclusions"),
        (lambda body: body.pop("started_at"), "the report lacks measurements for its conclusions"),
    ],
)
def test_a_report_that_was_changed_is_found_out(kept, change, problem):
    with pytest.raises(IntegrityError, match=problem):
        recheck(*kept(change))


@pytest.mark.parametrize("text", ["not json", "{}", "[]", '{"schema": 1, "kind": []}', "[" * 100_000])
def test_what_is_no_report_is_refused(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(IntegrityError):
        read(tmp_path / "report.json")


def test_a_file_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "report.json")
