"""What verifying finds: files and archives that were tampered with, trees that moved on, and what it cannot know."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing

import pytest
from judged import FAULTY, judge

from esper_agents.certificates.check import Check, Outcome
from esper_agents.certificates.render import render_markdown
from esper_agents.certificates.statement import parse, statement
from esper_agents.cli.exhibits import find_exhibit
from esper_agents.cli.verifying import Currency, Verified, check, outcome_of
from esper_agents.errors import EvidenceError, ExitCode, InputFileError, NotFoundError


@pytest.fixture
def judged(make_project, monkeypatch):
    root = make_project({"train.py": FAULTY})
    monkeypatch.chdir(root)
    return judge(root)


@pytest.fixture
def elsewhere(judged, monkeypatch, tmp_path):
    """Make this a machine whose archive knows nothing, as that of a colleague who cloned the project."""
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other-home"))
    return tmp_path / "other-home"


def verify(target, where=None) -> Verified:
    return check(asyncio.run(find_exhibit(str(target), where)))


def outcomes(found: Verified):
    groups = (outcome_of(*each) for each in (found.genuine, found.verdict, found.citations))
    return (*(str(each) for each in groups), str(found.currency))


def failed(found: Verified):
    return [each.name for each in (*found.genuine, *found.verdict) if each.outcome is Outcome.FAILS]


def archive(home):
    (database,) = home.glob("projects/*/esper.db")
    return closing(sqlite3.connect(database, isolation_level=None))


def forge(judged, **changes) -> None:
    """Write a record whose verdict has changes, and a view made to fit it."""
    value = json.loads(judged.record.read_bytes())
    value["predicate"]["verdict"] |= changes
    data = statement(parse(json.dumps(value).encode()))
    judged.record.write_bytes(data)
    judged.view.write_text(render_markdown(data), encoding="utf-8")


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
    judged.record.write_bytes(judged.record.read_bytes().replace(b"clears", b"cleans"))
    assert failed(verify(judged.id)) == ["published record"]
    assert failed(verify(judged.record)) == ["archive", "hash in the view", "view"]


def test_a_record_that_is_no_certificate_any_more_is_not_looked_into(judged) -> None:
    judged.record.write_bytes(judged.record.read_bytes().replace(b"REQUIRES_REMEDIATION", b"CERTIFIED_EXCELLENT"))
    found = verify(judged.record)
    assert found.certificate is None
    assert outcomes(found) == ("fails", "cannot decide", "cannot decide", "cannot decide")
    assert found.exit_code is ExitCode.TAMPERED


def test_a_broken_record_of_a_clone_is_found_by_its_identifier_all_the_same(judged, elsewhere) -> None:
    judged.record.write_bytes(judged.record.read_bytes().replace(b"REQUIRES_REMEDIATION", b"CERTIFIED_EXCELLENT"))
    assert verify(judged.id).exit_code is ExitCode.TAMPERED


def test_an_archive_whose_bytes_were_changed_is_found_out(judged, home) -> None:
    with archive(home) as connection:
        connection.execute("UPDATE certificate SET statement = CAST('{}' AS BLOB)")
    found = verify(judged.id)
    assert failed(found) == ["archive"]
    assert found.exit_code is ExitCode.TAMPERED


def test_a_forged_pair_of_files_is_found_out_by_the_archive(judged) -> None:
    forge(judged, rationale="nothing stood against it")
    assert failed(verify(judged.view)) == ["archive"]


def test_a_forged_approval_is_above_its_ceiling_even_where_there_is_no_archive(judged, elsewhere) -> None:
    forge(judged, status="APPROVED", stance="for")
    found = verify(judged.view)
    assert outcomes(found) == ("holds", "fails", "holds", "valid")
    assert failed(found) == ["verdict"]


def test_a_clone_without_an_archive_is_checked_by_its_published_files(judged, elsewhere) -> None:
    for target in (judged.id, judged.id[-10:]):
        found = verify(target)
        assert found.certificate.id == judged.id
        assert "archive" not in {each.name for each in found.genuine}
        assert found.exit_code is ExitCode.DONE
    assert not elsewhere.exists()


def test_an_identifier_that_nobody_knows_makes_no_database(judged, elsewhere) -> None:
    for name in ("crt_" + "0" * 32, "latest", "nonsense"):
        with pytest.raises(NotFoundError):
            verify(name)
    assert not elsewhere.exists()


def test_lines_that_moved_are_named_with_where_they_stand_now(judged) -> None:
    judged.train.write_text("# a new first line\n" + FAULTY, encoding="utf-8")
    found = verify(judged.id)
    assert outcomes(found) == ("holds", "holds", "holds", "stale")
    assert found.exit_code is ExitCode.NOT_CURRENT
    (file,) = found.files
    assert (file.path, str(file.state)) == ("train.py", "stale")
    assert [(each.name, each.detail) for each in file.citations] == [
        ("ESP101 at train.py:8", "the line stands at 9 now"),
        ("ESP305 at train.py:10", "the line stands at 11 now"),
    ]


def test_lines_that_stayed_are_told_from_lines_that_are_gone(judged) -> None:
    judged.train.write_text(FAULTY.replace("total += loss.item()", "total += loss.detach()"), encoding="utf-8")
    (file,) = verify(judged.id).files
    assert [each.detail for each in file.citations] == ["the line still says what it said", "the line is gone"]


def test_a_file_that_is_gone_makes_it_stale(judged) -> None:
    judged.train.unlink()
    found = verify(judged.id)
    assert [str(each.state) for each in found.files] == ["missing"]
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
    assert found.currency is Currency.CANNOT_DECIDE
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_copy_of_the_tree_under_another_name_is_compared_like_the_tree(judged, tmp_path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "train.py").write_text(FAULTY, encoding="utf-8")
    assert verify(judged.view, tmp_path / "copy").currency is Currency.VALID


def test_another_policy_than_that_of_its_time_decides_nothing(judged, elsewhere) -> None:
    ceiling = json.loads(judged.record.read_bytes())["predicate"]["verdict"]["ceiling"]
    forge(judged, ceiling=ceiling | {"policy_sha256": "0" * 64})
    found = verify(judged.view)
    assert outcomes(found) == ("holds", "cannot decide", "holds", "valid")
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_quotation_that_its_own_file_contradicts_is_never_called_good(judged, elsewhere) -> None:
    value = json.loads(judged.record.read_bytes())
    value["predicate"]["findings"][0]["claim"]["excerpt"] = "        loss.forward()"
    judged.record.write_bytes(json.dumps(value).encode())
    judged.view.unlink()
    found = verify(judged.record)
    assert outcomes(found) == ("holds", "holds", "fails", "valid")
    assert "though the file is what it was" in found.citations[-1].detail


def test_a_view_without_its_record_names_the_command_that_asks_the_archive(judged) -> None:
    judged.record.unlink()
    with pytest.raises(EvidenceError, match="not beside it") as caught:
        verify(judged.view)
    assert f"`esper certificates verify {judged.id}`" in caught.value.remedy


def test_a_record_needs_no_view(judged) -> None:
    judged.view.unlink()
    assert verify(judged.record).exit_code is ExitCode.DONE
    assert verify(judged.id).exit_code is ExitCode.DONE


@pytest.mark.parametrize("name", ["none.md", "none.intoto.json", "docs/", "docs/ai"])
def test_what_is_no_file_is_refused(judged, name) -> None:
    with pytest.raises(InputFileError, match="no such file"):
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
        (Outcome.HOLDS, Currency.VALID, ExitCode.DONE),
        (Outcome.HOLDS, Currency.STALE, ExitCode.NOT_CURRENT),
        (Outcome.HOLDS, Currency.CANNOT_DECIDE, ExitCode.UNDECIDED),
        (Outcome.CANNOT_DECIDE, Currency.VALID, ExitCode.UNDECIDED),
        (Outcome.CANNOT_DECIDE, Currency.STALE, ExitCode.NOT_CURRENT),
        (Outcome.FAILS, Currency.VALID, ExitCode.TAMPERED),
        (Outcome.FAILS, Currency.STALE, ExitCode.TAMPERED),
        (Outcome.FAILS, Currency.CANNOT_DECIDE, ExitCode.TAMPERED),
    ],
)
def test_tampering_goes_before_age_and_age_before_doubt(tmp_path, outcome, currency, code) -> None:
    well = (Check("any", Outcome.HOLDS, ""),)
    found = Verified(None, well, (*well, Check("any", outcome, "")), well, currency, (), tmp_path)
    assert found.exit_code is code
