"""Files that change while they are read, sources in other encodings, wrong clocks, and records of newer versions."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from archive_samples import PROJECT
from certificate_samples import certificate, finding, source
from judged import FAULTY

from esper_agents.api import check_coverage, open_project, verify_certificate
from esper_agents.archive.verification.files import SubjectState, verify_subjects
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.log.merkle import leaf_hash
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint, write_proof
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import OLD_VOCABULARY, VOCABULARY, statement
from esper_agents.domain.finding import Location


def test_a_file_that_changes_while_it_is_read_is_valid_or_stale_and_never_a_forgery(judged):
    data = read_envelope(judged.record.read_bytes()).payload
    stop = threading.Event()

    def change():
        texts = (FAULTY, FAULTY.replace("loss.backward()", "pass"), "", FAULTY * 50)
        while not stop.is_set():
            for text in texts:
                half = judged.train.with_suffix(".new")
                half.write_text(text)
                half.replace(judged.train)
                judged.train.write_text(text)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(150):
            (file,) = verify_subjects(data, judged.root)
            assert file.state in {SubjectState.VALID, SubjectState.STALE}
            if file.state is SubjectState.VALID:
                assert {citation.outcome for citation in file.citations} == {CheckOutcome.HOLDS}
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("encoding", ["hex", "rot13", "idna", "undefined", "utf-16", "no-such", "utf_8_sig", "latin-1"])
def test_a_file_that_declares_any_encoding_is_looked_at(tmp_path, encoding):
    content = f"# coding: {encoding}\nx = 1\n".encode() + b"\xff\xfe\n"
    (tmp_path / "a.py").write_bytes(content)
    file = replace(source("a.py"), path="a.py")
    named = finding(location=Location("a.py", 2), excerpt="x = 1")
    data = statement(replace(certificate(), examined=(file,), findings=(named,)))
    (found,) = verify_subjects(data, tmp_path)
    assert found.state is SubjectState.STALE
    assert len(found.citations) == 1


def test_a_pipe_or_a_device_in_the_place_of_a_judged_file_hangs_nobody(judged, exit_code):
    judged.train.unlink()
    os.mkfifo(judged.train)
    assert exit_code(judged.view) == 8
    judged.train.unlink()
    judged.train.symlink_to("/dev/zero")
    assert exit_code(judged.view) == 4


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("issued", "noticed"),
    [
        ("2036-01-31T09:30:00.000Z", "2026-01-31T09:30:00.000Z"),
        ("2016-01-31T09:30:00.000Z", "2026-01-31T09:30:00.000Z"),
        ("2026-01-31T09:30:00.000Z", "2016-01-31T09:30:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_no_clock_decides_what_came_later(archived, home, issued, noticed):
    from esper_agents.archive.verification.signature import Keyring
    from esper_agents.archive.verification.supersession import EndingKind, later_entries
    from esper_agents.certificates.log import transparency_log
    from esper_agents.certificates.notices import enter_notice
    from esper_agents.certificates.signing.key_history import key_history
    from esper_agents.certificates.signing.trusted_keys import TrustedKeys
    from esper_agents.domain.notice import LogNoticeStatement, NoticeKind
    from esper_agents.domain.relation import Relation, RelationKind

    store = archived.store
    first = replace(certificate(), id="crt_" + "1" * 32, issued_at=issued)
    follows = (Relation(RelationKind.SUPERSEDES, first.id, "0" * 64),)
    second = replace(certificate(), id="crt_" + "2" * 32, issued_at=noticed, relations=follows)
    for each in (first, second):
        archived.add(each, logged=True)
    revoked = LogNoticeStatement(
        "ntc_" + "3" * 32, NoticeKind.CERTIFICATE_REVOKED, noticed, "ann", "wrong", "", first.id, "0" * 64
    )
    with store.writing() as transaction:
        enter_notice(transaction, PROJECT.key, revoked)
    with store.reading() as connection:
        public_key = signing_key(home).public_key
        keys = Keyring(TrustedKeys(()), key_history((), [public_key]))
        log_id = transparency_log.log_of(connection, PROJECT.key)
        found = later_entries(connection, log_id, first.id, keys)
        assert transparency_log.size(connection, log_id) == 3
    assert {each.ending for each in found} == {EndingKind.SUPERSEDED, EndingKind.REVOKED}


def newer(judged, home, version="2"):
    value = json.loads(read_envelope(judged.record.read_bytes()).payload)
    value["predicateType"] = value["predicateType"][:-1] + version
    value["predicate"]["mood"] = "excellent"
    envelope = envelope_bytes(seal(signing_key(home), json.dumps(value).encode()))
    judged.record.write_bytes(envelope)
    note = signed_checkpoint(Checkpoint("example.org/log", 1, leaf_hash(envelope)), signing_key(home))
    judged.proof.write_text(write_proof(0, (), note), encoding="utf-8")


@pytest.mark.parametrize(("version", "code"), [("2", 4), ("17", 4), ("0", 7), ("01", 7), ("2x", 7), ("", 7)])
def test_a_newer_version_cannot_be_decided_and_nonsense_is_none(judged, home, exit_code, version, code):
    newer(judged, home, version)
    assert exit_code(judged.record) == code


def test_a_newer_version_says_what_to_upgrade_and_stops_the_gate_undecided(judged, home):
    from esper_agents.archive.verification.coverage import CoverageState
    from esper_agents.domain.status import Status

    newer(judged, home)
    judged.view.unlink()
    found = asyncio.run(verify_certificate(str(judged.record), None))
    assert "certificate/v2; this version of esper-agents supports" in found.genuine[-1].detail
    coverage = asyncio.run(check_coverage(judged.root, required=frozenset(Status), agents=())).coverage
    assert CoverageState.UNDECIDED in {each.standing for each in coverage if each.path.endswith(".dsse.json")}


def test_a_newer_version_that_nobody_trusted_signed_ends_nothing(judged, tmp_path, exit_code):
    value = {"predicateType": f"{VOCABULARY}certificate/v2", "supersedes": judged.id}
    sealed = seal(signing_key(tmp_path / "stranger"), json.dumps(value).encode())
    judged.record.with_name("later.dsse.json").write_bytes(envelope_bytes(sealed))
    assert exit_code(judged.view) == 0


@pytest.mark.parametrize("vocabulary", [VOCABULARY, OLD_VOCABULARY])
def test_a_newer_version_that_speaks_of_it_leaves_it_undecided(judged, home, exit_code, vocabulary):
    value = {"predicateType": f"{vocabulary}certificate/v2", "supersedes": judged.id}
    sealed = seal(signing_key(home), json.dumps(value).encode())
    judged.record.with_name("later.dsse.json").write_bytes(envelope_bytes(sealed))
    assert exit_code(judged.view) == 4


def test_a_source_that_is_no_utf_8_is_judged_and_verified_as_bytes(make_project, monkeypatch, exit_code):
    text = "# coding: latin-1\n# \xe9t\xe9\n" + FAULTY
    root = make_project({"train.py": text.encode("latin-1"), "data.py": b"\xff\xfe\x00\x01"})
    monkeypatch.chdir(root)

    async def review():
        async with open_project(root) as project:
            task = project.tasks.create("review this training code", [root / "train.py"], agent="pytorch-code-reviewer")
            return await (await project.tasks.submit(task)).run()

    outcome = asyncio.run(review())
    assert exit_code(outcome.view) == 0
    Path(root, "train.py").write_bytes(text.encode())
    assert exit_code(outcome.view) == 8
