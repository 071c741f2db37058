from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from hashlib import sha256
from uuid import UUID

import pytest
from certificate_samples import certificate, every_text, evidence, finding, full, of_status, source
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.statement import (
    PREDICATE_TYPE,
    STATEMENT_TYPE,
    VOCABULARY,
    digest_of,
    normal,
    parse,
    statement,
)
from esper_agents.domain.project import GitRevision
from esper_agents.domain.status import Status
from esper_agents.errors import IntegrityError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def canonical(value):
    import rfc8785

    return rfc8785.dumps(value)


def value_of(made):
    return json.loads(statement(made))


@pytest.mark.parametrize("status", Status)
def test_a_certificate_comes_back_from_its_bytes(status):
    made = of_status(status)
    assert parse(statement(made)) == normal(made)


def test_a_normal_certificate_comes_back_as_it_was():
    made = normal(full())
    assert parse(statement(made)) == made
    assert normal(made) == made


@given(st.text(), JSON)
def test_whatever_text_and_output_it_holds_it_comes_back(text, output):
    made = every_text(full(), text)
    made = replace(made, evidence=(*made.evidence, evidence(8, output={"found": output}, arguments={text: output})))
    data = statement(made)
    assert parse(data) == normal(made)
    assert parse(statement(parse(data))) == parse(data)


@given(st.text())
def test_equal_certificates_have_equal_bytes_in_canonical_form(text):
    made = every_text(full(), text)
    assert statement(made) == statement(replace(made)) == statement(normal(made))
    assert canonical(json.loads(statement(made))) == statement(made)


def test_the_order_of_members_does_not_change_the_bytes():
    one = certificate(environment={"a": "1", "b": "2"})
    other = certificate(environment={"b": "2", "a": "1"})
    assert statement(one) == statement(other)


def test_it_is_an_in_toto_statement_about_every_file_that_was_read_and_the_commit():
    value = value_of(full())
    assert value["_type"] == STATEMENT_TYPE == "https://in-toto.io/Statement/v1"
    assert value["predicateType"] == PREDICATE_TYPE
    assert value["subject"] == [
        {"name": "examples/train.py", "digest": {"sha256": source().sha256, "gitBlob": source().git_blob}},
        {"name": "git:demo", "digest": {"gitCommit": "1" * 40, "gitTree": "2" * 40}},
    ]


def test_the_predicate_type_is_a_uri_that_needs_no_domain_name():
    number, _, kind = PREDICATE_TYPE.removeprefix("urn:uuid:").partition("#")
    assert str(UUID(number)) == number
    assert kind == "certificate/v1"


def test_a_certificate_that_names_its_predicate_as_0_1_0_did_is_read_as_the_same():
    value = value_of(full())
    value["predicateType"] = "https://esper-agents.dev/certificate/v1"
    assert parse(json.dumps(value).encode()) == parse(statement(full()))


def test_the_commit_is_named_by_where_it_comes_from():
    assert value_of(certificate())["subject"][1]["name"] == "git:https://example.org/demo.git"


def test_outside_git_the_files_are_the_subjects():
    bare = GitRevision("", "", "", "", is_git=False, dirty=())
    value = value_of(certificate(revision=bare, examined=(replace(source(), git_blob=""),)))
    assert value["subject"] == [{"name": "examples/train.py", "digest": {"sha256": source().sha256}}]


def test_where_nothing_was_read_the_subject_is_the_session_with_its_task():
    made = certificate(evidence=(), examined=())
    value = value_of(made)
    task = sha256(canonical(value["predicate"]["task"])).hexdigest()
    assert value["subject"] == [{"name": f"session:{made.session}", "digest": {"sha256": task}}]


def test_there_is_no_float_and_no_large_integer_in_it():
    output = {
        "speedup": 1.25,
        "nan": float("nan"),
        "inf": float("-inf"),
        "large": 2**53,
        "fits": 2**53 - 1,
        "yes": True,
    }
    made = certificate(evidence=(evidence(output=output, duration_ns=2**60),))
    held = value_of(made)["predicate"]["evidence"][0]
    assert held["output"] == {
        "speedup": "1.25",
        "nan": "nan",
        "inf": "-inf",
        "large": "9007199254740992",
        "fits": 9007199254740991,
        "yes": True,
    }
    assert held["duration_ns"] == "1152921504606846976"
    assert parse(statement(made)).evidence[0].duration_ns == 2**60


def test_control_characters_and_half_surrogates_become_visible():
    made = certificate(summary="a\x1b[31m\r\nb\x00\tc\x85d\ud800e\u202ef")
    assert parse(statement(made)).summary == "a\\u001b[31m\nb\\u0000\tc\\u0085d\\ud800e\u202ef"


def test_no_member_of_an_output_vanishes_when_names_become_equal():
    made = certificate(evidence=(evidence(output={"\x1b": 1, "\\u001b": 2}),))
    assert sorted(value_of(made)["predicate"]["evidence"][0]["output"].values()) == [1, 2]


def test_an_output_that_nests_without_end_is_cut():
    endless = {}
    endless["again"] = endless
    made = certificate(evidence=(evidence(output=endless),))
    assert b"nested deeper than 50 levels" in statement(made)
    assert parse(statement(made)) == normal(made)


def test_something_that_is_no_json_is_refused():
    with pytest.raises(TypeError, match="cannot hold bytes"):
        statement(certificate(evidence=(evidence(output={"raw": b"x"}),)))


@pytest.mark.parametrize(
    "change",
    [
        {"id": "crt_1"},
        {"id": "ses_0198f0a1b2c37d4e8f00112233440000"},
        {"session": "crt_0198f0a1b2c37d4e8f00112233445566"},
        {"issued_at": "2026-01-31 09:30:00"},
        {"issued_at": "2026-02-30T09:30:00.000Z"},
        {"examined": (replace(source(), sha256="APPROVED-FINAL"),)},
    ],
)
def test_what_only_looks_like_an_identifier_a_time_or_a_digest_is_never_issued(change):
    with pytest.raises(IntegrityError):
        statement(replace(certificate(), **change))


def test_the_digest_names_the_bytes():
    data = statement(certificate())
    assert digest_of(data) == "sha256:" + sha256(data).hexdigest()


def damaged(damage):
    value = value_of(full())
    damage(value)
    return json.dumps(value).encode()


def drop(name):
    return lambda value: value["predicate"].pop(name)


def put(path, new):
    def damage(value):
        *way, last = path
        for step in way:
            value = value[step]
        value[last] = new

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        lambda value: value.pop("_type"),
        lambda value: value.pop("subject"),
        put(["more"], 1),
        put(["_type"], "https://in-toto.io/Statement/v0.1"),
        put(["predicateType"], "https://slsa.dev/provenance/v1"),
        put(["predicateType"], "certificate/v1"),
        put(["predicateType"], f"{VOCABULARY}notice/v1"),
        put(["predicateType"], ["certificate/v1"]),
        put(["subject"], []),
        put(["subject", 0, "digest", "sha256"], "0" * 64),
        put(["subject", 0, "name"], "other.py"),
        drop("verdict"),
        drop("findings"),
        put(["predicate"], []),
        put(["predicate", "approved_by"], "me"),
        put(["predicate", "verdict", "status"], "PASSED"),
        put(["predicate", "verdict", "status"], "approved"),
        put(["predicate", "verdict", "status"], ["APPROVED"]),
        put(["predicate", "verdict", "kind"], "vote"),
        put(["predicate", "verdict", "stance"], None),
        put(["predicate", "verdict", "conditions"], "none"),
        put(["predicate", "verdict", "conditions"], [1]),
        put(["predicate", "verdict", "ceiling", "lines", 0, "stance"], "best"),
        put(["predicate", "findings", 0, "claim", "severity"], "bad"),
        put(["predicate", "findings", 0, "claim", "location", "line"], "7"),
        put(["predicate", "findings", 0, "claim", "location", "line"], True),
        put(["predicate", "findings", 0, "claim", "location", "line"], 7.0),
        put(["predicate", "findings", 0, "claim", "location", "line"], 2**53),
        put(["predicate", "findings", 0, "claim", "message"], "a\x1bb"),
        put(["predicate", "findings", 0, "claim", "message"], "half \ud800"),
        put(["predicate", "evidence", 0, "output", "more"], 0.5),
        put(["predicate", "evidence", 0, "output", "\ud800"], 1),
        put(["predicate", "evidence", 0, "is_repeatable"], 1),
        put(["predicate", "assumptions", 0, "is_critical"], "no"),
        put(["predicate", "risks", "implementation_risk"], "None"),
        put(["predicate", "risks", "rows", 0, "likelihood"], "Critical"),
        put(["predicate", "environment", "python"], 3),
        put(["predicate", "task"], None),
        put(["predicate", "id"], "crt_1"),
        put(["predicate", "issued_at"], "yesterday"),
        put(["predicate", "revision", "dirty"], {"a": 1}),
    ],
)
def test_what_is_not_exactly_a_certificate_is_refused(damage):
    with pytest.raises(IntegrityError) as caught:
        parse(damaged(damage))
    assert "\n" not in caught.value.problem
    assert caught.value.problem.isprintable()
    assert caught.value.remedy


def test_members_with_a_default_may_be_missing_so_that_later_versions_may_add_some():
    value = value_of(full())
    del value["predicate"]["gaps"][0]["blocks_approval"]
    assert parse(json.dumps(value).encode()) == normal(full())


def test_bytes_in_another_form_are_read_as_well():
    assert parse(json.dumps(value_of(full()), indent=3).encode()) == normal(full())


@given(st.data())
def test_no_change_of_one_byte_is_read_as_the_same_certificate(data):
    original = statement(certificate(findings=(finding(),)))
    place = data.draw(st.integers(0, len(original) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda each: each != original[place]))
    changed = original[:place] + bytes([byte]) + original[place + 1 :]
    with contextlib.suppress(IntegrityError):
        assert statement(parse(changed)) != original
