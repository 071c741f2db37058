from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from esper_agents.certificates.notices import notice_statement, read_notice
from esper_agents.certificates.statement import OLD_VOCABULARY, VOCABULARY
from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
from esper_agents.errors import IntegrityError
from esper_agents.paths import data_folder

SCHEMA = json.loads((data_folder("certificates") / "notice.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(SCHEMA)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAII33ryq2c9oG7VwegZ0Gip5O5g4eLAVJtj9K2DM8aiDP"
OF_KEY = {"key": KEY}
OF_CERTIFICATE = {"certificate": "crt_" + "1" * 32, "certificate_sha256": "a" * 64}
ABOUT = {
    NoticeKind.KEY_ADDED: OF_KEY,
    NoticeKind.KEY_ENROLLED: OF_KEY,
    NoticeKind.KEY_RETIRED: OF_KEY,
    NoticeKind.KEY_REVOKED: OF_KEY,
    NoticeKind.CERTIFICATE_REVOKED: OF_CERTIFICATE,
    NoticeKind.COUNTERSIGNED: {**OF_CERTIFICATE, "signature": "-----BEGIN SSH SIGNATURE-----\nAA==\n"},
    NoticeKind.OVERRIDDEN: {**OF_CERTIFICATE, "status": "APPROVED"},
    NoticeKind.ROLLBACK_ACCEPTED: {"before": "example.org/log\n3\nAAAA\n"},
}


def notice(kind, **changes):
    made = LogNoticeStatement("ntc_" + "0" * 32, kind, "2026-01-31T09:30:00.000Z", "ann", "because", **ABOUT[kind])
    return replace(made, **changes)


def test_the_schema_is_one_of_draft_2020_12():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("kind", NoticeKind)
def test_notices_of_every_kind_are_what_the_schema_says(kind):
    VALIDATOR.validate(json.loads(notice_statement(notice(kind))))


@given(st.sampled_from(NoticeKind), st.text(max_size=20))
def test_whatever_text_it_holds_a_notice_is_what_the_schema_says(kind, text):
    VALIDATOR.validate(json.loads(notice_statement(notice(kind, by=text, reason=f"because {text}"))))


@pytest.mark.parametrize("kind", NoticeKind)
def test_only_overrides_and_enrolled_keys_are_of_a_later_version_than_the_first(kind):
    """What knows the first version alone must read all the others as it ever did."""
    said = json.loads(notice_statement(notice(kind)))
    is_override = kind is NoticeKind.OVERRIDDEN
    assert ("status" in said["predicate"]) is is_override
    version = {NoticeKind.OVERRIDDEN: 2, NoticeKind.KEY_ENROLLED: 3}.get(kind, 1)
    assert said["predicateType"] == f"{VOCABULARY}notice/v{version}"


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_notice_that_names_its_predicate_as_0_1_0_did_is_read_as_the_same(kind):
    held = json.loads(notice_statement(notice(kind)))
    held["predicateType"] = held["predicateType"].replace(VOCABULARY, "https://esper-agents.dev/")
    VALIDATOR.validate(held)
    assert read_notice(json.dumps(held).encode()) == notice(kind)


@pytest.mark.parametrize(
    "changes",
    [
        {"status": ""},
        {"status": "FINE"},
        {"reason": " \n"},
        {"certificate": ""},
        {"certificate_sha256": ""},
        {"key": KEY},
    ],
)
def test_an_override_that_is_not_whole_is_refused_by_the_schema_and_by_us(changes):
    whole = json.loads(notice_statement(notice(NoticeKind.OVERRIDDEN)))
    with pytest.raises(IntegrityError):
        notice_statement(notice(NoticeKind.OVERRIDDEN, **changes))
    whole["predicate"] |= changes
    with pytest.raises(ValidationError):
        VALIDATOR.validate(whole)
    with pytest.raises(IntegrityError):
        read_notice(json.dumps(whole).encode())


def test_the_schema_knows_every_member_and_every_kind():
    said = SCHEMA["$defs"]["Notice"]
    assert set(said["properties"]) == {field.name for field in fields(LogNoticeStatement)}
    assert set(said["required"]) == {field.name for field in fields(LogNoticeStatement) if field.default is MISSING}
    assert said["additionalProperties"] is False
    assert said["properties"]["kind"]["enum"] == [str(each) for each in NoticeKind]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["subject"], []),
        (["subject", 0, "digest"], {}),
        (["predicateType"], f"{VOCABULARY}notice/v2"),
        (["predicateType"], f"{OLD_VOCABULARY}notice/v2"),
        (["predicateType"], "notice/v1"),
        (["predicate", "kind"], "certificate-praised"),
        (["predicate", "more"], 1),
        (["predicate", "id"], "crt_" + "0" * 32),
        (["predicate", "at"], "yesterday"),
        (["predicate", "certificate"], "crt_1"),
        (["predicate", "certificate"], ""),
        (["predicate", "key"], KEY),
        (["predicate", "reason"], "\x1b"),
        (["predicate", "reason"], 1.5),
        (["predicate", "status"], "APPROVED"),
    ],
)
def test_the_schema_and_the_reader_refuse_what_is_no_notice(path, value):
    held = json.loads(notice_statement(notice(NoticeKind.CERTIFICATE_REVOKED)))
    *way, last = path
    inner = held
    for step in way:
        inner = inner[step]
    inner[last] = value
    with pytest.raises(ValidationError):
        VALIDATOR.validate(held)
    with pytest.raises(IntegrityError):
        read_notice(json.dumps(held).encode())
