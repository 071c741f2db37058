"""Briefs, turns and results that parts of the model path are tried on."""

from __future__ import annotations

from esper_agents.domain.agent import Agent
from esper_agents.domain.agent_action import ToolReport, ToolUse
from esper_agents.domain.certificate import Definition
from esper_agents.domain.codec import encode
from esper_agents.domain.evidence import CallOutcome, Evidence, Risk, source_file
from esper_agents.domain.finding import Category, Confidence, Diagnostic, Finding, Location, Severity, fingerprint
from esper_agents.domain.frame import Brief
from esper_agents.domain.ledger import FrameOpened, LedgerRow, RowKey
from esper_agents.domain.project import GitRevision
from esper_agents.domain.reasoner_names import CLAUDE
from esper_agents.domain.session import Submission
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.orchestration.session_projection import SessionProjection

LOOK = ToolUse("look", "Look at it.", {"type": "object"}, Risk.LOW, is_repeatable=True)
WRITE = ToolUse("write", "Write it.", {"type": "object"}, Risk.MEDIUM, is_repeatable=False)


def agent(name="worker", **changed):
    """Return an agent."""
    fields = {
        "description": "Works.",
        "model": "inherit",
        "tools": ("look",),
        "skills": (),
        "domain": "toys",
        "handles": (),
        "declines": (),
        "hands_off_to": (),
        "examples": (),
        "body": f"You are {name}'s body.",
        "path": "worker.md",
        "sha256": "",
        "oddities": (),
    }
    return Agent(name, **(fields | changed))


def brief(**changed):
    """Return a brief."""
    fields = {
        "agent": agent(),
        "task": Task("review this", ("train.py",), QuestionType.APPROVAL, "review"),
        "project": "toy",
        "revision": GitRevision("", "", "", "", is_git=False, dirty=()),
        "handoff": None,
        "chain": (),
        "question": "",
        "findings": (),
        "evidence": (),
        "notes": (),
        "tools": (LOOK,),
        "agents": ("worker", "profiler"),
    }
    return Brief(**(fields | changed))


def evidence(number=1, *, output=None, summary="looked", outcome=CallOutcome.COMPLETED, read=("train.py", 11), **more):
    """Return a piece of evidence: a tool call that read some lines of a file."""
    path, lines = read
    fields = {
        "provider": "toys 1",
        "risk": Risk.LOW,
        "is_repeatable": True,
        "arguments": {},
        "arguments_sha256": "",
        "summary": summary,
        "output": output or {},
        "output_sha256": "",
        "examined": (source_file(path, b"x\n" * lines),),
        "artifacts": (),
        "started_at": "2026-11-21T20:00:00.000Z",
        "duration_ns": 0,
        "rerun": "echo",
    }
    return Evidence(f"ev_{number:032x}", "look", outcome=outcome, **(fields | more))


def claim(*, path="train.py", line=1, message="Gradients are not clipped.", basis="seen in one function"):
    """Return a claim."""
    mark = fingerprint("AGENT", path, message, line)
    head = ("AGENT", "gradients-not-clipped", Severity.WARNING, Category.CORRECTNESS, Location(path, line))
    return Diagnostic(*head, message, "Clip them.", Confidence.MODERATE, basis, "", mark)


def finding(**changed):
    """Return a finding on record."""
    return Finding("fnd_1", claim(**changed), "reviewer", (evidence().id,))


def report(number=1, *findings, **changed):
    """Return what a tool call gives back."""
    return ToolReport(evidence(number, **changed), findings)


def submission(*, request="review this", torch="2.13.0"):
    """Return what a session begins with."""
    task = Task(request, ("train.py",), QuestionType.APPROVAL, "review")
    return Submission(task, "toy", brief().revision, {"torch": torch}, "Ada")


def opened(reasoner=CLAUDE, *, parent=0):
    """Return the beginning of a frame, of a consult in the first turn of another one where that is given."""
    return FrameOpened(
        agent(), Definition("worker", "", reasoner, "", "toys 1"), parent, int(bool(parent)), "", None, ()
    )


def history(bodies):
    """Return a ledger, folded, of bodies with their keys."""
    rows = (LedgerRow(seq, RowKey(*key), "", encode(body)) for seq, (key, body) in enumerate(bodies, 1))
    return SessionProjection("ses_1", rows)
