"""Lines that are watched while a target runs: how often each runs, and whether a call raises there."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from esper_agents.errors import IntegrityError, UsageError
from esper_agents.torchlab import report as reports
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.measurements import watch
from esper_agents.torchlab.measurements.watch import LineRange, WatchOptions
from esper_agents.torchlab.recheck import recheck
from esper_agents.torchlab.report import MeasurementReport
from esper_agents.torchlab.target import TargetSpec

torch = pytest.importorskip("torch", reason="no torch: NOTHING was watched")

SOURCE = """import helpers
import torch


def rows(x):
    total = 0.0
    for row in x:
        total += helpers.amount(row)
    if total > 1e9:
        total = 0.0
    return torch.tensor(total)


def misfit(x):
    y = x.permute(1, 0)
    return torch.add(
        y,
        x,
    )


def late(x, count=[0]):
    count[0] += 1
    if count[0] == 2:
        raise ValueError("the second call")
    return x
"""
HELPERS = "def amount(row):\n    return row.sum().item()\n"
LINE = {text: number for number, text in enumerate(SOURCE.splitlines(), 1)}
SCHEMA = json.loads(Path(reports.__file__).with_name("report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root = tmp_path_factory.mktemp("watched")
    (root / "m.py").write_text(SOURCE)
    (root / "helpers.py").write_text(HELPERS)
    with Lab(root) as opened:
        yield opened


def at(text, more=0):
    return LineRange("m.py", LINE[text], LINE[text] + more)


def run(lab, name, *spans, **given):
    return watch.run(lab, TargetSpec(f"m.py:{name}", ("randn(4,3)",)), WatchOptions(spans, **given), None)


@pytest.mark.slow
def test_lines_are_counted_in_every_file_of_the_user(lab):
    spans = (at("        total += helpers.amount(row)"), at("        total = 0.0"), LineRange("helpers.py", 2, 2))
    result = run(lab, "rows", *spans, calls=2).result
    assert {(each["file"], each["line"]): each["times"] for each in result["lines"]} == {
        ("m.py", LINE["        total += helpers.amount(row)"]): 8,
        ("m.py", LINE["        total = 0.0"]): 0,
        ("helpers.py", 2): 8,
    }
    assert result["raised"] is None
    assert result["headline"] == "2 calls came back"


def test_a_call_that_raises_names_the_statement(lab):
    spans = (at("    return torch.add(", 3), at("    y = x.permute(1, 0)"))
    report = run(lab, "misfit", *spans)
    result, found = report.result, watch.MEASUREMENT.parsed(report)
    first, second = result["lines"]
    assert first["said"] == "runs once in one call"
    assert second["said"].startswith("raises RuntimeError: The size of tensor a (4)")
    assert [found.raised.is_raised_at(line) for line in found.lines] == [False, True]
    assert result["calls"] == 1


def test_a_later_call_that_raises_is_counted(lab):
    result = run(lab, "late", at("    return x")).result
    assert result["headline"] == "call 2 raised ValueError: the second call"
    assert result["lines"][0]["times"] == 1


def test_a_report_is_what_the_schema_says_and_can_be_rechecked(lab, tmp_path):
    body = json.loads(run(lab, "misfit", at("    return torch.add(", 3)).text())
    assert sorted(error.message for error in Draft202012Validator(SCHEMA).iter_errors(body)) == []
    assert recheck(MeasurementReport("watch", body), tmp_path).says.startswith("call 1 raised RuntimeError")
    body["result"]["lines"][0]["times"] = 7
    body["result"]["raised"] = None
    with pytest.raises(IntegrityError, match="do not follow from its measurements"):
        recheck(MeasurementReport("watch", body), tmp_path)


def test_nothing_to_watch_is_bad_input(lab):
    with pytest.raises(UsageError, match="there is no line to watch"):
        run(lab, "rows")
