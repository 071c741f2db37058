"""Tests of the tool `explain-trace`."""

from __future__ import annotations

import asyncio
import shlex

import pytest

from esper_agents.domain.finding import Confidence, Severity
from esper_agents.errors import EvidenceError
from esper_agents.tools.explain_trace import explain_trace
from esper_agents.tools.tool import ToolContext

SOURCE = """from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(100, 10)

    def forward(self, x):
        return self.fc(x)
"""
TRACE = (
    'it crashes\nTraceback (most recent call last):\n  File "/home/lee/net.py", line 9, in forward\n'
    "    return self.fc(x)\nRuntimeError: mat1 and mat2 shapes cannot be multiplied (32x84 and 100x10)\n"
)


def explained(tmp_path, text):
    (tmp_path / "net.py").write_text(SOURCE)
    return asyncio.run(explain_trace.run(ToolContext(tmp_path), {"text": text}))


def test_a_known_error_is_a_finding_at_its_line_with_the_change(tmp_path) -> None:
    result = explained(tmp_path, TRACE)
    (claim,) = result.claims
    assert (str(claim.location), claim.severity, claim.confidence) == (
        "net.py:9",
        Severity.CRITICAL,
        Confidence.HIGH,
    )
    assert "`self.fc` expects 100 features" in claim.message
    assert "write 84 instead of 100 at net.py:6" in claim.remedy
    assert [file.path for file in result.examined] == ["net.py"]


def test_a_message_without_a_line_of_the_project_is_explained_without_a_finding(tmp_path) -> None:
    result = explained(tmp_path, "RuntimeError: Cannot re-initialize CUDA in forked subprocess.")
    assert result.claims == ()
    assert result.output["family"] == "cuda-fork"


def test_an_unknown_error_is_located_and_is_not_a_finding(tmp_path) -> None:
    result = explained(tmp_path, TRACE.replace("RuntimeError: mat1", "OddError: mat"))
    assert (result.claims, result.output["family"], result.output["location"]) == ((), "", "net.py:9")


def test_a_text_without_an_error_is_refused(tmp_path) -> None:
    with pytest.raises(EvidenceError, match="no stack trace"):
        explained(tmp_path, "please review this")


def test_the_command_that_repeats_it_is_short_and_one_shell_line() -> None:
    hostile = "ValueError: '; rm -rf ~ #$(id)"
    assert shlex.split(explain_trace.rerun({"text": hostile})) == ["esper", "explain", hostile]
    for text in (TRACE, hostile * 20, f"--session {hostile}"):
        assert explain_trace.rerun({"text": text}) == "esper explain --session {session}"
