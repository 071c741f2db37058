"""Evidence that is run again: on the recorded files in a scratch folder, by real sessions, git and archives."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from itertools import count

import pytest
from toys import calls, recording_tool

from esper_agents.domain.agent_action import Conclude
from esper_agents.domain.evidence import Risk, source_file
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity
from esper_agents.domain.reproduction import ReproductionOutcome
from esper_agents.errors import EvidenceError, IntegrityError, NotFoundError
from esper_agents.tools.tool import Tool, ToolContext, ToolResult

pytestmark = pytest.mark.anyio
NAME = "reproduce-evidence"


CLAIM = Diagnostic(
    *("TOY1", "toy-rule", Severity.WARNING, Category.MEMORY, Location("train.py", 1, 1, 1), "it is so", "change it"),
    *(Confidence.HIGH, "looked", "import torch", "0" * 32),
)


def looking_tool(name, tell, *, claims=(), **options):
    """Return a tool that reads `train.py` and tells what `tell` gives for it; it writes nothing."""

    async def run(context: ToolContext) -> ToolResult:
        """Look."""
        data = (context.root / "train.py").read_bytes()
        return ToolResult("looked", tell(context), tuple(claims), (source_file("train.py", data),))

    given = {"risk": Risk.LOW, "is_repeatable": True, "provider": "toys 1", **options}
    return Tool(name, function=run, rerun=lambda _: f"look {name}", **given)


def using(*names):
    def play(_brief):
        reports = yield calls(*names)
        return Conclude("; ".join(report.evidence.summary for report in reports))

    return play


async def issued(toybox, *tools, **task):
    """Have an agent call tools, and return its certificate."""
    toybox.tools[:] = tools
    toybox.agent("worker", using(*(tool.name for tool in tools)))
    return (await toybox.run("worker", **task)).certificate


async def again(toybox, certificate, number=0, **arguments):
    """Run one piece of evidence again, and return what the tool says."""
    async with toybox.open() as opened:
        given = {"certificate": certificate.id, "evidence": certificate.evidence[number].id, **arguments}
        return await opened.services.tools.get(NAME).run(opened.services.context, given)


def ended(result):
    return ReproductionOutcome(result.output["outcome"])


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """Give every test its own place for scratch folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


async def test_evidence_comes_out_again_on_the_recorded_files_and_leaves_nothing_behind(toybox, temporary):
    certificate = await issued(toybox, looking_tool("look", lambda _: {"seen": 1, "took_s": 0.5}))
    found = await again(toybox, certificate)
    assert ended(found) is ReproductionOutcome.REPRODUCED
    assert [(each.path, each.sha256) for each in found.examined] == [
        (each.path, each.sha256) for each in certificate.examined
    ]
    assert found.claims == ()
    assert list(temporary.iterdir()) == []


async def test_our_own_reading_tools_come_out_again_after_the_code_has_moved_on(toybox, git):
    async with toybox.open() as opened:
        task = opened.tasks.create("review this", [toybox.project / "train.py"], agent="pytorch-code-reviewer")
        outcome = await (await opened.tasks.submit(task)).run()
        certificate = await opened.certificates.read(outcome.certificate.id)
    (toybox.project / "train.py").write_text("x = 1\n")
    git(toybox.project, "commit", "-qam", "second")
    found = [await again(toybox, certificate, number) for number in range(len(certificate.evidence))]
    assert {"git-state", "static-review", "related-code"} <= {each.output["tool"] for each in found}
    assert {str(ended(each)): each.output["why"] for each in found}.keys() == {"reproduced"}


async def test_a_file_that_differed_from_its_commit_is_taken_from_the_project_while_it_is_there(toybox):
    file = toybox.project / "train.py"
    file.write_text("y = 2\n")
    certificate = await issued(toybox, looking_tool("look", lambda at: {"text": (at.root / "train.py").read_text()}))
    assert ended(await again(toybox, certificate)) is ReproductionOutcome.REPRODUCED
    file.write_text("z = 3\n")
    found = await again(toybox, certificate)
    assert ended(found) is ReproductionOutcome.NOT_RUN
    assert found.output["why"] == "'train.py' is no longer available in its certified version"
    assert found.examined == ()


async def test_what_came_out_otherwise_is_named_with_by_how_much(toybox):
    numbers = count(100, 50)
    certificate = await issued(toybox, looking_tool("look", lambda _: {"deep": [{"bytes": next(numbers)}], "same": 1}))
    found = await again(toybox, certificate)
    assert ended(found) is ReproductionOutcome.DIFFERS
    (difference,) = found.output["differences"]
    assert difference["member"] == "output.deep[0].bytes"
    assert (difference["recorded"], difference["again"], difference["by"]) == ("100", "150", "by +50, +50.0%")
    (claim,) = found.claims
    assert (str(claim.location), claim.excerpt) == ("train.py:1", "import torch")
    assert "output.deep[0].bytes: recorded 100, now 150 (by +50, +50.0%)" in claim.message


async def test_a_claim_that_nobody_recorded_is_a_difference(toybox):
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    toybox.tools[0] = looking_tool("look", lambda _: {}, claims=[CLAIM])
    found = await again(toybox, certificate)
    assert ended(found) is ReproductionOutcome.DIFFERS
    assert found.output["why"] == "claims: recorded nothing, now TOY1 at train.py:1"


async def test_a_finding_on_record_is_where_a_difference_is_told(toybox):
    numbers = count()
    certificate = await issued(toybox, looking_tool("look", lambda _: {"n": next(numbers)}, claims=[CLAIM]))
    (claim,) = (await again(toybox, certificate)).claims
    assert (claim.location, claim.excerpt) == (CLAIM.location, CLAIM.excerpt)


async def test_a_difference_shows_nothing_where_other_files_were_not_as_committed(toybox):
    numbers = count()
    (toybox.project / "settings.txt").write_text("nobody read this")
    certificate = await issued(toybox, looking_tool("look", lambda _: {"number": next(numbers)}))
    found = await again(toybox, certificate)
    assert ended(found) is ReproductionOutcome.NOT_COMPARABLE
    assert found.output["why"].startswith("'settings.txt' differed from the commit, and the difference is not recorded")


async def test_without_a_commit_only_what_was_read_is_known(toybox):
    (toybox.project / ".git").rename(toybox.project.parent / "git")
    numbers = count()
    same, other = looking_tool("same", lambda _: {}), looking_tool("other", lambda _: {"number": next(numbers)})
    certificate = await issued(toybox, same, other)
    assert ended(await again(toybox, certificate)) is ReproductionOutcome.REPRODUCED
    found = await again(toybox, certificate, 1)
    assert ended(found) is ReproductionOutcome.NOT_COMPARABLE
    assert found.output["why"].startswith("the project had no commit")


async def test_another_version_of_the_tool_is_no_witness_against_a_record(toybox):
    certificate = await issued(toybox, looking_tool("look", lambda _: {"rules": 1}))
    toybox.tools[0] = looking_tool("look", lambda _: {"rules": 2}, provider="toys 2")
    found = await again(toybox, certificate)
    assert ended(found) is ReproductionOutcome.NOT_COMPARABLE
    assert found.output["why"].startswith("its provider was toys 1, and toys 2 is installed")
    toybox.tools[0] = looking_tool("look", lambda _: {"rules": 1}, provider="toys 2")
    assert ended(await again(toybox, certificate)) is ReproductionOutcome.REPRODUCED


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"risk": Risk.MEDIUM}, "its risk is medium, so it needs approval"),
        ({"risk": Risk.HIGH}, "its risk is high, so it needs approval"),
        ({"is_repeatable": False}, "the tool is not repeatable"),
        ({"provider": "others 1"}, "its provider was toys, and the installed tool is from others"),
    ],
)
async def test_what_may_not_be_run_without_asking_is_not_run(toybox, options, why):
    ran = []
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    toybox.tools[0] = looking_tool("look", lambda _: ran.append(1) or {}, **options)
    found = await again(toybox, certificate)
    assert (ended(found), found.output["why"], ran) == (ReproductionOutcome.NOT_RUN, why, [])


async def test_a_tool_that_is_not_installed_is_not_run(toybox):
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    toybox.tools.clear()
    found = await again(toybox, certificate)
    assert (ended(found), found.output["why"]) == (
        ReproductionOutcome.NOT_RUN,
        "no tool 'look' is installed here; its provider was toys 1",
    )


async def test_a_tool_that_fails_now_is_not_run_and_one_that_failed_before_fails_again(toybox):
    def fail(_):
        raise EvidenceError("the sensor is cold", remedy="warm it")

    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    toybox.tools[0] = looking_tool("look", fail)
    found = await again(toybox, certificate)
    assert (ended(found), found.output["why"]) == (
        ReproductionOutcome.NOT_RUN,
        "it could not be run again: the sensor is cold",
    )
    toybox.agent("failing", using("look"))
    failed = (await toybox.run("failing")).certificate
    assert ended(await again(toybox, failed)) is ReproductionOutcome.REPRODUCED
    toybox.tools[0] = looking_tool("look", lambda _: {})
    assert ended(await again(toybox, failed)) is ReproductionOutcome.NOT_COMPARABLE


async def test_nothing_that_the_repository_names_is_run_to_have_its_files(toybox, git, tmp_path):
    traces = tmp_path / "ran"
    program = f"sh -c 'echo ran >> {traces}; cat'"
    for name in ("smudge", "clean", "process"):
        git(toybox.project, "config", f"filter.trap.{name}", program)
    hooks = toybox.project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {traces}\n")
        (hooks / name).chmod(0o755)
    (toybox.project / ".gitattributes").write_text("*.py filter=trap\n")
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    traces.unlink(missing_ok=True)
    assert ended(await again(toybox, certificate)) is ReproductionOutcome.REPRODUCED
    assert not traces.exists()


async def test_a_tool_that_writes_does_so_in_the_scratch_folder(toybox):
    certificate = await issued(toybox, recording_tool("writer"))
    assert toybox.effects() == ["writer"]
    assert ended(await again(toybox, certificate)) is ReproductionOutcome.REPRODUCED
    assert toybox.effects() == ["writer"]


async def test_the_folder_is_called_as_the_project_in_what_is_compared(toybox):
    certificate = await issued(toybox, looking_tool("look", lambda context: {"said": f"in {context.root}/train.py"}))
    assert ended(await again(toybox, certificate)) is ReproductionOutcome.REPRODUCED


async def test_a_reproduction_is_not_reproduced(toybox):
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    async with toybox.open() as opened:
        outcome = await (await opened.tasks.submit(await opened.tasks.reproduction(certificate.id))).run()
        reproduction = await opened.certificates.read(outcome.certificate.id)
    assert ended(await again(toybox, reproduction)) is ReproductionOutcome.NOT_RUN


async def test_evidence_that_is_not_there_and_an_archive_that_is_not_are_said(toybox, project):
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    with pytest.raises(NotFoundError):
        await again(toybox, certificate, evidence="ev_00000000000000000000000000000000")
    async with toybox.open() as opened:
        with pytest.raises(EvidenceError, match="no certificate archive is available"):
            await opened.services.tools.get(NAME).run(
                ToolContext(project), {"certificate": certificate.id, "evidence": "ev_1"}
            )


async def test_a_record_that_is_not_what_was_issued_is_refused(toybox, home):
    certificate = await issued(toybox, looking_tool("look", lambda _: {}))
    (database,) = home.glob("projects/*/esper.db")
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute(
            "UPDATE certificate SET statement = CAST(replace(CAST(statement AS TEXT), 'looked', 'lacked') AS BLOB)"
        )
    with pytest.raises(IntegrityError):
        await again(toybox, certificate)
