from __future__ import annotations

import pytest
from toys import calls

from esper_agents.domain.agent_action import Conclude, HandOff, SupportedClaim
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.errors import NotFoundError
from esper_agents.paths import PUBLISHED

pytestmark = [pytest.mark.anyio, pytest.mark.both_databases]


def claim(path="train.py", line=4, message="it is wrong", severity=Severity.WARNING):
    return Diagnostic(
        *("TOY1", "toy-claim", severity, Category.CORRECTNESS, Location(path, line), message, "mend it"),
        *(Confidence.HIGH, "seen", "", fingerprint("TOY1", path, message, 0)),
    )


class Reviewer:
    """A reviewer that looks at every file and claims what it is told to; it keeps the briefs it was given."""

    def __init__(self):
        self.claims = []
        self.briefs = []

    def play(self, brief):
        self.briefs.append(brief)
        (report,) = yield calls("look")
        return Conclude("looked", claims=tuple(SupportedClaim(each, (report.evidence.id,)) for each in self.claims))


@pytest.fixture
def reviewer(toybox):
    found = Reviewer()
    toybox.tool("look")
    toybox.agent("reviewer", found.play)
    return found


async def remembered(toybox, **wanted):
    async with toybox.open() as opened:
        return await opened.memory.list(**wanted)


async def test_a_session_leaves_what_was_judged_why_and_what_is_to_be_done(toybox, reviewer):
    reviewer.claims = [claim()]
    ran = await toybox.run("reviewer")
    found = {each.kind: each for each in await remembered(toybox)}
    assert set(found) == set(NoteKind)
    assert all(each.agent == "reviewer" and each.state is NoteState.CURRENT for each in found.values())
    assert all(each.certificate == ran.certificate.id for each in found.values())
    assert all(each.commit == ran.certificate.revision.commit != "" for each in found.values())
    assert str(ran.certificate.verdict.status) in found[NoteKind.WORKING].text
    assert str(ran.certificate.verdict.status) in found[NoteKind.DECISION].text
    assert "TOY1 toy-claim at train.py:4" in found[NoteKind.ACTION].text
    assert found[NoteKind.ACTION].command == f"esper submit --rerun {ran.certificate.id}"
    assert [source.path for source in found[NoteKind.ACTION].sources] == ["train.py"]


async def test_what_was_left_is_recalled_at_the_start_of_the_next_session(toybox, reviewer):
    reviewer.claims = [claim()]
    first = await toybox.run("reviewer")
    await toybox.run("reviewer")
    before, after = reviewer.briefs
    assert before.notes == ()
    assert {note.certificate for note in after.notes} == {first.certificate.id}
    assert {note.kind for note in after.notes} == set(NoteKind)


async def test_agents_do_not_recall_the_notes_of_one_another(toybox, reviewer):
    other = Reviewer()
    toybox.agent("other", other.play)
    await toybox.run("reviewer")
    await toybox.run("other")
    assert other.briefs[0].notes == ()


async def test_a_newer_note_on_the_same_subject_supersedes_the_older_one(toybox, reviewer):
    await toybox.run("reviewer")
    second = await toybox.run("reviewer")
    working = await remembered(toybox, kind=NoteKind.WORKING)
    assert [each.state for each in working] == [NoteState.CURRENT, NoteState.SUPERSEDED]
    assert working[0].certificate == second.certificate.id
    assert len({each.subject for each in working}) == 1


async def test_an_action_is_done_when_its_finding_is_gone_from_the_file(toybox, reviewer):
    reviewer.claims = [claim(message="first"), claim(message="second", line=5)]
    await toybox.run("reviewer")
    assert [each.state for each in await remembered(toybox, kind=NoteKind.ACTION)] == [NoteState.CURRENT] * 2
    reviewer.claims = [claim(message="second", line=5)]
    (toybox.project / "train.py").write_text("x = 1\n" * 10)
    await toybox.run("reviewer")
    states = [(each.text.split(": ")[1][:6], each.state) for each in await remembered(toybox, kind=NoteKind.ACTION)]
    assert sorted(states) == [
        ("first.", NoteState.DONE),
        ("second", NoteState.CURRENT),
        ("second", NoteState.SUPERSEDED),
    ]


async def test_an_action_stays_open_while_its_file_was_not_looked_at_again(toybox, reviewer):
    reviewer.claims = [claim()]
    await toybox.run("reviewer")
    (toybox.project / "train.py").rename(toybox.project / "elsewhere.txt")
    (toybox.project / "other.py").write_text("x = 1\n")
    reviewer.claims = []
    await toybox.run("reviewer", paths=("other.py",))
    assert [each.state for each in await remembered(toybox, kind=NoteKind.ACTION)] == [NoteState.CURRENT]


async def test_an_action_stays_open_when_its_file_was_only_read_by_one_that_does_not_look_for_it(toybox, reviewer):
    def reader(_brief):
        yield calls("read-file", path="train.py")
        return Conclude("read it")

    reviewer.claims = [claim()]
    await toybox.run("reviewer")
    toybox.agent("reader", reader)
    await toybox.run("reader")
    assert [each.state for each in await remembered(toybox, kind=NoteKind.ACTION)] == [NoteState.CURRENT]


async def test_suggestions_are_no_actions(toybox, reviewer):
    reviewer.claims = [claim(severity=Severity.SUGGESTION)]
    await toybox.run("reviewer")
    assert await remembered(toybox, kind=NoteKind.ACTION) == ()


async def test_a_handoff_is_remembered_by_who_handed_off(toybox, reviewer):
    def first(_brief):
        yield calls("look")
        yield HandOff("reviewer", "toys", "it knows", "a spring is loose")
        return Conclude("not reached")

    toybox.agent("first", first)
    ran = await toybox.run("first")
    (note,) = await remembered(toybox, agent="first")
    assert note.text == ran.certificate.handoffs[0].sentence


async def test_a_session_that_ends_without_a_verdict_leaves_no_notes(toybox):
    from esper_agents.domain.agent_action import Ask

    def asking(_brief):
        yield Ask("why?")
        return Conclude("x")

    toybox.agent("asker", asking)
    async with toybox.open() as opened:
        outcome = await (await toybox.submit(opened, "asker")).run()
        await opened.sessions.cancel(outcome.session)
        assert await opened.memory.list() == ()


HOSTILE = (
    "x](javascript:alert) <script>alert(1)</script>\n# Heading\n- [ ] item | `code` {{ 'ab'*3 }} "
    "\u202e\u200b\x1b[31m &amp;"
)


async def test_what_the_documents_show_is_text_and_no_markup(toybox, reviewer):
    reviewer.claims = [claim(message=HOSTILE)]
    await toybox.run("reviewer")
    folder = toybox.project / PUBLISHED / "reviewer"
    text = (folder / "next-actions.md").read_text()
    assert "<script>" not in text
    assert "\\<script\\>" in text
    assert "x\\](javascript" in text
    assert "\n# Heading" not in text
    assert "ababab" not in text
    for hidden in ("\u202e", "\u200b", "\x1b"):
        assert hidden not in text
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Next actions of reviewer", "## Open", "## Done or dropped"]


async def test_the_documents_of_every_agent_that_took_part_are_published(toybox, reviewer):
    await toybox.run("reviewer")
    folder = toybox.project / PUBLISHED / "reviewer"
    assert {path.name for path in folder.glob("*.md")} == {"working-memory.md", "decisions-log.md", "next-actions.md"}
    for path in folder.glob("*.md"):
        assert path.read_text().startswith("# ")


async def test_notes_come_back_in_the_states_and_kinds_that_are_asked_for(toybox, reviewer):
    await toybox.run("reviewer")
    await toybox.run("reviewer")
    current = await remembered(toybox, states=(NoteState.CURRENT,))
    assert {each.state for each in current} == {NoteState.CURRENT}
    assert len(await remembered(toybox, limit=1)) == 1
    with pytest.raises(NotFoundError, match="no agent named 'nobody'"):
        await remembered(toybox, agent="nobody")


async def test_the_next_certificate_says_what_became_of_the_findings_of_the_last(toybox, reviewer):
    reviewer.claims = [claim(), claim(message="so is this", line=5)]
    first = await toybox.run("reviewer")
    reviewer.claims = [claim()]
    second = await toybox.run("reviewer")

    assert first.certificate.earlier == ()
    assert {(each.text[-10:], each.certificate, str(each.state)) for each in second.certificate.earlier} == {
        ("train.py:4", first.certificate.id, "found again"),
        ("train.py:5", first.certificate.id, "not checked"),
    }
