"""The gate over many published envelopes: the index selects few, and the result is that of verifying all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from clones import asked, git
from judged import FAULTY, judge

from esper_agents.api import CoverageState, export_key, read_trusted_keys, trust_key
from esper_agents.archive.verification import gate as gating
from esper_agents.archive.verification.gate import gate
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import parse, statement
from esper_agents.git.find_project import find_project
from esper_agents.paths import home as data_directory

FIXED = FAULTY.replace("        loss.backward()\n", "        optimizer.zero_grad()\n        loss.backward()\n")


@pytest.fixture
def clone(judged_project, tmp_path, monkeypatch):
    """Return a clone with certificates on two contents, one of them overridden and one revoked."""
    judged_project.train.write_text(FIXED)
    fixed = judge(judged_project.root)
    judged_project.train.write_text(FAULTY)
    again = judge(judged_project.root)
    asked(judged_project.root, lambda certificates: certificates.override(fixed.id, "REJECTED", "not this way"))
    asked(judged_project.root, lambda certificates: certificates.revoke(again.id, "the data set was mislabelled"))
    git(judged_project.root, "add", "-A")
    git(judged_project.root, "commit", "-q", "-m", "certificates")
    root = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(judged_project.root), str(root))
    key = export_key(name="ann@example.org")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    trust_key(key)
    return root


def publish_copies(root, judged, count, *, minutes=0):
    """Publish copies of a certificate under other IDs, signed by the key of this data directory."""
    issued = parse(read_envelope(judged.record.read_bytes()).payload)
    (folder,) = root.glob("docs/ai/agents/*/certificates")
    for number in range(count):
        at = f"2026-02-01T{(number + minutes) // 60 % 24:02}:{(number + minutes) % 60:02}:00.000Z"
        copy = replace(issued, id=f"crt_{number + 1000 * minutes:032x}", issued_at=at)
        path = folder / f"{copy.id}.dsse.json"
        path.write_bytes(envelope_bytes(seal(signing_key(data_directory()), statement(copy))))


def covered(root, monkeypatch, most, **options):
    monkeypatch.setattr(gating, "FEW_ENVELOPES", most)
    found = asyncio.run(gate(find_project([root], root), None, (), **options))
    return [(each.path, each.agent, each.standing, each.certificate, each.status, each.why) for each in found.coverage]


def same_by_both(root, monkeypatch, **options):
    by_index = covered(root, monkeypatch, 0, **options)
    assert by_index == covered(root, monkeypatch, 10**9, **options)
    return {standing for path, _, standing, *_ in by_index if path == "train.py"}


@pytest.mark.parametrize("content", [FAULTY, FIXED, FAULTY + "\nchanged = True\n"])
def test_the_index_changes_no_result(clone, monkeypatch, content):
    (clone / "train.py").write_text(content)
    for agents in (None, (), ("pytorch-code-reviewer", "pytorch-expert")):
        for accepts in (False, True):
            same_by_both(clone, monkeypatch, agents=agents, accepts_overrides=accepts)


def test_an_altered_and_an_untrusted_envelope_are_judged_as_before(clone, judged_project, monkeypatch, tmp_path):
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "mallory"))
    publish_copies(clone, judged_project, 1)
    key = export_key(name="mallory@example.org")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    same_by_both(clone, monkeypatch)
    trusting = list(read_trusted_keys(key))
    assert same_by_both(clone, monkeypatch, signers=trusting) == {CoverageState.AGAINST}
    (envelope,) = clone.glob(f"docs/ai/agents/*/certificates/*{judged_project.id[-12:]}.dsse.json")
    data = envelope.read_bytes()
    at = data.index(b'"sig":"') + 7
    envelope.write_bytes(data[:at] + (b"B" if data[at : at + 1] == b"A" else b"A") + data[at + 1 :])
    assert same_by_both(clone, monkeypatch) == {CoverageState.TAMPERED}
    (envelope.parent / "a.dsse.json").mkdir()
    same_by_both(clone, monkeypatch)


def test_of_many_certificates_of_a_file_few_are_verified(clone, judged_project, monkeypatch):
    publish_copies(clone, judged_project, 30)
    count = 0
    verify = gating.verify

    def counted(*arguments):
        nonlocal count
        count += 1
        return verify(*arguments)

    monkeypatch.setattr(gating, "verify", counted)
    by_index = covered(clone, monkeypatch, 0)
    assert count < 8
    count = 0
    assert covered(clone, monkeypatch, 10**9) == by_index
    assert count == 33


def test_without_a_place_for_the_index_all_are_verified(clone, judged_project, monkeypatch, tmp_path):
    wanted = covered(clone, monkeypatch, 10**9)
    projects = tmp_path / "bob/projects"
    projects.mkdir(exist_ok=True)
    for folder in projects.iterdir():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    from esper_agents.archive.verification import published_selection

    def refuse(home):
        from esper_agents.errors import StorageError

        raise StorageError(f"{home} cannot be written", remedy="make it writable")

    monkeypatch.setattr(published_selection.index, "open_index", refuse)
    assert covered(clone, monkeypatch, 0) == wanted


def test_a_view_that_matched_before_is_compared_again_once_it_is_changed(clone, judged_project, monkeypatch):
    before = covered(clone, monkeypatch, 0)
    assert covered(clone, monkeypatch, 0) == before
    found = {certificate for path, _, _, certificate, *_ in before if path == "train.py"}
    (view,) = (path for path in clone.glob("docs/ai/agents/*/certificates/*.md") if path.stem[-12:] in str(found))
    view.write_text(view.read_text().replace("REQUIRES_REMEDIATION", "APPROVED").replace("NO_GO", "GO"))
    assert same_by_both(clone, monkeypatch) == {CoverageState.TAMPERED}
