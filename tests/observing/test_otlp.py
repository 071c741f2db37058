"""Spans as lines of OTLP JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from span_samples import CHAT, ROOT

from esper_agents.errors import UsageError
from esper_agents.observing.collector import send
from esper_agents.observing.otlp import json_lines


def test_lines_are_json_as_the_protocol_has_it():
    (line,) = json_lines([ROOT, CHAT])
    assert line.isascii()
    (resource,) = json.loads(line)["resourceSpans"]
    (scope,) = resource["scopeSpans"]
    root, chat = scope["spans"]
    # Hex digits, numbers for choices and texts for large numbers; protobuf's own JSON has others.
    assert (root["traceId"], root["spanId"], chat["parentSpanId"]) == (ROOT.trace, ROOT.id, ROOT.id)
    assert (chat["kind"], chat["status"]) == (3, {"code": 2})
    assert root["startTimeUnixNano"] == str(ROOT.start_ns)
    assert root["links"][0]["traceId"] == ROOT.links[0].trace
    assert scope["schemaUrl"] == "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"


def test_many_spans_are_several_lines():
    many = [replace(CHAT, id=f"{number:016x}") for number in range(1, 1_301)]
    lines = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in json_lines(many)]
    assert [len(each) for each in lines] == [512, 512, 276]
    assert [span["spanId"] for each in lines for span in each] == [each.id for each in many]


def test_what_the_environment_says_of_services_changes_no_span(monkeypatch):
    before = list(json_lines([ROOT]))
    monkeypatch.setenv("OTEL_SERVICE_NAME", "other")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host=mine")
    monkeypatch.setenv("OTEL_ATTRIBUTE_COUNT_LIMIT", "1")
    assert list(json_lines([ROOT])) == before


def test_without_opentelemetry_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setattr("esper_agents.extras._packages", lambda: {"trace": ("not-installed",)})
    for trying in (lambda: list(json_lines([ROOT])), lambda: send([ROOT], "http://127.0.0.1:9")):
        with pytest.raises(UsageError) as told:
            trying()
        assert told.value.remedy == "pip install 'esper-agents[trace]'"
