"""What verifying finds: files and archives that were tampered with, trees that moved on, and what it cannot know."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from judged import FAULTY

from esper_agents.api import verify_certificate
from esper_agents.archive.verification.verify import FreshnessState, VerificationResult
from esper_agents.certificates.check import Check, CheckOutcome, combine_outcomes
from esper_agents.certificates.log.merkle import leaf_hash
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint, write_proof
from esper_agents.certificates.signing.allowed_signers import read_signers
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import as_ssh, signing_key
from esper_agents.certificates.signing.trusted_keys import trust
from esper_agents.certificates.statement import parse, statement
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.errors import EvidenceError, ExitCode, InputFileError, NotFoundError


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


@pytest.fixture
def elsewhere(judged, monkeypatch, tmp_path):
    """Make this a machine whose archive knows nothing, as that of a colleague who cloned the project."""
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other-home"))
    return tmp_path / "other-home"


def verify(target, where=None) -> VerificationResult:
    return asyncio.run(verify_certificate(str(target), where))


def outcomes(found: VerificationResult):
    groups = (combine_outcomes(*each) for each in (found.genuine, found.verdict, found.citations))
    return (*(str(group) for group in groups), str(found.currency))


def failed(found: VerificationResult):
    return [each.name for each in (*found.genuine, *found.verdict) if each.outcome is CheckOutcome.FAILS]


def archive(home):
    (database,) = home.glob("projects/*/esper.db")
    return closing(sqlite3.connect(database, isolation_level=None))


def payload(judged) -> bytes:
    return read_envelope(judged.record.read_bytes()).payload


def reseal(judged, data: bytes, folder) -> None:
    """Publish a statement as somebody would who has a key of their own, with a log of their own, and a fitting view."""
    key = signing_key(folder)
    envelope = envelope_bytes(seal(key, data))
    judged.record.write_bytes(envelope)
    note = signed_checkpoint(Checkpoint("example.org/log", 1, leaf_hash(envelope)), key)
    judged.proof.write_text(write_proof(0, (), note), encoding="utf-8")
    judged.view.write_text(render_markdown(data), encoding="utf-8")
    judged.view.with_suffix(".html").write_text(render_html(data), encoding="utf-8")


def forge(judged, folder, **changes) -> None:
    """Publish the record with another verdict, signed with another key."""
    value = json.loads(payload(judged))
    value["predicate"]["verdict"] |= changes
    reseal(judged, statement(parse(json.dumps(value).encode())), folder)


def break_record(judged, old: bytes, new: bytes) -> None:
    """Change a few bytes of the record and leave its signature as it was."""
    sealed = read_envelope(judged.record.read_bytes())
    assert old in sealed.payload
    judged.record.write_bytes(envelope_bytes(replace(sealed, payload=sealed.payload.replace(old, new))))


def trust_issuer(home, elsewhere) -> None:
    """Have the colleague trust the key of whoever issued here."""
    line = f"issuer {as_ssh(signing_key(home).public_key)}\n"
    (signer,) = read_signers(line.encode(), "a test").signers
    trust(elsewhere, signer)


def test_what_nobody_touched_holds_by_identifier_view_and_record(judged) -> None:
    for target in (judged.id, judged.id[-8:], "latest", judged.view, judged.record):
        found = verify(target)
        assert outcomes(found) == ("holds", "holds", "holds", "valid")
        assert found.exit_code is ExitCode.DONE


def test_a_view_with_another_status_is_not_genuine_by_file_and_by_identifier(judged) -> None:
    page = judged.view.read_text("utf-8")
    judged.view.write_text(page.replace("**Status**: REQUIRES_REMEDIATION", "**Status**: APPROVED"), encoding="utf-8")
    for target in (judged.id, judged.view, judged.record):
        found = verify(target)
        assert outcomes(found) == ("fails", "holds", "holds", "valid")
        assert failed(found) == ["view"]
        assert found.exit_code is ExitCode.TAMPERED


def test_a_view_that_names_another_hash_is_not_genuine(judged) -> None:
    page = judged.view.read_text("utf-8")
    judged.view.write_text(page.replace("Certificate Hash: sha256:", "Certificate Hash: sha256:0"), encoding="utf-8")
    assert failed(verify(judged.view)) == ["hash in the view", "view"]


def test_a_record_that_was_changed_is_not_what_was_issued(judged) -> None:
    break_record(judged, b"clears", b"cleans")
    assert failed(verify(judged.id)) == ["published record"]
    views = ["hash in the view", "view"] * 2
    assert failed(verify(judged.record)) == ["archive", "signature", "log", *views]


def test_a_record_that_is_no_certificate_any_more_is_not_looked_into(judged) -> None:
    break_record(judged, b"REQUIRES_REMEDIATION", b"CERTIFIED_EXCELLENT")
    found = verify(judged.record)
    assert found.certificate is None
    assert outcomes(found) == ("fails", "cannot decide", "cannot decide", "cannot decide")
    assert found.exit_code is ExitCode.TAMPERED


def test_a_broken_record_of_a_clone_is_found_by_its_identifier_all_the_same(judged, elsewhere) -> None:
    break_record(judged, b"REQUIRES_REMEDIATION", b"CERTIFIED_EXCELLENT")
    assert verify(judged.id).exit_code is ExitCode.TAMPERED


def test_an_archive_whose_bytes_were_changed_is_found_out(judged, home) -> None:
    with archive(home) as connection:
        connection.execute("UPDATE certificate SET statement = CAST('{}' AS BLOB)")
    found = verify(judged.id)
    assert failed(found) == ["archive", "log"]
    assert found.exit_code is ExitCode.TAMPERED


def test_forged_files_are_found_out_by_the_archive(judged, tmp_path) -> None:
    forge(judged, tmp_path / "forger", rationale="nothing stood against it")
    assert failed(verify(judged.view)) == ["archive"]


def test_files_signed_by_a_key_that_nobody_trusts_decide_nothing(judged, elsewhere, tmp_path) -> None:
    forge(judged, tmp_path / "forger", rationale="nothing stood against it")
    found = verify(judged.view)
    assert outcomes(found) == ("cannot decide", "holds", "holds", "valid")
    assert {each.name: each.outcome for each in found.genuine}["signature"] is CheckOutcome.CANNOT_DECIDE
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_key_that_the_repository_brings_along_is_not_trusted(judged, elsewhere, tmp_path) -> None:
    forge(judged, tmp_path / "forger", rationale="nothing stood against it")
    (judged.root / ".esper").mkdir()
    line = f"boss {as_ssh(signing_key(tmp_path / 'forger').public_key)}\n"
    (judged.root / ".esper" / "trusted_keys").write_text(line, encoding="utf-8")
    assert verify(judged.view).exit_code is ExitCode.UNDECIDED


def test_a_forged_approval_is_above_its_ceiling_whoever_signed_it(judged, elsewhere, tmp_path) -> None:
    forge(judged, tmp_path / "forger", status="APPROVED", stance="for")
    found = verify(judged.view)
    assert outcomes(found) == ("cannot decide", "fails", "holds", "valid")
    assert failed(found) == ["verdict"]
    assert found.exit_code is ExitCode.TAMPERED


def test_a_clone_without_an_archive_is_checked_by_its_published_files(judged, elsewhere, home) -> None:
    assert verify(judged.id).exit_code is ExitCode.UNDECIDED
    assert not elsewhere.exists()
    trust_issuer(home, elsewhere)
    for target in (judged.id, judged.id[-10:]):
        found = verify(target)
        assert found.certificate.id == judged.id
        assert "archive" not in {each.name for each in found.genuine}
        assert outcomes(found) == ("holds", "holds", "holds", "valid")
        assert found.exit_code is ExitCode.DONE


def test_a_proof_that_does_not_lead_to_the_log_fails(judged, elsewhere, home) -> None:
    trust_issuer(home, elsewhere)
    text = judged.proof.read_text(encoding="utf-8")
    judged.proof.write_text(text.replace("index 0", "index 1"), encoding="utf-8")
    assert failed(verify(judged.view)) == ["log"]
    judged.proof.unlink()
    found = verify(judged.view)
    assert combine_outcomes(*found.complete) is CheckOutcome.CANNOT_DECIDE
    assert found.exit_code is ExitCode.UNDECIDED


def test_an_identifier_that_nobody_knows_makes_no_database(judged, elsewhere) -> None:
    for name in ("crt_" + "0" * 32, "nonsense"):
        with pytest.raises(NotFoundError):
            verify(name)
    assert not elsewhere.exists()


def test_without_an_archive_the_latest_is_a_published_one_and_no_database_is_made(judged, elsewhere) -> None:
    found = verify("latest")
    assert found.certificate.id == judged.id
    # Its key is unknown there.
    assert found.exit_code is ExitCode.UNDECIDED
    assert not elsewhere.exists()


def test_lines_that_moved_are_named_with_where_they_stand_now(judged) -> None:
    judged.train.write_text("# a new first line\n" + FAULTY, encoding="utf-8")
    found = verify(judged.id)
    assert outcomes(found) == ("holds", "holds", "holds", "stale")
    assert found.exit_code is ExitCode.NOT_CURRENT
    (file,) = found.files
    assert (file.path, str(file.state)) == ("train.py", "stale")
    assert [(citation.name, citation.detail) for citation in file.citations] == [
        ("ESP101 at train.py:8", "cited line moved to 9"),
        ("ESP305 at train.py:10", "cited line moved to 11"),
    ]


def test_lines_that_stayed_are_told_from_lines_that_are_gone(judged) -> None:
    judged.train.write_text(FAULTY.replace("total += loss.item()", "total += loss.detach()"), encoding="utf-8")
    (file,) = verify(judged.id).files
    assert [citation.detail for citation in file.citations] == ["cited line unchanged", "cited line not found"]


def test_a_file_that_is_gone_makes_it_stale(judged) -> None:
    judged.train.unlink()
    found = verify(judged.id)
    assert [str(file.state) for file in found.files] == ["missing"]
    assert found.exit_code is ExitCode.NOT_CURRENT


def test_a_file_that_leads_out_of_the_project_decides_nothing(judged, tmp_path) -> None:
    (tmp_path / "other.py").write_text(FAULTY, encoding="utf-8")
    judged.train.unlink()
    judged.train.symlink_to(tmp_path / "other.py")
    found = verify(judged.id)
    assert outcomes(found) == ("holds", "holds", "holds", "cannot decide")
    assert found.exit_code is ExitCode.UNDECIDED


def test_another_tree_altogether_decides_nothing(judged, tmp_path) -> None:
    (tmp_path / "stranger").mkdir()
    found = verify(judged.view, tmp_path / "stranger")
    assert found.currency is FreshnessState.CANNOT_DECIDE
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_copy_of_the_tree_under_another_name_is_compared_like_the_tree(judged, tmp_path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "train.py").write_text(FAULTY, encoding="utf-8")
    assert verify(judged.view, tmp_path / "copy").currency is FreshnessState.VALID


def test_another_policy_than_that_of_its_time_decides_nothing(judged, elsewhere, tmp_path) -> None:
    ceiling = json.loads(payload(judged))["predicate"]["verdict"]["ceiling"]
    forge(judged, tmp_path / "forger", ceiling=ceiling | {"policy_sha256": "0" * 64})
    found = verify(judged.view)
    assert outcomes(found) == ("cannot decide", "cannot decide", "holds", "valid")
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_quotation_that_its_own_file_contradicts_is_never_called_good(judged, elsewhere, tmp_path) -> None:
    value = json.loads(payload(judged))
    value["predicate"]["findings"][0]["claim"]["excerpt"] = "        loss.forward()"
    reseal(judged, json.dumps(value).encode(), tmp_path / "forger")
    judged.view.unlink()
    found = verify(judged.record)
    assert outcomes(found) == ("cannot decide", "holds", "fails", "valid")
    assert "though the file is what it was" in found.citations[-1].detail


def test_a_view_without_its_record_names_the_command_that_asks_the_archive(judged) -> None:
    judged.record.unlink()
    with pytest.raises(EvidenceError, match="not next to it") as caught:
        verify(judged.view)
    assert f"`esper certificates verify {judged.id}`" in caught.value.remedy


def test_a_record_needs_no_view(judged) -> None:
    judged.view.unlink()
    assert verify(judged.record).exit_code is ExitCode.DONE
    assert verify(judged.id).exit_code is ExitCode.DONE


@pytest.mark.parametrize("name", ["none.md", "none.dsse.json", "docs/", "docs/ai"])
def test_what_is_no_file_is_refused(judged, name) -> None:
    with pytest.raises(InputFileError, match=r"no such file|not a regular file"):
        verify(name)


def test_json_that_is_no_record_is_refused(judged) -> None:
    (judged.root / "package.json").write_text("{}")
    with pytest.raises(InputFileError, match="neither a view nor a record"):
        verify("package.json")


def test_files_can_be_checked_where_the_database_is_damaged(judged, home) -> None:
    (database,) = home.glob("projects/*/esper.db")
    database.write_bytes(b"no database at all, but long enough to look at" * 100)
    found = verify(judged.view)
    assert "archive" not in {each.name for each in found.genuine}
    assert found.exit_code is ExitCode.DONE


@pytest.mark.parametrize(
    ("outcome", "currency", "code"),
    [
        (CheckOutcome.HOLDS, FreshnessState.VALID, ExitCode.DONE),
        (CheckOutcome.HOLDS, FreshnessState.STALE, ExitCode.NOT_CURRENT),
        (CheckOutcome.HOLDS, FreshnessState.SUPERSEDED, ExitCode.NOT_CURRENT),
        (CheckOutcome.HOLDS, FreshnessState.REVOKED, ExitCode.NOT_CURRENT),
        (CheckOutcome.HOLDS, FreshnessState.CANNOT_DECIDE, ExitCode.UNDECIDED),
        (CheckOutcome.CANNOT_DECIDE, FreshnessState.VALID, ExitCode.UNDECIDED),
        (CheckOutcome.CANNOT_DECIDE, FreshnessState.STALE, ExitCode.NOT_CURRENT),
        (CheckOutcome.FAILS, FreshnessState.VALID, ExitCode.TAMPERED),
        (CheckOutcome.FAILS, FreshnessState.STALE, ExitCode.TAMPERED),
        (CheckOutcome.FAILS, FreshnessState.CANNOT_DECIDE, ExitCode.TAMPERED),
    ],
)
def test_tampering_goes_before_age_and_age_before_doubt(tmp_path, outcome, currency, code) -> None:
    well = (Check("any", CheckOutcome.HOLDS, ""),)
    mixed = (*well, Check("any", outcome, ""))
    for groups in ((mixed, well, well, well), (well, mixed, well, well), (well, well, mixed, well)):
        found = VerificationResult(None, *groups, currency, None, (), (), tmp_path)
        assert found.exit_code is code
