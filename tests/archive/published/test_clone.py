"""A clone of a repository with published certificates: listed by origin and trust, whatever lies in the folder."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from archive_samples import made
from clones import asked, git

from esper_agents.api import CertificateOrigin, open_project, trust_key
from esper_agents.archive.verification.gate import gate
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import parse, statement
from esper_agents.errors import EvidenceError
from esper_agents.git.find_project import find_project


def folder_of(root: Path) -> Path:
    (found,) = root.glob("docs/ai/agents/*/certificates")
    return found


def listed(root, **options):
    return asked(root, lambda certificates: certificates.list(**options))


def status(root):
    return asked(root, lambda certificates: certificates.published_status())


def publish(root, certificate) -> Path:
    """Publish a certificate that the key of this data directory signs, as another author would."""
    from esper_agents.paths import home

    path = folder_of(root) / f"{certificate.id}.dsse.json"
    path.write_bytes(envelope_bytes(seal(signing_key(home()), statement(certificate))))
    return path


def test_a_clone_lists_the_certificate_of_an_unknown_key_as_untrusted(clone, judged_project):
    (entry,) = listed(clone)
    assert (entry.id, entry.origin, entry.is_trusted) == (judged_project.id, CertificateOrigin.PUBLISHED, False)
    (key,) = status(clone).untrusted
    assert (key.key_id, key.certificates) == (entry.key_id, 1)
    assert listed(clone, trusted_only=True) == ()


def test_a_clone_lists_searches_reads_and_explains_the_certificate_of_a_trusted_key(clone, judged_project, ann_key):
    trust_key(ann_key)
    (entry,) = listed(clone)
    assert (entry.is_trusted, entry.signer, entry.view_name) == (True, "ann@example.org", judged_project.view.name)
    (hit,) = asked(clone, lambda certificates: certificates.search(_words("gradients")))
    assert hit.entry == entry
    assert "gradients" in hit.passage.text
    data = asked(clone, lambda certificates: certificates.record("latest"))
    assert data == read_envelope(judged_project.record.read_bytes()).payload
    assert asked(clone, lambda certificates: certificates.explain(judged_project.id[-12:])).outline()
    assert status(clone).untrusted == ()


def test_a_key_that_is_no_longer_trusted_counts_no_longer(clone, ann_key):
    trusted_file = trust_key(ann_key).file
    assert [each.is_trusted for each in listed(clone)] == [True]
    trusted_file.unlink()
    assert [each.is_trusted for each in listed(clone)] == [False]


def test_the_content_of_an_untrusted_certificate_is_not_acted_upon(clone, judged_project):
    async def repeated():
        async with open_project(clone) as project:
            await project.tasks.repeat(judged_project.id)

    with pytest.raises(EvidenceError, match="not trusted"):
        asyncio.run(repeated())


def test_the_gate_counts_a_published_certificate_only_if_its_key_is_trusted(clone, ann_key):
    def standing():
        result = asyncio.run(gate(find_project([clone], clone), None, ()))
        return {str(each.standing) for each in result.coverage if each.path == "train.py"}

    assert standing() == {"undecided"}
    trust_key(ann_key)
    assert standing() == {"against"}


def test_a_local_certificate_is_the_latest_whatever_date_a_published_one_claims(clone, ann_key, monkeypatch, tmp_path):
    from judged import judge

    trust_key(ann_key)
    own = judge(clone)
    published = made(7, issued_at="2099-01-01T00:00:00.000Z")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "mallory"))
    publish(clone, replace(published, revision=parse(read_envelope(own.record.read_bytes()).payload).revision))
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    entries = listed(clone)
    assert [each.is_trusted for each in entries] == [False, True, True]
    assert [str(each.origin) for each in entries] == ["published", "local", "published"]
    assert asked(clone, lambda certificates: certificates.get("latest")).id == own.id


def test_pages_of_all_sources_follow_one_another_without_gap_or_repetition(clone, ann_key, monkeypatch, tmp_path):
    trust_key(ann_key)
    (first,) = listed(clone)
    issued = parse(asked(clone, lambda certificates: certificates.record(first.id)))
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "mallory"))
    for number in range(5):
        # Two of them at the time of the trusted one.
        at = {} if number > 2 else {"issued_at": issued.issued_at}
        publish(clone, replace(made(number, **at), revision=issued.revision))
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    whole = [each.id for each in listed(clone)]
    assert len(whole) == len(set(whole)) == 6
    pages, before = [], ""
    while page := listed(clone, before=before, limit=2):
        pages += [each.id for each in page]
        before = pages[-1]
    assert pages == whole


def test_odd_files_are_named_and_change_nothing_else(clone, judged_project, ann_key):
    trust_key(ann_key)
    folder, envelope = folder_of(clone), judged_project.record.read_bytes()
    os.mkfifo(folder / "a-pipe.dsse.json")
    (folder / "b-link.dsse.json").symlink_to("/dev/zero")
    (folder / "c-folder.dsse.json").mkdir()
    (folder / "d-cut.dsse.json").write_bytes(envelope[:500])
    at = envelope.index(b'"sig":"') + 10
    other = b"B" if envelope[at : at + 1] == b"A" else b"A"
    (folder / "e-altered.dsse.json").write_bytes(envelope[:at] + other + envelope[at + 1 :])
    with (folder / "f-huge.dsse.json").open("wb") as file:
        file.truncate(20 * 2**20)
    (folder.parent.parent / "linked-agent").symlink_to(folder.parent)
    assert [each.is_trusted for each in listed(clone)] == [True]
    refused = {Path(each.path).name: each.why for each in status(clone).refused}
    assert set(refused) == {
        *(f"{name}.dsse.json" for name in ("a-pipe", "b-link", "c-folder", "d-cut", "e-altered", "f-huge")),
        "linked-agent",
    }
    assert "does not match" in refused["e-altered.dsse.json"]
    assert "16 MiB" in refused["f-huge.dsse.json"]


def test_a_certificate_of_another_repository_is_named_and_not_listed_until_its_commit_is_known(
    clone, judged_project, ann_key, tmp_path
):
    trust_key(ann_key)
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    shutil.copytree(folder_of(clone), other / folder_of(clone).relative_to(clone))
    assert listed(other) == ()
    (refused,) = status(other).refused
    assert "another repository" in refused.why
    git(other, "fetch", "-q", str(judged_project.root), "main:refs/heads/fetched")
    assert [each.id for each in listed(other)] == [judged_project.id]


def test_files_that_come_and_go_are_followed_without_the_index_being_made_again(clone, judged_project, ann_key):
    trust_key(ann_key)
    folder = folder_of(clone)
    assert len(listed(clone)) == 1
    folder.rename(folder.parent / "aside")
    assert listed(clone) == ()
    (folder.parent / "aside").rename(folder)
    assert [each.id for each in listed(clone)] == [judged_project.id]


def test_of_more_files_than_are_read_the_first_are_read_and_the_rest_is_named(
    clone, judged_project, ann_key, monkeypatch
):
    trust_key(ann_key)
    monkeypatch.setattr("esper_agents.archive.published.scan.MOST_ENVELOPES", 3)
    for number in range(5):
        (folder_of(clone) / f"zz-{number}.dsse.json").write_text("{}")
    assert [each.id for each in listed(clone)] == [judged_project.id]
    refused = {each.path: each.why for each in status(clone).refused}
    assert refused.pop("docs/ai/agents") == "6 envelopes; only the first 3 by path are read"
    assert {Path(path).name for path in refused} == {"zz-0.dsse.json", "zz-1.dsse.json"}


def test_a_second_certificate_under_a_taken_id_never_replaces_a_trusted_one(clone, judged_project, ann_key):
    trust_key(ann_key)
    issued = parse(read_envelope(judged_project.record.read_bytes()).payload)
    # The key of this data directory is trusted as well; the one that was there first stays.
    assert len(listed(clone)) == 1
    publish(clone, replace(issued, component="forged"))
    (entry,) = listed(clone)
    assert entry.component == issued.component
    assert [each.why for each in status(clone).refused] == ["another published certificate has its ID"]


def test_a_damaged_index_is_made_again(clone, ann_key, tmp_path):
    trust_key(ann_key)
    assert len(listed(clone)) == 1
    (found,) = (tmp_path / "bob").glob("projects/*/published-*.db")
    for path in found.parent.glob(f"{found.name}-*"):
        path.unlink()
    found.write_bytes(b"no database" * 1000)
    assert len(listed(clone)) == 1


def test_a_project_with_its_own_certificates_alone_gets_no_index(judged_project, home):
    assert len(listed(judged_project.root)) == 1
    assert list(home.glob("projects/*/published-*.db")) == []


def _words(text):
    from esper_agents.api import Filter

    return Filter(words=text)
