"""Verification, coverage and explanation through the public API."""

from __future__ import annotations

from pathlib import Path

import pytest

from esper_agents.api import (
    CheckOutcome,
    CoverageState,
    FreshnessState,
    check_coverage,
    combine_outcomes,
    open_project,
    open_project_sync,
    read_trusted_keys,
    verify_archive,
    verify_certificate,
)
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode, NotFoundError

pytestmark = pytest.mark.anyio


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


@pytest.fixture
def elsewhere(judged, monkeypatch, tmp_path):
    """Make this a machine that has the project and no archive."""
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "other-home"))
    return tmp_path / "other-home"


async def test_an_open_project_verifies_its_certificate_by_id_and_by_file(judged):
    async with open_project(judged.root) as project:
        for target in ("latest", judged.id, str(judged.view), str(judged.record)):
            found = await project.certificates.verify(target)
            assert (found.certificate.id, found.currency, found.exit_code) == (
                judged.id,
                FreshnessState.VALID,
                ExitCode.DONE,
            )
            assert found.is_in_archive


async def test_a_changed_file_makes_a_certificate_stale_and_uncovers_the_file(judged):
    (judged.root / "train.py").write_text("x = 1\n")
    async with open_project(judged.root) as project:
        assert (await project.certificates.verify()).currency is FreshnessState.STALE
        result = await project.certificates.gate([Path("train.py")])
    assert [each.standing for each in result.coverage] == [CoverageState.NOT_CURRENT]
    assert result.exit_code is ExitCode.NOT_CURRENT


async def test_an_open_project_verifies_its_whole_archive(judged):
    async with open_project(judged.root) as project:
        whole = await project.certificates.verify_all()
        assert ([certificate.id for certificate in whole.certificates], whole.faults, whole.exit_code) == (
            [judged.id],
            (),
            ExitCode.DONE,
        )
        judged.view.unlink()
        whole = await project.certificates.verify_all()
    assert (whole.missing, whole.exit_code) == ((judged.view,), ExitCode.NOT_CURRENT)


async def test_a_negative_verdict_stops_the_gate_whatever_the_caller_accepts(judged):
    async with open_project(judged.root) as project:
        assert (await project.certificates.gate()).exit_code is ExitCode.AGAINST
        accepted = await project.certificates.gate(required=frozenset(Status), agents=())
    assert accepted.certificates == 1
    assert accepted.exit_code is ExitCode.AGAINST


async def test_a_verdict_is_explained_down_to_its_evidence(judged):
    async with open_project(judged.root) as project:
        explained = await project.certificates.explain(judged.id)
    assert explained.verdict.status is Status.REQUIRES_REMEDIATION
    (depth, text), *others = explained.outline()
    assert depth == 0
    assert text.startswith("REQUIRES_REMEDIATION")
    assert any("train.py" in text for _, text in others)


async def test_the_views_of_a_certificate_are_its_existing_files(judged):
    async with open_project(judged.root) as project:
        assert await project.certificates.views("latest") == (judged.view,)
        judged.view.unlink()
        assert await project.certificates.views("latest") == ()


async def test_without_an_archive_nothing_is_created_and_published_files_are_verified(judged, elsewhere):
    found = await verify_certificate(str(judged.view))
    assert not found.is_in_archive
    assert combine_outcomes(*found.genuine) is CheckOutcome.CANNOT_DECIDE
    (covered,) = (await check_coverage(judged.root, [judged.root / "train.py"])).coverage
    assert covered.standing is CoverageState.UNDECIDED
    with pytest.raises(NotFoundError):
        await verify_archive(judged.root)
    assert not list(elsewhere.rglob("*.db"))


async def test_a_key_that_the_caller_trusts_decides_a_published_file(judged, home, elsewhere):
    from esper_agents.certificates.signing.signing_key import as_ssh, existing_key

    keys = read_trusted_keys(as_ssh(existing_key(home).public_key))
    found = await verify_certificate(str(judged.record), trusted_keys=keys)
    assert combine_outcomes(*found.genuine) is CheckOutcome.HOLDS
    (covered,) = (await check_coverage(judged.root, [judged.root / "train.py"], trusted_keys=keys)).coverage
    assert covered.standing is CoverageState.AGAINST


async def test_a_database_that_cannot_be_used_does_not_stop_the_verification_of_a_file(judged, home):
    (database,) = home.glob("projects/*/esper.db")
    database.write_bytes(b"no database at all, but long enough to look at" * 100)
    found = await verify_certificate(str(judged.view))
    assert not found.is_in_archive
    assert found.certificate.id == judged.id


def test_the_synchronous_api_verifies_too(judged):
    with open_project_sync(judged.root) as project:
        assert project.certificates.verify().exit_code is ExitCode.DONE
        assert project.certificates.gate().exit_code is ExitCode.AGAINST
