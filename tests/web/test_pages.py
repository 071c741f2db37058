"""Every page of an archive, over HTTP in this process."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from urllib.parse import quote

import pytest
from archive_samples import Archive, made
from hostile_texts import ATTACKS, PLACES, hostile_certificate, hostile_texts
from toys import calls
from web_samples import Document, pages_of

from esper_agents.api.current_user import person
from esper_agents.certificates.statement import normal
from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import Risk
from esper_agents.domain.status import Stance, Status
from esper_agents.domain.verdict import AppliedPolicyRule

pytestmark = pytest.mark.anyio

LATEST = "/certificates/latest"
HOSTILE_PARTS = (
    *("findings", "evidence", "summary", "gaps", "caveats", "next_steps", "environment", "task", "verdict", "handoffs"),
    *("consults", "assumptions", "risks", "agent", "component", "examined"),
)
PAGES = ("/", "/files", "/file?path=train.py", "/sessions", "/approvals", "/agents", "/memory", "/trends", "/log")


@pytest.fixture
async def pages(judged_project):
    async with pages_of(judged_project.root) as found:
        found.judged = judged_project
        yield found


async def text_of(pages, path):
    answer = await pages.get(path)
    assert answer.status_code == 200, answer.text
    return Document(answer.text).text


async def test_every_link_of_every_page_leads_to_a_page(pages):
    seen, waiting = set(), list(PAGES)
    while waiting:
        path = waiting.pop()
        answer = await pages.get(path)
        assert answer.status_code == 200, (path, answer.text[:500])
        seen.add(path)
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        for link in Document(answer.text).links:
            assert link.startswith(("/", "#")), (path, link)
            target = link.partition("#")[0]
            # One path for each kind of page: an agent, a metric, a filter.
            is_new = target and target not in seen and target not in waiting
            if is_new and (not target.startswith(("/agents/", "/trends/")) or len(seen) < 40):
                waiting.append(target)
    assert {"/certificates/" + pages.judged.id, "/certificates/" + pages.judged.id + "/document"} <= seen


async def test_the_list_shows_status_request_and_counts_and_filters_by_them(pages):
    shown = await text_of(pages, "/")
    assert "1 certificate" in shown
    assert "review this training code" in shown
    for query in ("rule=ESP101", "file=train.py", "agent=pytorch-code-reviewer", "q=gradients", "since=2020"):
        assert pages.judged.id in (await pages.get(f"/?{query}")).text, query
    for query in ("rule=ESP999", "file=other.py", "status=GO", "q=unheardof", "until=2020", "signer=SHA256:none"):
        assert pages.judged.id not in (await pages.get(f"/?{query}")).text, query


@pytest.mark.parametrize("shown", [lambda name: name, lambda name: name[-12:], lambda name: f" {name} "])
async def test_a_search_for_an_identifier_opens_the_certificate(pages, shown):
    answer = await pages.get(f"/?q={quote(shown(pages.judged.id))}")
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/certificates/{pages.judged.id}"
    assert "0 certificates" in await text_of(pages, "/?q=crt_" + "0" * 32)


async def test_the_signer_is_a_filter_by_the_name_of_the_key(pages):
    project = await pages.project()
    (counted,) = (await project.browsing.counts()).signers
    assert project.browsing.key_names()[counted.value] in await text_of(pages, "/")
    assert pages.judged.id in (await pages.client.get("/", params={"signer": counted.value})).text


async def test_a_certificate_shows_verdict_finding_source_and_live_verification(pages):
    shown = await text_of(pages, "/certificates/latest")
    project = await pages.project()
    certificate = await project.certificates.read(pages.judged.id)
    assert certificate.verdict.status in shown
    assert "loss.backward()" in shown
    assert "Verified now" in shown
    assert "This is the first certificate" in shown
    (pages.judged.root / "train.py").write_text("pass\n")
    changed = await text_of(pages, "/certificates/latest")
    assert "Authentic, but stale" in changed
    # As certified, whatever the working file is now.
    assert "Source at commit" in changed
    assert "loss.backward()" in changed


async def test_nothing_is_shown_as_measured_or_tested_that_was_not(pages):
    shown = await text_of(pages, "/certificates/latest")
    assert "Tests none ran" in shown
    assert "Measured nothing" in shown
    assert 'id="measurements"' not in (await pages.get("/certificates/latest")).text


async def test_a_second_certificate_shows_history_and_what_changed(pages):
    project = await pages.project()
    fixed = (
        (pages.judged.root / "train.py")
        .read_text()
        .replace("        loss.backward", "        optimizer.zero_grad()\n        loss.backward")
    )
    (pages.judged.root / "train.py").write_text(fixed)
    task = project.tasks.create("review this training code", [project.root / "train.py"], agent="pytorch-code-reviewer")
    newer = (await (await project.tasks.submit(task)).run()).certificate.id
    shown = await text_of(pages, f"/certificates/{newer}")
    assert "1 no longer reported" in shown
    older = await text_of(pages, f"/certificates/{pages.judged.id}")
    assert "No longer reported in" in older
    assert "superseded" in older or "stale" in older
    assert "No longer reported in" in await text_of(pages, "/file?path=train.py")


async def test_a_revoked_certificate_says_so_with_the_reason(pages):
    project = await pages.project()
    await project.certificates.revoke(pages.judged.id, "the data was wrong")
    shown = await text_of(pages, "/certificates/latest")
    assert "Authentic, but revoked" in shown
    begin = shown.partition("Because")[0]
    assert "NO LONGER VALID" in begin
    assert "revoked" in begin
    assert "the data was wrong" in begin


async def test_the_list_names_revoked_and_superseded_certificates(pages):
    project = await pages.project()
    first = (await project.certificates.list())[0]
    await (await project.tasks.submit(await project.tasks.repeat(first.id))).run()
    second = (await project.certificates.list())[0]
    await project.certificates.revoke(second.id, "reviewed the wrong branch")
    endings = await project.certificates.endings((first, second))
    assert {name: str(each.ending) for name, each in endings.items()} == {first.id: "superseded", second.id: "revoked"}
    shown = await text_of(pages, "/")
    assert f"superseded by {second.id}" in shown
    assert "revoked: reviewed the wrong branch" in shown


async def test_files_without_a_valid_certificate_are_listed_as_the_gate_judges_them(pages):
    (pages.judged.root / "new.py").write_text("import torch\n")
    shown = Document((await pages.get("/files?show=missing")).text).text
    assert "new.py" in shown
    project = await pages.project()
    judged = {each.path: each.standing for each in (await project.certificates.gate()).coverage}
    assert {each.path: each.standing for each in (await project.browsing.coverage()).coverage} == judged


async def test_the_newest_certificate_decides_about_a_file_whatever_file_is_listed_first(pages):
    early = pages.judged.root / "early.py"
    early.write_text((pages.judged.root / "train.py").read_text())
    project = await pages.project()
    for paths in ([early, pages.judged.root / "train.py"], [pages.judged.root / "train.py"]):
        task = project.tasks.create("review this training code", paths, agent="pytorch-code-reviewer")
        await (await project.tasks.submit(task)).run()
    judged = {each.path: each.certificate for each in (await project.certificates.gate()).coverage}
    assert judged["early.py"] != judged["train.py"]
    assert {each.path: each.certificate for each in (await project.browsing.coverage()).coverage} == judged


async def test_a_metric_whose_name_has_a_slash_has_a_page(pages):
    project = await pages.project()
    names = [each.name for each in await project.certificates.metrics() if "/" in each.name]
    assert names
    for name in names:
        answer = await pages.get(f"/trends/{quote(name, safe='')}")
        assert answer.status_code == 200
        assert name in Document(answer.text).text


async def test_the_record_has_the_bytes_of_the_signed_statement(pages):
    answer = await pages.get("/certificates/latest/record")
    assert answer.content == await (await pages.project()).certificates.record(pages.judged.id)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.json()["predicate"]["id"] == pages.judged.id


async def test_a_session_shows_its_timeline_and_tool_calls(pages):
    project = await pages.project()
    (session,) = await project.sessions.list()
    shown = await text_of(pages, f"/sessions/{session.id}")
    for expected in ("static-review", "certified", "no model was called", "submitted"):
        assert expected in shown


async def test_the_log_is_compared_with_the_pin(pages):
    shown = await text_of(pages, "/log")
    assert "consistent" in shown
    assert "signs here" in shown


async def test_the_events_of_a_session_are_a_stream_that_ends_and_continues_where_a_browser_left(pages):
    project = await pages.project()
    (session,) = await project.sessions.list()
    answer = await pages.get(f"/sessions/{session.id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    numbers = [line.removeprefix("id: ") for line in answer.text.splitlines() if line.startswith("id: ")]
    data = [
        json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line.startswith('data: {"at')
    ]
    assert len(numbers) == len(data) > 5
    assert answer.text.endswith("event: end\ndata: {}\n\n")
    rest = await pages.get(f"/sessions/{session.id}/events", headers={"last-event-id": numbers[-2]})
    assert [line for line in rest.text.splitlines() if line.startswith("id: ")] == [f"id: {numbers[-1]}"]
    assert pages.site.streams == 0


async def test_the_events_of_a_running_session_arrive_until_it_ends(toybox, monkeypatch):
    toybox.agent("writer", writing)
    toybox.tool("write", during=lambda _context: asyncio.sleep(0.3))
    async with toybox.open() as project:
        session = await toybox.submit(project, "writer")
        async with pages_of(project.root) as pages:
            monkeypatch.setattr(pages.site.served, "current", always(project))
            _, answer = await asyncio.gather(session.run(), pages.get(f"/sessions/{session.id}/events"))
    assert "certified" in answer.text
    assert "write wrote" in answer.text
    assert answer.text.endswith("event: end\ndata: {}\n\n")


async def test_streams_beyond_the_limit_are_refused(pages):
    project = await pages.project()
    (session,) = await project.sessions.list()
    pages.site.streams = 32
    assert (await pages.get(f"/sessions/{session.id}/events")).status_code == 503


async def test_hostile_texts_in_every_place_of_a_certificate_stay_text(judged_project):
    async with pages_of(judged_project.root) as pages:
        project = await pages.project()
        store = Archive(project.services.store.store)
        for number, seed in enumerate((0, 1)):
            hostile = normal(hostile_certificate(hostile_texts(PLACES, seed)))
            issued = made(number + 7, **{name: getattr(hostile, name) for name in HOSTILE_PARTS})
            store.add(issued, project=project.services.project, logged=True)
        benign = Document((await pages.get("/certificates/" + judged_project.id)).text)
        for path in (
            "/",
            "/?q=alert",
            "/trends",
            "/log",
            "/files",
            "/certificates/latest",
            "/certificates/latest/document",
        ):
            answer = await pages.get(path)
            assert answer.status_code in {200, 400}, (path, answer.text[:300])
            document = Document(answer.text)
            allowed = (
                {"iframe", "object", "embed", "base", "style", "frame"}
                if not path.endswith("document")
                else {"iframe", "object", "embed", "base", "frame", "script"}
            )
            assert not allowed & set(document.tags), path
            assert not [name for name in document.attributes if name.startswith("on") or name in {"style", "srcdoc"}]
            assert document.tags.count("script") <= benign.tags.count("script")
            assert all(link.startswith(("/", "#")) for link in document.links), path
            assert "\x1b" not in answer.text
            assert "\u202e" not in answer.text


@pytest.mark.parametrize("attack", ATTACKS)
async def test_hostile_texts_in_an_address_stay_text(pages, attack):
    attack = attack.encode("utf-8", "replace").decode()[:400]
    for path, name in (
        ("/", "q"),
        ("/", "agent"),
        ("/", "file"),
        ("/", "component"),
        ("/", "signer"),
        ("/file", "path"),
    ):
        answer = await pages.client.get(path, params={name: attack})
        assert answer.status_code in {200, 400, 404}
        document = Document(answer.text)
        assert document.tags.count("script") <= 1
        assert not {"iframe", "object", "style", "base"} & set(document.tags)
        assert not [each for each in document.attributes if each.startswith("on")]
        assert all(link.startswith(("/", "#")) for link in document.links)


def writing(_brief):
    yield calls("write", text="x")
    return Conclude("done")


async def until(reached, *, patience_s=20):
    """Wait until a condition that a coroutine function computes is true."""
    for _ in range(patience_s * 20):
        if await reached():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it was not reached in time")


@pytest.mark.parametrize(("decision", "effects"), [("approve", ["write x"]), ("deny", [])])
async def test_a_question_is_answered_from_its_form_and_the_page_says_who_answered(
    toybox, monkeypatch, decision, effects
):
    toybox.agent("writer", writing)
    toybox.tool("write", risk=Risk.MEDIUM)
    async with toybox.open() as project:
        session = await toybox.submit(project, "writer")
        await session.run()
        ((session_id, question),) = await project.approvals.questions()
        async with pages_of(project.root, allows_answers=True) as pages:
            # The agents of the toybox are given to `open_project`; a page has those of the project.
            monkeypatch.setattr(pages.site.served, "current", always(project))
            shown = (await pages.get("/approvals")).text
            assert question.id in shown
            assert "1 pending" in Document(shown).text
            answer = await pages.answer(question.id, decision, is_decision="1")
            assert (answer.status_code, answer.headers["location"]) == (303, f"/sessions/{session_id}")

            async def is_done():
                return (await project.sessions.get(session_id)).certificate != ""

            await until(is_done)
            assert toybox.effects() == effects
            for path in ("/approvals", f"/sessions/{session_id}"):
                listed = Document((await pages.get(path)).text).text
                assert {"approve": "approved", "deny": "denied"}[decision] in listed
                assert person() in listed
            again = await pages.answer(question.id, decision, is_decision="1")
            assert again.status_code == 400


def always(value):
    async def current():
        return value

    return current


async def test_without_allow_answers_a_page_has_no_form_and_names_the_command(toybox, monkeypatch):
    toybox.agent("writer", writing)
    toybox.tool("write", risk=Risk.MEDIUM)
    async with toybox.open() as project:
        await (await toybox.submit(project, "writer")).run()
        ((_, question),) = await project.approvals.questions()
        async with pages_of(project.root) as pages:
            monkeypatch.setattr(pages.site.served, "current", always(project))
            shown = (await pages.get("/approvals")).text
            assert f"esper approve {question.id[-12:]}" in shown
            assert 'method="post"' not in shown
            assert (await pages.answer(question.id, "approve", is_decision="1")).status_code == 405
            assert toybox.effects() == []


async def test_a_replaced_database_is_opened_again_and_a_missing_one_is_said(judged_project, home):
    async with pages_of(judged_project.root) as pages:
        (database,) = home.glob("projects/*/esper.db")
        assert judged_project.id in (await pages.get("/")).text
        copy = database.with_name("copy.db")
        shutil.copy(database, copy)
        copy.replace(database)
        assert judged_project.id in (await pages.get("/")).text
        database.unlink()
        gone = await pages.get("/")
        assert gone.status_code == 503
        assert "is missing" in gone.text


async def test_a_database_of_a_newer_version_is_an_error_with_a_remedy(judged_project, home):
    async with pages_of(judged_project.root) as pages:
        (database,) = home.glob("projects/*/esper.db")
        copy = database.with_name("copy.db")
        shutil.copy(database, copy)
        with closing(sqlite3.connect(copy)) as connection, connection:
            connection.execute("UPDATE alembic_version SET version_num = '9999'")
        copy.replace(database)
        answer = await pages.get("/")
        assert answer.status_code == 503
        assert "schema version 9999" in answer.text


async def test_a_project_without_python_files_has_an_empty_list_of_files(make_project):
    async with pages_of(make_project({"README.md": "x"})) as pages:
        assert "no Python files" in await text_of(pages, "/files")


async def test_a_certificate_that_was_changed_in_the_database_is_not_shown_as_it_is(judged_project, home):
    async with pages_of(judged_project.root) as pages:
        (database,) = home.glob("projects/*/esper.db")
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE certificate SET status = 'APPROVED'")
        shown = await text_of(pages, LATEST)
        assert "Verification failed" in shown
        assert "REQUIRES_REMEDIATION" in shown
        assert "archive index has another status than the statement" in shown
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("UPDATE certificate SET statement = replace(statement, 'toy', 'boy')")
        answer = await pages.get(LATEST)
        assert answer.status_code == 500
        assert "was changed after it was issued" in answer.text
        assert (await pages.get("/")).status_code == 200


async def test_the_coverage_is_of_the_agent_of_the_gate_however_many_others_read_the_file(pages):
    project = await pages.project()
    store = Archive(project.services.store.store)
    for number in range(12):
        store.add(made(number, agent="other-agent"), project=project.services.project, logged=True)
    judged = {each.path: each.standing for each in (await project.certificates.gate()).coverage}
    assert {each.path: each.standing for each in (await project.browsing.coverage()).coverage} == judged


async def test_notes_that_an_agent_wrote_under_its_short_name_are_on_its_page_and_listed(pages):
    definitions = pages.judged.root / ".claude/agents"
    definitions.mkdir(parents=True)
    (definitions / "ops.md").write_text("---\nname: ops\ndescription: Runs jobs.\n---\nYou run jobs.\n")
    (pages.judged.root / "ops").mkdir()
    (pages.judged.root / "ops/working-memory.md").write_text("# ops working memory\n\n- the cluster has eight nodes\n")
    project = await pages.project()
    await project.memory.import_documents(pages.judged.root / "ops/working-memory.md", agent="ops")
    async with pages_of(pages.judged.root) as opened:
        for name in ("project:ops", "ops"):
            assert "the cluster has eight nodes" in await text_of(opened, f"/agents/{quote(name, safe='')}"), name
            found = await (await opened.project()).memory.list(agent=name)
            assert [note.agent for note in found] == ["ops"]
        assert "project:ops" in await text_of(opened, "/agents")
        assert "the cluster has eight nodes" in await text_of(opened, "/memory")
        assert (await opened.get("/agents/nothing")).status_code == 404
        assert (await opened.get("/memory?kind=nothing")).status_code == 404


async def test_notes_of_an_agent_that_is_not_defined_have_a_page(pages):
    (pages.judged.root / "working-memory.md").write_text("# notes\n\n- the old loader leaks\n")
    project = await pages.project()
    await project.memory.import_documents(pages.judged.root / "working-memory.md", agent="gone/agent")
    assert "gone/agent not defined here now" in await text_of(pages, "/agents")
    shown = await text_of(pages, "/agents/gone%2Fagent")
    assert "the old loader leaks" in shown
    assert "imported, not trusted" in shown


async def test_an_archive_without_certificates_says_how_to_get_one(make_project):
    async with pages_of(make_project()) as pages:
        for path in ("/", "/files", "/sessions", "/approvals", "/agents", "/trends", "/log"):
            assert (await pages.get(path)).status_code == 200
        assert "esper submit" in (await pages.get("/")).text


async def test_a_certificate_is_compared_with_the_previous_one_of_the_same_question(pages):
    project = await pages.project()
    root = pages.judged.root
    for request, fixes in (("is this training loop fast?", False), ("review this training code", True)):
        if fixes:
            text = (root / "train.py").read_text()
            (root / "train.py").write_text(
                text.replace("        loss.b", "        optimizer.zero_grad()\n        loss.b")
            )
        task = project.tasks.create(request, [root / "train.py"], agent="pytorch-code-reviewer")
        await (await project.tasks.submit(task)).run()
    newest, other, first = await project.certificates.list()
    assert first.id == pages.judged.id
    shown = await text_of(pages, f"/certificates/{newest.id}")
    assert "Changes since the previous certificate of the same question" in shown
    assert "1 no longer reported" in shown
    shown = await text_of(pages, f"/certificates/{other.id}")
    assert "answers another question: review this training code" in shown
    shown = await text_of(pages, f"/certificates/{first.id}")
    assert "Since this certificate 1 of its files is different now: train.py changed" in shown
    assert "The newest answer to the same question:" in shown
    assert "What changed since" in shown


async def test_the_history_of_an_old_certificate_contains_it(pages):
    project = await pages.project()
    store = Archive(project.services.store.store)
    ids = store.fill(*map(made, range(30)), project=project.services.project, logged=True)
    entry = await project.certificates.get(ids[20])
    history = await project.browsing.question_history(entry, await project.certificates.read(entry.id))
    shown = [each.id for each in history.shown]
    assert entry.id in shown
    assert history.is_gap_before
    assert len(shown) == len(set(shown)) <= 12
    assert history.previous.id == ids[21]
    assert "this certificate" in await text_of(pages, f"/certificates/{entry.id}")


async def test_a_reason_that_is_a_condition_is_shown_once(judged_project):
    condition = "settle first: no test ran the loop"
    async with pages_of(judged_project.root) as pages:
        project = await pages.project()
        store = Archive(project.services.store.store)
        issued = made(8)
        lines = (AppliedPolicyRule("not-executed", Stance.CONDITIONAL, "no test ran the loop", ()),)
        verdict = replace(
            issued.verdict,
            stance=Stance.CONDITIONAL,
            status=Status.CONDITIONALLY_APPROVED,
            conditions=(condition,),
            ceiling=replace(
                issued.verdict.ceiling,
                stance=Stance.CONDITIONAL,
                status=Status.CONDITIONALLY_APPROVED,
                lines=lines,
            ),
        )
        store.add(replace(issued, verdict=verdict), project=project.services.project, logged=True)
        verdict_part = Document((await pages.get("/certificates/latest")).text).text.partition("Findings")[0]
        assert verdict_part.count("no test ran the loop") == 1
        assert condition in verdict_part
