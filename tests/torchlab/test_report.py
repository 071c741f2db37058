"""Tests of reports: what is written is what is read, and no number is written that JSON does not have."""

import json

import pytest

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab.report import SCHEMA, MeasurementReport, OutputFile, now, read, rounded

BODY = {"schema": SCHEMA, "kind": "profile", "result": {"b": 1, "a": [2.5]}}


def test_a_report_is_read_as_it_was_written(tmp_path):
    (tmp_path / "report.json").write_text(MeasurementReport("profile", BODY).text())
    found = read(tmp_path / "report.json")
    assert (found.kind, found.body, found.result) == ("profile", BODY, BODY["result"])


def test_the_same_body_gives_the_same_text():
    assert (
        MeasurementReport("profile", BODY).text() == MeasurementReport("profile", dict(reversed(BODY.items()))).text()
    )


def test_a_file_that_is_absent_is_bad_input(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", json.dumps({**BODY, "schema": "x"}), json.dumps({**BODY, "kind": "x"}), "[" * 9_000]
)
def test_what_is_no_report_is_refused(tmp_path, text):
    (tmp_path / "report.json").write_text(text)
    with pytest.raises(IntegrityError):
        read(tmp_path / "report.json")


def test_a_report_of_0_1_0_is_read_as_the_same(tmp_path):
    body = {**BODY, "schema": "https://esper-agents.dev/torchlab/report/1"}
    (tmp_path / "report.json").write_text(json.dumps(body))
    assert read(tmp_path / "report.json") == MeasurementReport("profile", body)


def test_a_number_that_is_none_is_not_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        MeasurementReport("profile", {**BODY, "result": {"a": float("inf")}}).text()


@pytest.mark.parametrize(
    ("number", "shown"),
    [(1.23456789, 1.23457), (0.0, 0.0), (float("nan"), "nan"), (float("-inf"), "-inf"), (1e-12 / 3, 3.33333e-13)],
)
def test_numbers_have_six_digits_and_no_number_is_text(number, shown):
    assert rounded(number) == shown


def test_a_file_is_described_by_its_digest(tmp_path):
    (tmp_path / "trace.json").write_text("{}")
    found = OutputFile(tmp_path / "trace.json", "application/json").described()
    assert found["size_bytes"] == 2
    assert found["sha256"] == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_the_time_is_utc_with_milliseconds():
    assert now().endswith("Z")
    assert len(now()) == len("2026-01-01T00:00:00.000Z")
