"""Pages of a clone: published certificates beside the local archive, by origin and trust."""

from __future__ import annotations

from dataclasses import replace

import pytest
from archive_samples import identifier, made
from judged import judge
from web_samples import Document, pages_of

from esper_agents.api import Filter, export_key, trust_key, verify_certificate
from esper_agents.archive.verification import published_records, verify
from esper_agents.archive.verification.verify import FreshnessState
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import parse, statement
from esper_agents.domain.relation import Relation, RelationKind
from esper_agents.paths import home

pytestmark = pytest.mark.anyio

TRAIN = "/file?path=train.py"


@pytest.fixture
def publish(clone, judged_project, monkeypatch, tmp_path):
    """Return what publishes a certificate in the clone under a key that only its author has."""
    revision = parse(read_envelope(judged_project.record.read_bytes()).payload).revision
    (folder,) = clone.glob("docs/ai/agents/*/certificates")

    def published(number, **changes):
        monkeypatch.setenv("ESPER_HOME", str(tmp_path / "mallory"))
        issued = replace(made(number, **changes), revision=revision)
        envelope = envelope_bytes(seal(signing_key(home()), statement(issued)))
        (folder / f"{issued.id}.dsse.json").write_bytes(envelope)
        monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
        return issued.id

    return published


async def text_of(pages, path, **query):
    answer = await pages.client.get(path, params=query or None)
    assert answer.status_code == 200, answer.text
    return Document(answer.text).text


async def test_certificates_of_an_unknown_key_are_shown_as_untrusted_and_counted_nowhere(clone, judged_project):
    async with pages_of(clone) as pages:
        listed = await text_of(pages, "/")
        assert "0 certificates signed by trusted keys; 1 not trusted" in listed
        assert "claims REQUIRES_REMEDIATION" in listed
        assert "Status" not in listed, "no filter counts it"
        assert "NOT TRUSTED" in await text_of(pages, "/certificates/latest")
        assert "not signed by a trusted key" in await text_of(pages, "/files")
        assert "No certificate has a finding in this file" in await text_of(pages, TRAIN)
        keys = await text_of(pages, "/log")
        assert "esper keys trust SHA256:" in keys
        assert "1 certificate" in keys


async def test_counts_filters_files_and_search_include_published_certificates_of_trusted_keys(
    clone, judged_project, ann_key
):
    key = trust_key(ann_key).key.key_id
    async with pages_of(clone) as pages:
        listed = await text_of(pages, "/")
        assert "1 certificate" in listed
        assert "published, signed by ann@example.org" in listed
        project = await pages.project()
        counts = await project.browsing.counts()
        assert [(each.value, each.certificates) for each in counts.statuses] == [("REQUIRES_REMEDIATION", 1)]
        assert {each.value for each in counts.files} >= {"train.py"}
        assert "ESP101" in {each.value for each in counts.rules}
        assert [(each.value, each.certificates) for each in counts.signers] == [(key, 1)]
        for query in ({"signer": key}, {"file": "train.py"}, {"rule": "ESP101"}, {"q": "gradients"}):
            assert judged_project.id[-12:] in await text_of(pages, "/", **query), query
        assert judged_project.id[-12:] not in await text_of(pages, "/", signer="SHA256:none")
        shown = await text_of(pages, f"/certificates/{judged_project.id}")
        assert f"Review it esper certificates reproduce {judged_project.id[-12:]}" in shown
        assert f"Countersign it esper certificates countersign {judged_project.id[-12:]}" in shown
        assert "REQUIRES_REMEDIATION stands against it" in await text_of(pages, "/files")
        assert "The newest certificate has it." in await text_of(pages, TRAIN)


async def test_the_files_of_a_clone_are_covered_as_the_gate_judges_them(clone, ann_key, publish):
    for number in range(15):
        publish(number, issued_at=f"2099-01-{number + 1:02d}T00:00:00.000Z")
    for is_trusted in (False, True):
        if is_trusted:
            trust_key(ann_key)
        async with pages_of(clone) as pages:
            project = await pages.project()
            judged = {each.path: each.standing for each in (await project.certificates.gate()).coverage}
            assert {each.path: each.standing for each in (await project.browsing.coverage()).coverage} == judged


async def test_local_and_published_certificates_are_counted_together_and_once(clone, ann_key, publish):
    trust_key(ann_key)
    publish(3)
    async with pages_of(clone) as pages:
        own = await asyncio_judge(clone)
        project = await pages.project()
        counts = await project.browsing.counts()
        assert (counts.certificates, counts.untrusted, counts.is_complete) == (2, 1, True)
        assert sum(each.certificates for each in counts.signers) == 2
        (of_mallory,) = (await project.certificates.published_status()).untrusted
        listed = await project.certificates.list(wanted=Filter(signer=of_mallory.key_id))
        assert [each.id for each in listed] == [identifier(3)]
        assert "issued here" not in await text_of(pages, "/")
        assert own.id[-12:] in await text_of(pages, "/")


async def asyncio_judge(root):
    """Issue a certificate in a thread, whose event loop is another one."""
    from asyncio import to_thread

    return await to_thread(judge, root)


@pytest.fixture
def superseded(clone, publish, monkeypatch, tmp_path):
    """Return a published certificate that the last of more than 5,000 envelopes supersedes."""
    first = publish(3)
    publish(4, relations=(Relation(RelationKind.SUPERSEDES, first, "0" * 64),))
    (folder,) = clone.glob("docs/ai/agents/*/certificates")
    for number in range(5_001):
        (folder / f"a{number:04}.dsse.json").touch()
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "mallory"))
    key = export_key(name="mallory@example.org")
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "bob"))
    trust_key(key)
    return first


async def test_an_ending_is_found_however_many_envelopes_a_folder_has(clone, superseded, monkeypatch):
    (file,) = clone.glob(f"docs/ai/agents/*/certificates/{superseded}.dsse.json")
    by_reading = await verify_certificate(str(file), clone)
    assert by_reading.currency is FreshnessState.SUPERSEDED
    async with pages_of(clone) as pages:
        project = await pages.project()
        entry = await project.certificates.get(superseded)
        state = await project.browsing.repository()

        def refuse(folder):
            raise AssertionError(f"{folder} is read although there is an index")

        monkeypatch.setattr(published_records, "_envelopes_in", refuse)
        found = await project.browsing.verification(entry, state)
        assert (found.currency, found.later) == (by_reading.currency, by_reading.later)
        assert [each.by for each in found.later] == [identifier(4)]
        assert "superseded" in (await pages.get(f"/certificates/{superseded}")).text
        assert f"superseded by {identifier(4)}" in await text_of(pages, "/")


async def test_the_second_visit_derives_nothing_again(clone, superseded, monkeypatch):
    async with pages_of(clone) as pages:
        first = (await pages.get(f"/certificates/{superseded}")).text
        monkeypatch.setattr(verify, "verify_statement", None)
        monkeypatch.setattr(verify, "verify_view", None)
        assert (await pages.get(f"/certificates/{superseded}")).text == first
