from __future__ import annotations

import multiprocessing
import os
import shutil

import pytest
from toys import calling

from esper_agents.api import open_project
from esper_agents.archive.publishing import _write
from esper_agents.archive.verification.statement import CheckOutcome, verify_statement, verify_view
from esper_agents.certificates.log.note import includes, read_proof
from esper_agents.certificates.log.note import is_signed_by as note_is_signed_by
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.certificates.signing.dsse import envelope_bytes, is_signed_by, read_envelope
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.git.project_state import revision
from esper_agents.paths import PUBLISHED, home

pytestmark = pytest.mark.anyio


@pytest.fixture
def looking(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    return toybox


async def resumed(toybox, session):
    async with toybox.open() as opened:
        return await (await opened.tasks.resume(session)).run()


async def test_the_view_and_the_record_are_published_in_the_project(looking):
    ran = await looking.run("worker")
    view = ran.outcome.view
    assert view.parent == looking.project / PUBLISHED / "worker" / "certificates"
    async with looking.open() as opened:
        data = await opened.certificates.record(ran.certificate.id)
        assert view.read_text() == await opened.certificates.markdown(ran.certificate.id)
        assert await opened.certificates.view(ran.certificate.id) == view
    envelope = read_envelope(view.with_suffix(".dsse.json").read_bytes())
    assert envelope.payload == data
    assert is_signed_by(envelope, signing_key(home()).public_key)
    proof = read_proof(view.with_suffix(".tlog-proof").read_bytes())
    assert includes(proof, envelope_bytes(envelope))
    assert note_is_signed_by(proof.note, proof.checkpoint.origin, signing_key(home()).public_key)
    checks = (*verify_view(data, view.read_text()), *verify_statement(data, policy_text()))
    assert [check for check in checks if check.outcome is not CheckOutcome.HOLDS] == []
    assert [path.name for path in view.parent.parent.rglob(".esper-*")] == []


async def test_what_a_person_deleted_or_changed_is_written_again(looking):
    ran = await looking.run("worker")
    view, record = ran.outcome.view, ran.outcome.view.with_suffix(".dsse.json")
    was = view.read_bytes(), record.read_bytes()
    view.unlink()
    record.write_text("forged")
    await resumed(looking, ran.outcome.session)
    assert (view.read_bytes(), record.read_bytes()) == was
    shutil.rmtree(looking.project / PUBLISHED)
    await resumed(looking, ran.outcome.session)
    assert (view.read_bytes(), record.read_bytes()) == was


async def test_a_document_that_a_person_wrote_stays_where_memory_would_be_published(looking):
    ran = await looking.run("worker")
    folder = ran.outcome.view.parent.parent
    made = sorted(folder.glob("*.md"))
    assert made
    for each in made:
        each.write_text("My own notes.\n")
    await resumed(looking, ran.outcome.session)
    assert {each.read_text() for each in made} == {"My own notes.\n"}


async def test_a_view_that_is_gone_is_written_when_somebody_asks_for_it(looking):
    ran = await looking.run("worker")
    ran.outcome.view.unlink()
    async with looking.open() as opened:
        assert (await opened.certificates.view("latest")).is_file()


async def test_what_is_published_already_is_left_as_it_is(looking):
    ran = await looking.run("worker")
    os.utime(ran.outcome.view, (1, 1))
    await resumed(looking, ran.outcome.session)
    assert ran.outcome.view.stat().st_mtime == 1


async def test_publishing_does_not_make_the_project_dirty(looking):
    await looking.run("worker")
    (looking.project / "effects.log").unlink()
    assert revision(looking.project).dirty == ()


def published_outside(toybox, view):
    return not view.is_relative_to(toybox.project) and view.is_relative_to(os.environ["ESPER_HOME"])


@pytest.mark.parametrize("link", ["docs", "docs/ai", "docs/ai/agents", "docs/ai/agents/worker"])
async def test_a_link_that_leads_out_of_the_project_is_not_followed(looking, tmp_path, link):
    outside = tmp_path / "outside"
    outside.mkdir()
    (looking.project / link).parent.mkdir(parents=True, exist_ok=True)
    (looking.project / link).symlink_to(outside)
    ran = await looking.run("worker")
    assert published_outside(looking, ran.outcome.view)
    assert ran.outcome.view.is_file()
    assert list(outside.rglob("*")) == []


async def test_a_link_in_the_place_of_the_certificates_or_a_document_is_not_followed(looking, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "victim.md").write_text("mine\n")
    folder = looking.project / PUBLISHED / "worker"
    folder.mkdir(parents=True)
    (folder / "working-memory.md").symlink_to(outside / "victim.md")
    await looking.run("worker")
    assert (outside / "victim.md").read_text() == "mine\n"
    (looking.project / "effects.log").unlink()
    shutil.rmtree(folder / "certificates")
    (folder / "certificates").symlink_to(outside)
    ran = await looking.run("worker")
    assert ran.outcome.view.is_file()
    assert [path.name for path in outside.iterdir()] == ["victim.md"]


async def test_outside_git_nothing_is_written_into_the_project(make_project, looking, tmp_path):
    looking.project = make_project(name="plain", under_git=False)
    before = sorted(path.name for path in looking.project.iterdir())
    ran = await looking.run("worker")
    assert published_outside(looking, ran.outcome.view)
    assert ran.outcome.view.is_file()
    (looking.project / "effects.log").unlink()
    assert sorted(path.name for path in looking.project.iterdir()) == before


async def test_a_person_may_keep_the_project_free_of_views(looking):
    async with looking.open(publish=False) as opened:
        outcome = await (await looking.submit(opened, "worker")).run()
    assert published_outside(looking, outcome.view)
    assert not (looking.project / "docs").exists()


async def test_a_file_in_the_place_of_the_folder_is_said_and_the_certificate_is_kept(looking):
    from esper_agents.errors import EsperError

    (looking.project / "docs").write_text("mine\n")
    async with looking.open() as opened:
        session = await looking.submit(opened, "worker")
        try:
            outcome = await session.run()
        except EsperError as error:
            assert error.remedy  # noqa: PT017 - either it is said, or it is published elsewhere
        else:
            assert outcome.view.is_file()
        (entry,) = await opened.certificates.list()
        assert entry.session == session.id
    assert (looking.project / "docs").read_text() == "mine\n"


async def test_views_of_one_second_have_names_of_their_own(looking, monkeypatch):
    from esper_agents.storage import store

    async with looking.open() as opened:
        monkeypatch.setattr(opened.services.store.store, "_clock", lambda _: 4_000_000_000_000)
        views = [(await (await looking.submit(opened, "worker")).run()).view for _ in range(3)]
    assert len(set(views)) == 3
    assert all(view.is_file() for view in views)
    assert store.timestamp(4_000_000_000_000)[:4] == "2096"


async def test_an_agents_name_cannot_lead_out_of_its_folder(looking):
    looking.agent("worker-2", calling("look"))
    folder = looking.project / ".esper" / "agents"
    folder.mkdir(parents=True)
    (folder / "own.md").write_text("---\nname: own\ndescription: Own. Use for own.\n---\nYou.\n")
    looking.playbooks["project:own"] = calling("look")
    ran = await looking.run("project:own")
    assert ran.outcome.view.parent.parent == looking.project / PUBLISHED / "project_own"


async def test_what_a_killed_process_left_half_written_is_gone_when_the_certificate_is_published_again(looking):
    ran = await looking.run("worker")
    view = ran.outcome.view
    data = view.read_bytes()
    view.unlink()
    view.with_name(f".esper-{view.name}").write_text("half of")
    await resumed(looking, ran.outcome.session)
    assert view.read_bytes() == data
    assert [path.name for path in view.parent.parent.rglob(".esper-*")] == []


async def test_publishing_lists_no_folder(looking, monkeypatch):
    ran = await looking.run("worker")
    shutil.rmtree(ran.outcome.view.parent)

    def listed(*_arguments, **_options):
        raise AssertionError("a folder that may hold millions of files was listed")

    with monkeypatch.context() as patched:
        for owner, name in ((os, "listdir"), (os, "scandir"), (type(ran.outcome.view), "glob")):
            patched.setattr(owner, name, listed)
        async with looking.open() as opened:
            assert (await opened.certificates.view("latest")).is_file()


def _write_often(path, texts):
    for _ in range(40):
        for text in texts:
            _write(path, text)


async def test_processes_that_publish_one_file_at_once_leave_it_whole(tmp_path):
    path, texts = tmp_path / "working-memory.md", [letter * 100_000 for letter in (b"a", b"b", b"c")]
    context = multiprocessing.get_context("fork")
    started = [context.Process(target=_write_often, args=(path, texts)) for _ in range(4)]
    for each in started:
        each.start()
    while any(each.is_alive() for each in started):
        if path.exists():
            assert path.read_bytes() in texts
    assert [each.exitcode for each in started] == [0] * 4
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


async def test_certificates_are_generated_files_for_git_and_a_file_of_the_user_is_kept(judged_project, git):
    path = judged_project.record.relative_to(judged_project.root)
    said = git(judged_project.root, "check-attr", "diff", "linguist-generated", "--", path)
    assert said.splitlines() == [f"{path}: diff: unset", f"{path}: linguist-generated: set"]
    attributes = judged_project.root / "docs/ai/agents/.gitattributes"
    attributes.write_text("# mine\n")
    judged_project.view.unlink()
    async with open_project(judged_project.root) as project:
        await project.certificates.repair()
    assert (attributes.read_text(), judged_project.view.is_file()) == ("# mine\n", True)
