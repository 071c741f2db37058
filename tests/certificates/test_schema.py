from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from typing import get_args, get_type_hints

import pytest
from certificate_samples import every_text, full, of_status
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from esper_agents.certificates.statement import statement
from esper_agents.domain.certificate import Certificate
from esper_agents.domain.status import Status
from esper_agents.paths import data_folder

SCHEMA = json.loads((data_folder("certificates") / "certificate.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
# The schema is published: it keeps the names that it was published with.
PUBLISHED = {
    "AppliedPolicyRule": "PolicyLine",
    "Diagnostic": "Claim",
    "GitRevision": "Revision",
    "ModelTurn": "Exchange",
    "QuestionType": "Kind",
    "RiskAcknowledgement": "Agreement",
    "RouteCandidate": "Candidate",
}


def shapes_in(hint):
    if is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, StrEnum)):
        yield hint
    for inner in get_args(hint):
        yield from shapes_in(inner)


def shapes(shape, seen):
    seen.setdefault(shape.__name__, shape)
    if is_dataclass(shape):
        for hint in get_type_hints(shape).values():
            for each in shapes_in(hint):
                if each.__name__ not in seen:
                    shapes(each, seen)
    return seen


SHAPES = shapes(Certificate, {})


def test_the_schema_is_one_of_draft_2020_12():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("status", Status)
def test_certificates_of_every_status_are_what_the_schema_says(status):
    VALIDATOR.validate(json.loads(statement(of_status(status))))


@given(st.text(max_size=20))
def test_whatever_text_it_holds_a_certificate_is_what_the_schema_says(text):
    VALIDATOR.validate(json.loads(statement(every_text(full(), text))))


@pytest.mark.parametrize("name", SHAPES)
def test_the_schema_knows_every_member_and_every_word(name):
    shape, said = SHAPES[name], SCHEMA["$defs"][PUBLISHED.get(name, name)]
    if not is_dataclass(shape):
        assert said["enum"] == [each.value for each in shape]
        return
    required = {field.name for field in fields(shape) if field.default is MISSING and field.default_factory is MISSING}
    # A file manifest stands for lists of files; see `file_manifest.py`.
    assert set(said["properties"]) - {"files"} == {field.name for field in fields(shape)}
    assert ("files" in said["properties"]) is (name in {"Certificate", "Evidence"})
    assert set(said["required"]) == required
    assert said["additionalProperties"] is False


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["subject"], []),
        (["predicate", "verdict", "status"], "PASSED"),
        (["predicate", "more"], 1),
        (["predicate", "evidence", 0, "output", "speedup"], 1.5),
        (["predicate", "summary"], "\x1b"),
        (["predicate", "id"], "crt_1"),
        (["predicate", "examined", 0, "sha256"], "PERF-FINAL"),
    ],
)
def test_the_schema_refuses_what_is_no_certificate(path, value):
    held = json.loads(statement(full()))
    *way, last = path
    inner = held
    for step in way:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(ValidationError):
        VALIDATOR.validate(held)
