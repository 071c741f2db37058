"""A witness cosigns the checkpoints of a colleague's log, and a verification demands that."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from clones import asked, git

from esper_agents.api import (
    CoverageState,
    check_coverage,
    cosign_published,
    cosign_request,
    export_key,
    publish_log,
    trust_key,
    verify_archive,
    verify_certificate,
)
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.log.cosignature import cosignature_of, read_verifier_key
from esper_agents.certificates.log.note import read_note, read_proof
from esper_agents.domain.key_format import KeyFormat
from esper_agents.errors import DefinitionError, EvidenceError, ExitCode, IntegrityError, UsageError


class People:
    """Ann with her project, and Bob, who witnesses her log from a clone."""

    def __init__(self, monkeypatch, home, judged, folder):
        self.monkeypatch, self.home, self.judged, self.folder = monkeypatch, home, judged, folder
        self.root, self.clone = judged.root, folder / "clone"
        self.share()
        git(folder, "clone", "-q", str(self.root), str(self.clone))
        ann_key = export_key(name="ann")
        self.become("bob")
        trust_key(ann_key)
        self.bob_key = export_key(KeyFormat.WITNESS)
        self.become("ann")

    def become(self, name):
        self.monkeypatch.setenv("ESPER_HOME", str(self.home if name == "ann" else self.folder / name))

    def share(self):
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "--allow-empty", "-m", "certificates")

    def publish(self, *since):
        """Publish as Ann, and let Bob pull."""
        self.become("ann")
        done = asyncio.run(publish_log(self.root, since))
        self.share()
        git(self.clone, "pull", "-q", str(self.root), "main")
        return done

    def witness(self):
        """Cosign as Bob, and let Ann pull."""
        self.become("bob")
        done = cosign_published(self.clone)
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "-q", "--allow-empty", "-m", "cosigned")
        git(self.root, "pull", "-q", str(self.clone), "main")
        self.become("ann")
        return done

    def verified(self, root=None):
        return asyncio.run(verify_certificate(self.judged.id, root or self.root, witnesses=[self.bob_key]))


@pytest.fixture
def people(monkeypatch, home, judged_project, tmp_path):
    return People(monkeypatch, home, judged_project, tmp_path)


def revoke(people):
    asked(people.root, lambda certificates: certificates.revoke(people.judged.id, "the data set was mislabelled"))


def test_a_cosignature_travels_by_git_and_stands_in_the_published_proof(people):
    people.publish()
    (done,) = people.witness().done
    assert (done.cosigned.before, done.cosigned.size) == (None, 1)
    assert people.verified().exit_code is ExitCode.DONE
    published = people.publish()
    assert [path.name for path in published.proofs] == [people.judged.proof.name]
    note = read_proof(people.judged.proof.read_bytes()).note
    assert cosignature_of(note, read_verifier_key(people.bob_key)) is not None
    people.become("bob")
    found = people.verified(people.clone)
    assert (found.exit_code, found.witnessed[0].outcome) == (ExitCode.DONE, CheckOutcome.HOLDS)


def test_without_a_cosignature_a_demand_leaves_the_verification_undecided(people):
    found = people.verified()
    assert (found.exit_code, found.witnessed[0].outcome) == (ExitCode.UNDECIDED, CheckOutcome.CANNOT_DECIDE)
    assert asyncio.run(verify_archive(people.root, [people.bob_key])).exit_code is ExitCode.UNDECIDED
    assert asyncio.run(verify_certificate(people.judged.id, people.root)).exit_code is ExitCode.DONE


def test_an_entry_after_the_newest_cosigned_checkpoint_is_not_witnessed(people):
    from judged import judge

    people.publish()
    people.witness()
    own = judge(people.root)
    found = asyncio.run(verify_certificate(own.id, people.root, witnesses=[people.bob_key]))
    assert found.witnessed[0].outcome is CheckOutcome.CANNOT_DECIDE
    assert "entry 1 is newer than the 1 entries" in found.witnessed[0].detail
    people.publish()
    (done,) = people.witness().done
    assert (done.cosigned.before, done.cosigned.size) == (1, 2)
    found = asyncio.run(verify_certificate(own.id, people.root, witnesses=[people.bob_key]))
    assert found.witnessed[0].outcome is CheckOutcome.HOLDS


def test_a_restored_log_is_noticed_by_the_demand_by_the_owner_and_by_the_witness(people, tmp_path):
    """The whole data directory is older: its pin notices nothing."""
    before = tmp_path / "older"
    shutil.copytree(people.home, before)
    revoke(people)
    people.publish()
    people.witness()
    shutil.rmtree(people.home)
    shutil.copytree(before, people.home)
    found = people.verified()
    assert found.exit_code is ExitCode.TAMPERED
    assert "cosigned 2 entries" in found.witnessed[0].detail
    with pytest.raises(IntegrityError, match="contradicts the cosigned checkpoint"):
        asyncio.run(publish_log(people.root))
    # An attacker removes the published checkpoints as well: the witness remembers.
    shutil.rmtree(people.root / "docs/ai/agents/logs")
    people.publish()
    ((_, error),) = people.witness().refused
    assert (error.exit_code, "has 1 entries, but 2 were cosigned" in error.problem) == (ExitCode.TAMPERED, True)


def test_a_rewritten_log_is_noticed(people, tmp_path):
    before = tmp_path / "older"
    shutil.copytree(people.home, before)
    revoke(people)
    people.publish()
    people.witness()
    shutil.rmtree(people.home)
    shutil.copytree(before, people.home)
    for name in ("first", "second"):
        asked(people.root, lambda certificates, name=name: certificates.revoke(people.judged.id, name))
    found = people.verified()
    assert (found.exit_code, found.witnessed[0].outcome) == (ExitCode.TAMPERED, CheckOutcome.FAILS)
    shutil.rmtree(people.root / "docs/ai/agents/logs")
    people.publish(2)
    people.become("bob")
    (request,) = people.clone.glob("docs/ai/agents/logs/*/from-2.request")
    with pytest.raises(IntegrityError, match="does not extend the 2 entries"):
        cosign_request(request, where=people.clone)


def test_verify_all_notices_a_published_checkpoint_that_the_log_contradicts_without_a_demand(people, tmp_path):
    before = tmp_path / "older"
    shutil.copytree(people.home, before)
    revoke(people)
    people.publish()
    shutil.rmtree(people.home)
    shutil.copytree(before, people.home)
    (request,) = people.root.glob("docs/ai/agents/logs/*/from-0.request")
    request.with_name("kept.checkpoint").write_text(request.read_text().partition("\n\n")[2])
    for path in people.judged.view.parent.glob("*.notice.json"):
        path.unlink()
    assert asyncio.run(verify_archive(people.root)).exit_code is ExitCode.TAMPERED


def test_a_witness_signs_no_log_of_an_untrusted_key_and_not_its_own(people):
    people.publish()
    people.become("carol")
    ((_, error),) = cosign_published(people.clone).refused
    assert isinstance(error, EvidenceError)
    people.become("ann")
    assert cosign_published(people.root).done == ()
    (request,) = people.root.glob("docs/ai/agents/logs/*/from-0.request")
    with pytest.raises(UsageError, match="your own key"):
        cosign_request(request, where=people.root)


def test_a_witness_needs_the_proof_from_what_it_cosigned_and_forgets_nothing(people):
    people.publish()
    people.witness()
    revoke(people)
    people.publish()
    people.become("bob")
    (request,) = people.clone.glob("docs/ai/agents/logs/*/from-0.request")
    with pytest.raises(UsageError, match="starts from 0 entries, but 1 of log") as refused:
        cosign_request(request, where=people.clone)
    assert "--since 1" in refused.value.remedy
    (memory,) = (people.folder / "bob/witness").glob("*.checkpoint")
    memory.write_text("nothing\n")
    with pytest.raises(IntegrityError, match="damaged"):
        cosign_request(request, where=people.clone)


def test_an_altered_cosignature_fails(people):
    people.publish()
    (done,) = people.witness().done
    (path,) = people.root.glob("docs/ai/agents/logs/*/*.checkpoint")
    lines = path.read_text().split("\n")
    at = len(lines[-2]) - 20
    lines[-2] = lines[-2][:at] + ("A" if lines[-2][at] != "A" else "B") + lines[-2][at + 1 :]
    path.write_text("\n".join(lines))
    assert done.cosigned.note != path.read_text()
    assert people.verified().exit_code is ExitCode.TAMPERED


def test_the_cosignature_of_another_witness_does_not_count(people):
    people.publish()
    people.witness()
    people.become("carol")
    other = export_key(KeyFormat.WITNESS)
    people.become("ann")
    found = asyncio.run(verify_certificate(people.judged.id, people.root, witnesses=[people.bob_key, other]))
    assert [each.outcome for each in found.witnessed] == [CheckOutcome.HOLDS, CheckOutcome.CANNOT_DECIDE]
    assert found.exit_code is ExitCode.UNDECIDED


def test_a_missing_cosignature_does_not_void_a_verdict_against_a_file(people):
    """Else a project that demands an unknown witness would hide what stands against its code."""
    result = asyncio.run(check_coverage(people.root, witnesses=[people.bob_key]))
    assert {each.standing for each in result.coverage} == {CoverageState.AGAINST}


def test_a_certificate_covers_a_file_only_if_the_demanded_witness_cosigned_it(people):
    (status,) = {each.status for each in asyncio.run(check_coverage(people.root)).coverage}
    wanted = "APPROVED" if status != "NO_GO" else "GO"
    asked(people.root, lambda certificates: certificates.override(people.judged.id, wanted, "the path is not shipped"))

    def standing():
        found = check_coverage(people.root, accepts_overrides=True, witnesses=[people.bob_key])
        return [(each.standing, each.why) for each in asyncio.run(found).coverage]

    ((before, why),) = standing()
    assert (before, "cosigned no published checkpoint" in why) == (CoverageState.UNDECIDED, True)
    people.publish()
    people.witness()
    assert [each for each, _ in standing()] == [CoverageState.COVERED]


def test_a_project_can_demand_a_witness_and_cannot_release_from_that_of_the_user(people):
    settings = people.root / ".esper/config.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f'[verify]\nwitnesses = ["{people.bob_key}"]\n')
    assert asyncio.run(verify_certificate(people.judged.id, people.root)).exit_code is ExitCode.UNDECIDED
    (people.home / "config.toml").write_text(f'[verify]\nwitnesses = ["{people.bob_key}"]\n')
    settings.write_text("[verify]\nwitnesses = []\n")
    assert asyncio.run(verify_certificate(people.judged.id, people.root)).exit_code is ExitCode.UNDECIDED
    settings.write_text("[verify]\nwitnesses = 7\n")
    with pytest.raises(DefinitionError, match="must be a list"):
        asyncio.run(verify_certificate(people.judged.id, people.root))


def test_checkpoints_of_both_witnesses_stand_in_one_proof(people, tmp_path):
    people.publish()
    ann = (people.folder / "bob/trusted_keys").read_text()
    people.witness()
    people.become("carol")
    (people.folder / "carol").mkdir(exist_ok=True)
    (people.folder / "carol/trusted_keys").write_text(ann)
    other = export_key(KeyFormat.WITNESS)
    (done,) = cosign_published(people.root).done
    assert len(read_note(done.path.read_text()).signatures) == 2
    people.publish()
    people.become("dave")
    (people.folder / "dave").mkdir(exist_ok=True)
    (people.folder / "dave/trusted_keys").write_text(ann)
    found = asyncio.run(verify_certificate(people.judged.id, people.clone, witnesses=[people.bob_key, other]))
    assert found.exit_code is ExitCode.DONE


def test_a_stranger_checks_a_cosignature_and_the_entry_with_openssl_and_python_alone(people, tmp_path):
    people.publish()
    (done,) = people.witness().done
    people.publish()
    hand = tmp_path / "hand"
    hand.mkdir()
    shutil.copy(done.path, hand / "WITNESS.checkpoint")
    shutil.copy(people.judged.record, hand / "NAME.dsse.json")
    shutil.copy(people.judged.proof, hand / "NAME.tlog-proof")
    page = Path(__file__).parents[2] / "docs/audit.md"
    by_hand = re.findall(r"^```sh\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(by_hand) == 2
    said = [run_by_hand(commands, hand, people.bob_key) for commands in by_hand]
    assert "Signature Verified Successfully" in said[0].stdout
    assert said[1].stdout.startswith("entry 0 of 1 in urn:uuid:")
    text = (hand / "WITNESS.checkpoint").read_text()
    (hand / "WITNESS.checkpoint").write_text(text.replace("\n1\n", "\n2\n", 1))
    assert "Signature Verified Successfully" not in run_by_hand(by_hand[0], hand, people.bob_key).stdout
    (hand / "NAME.dsse.json").write_bytes((hand / "NAME.dsse.json").read_bytes() + b" ")
    assert run_by_hand(by_hand[1], hand, people.bob_key).returncode != 0


def run_by_hand(commands, folder, key):
    environment = {"PATH": os.environ["PATH"], "KEY": key}
    return subprocess.run(
        ["bash", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
