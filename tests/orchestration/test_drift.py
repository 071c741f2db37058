"""What a session goes by that changes while it waits: shown, never passed over, and a person says what counts."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest
from toys import agent_file, calls

from esper_agents.domain.agent_action import Ask, Conclude, HandOff
from esper_agents.domain.drift import DriftKind
from esper_agents.domain.session import SessionState
from esper_agents.errors import DriftError, ExitCode, UsageError
from esper_agents.orchestration.drift import ChangedError

pytestmark = pytest.mark.anyio

PLAYBOOK = """
from esper_agents.domain.agent_action import Ask, Conclude

WORD = "{word}"


def play(brief):
    answer = yield Ask("{question}")
    return Conclude(f"{{WORD}}: {{answer.text}}")
"""


@pytest.fixture
def loaded(tmp_path):
    """Return what makes a playbook of a file, as a package brings one along."""

    def load(word="old", question="why?"):
        file = tmp_path / f"playbook_{word}_{len(question)}.py"
        file.write_text(PLAYBOOK.format(word=word, question=question))
        spec = importlib.util.spec_from_file_location(file.stem, file)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.play

    return load


def in_source(before, after=""):
    def play(_brief):
        answer = yield Ask("why?")
        return Conclude(f"{before}{answer.text}{after}")

    return play


@pytest.fixture
def box(toybox):
    toybox.agent("worker", in_source("old "))
    return toybox


async def waiting(box, agent="worker"):
    async with box.open() as opened:
        outcome = await (await box.submit(opened, agent)).run()
    assert outcome.state is SessionState.WAITING
    return outcome.session


def rewrite(box, name="worker", **fields):
    file = agent_file(box.folder, name, tools=None, **fields)
    # The toys read a file once for each time it changes.
    later = file.stat().st_mtime_ns + 5_000_000_000
    os.utime(file, ns=(later, later))
    return file


async def test_where_nothing_has_changed_a_session_simply_goes_on(box):
    session = await waiting(box)
    async with box.open() as opened:
        assert await opened.sessions.drifts(session) == ()
        outcome = await (await opened.approvals.answer(session, "yes")).run()
    assert outcome.state is SessionState.DONE


async def test_an_agent_that_has_changed_is_shown_and_not_gone_on_with(box):
    session = await waiting(box)
    rewrite(box, domain="other toys")
    async with box.open() as opened:
        with pytest.raises(ChangedError) as refused:
            await opened.tasks.resume(session)
        assert (await opened.sessions.get(session)).state is SessionState.WAITING
    error = refused.value
    assert error.exit_code is ExitCode.USAGE
    assert error.problem == f"definitions changed since session {session} started: agent worker"
    assert error.remedy.startswith(f"`esper resume {session} --definitions current`")
    assert "--definitions recorded" in error.remedy
    (drift,) = error.drifts
    assert (drift.change.kind, drift.change.name) == (DriftKind.AGENT, "worker")
    assert drift.change.before != drift.change.now
    assert "-domain: toys" in drift.lines
    assert "+domain: other toys" in drift.lines


async def test_an_answer_is_kept_where_what_has_changed_keeps_the_session_from_going_on(box):
    session = await waiting(box)
    rewrite(box, domain="other toys")
    async with box.open() as opened:
        with pytest.raises(ChangedError):
            await opened.approvals.answer(session, "yes")
        outcome = await (await opened.tasks.resume(session, accept=True)).run()
        assert (await opened.certificates.read(outcome.certificate.id)).summary == "old yes"


@pytest.mark.both_databases
async def test_what_a_person_accepts_is_on_record_and_in_the_certificate(box):
    session = await waiting(box)
    rewrite(box, domain="other toys")
    async with box.open() as opened:
        held = await opened.tasks.resume(session, accept=True)
        assert (await held.run()).state is SessionState.WAITING
        # It is asked once, and not at every step.
        outcome = await (await opened.approvals.answer(session, "yes")).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        (row,) = [each.body for each in await opened.sessions.timeline(session) if each.kind == "drift-accepted"]
        before, now = [definition.sha256 for definition in issued.definitions]
        assert (await opened.sessions.replay(session)).is_identical
    assert [(each["kind"], each["name"], each["before"], each["now"]) for each in row["changes"]] == [
        ("agent", "worker", before, now)
    ]
    assert row["by"]


async def test_a_playbook_that_has_changed_is_shown_with_its_text(box, loaded):
    box.playbooks["worker"] = loaded("old")
    session = await waiting(box)
    box.playbooks["worker"] = loaded("new", question="why not?")
    async with box.open() as opened:
        with pytest.raises(ChangedError) as refused:
            await opened.tasks.resume(session)
        (drift,) = refused.value.drifts
        assert (drift.change.kind, drift.change.name) == (DriftKind.PLAYBOOK, "worker")
        assert '-    answer = yield Ask("why?")' in drift.lines
        assert '+    answer = yield Ask("why not?")' in drift.lines


@pytest.mark.both_databases
async def test_a_pinned_session_goes_on_by_the_playbook_that_began_it(box, loaded):
    box.playbooks["worker"] = loaded("old")
    session = await waiting(box)
    box.playbooks["worker"] = loaded("new", question="why not?")
    rewrite(box, domain="other toys")
    async with box.open() as opened:
        with pytest.raises(ChangedError):
            await opened.approvals.answer(session, "yes")
        outcome = await (await opened.tasks.resume(session, pinned=True)).run()
        issued = await opened.certificates.read(outcome.certificate.id)
        (opening,) = [each.body for each in await opened.sessions.timeline(session) if each.kind == "opened"]
    # What stood beside the old one in its file is that of the program that runs it.
    assert issued.summary.endswith(": yes")
    assert [definition.sha256 for definition in issued.definitions] == [opening["definition"]["sha256"]]


async def test_what_stands_among_the_artifacts_is_never_run_as_a_playbook(box, loaded):
    box.playbooks["worker"] = loaded("old")
    session = await waiting(box)
    box.playbooks["worker"] = loaded("new", question="why not?")
    async with box.open() as opened:
        home = opened.services.home
        shutil.copytree(home / "playbooks", home / "artifacts", dirs_exist_ok=True)
        shutil.rmtree(home / "playbooks")
        with pytest.raises(UsageError, match="is not stored"):
            await opened.tasks.resume(session, pinned=True)


async def test_a_changed_playbook_that_would_have_moved_otherwise_is_no_way_on_even_if_accepted(box, loaded):
    box.playbooks["worker"] = loaded("old")
    session = await waiting(box)
    box.playbooks["worker"] = loaded("new", question="why not?")
    async with box.open() as opened:
        with pytest.raises(ChangedError):
            await opened.approvals.answer(session, "yes")
        with pytest.raises(DriftError):
            await (await opened.tasks.resume(session, accept=True)).run()
        assert (await opened.sessions.get(session)).state is SessionState.OPEN


async def test_a_playbook_whose_version_cannot_be_brought_back_is_not_pinned(box):
    session = await waiting(box)

    def other(_brief):
        # It takes its words from around it: the source of such a function alone is not all of it.
        yield calls(session)
        return Conclude("x")

    box.playbooks["worker"] = other
    async with box.open() as opened:
        before = await opened.sessions.timeline(session)
        with pytest.raises(UsageError, match=r"recorded playbook worker \(.*\) is not stored"):
            await opened.tasks.resume(session, pinned=True)
        assert await opened.sessions.timeline(session) == before


@pytest.mark.parametrize("how", ["gone", "renamed"])
async def test_an_agent_that_is_not_there_any_more_never_ends_a_session(box, how):
    session = await waiting(box)
    (box.folder / "worker.md").unlink()
    if how == "renamed":
        box.agent("labourer", box.playbooks["worker"])
    async with box.open() as opened:
        with pytest.raises(ChangedError) as refused:
            await opened.approvals.answer(session, "yes")
        assert refused.value.drifts[0].change.now == ""
        with pytest.raises(UsageError, match=r"agent 'worker'.* is no longer installed") as gone:
            await opened.tasks.resume(session, accept=True)
        assert "--definitions recorded" in gone.value.remedy
        found = await opened.sessions.get(session)
        assert (found.state, found.certificate) == (SessionState.OPEN, "")
        assert await opened.certificates.list() == ()
        # By what is kept of it, it can go on.
        outcome = await (await opened.tasks.resume(session, pinned=True)).run()
        assert (await opened.certificates.read(outcome.certificate.id)).agent == "worker"


async def test_an_agent_that_loses_its_playbook_does_not_go_on_without(box):
    session = await waiting(box)
    del box.playbooks["worker"]
    async with box.open() as opened:
        with pytest.raises(ChangedError) as refused:
            await opened.approvals.answer(session, "yes")
    (drift,) = refused.value.drifts
    assert drift.change.kind is DriftKind.PLAYBOOK


async def test_an_agent_that_has_done_its_part_counts_as_well(box):
    def handing(_brief):
        yield HandOff("worker", "toys", "it knows", "nothing")
        return Conclude("never")

    box.agent("sender", handing)
    session = await waiting(box, "sender")
    rewrite(box, "sender", domain="other toys")
    async with box.open() as opened:
        (drift,) = await opened.sessions.drifts(session)
    assert drift.change.name == "sender"


async def test_a_skill_that_has_changed_is_shown(box):
    skill = box.project / ".esper/skills/cranks/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("Turn left.\n")
    rewrite(box, extra="skills: [cranks]\n")
    session = await waiting(box)
    skill.write_text("Turn right.\n")
    async with box.open() as opened:
        (drift,) = await opened.sessions.drifts(session)
        assert (drift.change.kind, drift.change.name) == (DriftKind.SKILL, "cranks of worker")
        assert drift.lines[-2:] == ("-Turn left.", "+Turn right.")
        with pytest.raises(ChangedError):
            await opened.tasks.resume(session)
        assert await opened.tasks.resume(session, accept=True)


async def test_a_policy_that_has_changed_is_shown_and_the_old_one_can_be_gone_on_by(box, monkeypatch):
    from esper_agents.certificates.policy import policy_file
    from esper_agents.orchestration import drift as module

    session = await waiting(box)
    text = policy_file.policy_text()
    for each in (policy_file, module):
        monkeypatch.setattr(each, "policy_text", lambda: text + "\n# another\n")
    async with box.open() as opened:
        with pytest.raises(ChangedError) as refused:
            await opened.approvals.answer(session, "yes")
        (drift,) = refused.value.drifts
        assert drift.change.kind is DriftKind.POLICY
        assert drift.lines[-1] == "+# another"
        outcome = await (await opened.tasks.resume(session, pinned=True)).run()
        issued = await opened.certificates.read(outcome.certificate.id)
    assert issued.verdict.ceiling.policy_sha256 == drift.change.before


async def test_a_session_that_is_over_goes_by_nothing_any_more(box):
    session = await waiting(box)
    async with box.open() as opened:
        await (await opened.approvals.answer(session, "yes")).run()
    rewrite(box, domain="other toys")
    async with box.open() as opened:
        assert await opened.sessions.drifts(session) == ()
        assert (await (await opened.tasks.resume(session)).run()).state is SessionState.DONE


async def test_a_session_from_before_definitions_were_kept_shows_what_the_ledger_has(box):
    session = await waiting(box)
    rewrite(box, domain="other toys")
    async with box.open() as opened:
        for path in (opened.services.home / "artifacts").rglob("*"):
            if path.is_file():
                path.unlink()
        (drift,) = await opened.sessions.drifts(session)
        assert drift.before is not None
        outcome = await (await opened.tasks.resume(session, pinned=True)).run()
        assert outcome.state is SessionState.WAITING
