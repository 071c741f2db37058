"""A toybox whose agents reason with a scripted model: the real SDK, a real server on loopback, nothing else."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass

from esper_agents.testing.messages import MessagesServer
from esper_agents.testing.script import ToolUseBlock

# Evidence as a model is shown it.
EVIDENCE = re.compile(r"\be\d+\b")


def conclude(**arguments):
    """Return the tool call that ends a frame."""
    return ToolUseBlock("conclude", {"summary": "It is as it should be.", **arguments})


def finding(request, **changed):
    """Return a finding as a model states it, resting on the evidence of the request's last message."""
    return {
        "name": "gradients-not-clipped",
        "severity": "warning",
        "category": "correctness",
        "path": "train.py",
        "line": 1,
        "message": "Gradients are not clipped.",
        "remedy": "Clip them.",
        "confidence": "Moderate",
        "basis": "seen in one function",
        "evidence": EVIDENCE.findall(told(request))[:1],
        **changed,
    }


def told(request):
    """Return what the last message of a request holds, as text."""
    return json.dumps(request.body["messages"][-1])


def opening(request):
    """Return what the first message of a request holds, as text."""
    return json.dumps(request.body["messages"][0])


@dataclass
class Asked:
    """What became of a session that asked a model."""

    outcome: object
    certificate: object
    rows: tuple
    requests: list
    history: object

    def bodies(self, kind):
        """Return what the rows of a kind hold."""
        return [row.body for row in self.rows if row.kind == kind]


@contextmanager
def served(script, monkeypatch, **options):
    """Serve a script, with the environment that leads to it."""
    with MessagesServer(script, **options) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        yield server


async def ask(toybox, server, *, agent="worker", request="review this", agreed=True, run=True, **options):
    """Submit a task whose agents ask the model, run it as far as it goes, and return what became of it."""
    async with toybox.open(**options) as opened:
        if agreed:
            opened.models.allow(opened.services.server.host)
        task = opened.tasks.create(request, [toybox.project / "train.py"], agent=agent)
        session = await opened.tasks.submit(opened.models.with_reasoner(task, "claude"))
        outcome = await session.run() if run else None
        certificate = (
            await opened.certificates.read(outcome.certificate.id) if outcome and outcome.certificate else None
        )
        history = await opened.sessions.history(session.id)
        return Asked(outcome, certificate, await opened.sessions.timeline(session.id), server.requests, history)
