"""`esper trace` as people run it."""

from __future__ import annotations

import json

import pytest


def spans(text):
    return [
        span
        for line in text.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_a_file_holds_what_is_printed_and_again_the_same(known, tmp_path):
    file = tmp_path / "trace.jsonl"
    printed = known.esper("trace", code=0).stdout
    told = known.esper("trace", "latest", "--output", file, "--json", code=0).json
    assert file.read_text() == printed
    assert told == {
        "session": f"ses_{told['trace']}",
        "trace": told["trace"],
        "spans": len(spans(printed)),
        "wrote": str(file),
    }
    known.esper("trace", "--output", file, code=0)
    assert file.read_text() == printed
    assert {span["traceId"] for span in spans(printed)} == {told["trace"]}


def test_source_leaves_only_when_it_is_asked_for(known):
    assert "train.py" not in known.esper("trace", code=0).stdout
    assert "train.py" in known.esper("trace", "--content", code=0).stdout


def test_a_session_that_waits_is_traced_as_far_as_it_has_come(waiting):
    made, _ = waiting
    found = spans(made.esper("trace", code=0).stdout)
    unfinished = [each["name"] for each in found if "esper.unfinished" in str(each["attributes"])]
    assert unfinished[0] == "invoke_workflow esper"


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("--otlp", "http://127.0.0.1:9"), 1, "127.0.0.1:9 did not accept the spans: Connection refused"),
        (("--otlp", "localhost"), 2, "'localhost' is not a collector URL"),
        (("--otlp", "http://localhost:4318", "--output", "trace.jsonl"), 2, "spans go to one place at a time"),
        (("--output", "gone/trace.jsonl"), 2, "no such file or directory: 'gone/trace.jsonl'"),
        (("ses_000000000000",), 2, "no session named 'ses_000000000000'"),
    ],
)
def test_what_cannot_be_is_told_in_two_lines(known, arguments, code, problem):
    done = known.esper("trace", *arguments, env={"OTEL_EXPORTER_OTLP_TIMEOUT": "0.5"})
    assert done.problem(code)[0] == problem
