from __future__ import annotations

import asyncio

import pytest
from toys import calling

from esper_agents.api import open_project
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import InputFileError, NotFoundError, StorageError, UsageError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def opened(project):
    async with open_project(project) as found:
        yield found


@pytest.mark.parametrize("request_", ["", "   ", "\n\t"])
async def test_an_empty_request_is_refused(opened, project, request_):
    with pytest.raises(UsageError, match="the request is empty") as refused:
        opened.tasks.create(request_, [project / "train.py"])
    assert "esper submit" in refused.value.remedy


async def test_an_unknown_agent_is_refused_with_the_nearest_names(opened, project):
    with pytest.raises(NotFoundError, match="no agent named 'pytorch-expret'") as refused:
        opened.tasks.create("review this", [project / "train.py"], agent="pytorch-expret")
    assert "'pytorch-expert'" in refused.value.remedy


UNREADABLE = {
    "empty": ("empty.py", b"", "the file is empty"),
    "blank": ("blank.py", b" \n\n", "the file is empty"),
    "binary": ("binary.py", b"\0\1\2\3", "binary"),
    "undecodable": ("latin.py", b"x = '\xfc'\n", "cannot be decoded"),
    "lying": ("lying.py", b"# coding: ascii\nx = '\xc3\xbc'\n", "cannot be decoded"),
    "unknown encoding": ("unknown.py", b"# coding: klingon\nx = 1\n", "cannot be decoded"),
    "enormous": ("enormous.py", b"x = 1\n" * 5_000_000, "larger than"),
    "no Python": ("notes.txt", b"x = 1\n", "not a Python source file"),
    "no notebook": ("notes.ipynb", b"{}", "it has no cells"),
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_a_file_that_cannot_be_reviewed_is_refused_before_a_session_is_made_of_it(opened, project, what):
    name, content, problem = UNREADABLE[what]
    (project / name).write_bytes(content)
    with pytest.raises(InputFileError, match=problem) as refused:
        opened.tasks.create("review this", [project / name])
    assert refused.value.remedy
    assert name in refused.value.problem
    assert await opened.sessions.list() == ()


async def test_what_is_not_there_is_refused(opened, project):
    with pytest.raises(InputFileError, match="no such"):
        opened.tasks.create("review this", [project / "nosuch.py"])


async def test_a_folder_without_python_is_refused(opened, project):
    (project / "texts").mkdir()
    (project / "texts" / "a.txt").write_text("x")
    with pytest.raises(InputFileError, match="no Python file"):
        opened.tasks.create("review this", [project / "texts"])


async def test_a_pipe_is_refused_without_waiting_for_it(opened, project):
    import os

    os.mkfifo(project / "pipe.py")
    with pytest.raises(InputFileError):
        opened.tasks.create("review this", [project / "pipe.py"])


async def test_a_file_of_another_project_than_the_working_folders_is_refused_by_its_whole_path(opened, project):
    (project / "notes.txt").write_text("x = 1\n")
    with pytest.raises(InputFileError) as refused:
        opened.tasks.create("review this", [project / "notes.txt"])
    assert refused.value.path == str(project / "notes.txt")


async def test_one_bad_file_among_good_ones_refuses_the_task(opened, project):
    (project / "empty.py").write_text("")
    with pytest.raises(InputFileError, match="the file is empty"):
        opened.tasks.create("review this", [project / "train.py", project / "empty.py"])


async def test_a_bad_file_in_a_folder_does_not_refuse_the_folder(opened, project):
    (project / "empty.py").write_text("")
    assert opened.tasks.create("review this", [project]).paths == (".",)


async def test_paths_of_two_projects_are_refused(opened, project, make_project):
    other = make_project(name="other")
    with pytest.raises(UsageError, match="is not in the project"):
        opened.tasks.create("review this", [project / "train.py", other / "train.py"])
    with pytest.raises(UsageError, match="two projects"):
        async with open_project(project / "train.py", other / "train.py"):
            pass


async def test_a_path_that_does_not_exist_opens_nothing(tmp_path, home):
    with pytest.raises(InputFileError, match="no such file or folder"):
        async with open_project(tmp_path / "nosuch"):
            pass
    assert list(home.iterdir()) == []


async def test_a_project_is_found_from_any_path_in_it(project, monkeypatch):
    (project / "sub").mkdir()
    async with open_project(project / "train.py") as found:
        assert found.root == project
    monkeypatch.chdir(project / "sub")
    async with open_project() as found:
        assert found.root == project
    async with open_project("..", "../train.py") as found:
        assert found.root == project


async def test_a_task_knows_its_paths_from_the_project_and_its_kind_from_its_words(opened, project, monkeypatch):
    monkeypatch.chdir(project)
    task = opened.tasks.create("is it ready to ship?", ["train.py", project / "train.py", "./train.py"])
    assert task.paths == ("train.py",)
    assert task.kind is QuestionType.GO
    assert opened.tasks.create("review this").paths == (".",)
    assert opened.tasks.create("explain this", ["train.py"]).kind is QuestionType.ADVICE


@pytest.mark.parametrize(
    ("request_text", "paths"),
    [
        ("review train.py", ("train.py",)),
        ("is train.py:train faster than train.py:other?", ("train.py",)),
        ("review nosuch.py", (".",)),
        ("review ../train.py and /etc/train.py", ("train.py",)),
        ("review my.training", (".",)),
    ],
)
async def test_a_task_without_paths_is_about_the_files_that_its_words_name(opened, request_text, paths):
    assert opened.tasks.create(request_text).paths == paths


async def test_outside_git_a_task_without_paths_is_about_nothing(make_project):
    root = make_project(under_git=False)
    async with open_project(root) as found:
        assert found.tasks.create("review this").paths == ()


async def test_a_plan_says_what_would_happen_and_leaves_nothing(opened, project, home):
    plan = await opened.tasks.plan(opened.tasks.create("review this training code", [project / "train.py"]))
    assert plan.route.agent == "pytorch-code-reviewer"
    assert plan.reasoner == "playbook"
    assert "static-review" in {tool.name for tool in plan.tools}
    assert await opened.sessions.list() == ()
    assert not (project / "docs").exists()


async def test_a_stack_trace_goes_to_an_agent_that_can_explain_it_without_a_model(opened):
    trace = (
        "Trainer dies before the first batch, same script worked with an older version i think?\n"
        'Traceback (most recent call last):\n  File "/home/m/train.py", line 3, in <module>\n    trainer.run()\n'
        "AttributeError: 'NoneType' object has no attribute 'nh'"
    )
    plan = await opened.tasks.plan(opened.tasks.create(trace))
    assert plan.route.agent == "pytorch-code-reviewer"
    assert plan.declined is None


async def test_a_plan_for_an_agent_without_a_playbook_says_that_it_would_be_declined(toybox):
    toybox.agent("dreamer")
    async with toybox.open() as opened:
        plan = await opened.tasks.plan(
            opened.tasks.create("review this", [toybox.project / "train.py"], agent="dreamer")
        )
    assert plan.declined.problem == "dreamer cannot answer this without a language model"


@pytest.mark.both_databases
async def test_sessions_certificates_and_notes_are_found_afterwards(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    ran = await toybox.run("worker")
    async with toybox.open() as opened:
        session = await opened.sessions.get("latest")
        assert (session.id, session.state, session.agent) == (ran.outcome.session, SessionState.DONE, "worker")
        assert session.certificate == ran.certificate.id
        assert not session.is_owned
        (entry,) = await opened.certificates.list()
        assert entry == ran.outcome.certificate == await opened.certificates.get("latest")
        assert await opened.certificates.get(entry.id[-8:]) == entry
        with pytest.raises(NotFoundError):
            await opened.certificates.list(agent="nobody")
        assert await opened.certificates.read(entry.id) == ran.certificate
        assert entry.status is ran.certificate.verdict.status
        assert {each.agent for each in await opened.memory.list()} == {"worker"}


@pytest.mark.both_databases
@pytest.mark.parametrize("wanted", ["crt_" + "0" * 32, "nosuch", ""])
async def test_an_unknown_certificate_is_refused(opened, wanted):
    with pytest.raises(NotFoundError):
        await opened.certificates.get(wanted)


@pytest.mark.both_databases
@pytest.mark.parametrize("wanted", ["ses_" + "0" * 32, "nosuch", "latest"])
async def test_an_unknown_session_is_refused(opened, wanted):
    for ask in (opened.sessions.get, opened.tasks.resume, opened.sessions.cancel):
        with pytest.raises(NotFoundError):
            await ask(wanted)


@pytest.mark.both_databases
async def test_projects_do_not_share_sessions(toybox, make_project):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    await toybox.run("worker")
    async with open_project(make_project(name="other")) as other:
        assert await other.sessions.list() == ()
        assert await other.certificates.list() == ()
        assert await other.memory.list() == ()


@pytest.mark.both_databases
async def test_a_certificate_that_was_changed_in_the_database_is_not_shown(toybox):
    from sqlalchemy import update

    from esper_agents.errors import ExitCode, IntegrityError
    from esper_agents.storage.tables import certificate

    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    ran = await toybox.run("worker")
    async with toybox.open() as opened:
        forged = (await opened.certificates.record(ran.certificate.id)).replace(b"APPROVED", b"REJECTED")
        with opened.services.store.store.writing() as transaction:
            transaction.connection.execute(update(certificate).values(statement=forged))
        for ask in (opened.certificates.record, opened.certificates.read, opened.certificates.markdown):
            with pytest.raises(IntegrityError, match="was changed after it was issued") as refused:
                await ask(ran.certificate.id)
        assert refused.value.exit_code is ExitCode.TAMPERED


@pytest.mark.both_databases
async def test_asking_a_certificates_question_again_says_what_has_changed(project):
    async with open_project(project) as opened:
        first = await (
            await opened.tasks.submit(opened.tasks.create("review this training code", [project / "train.py"]))
        ).run()
        (project / "train.py").write_text((project / "train.py").read_text().replace("loss.item()", "loss.detach()"))
        task = await opened.tasks.repeat(first.certificate.id)
        assert (task.request, task.paths, task.again) == (
            "review this training code",
            ("train.py",),
            first.certificate.id,
        )
        second = await (await opened.tasks.submit(task)).run()
        certificate = await opened.certificates.read(second.certificate.id)
    assert len(second.findings) < len(first.findings)
    assert certificate.task.again == first.certificate.id
    assert {(str(each.state), each.certificate) for each in certificate.earlier} == {("fixed", first.certificate.id)}


async def test_asking_again_about_a_file_that_is_gone_is_refused(project):
    async with open_project(project) as opened:
        first = await (await opened.tasks.submit(opened.tasks.create("review this", [project / "train.py"]))).run()
        (project / "train.py").unlink()
        with pytest.raises(InputFileError):
            await opened.tasks.repeat(first.certificate.id)
        with pytest.raises(NotFoundError):
            await opened.tasks.repeat("crt_" + "0" * 32)


@pytest.mark.both_databases
async def test_a_session_that_is_done_is_not_done_again(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    ran = await toybox.run("worker")
    assert ran.certificate.verdict.status in {Status.APPROVED, Status.CONDITIONALLY_APPROVED}
    async with toybox.open() as opened:
        again = await (await opened.tasks.resume(ran.outcome.session)).run()
        assert again.certificate == ran.outcome.certificate
        assert len(await opened.memory.list()) == 2
    assert toybox.effects() == ["look"]


async def test_a_database_that_does_not_work_is_said_when_the_project_is_opened(project, home):
    async with open_project(project) as opened:
        file = opened.services.home / "esper.db"
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(StorageError, match="is damaged or not a database"):
        async with open_project(project):
            pass


@pytest.mark.both_databases
async def test_two_sessions_of_one_project_run_side_by_side(toybox):
    toybox.tool("look")
    toybox.agent("worker", calling("look"))
    async with toybox.open() as opened:
        sessions = [await toybox.submit(opened, "worker") for _ in range(3)]
        outcomes = await asyncio.gather(*(session.run() for session in sessions))
        assert {outcome.state for outcome in outcomes} == {SessionState.DONE}
        assert len({outcome.certificate.id for outcome in outcomes}) == 3
        assert len(await opened.certificates.list()) == 3
