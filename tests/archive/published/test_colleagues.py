"""Two colleagues with clones of one repository: countersignatures and revocations reach the other by git alone."""

from __future__ import annotations

import asyncio
import shutil
import subprocess

import pytest
from clones import asked, git

from esper_agents.api import (
    CoverageState,
    check_coverage,
    export_key,
    open_project,
    trust_key,
    verify_archive,
    verify_certificate,
)
from esper_agents.certificates.check import CheckOutcome, combine_outcomes
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.domain.status import Status
from esper_agents.errors import EvidenceError, ExitCode, UsageError
from esper_agents.paths import home as data_directory


@pytest.fixture
def bob(judged_project, tmp_path, monkeypatch, home):
    """Return the clone of a colleague, and functions that work as the author and as the colleague."""
    git(judged_project.root, "add", "-A")
    git(judged_project.root, "commit", "-q", "-m", "certificates")
    root = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(judged_project.root), str(root))
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "bob@example.org", "-f", tmp_path / "bob_ssh"], check=True
    )

    class People:
        clone, ssh = root, tmp_path / "bob_ssh"

        @staticmethod
        def become(name):
            monkeypatch.setenv("ESPER_HOME", str(home if name == "ann" else tmp_path / name))
            return export_key(name=name)

        @staticmethod
        def share():
            git(root, "add", "-A")
            git(root, "commit", "-q", "-m", "notices")
            git(judged_project.root, "pull", "-q", str(root), "HEAD")

    return People


def countersigned_by_bob(bob, ann_key):
    bob_key = bob.become("bob")
    trust_key(ann_key)
    asked(bob.clone, lambda certificates: certificates.countersign("latest", bob.ssh, "read it"))
    bob.share()
    bob.become("ann")
    return bob_key


def test_a_colleague_countersigns_from_a_clone_and_the_author_sees_it_without_a_fault(bob, judged_project):
    bob_key = countersigned_by_bob(bob, bob.become("ann"))
    # Before the author trusts the colleague, the notice decides nothing.
    found = asyncio.run(verify_certificate(judged_project.id, judged_project.root))
    assert (found.exit_code, found.countersigned) == (ExitCode.DONE, ())
    trust_key(bob_key)
    trust_key(str(bob.ssh.with_suffix(".pub")), "bob-ssh")
    found = asyncio.run(verify_certificate(judged_project.id, judged_project.root))
    assert found.exit_code is ExitCode.DONE
    (check,) = found.countersigned
    assert (check.outcome, check.detail) == (CheckOutcome.HOLDS, "by bob-ssh, in another log")
    asked(judged_project.root, lambda certificates: certificates.repair())
    (check,) = asyncio.run(verify_certificate(judged_project.id, judged_project.root)).countersigned
    assert check.detail == "by bob-ssh, at entry 1"
    assert asyncio.run(verify_archive(judged_project.root)).exit_code is ExitCode.DONE


def test_a_colleague_re_runs_the_evidence_of_a_published_certificate(bob, judged_project):
    ann_key = bob.become("ann")
    bob.become("bob")
    with pytest.raises(EvidenceError, match="not trusted"):
        asyncio.run(reproduced(bob.clone, judged_project.id))
    trust_key(ann_key)
    again = asyncio.run(reproduced(bob.clone, judged_project.id))
    assert [each.certificate for each in again.relations] == [judged_project.id]
    outcomes = [each.output["outcome"] for each in again.evidence if each.tool == "reproduce-evidence"]
    assert "reproduced" in outcomes
    assert "differs" not in outcomes
    assert asyncio.run(verify_archive(bob.clone)).exit_code is ExitCode.DONE


async def reproduced(root, certificate_id):
    async with open_project(root) as project:
        session = await project.tasks.submit(await project.tasks.reproduction(certificate_id))
        return await project.certificates.read((await session.run()).certificate.id)


def overridden_by_bob(bob, judged_project, status, ann_key):
    bob_key = bob.become("bob")
    trust_key(ann_key)
    asked(
        bob.clone, lambda certificates: certificates.override(judged_project.id, Status(status), "seen from the clone")
    )
    bob.share()
    return bob_key


def standing(root, **options):
    (found,) = asyncio.run(check_coverage(root, **options)).coverage
    return found


def test_a_colleague_overrides_from_a_clone_and_it_counts_for_those_who_trust_the_key(bob, judged_project):
    bob_key = overridden_by_bob(bob, judged_project, "APPROVED", bob.become("ann"))
    found = standing(bob.clone)
    assert (found.standing, "only with --accept-overrides" in found.why) == (CoverageState.AGAINST, True)
    assert standing(bob.clone, accepts_overrides=True).standing is CoverageState.COVERED

    async def listed(certificates):
        return await certificates.overrides(await certificates.list())

    (shown,) = asked(bob.clone, listed).values()
    assert (shown.status, shown.reason) == ("APPROVED", "seen from the clone")
    bob.become("ann")
    assert standing(judged_project.root, accepts_overrides=True).standing is CoverageState.AGAINST
    trust_key(bob_key)
    assert standing(judged_project.root, accepts_overrides=True).standing is CoverageState.COVERED
    verified = asyncio.run(verify_certificate(judged_project.id, judged_project.root))
    assert (verified.exit_code, verified.overridden.status) == (ExitCode.DONE, "APPROVED")


def test_an_objection_of_a_colleague_counts_without_an_option(bob, judged_project):
    overridden_by_bob(bob, judged_project, "REJECTED", bob.become("ann"))
    found = standing(bob.clone, required=frozenset({Status.REQUIRES_REMEDIATION}))
    assert (found.standing, found.status) == (CoverageState.AGAINST, "REJECTED")
    assert "seen from the clone" in found.why
    with pytest.raises(UsageError, match="already has status REJECTED"):
        asked(bob.clone, lambda certificates: certificates.override(judged_project.id, Status.REJECTED, "again"))
    bob.become("bob")
    assert asyncio.run(verify_archive(bob.clone)).exit_code is ExitCode.DONE


def test_only_the_signer_can_revoke_and_the_refusal_names_the_objection(bob, judged_project):
    ann_key = bob.become("ann")
    bob.become("bob")
    with pytest.raises(EvidenceError, match="not trusted"):
        asked(bob.clone, lambda certificates: certificates.revoke(judged_project.id, "wrong"))
    trust_key(ann_key)
    with pytest.raises(UsageError, match="is signed by ann, and only its signer can revoke it") as refused:
        asked(bob.clone, lambda certificates: certificates.revoke(judged_project.id, "wrong"))
    assert f"esper certificates override {judged_project.id} --status REJECTED" in refused.value.remedy
    assert not list(bob.clone.glob("docs/ai/agents/*/certificates/*.notice.json"))


def test_the_signer_revokes_from_a_clone_with_the_same_key_and_another_archive(bob, judged_project, home, tmp_path):
    bob.become("ann")
    shutil.copytree(home / "keys", tmp_path / "ann2/keys")
    bob.become("ann2")
    asked(bob.clone, lambda certificates: certificates.revoke(judged_project.id, "the data set was mislabelled"))
    found = asyncio.run(verify_certificate(judged_project.id, bob.clone))
    assert (found.exit_code, found.later[0].reason) == (ExitCode.NOT_CURRENT, "the data set was mislabelled")


def test_the_log_of_the_colleague_stays_sound(bob, judged_project):
    countersigned_by_bob(bob, bob.become("ann"))
    bob.become("bob")
    verified = asyncio.run(verify_archive(bob.clone))
    assert (verified.exit_code, verified.entries, verified.faults) == (ExitCode.DONE, 1, ())


def test_an_untrusted_certificate_cannot_be_countersigned(bob):
    bob.become("bob")
    with pytest.raises(EvidenceError, match="not trusted"):
        asked(bob.clone, lambda certificates: certificates.countersign("latest", bob.ssh, "looks fine"))


def test_a_notice_of_a_key_that_signs_in_this_log_is_a_loss_as_before(bob, judged_project, tmp_path, monkeypatch):
    """In a shared database both sign in one log: what it lacks there was lost."""
    from judged import judge

    shared = tmp_path / "shared.db"
    monkeypatch.setenv("ESPER_DATABASE_URL", f"sqlite:///{shared}")
    ann_key = bob.become("ann")
    judge(judged_project.root)
    bob_key = bob.become("bob")
    trust_key(ann_key)
    own = judge(judged_project.root)
    shutil.copy(shared, tmp_path / "older.db")
    asked(judged_project.root, lambda certificates: certificates.revoke(own.id, "the data set was mislabelled"))
    shutil.copy(tmp_path / "older.db", shared)
    for path in tmp_path.glob("shared.db-*"):
        path.unlink()
    bob.become("ann")
    trust_key(bob_key)
    found = asyncio.run(verify_certificate(own.id, judged_project.root))
    assert combine_outcomes(*found.genuine) is CheckOutcome.FAILS
    assert found.exit_code is ExitCode.TAMPERED


def test_a_project_remains_open_while_it_reads_published_certificates(bob, judged_project):
    ann_key = bob.become("ann")
    bob.become("bob")

    async def read_twice():
        async with open_project(bob.clone) as project:
            before = [each.is_trusted for each in await project.certificates.list()]
            trust_key(ann_key)
            # A trusted key is noticed once the index is compared again; a new folder time forces it.
            (folder,) = bob.clone.glob("docs/ai/agents/*/certificates")
            (folder / "note.txt").write_text("x")
            return before, [each.is_trusted for each in await project.certificates.list()]

    assert asyncio.run(read_twice()) == ([False], [True])


def revoked_by_bob(bob, judged_project, ann_key):
    """Publish a revocation by the colleague next to the author's certificate, which `revoke` refuses to do."""
    from esper_agents.archive.publishing import publish_notice
    from esper_agents.certificates.notices import notice_statement
    from esper_agents.certificates.statement import digest_of
    from esper_agents.domain.notice import LogNoticeStatement, NoticeKind

    bob_key = bob.become("bob")
    trust_key(ann_key)
    records = bob.clone.glob("docs/ai/agents/*/certificates/*.dsse.json")
    (record,) = (each for each in records if judged_project.id.encode() in read_envelope(each.read_bytes()).payload)
    digest = digest_of(read_envelope(record.read_bytes()).payload).removeprefix("sha256:")
    notice = LogNoticeStatement(
        f"ntc_{7:032x}",
        NoticeKind.CERTIFICATE_REVOKED,
        "2026-01-31T09:30:00.000Z",
        "bob",
        "it must go",
        certificate=judged_project.id,
        certificate_sha256=digest,
    )
    publish_notice(record, notice, seal(signing_key(data_directory()), notice_statement(notice)))
    bob.share()
    return bob_key


@pytest.mark.parametrize("person", ["bob", "carol", "ann"])
def test_a_revocation_by_a_colleague_is_an_objection_and_revokes_nothing(bob, judged_project, person):
    ann_key = bob.become("ann")
    bob_key = revoked_by_bob(bob, judged_project, ann_key)
    bob.become(person)
    if person != "bob":
        trust_key(bob_key)
    if person == "carol":
        trust_key(ann_key)
    root = judged_project.root if person == "ann" else bob.clone
    found = asyncio.run(verify_certificate(judged_project.id, root))
    assert (found.exit_code, found.currency, found.later) == (ExitCode.UNDECIDED, "valid", ())
    (objection,) = found.objections
    assert "it must go; only its signer can revoke it" in objection.detail
    assert standing(root).standing is CoverageState.AGAINST, "a verdict against a file stands all the same"
    if person == "ann":
        asked(root, lambda certificates: certificates.repair())
        assert asyncio.run(verify_certificate(judged_project.id, root)).later == (), "not entered as her own"


def test_a_file_whose_certificate_a_colleague_objects_to_is_undecided(bob, judged_project, home):
    from judged import FAULTY, judge

    judged_project.train.write_text(
        FAULTY.replace("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()").replace(
            "loss.item()", "loss.detach()"
        )
    )
    fixed = judge(judged_project.root)
    git(judged_project.root, "add", "-A")
    git(judged_project.root, "commit", "-q", "-m", "fixed")
    git(bob.clone, "pull", "-q")
    required = frozenset(Status)
    ann_key = bob.become("ann")
    assert standing(judged_project.root, required=required).standing is CoverageState.COVERED
    bob_key = revoked_by_bob(bob, fixed, ann_key)
    found = standing(bob.clone, required=required)
    assert (found.standing, "bob" in found.why or "this-home" in found.why) == (CoverageState.UNDECIDED, True)
    assert "only its signer can revoke it" in found.why
    bob.become("ann")
    assert standing(judged_project.root, required=required).standing is CoverageState.COVERED, "not yet trusted"
    trust_key(bob_key)
    assert standing(judged_project.root, required=required).standing is CoverageState.UNDECIDED


def test_another_key_of_the_same_owner_revokes(bob, judged_project):
    ann_key = bob.become("ann")
    bob_key = revoked_by_bob(bob, judged_project, ann_key)
    bob.become("carol")
    trust_key(ann_key)
    trust_key(bob_key.replace(" bob", " ann").replace("bob ", "ann "), "ann")
    found = asyncio.run(verify_certificate(judged_project.id, bob.clone))
    assert (found.exit_code, found.objections, found.later[0].reason) == (ExitCode.NOT_CURRENT, (), "it must go")


@pytest.mark.parametrize(("owner", "currency"), [("bob", "valid"), ("ann", "superseded")])
def test_a_certificate_supersedes_those_of_its_own_signer_only(bob, judged_project, owner, currency):
    async def again():
        async with open_project(judged_project.root) as project:
            return await (await project.tasks.submit(await project.tasks.repeat(judged_project.id))).run()

    ann_key = bob.become("ann")
    later = asyncio.run(again())
    record = later.view.with_name(later.view.name.removesuffix(".md") + ".dsse.json")
    bob_key = bob.become("bob")
    record.write_bytes(envelope_bytes(seal(signing_key(data_directory()), read_envelope(record.read_bytes()).payload)))
    git(judged_project.root, "add", "-A")
    git(judged_project.root, "commit", "-q", "-m", "later")
    git(bob.clone, "pull", "-q")
    bob.become("carol")
    trust_key(ann_key, "ann")
    trust_key(bob_key, owner)
    assert asyncio.run(verify_certificate(judged_project.id, bob.clone)).currency == currency
