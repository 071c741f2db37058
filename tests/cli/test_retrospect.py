"""`esper retrospect` through the real entry point."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.fixture
def esper(project):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "esper_agents.cli.main", *arguments]
        return subprocess.run(
            command, cwd=project, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )

    return run


def test_a_project_without_sessions_has_nothing_to_look_back_on(esper) -> None:
    done = esper("retrospect")
    assert done.returncode == 0
    assert "Sessions looked at: 0" in done.stdout


def test_a_skill_that_sessions_suggest_goes_into_the_project_only_with_agreement(esper, project) -> None:
    (project / "other.py").write_text((project / "train.py").read_text())
    for path in ("train.py", "other.py"):
        esper("submit", "--reasoner", "playbook", "review this training code", path)
    found = json.loads(esper("retrospect", "--json").stdout)
    assert len(found["sessions"]) == 2
    name = found["suggestions"][0]["name"]
    written = esper("retrospect", "--output", "report.md")
    assert written.stdout == "wrote what 2 sessions show to report.md\n"
    assert f"esper retrospect accept {name}" in (project / "report.md").read_text()

    alone = esper("retrospect", "accept", name)
    assert (alone.returncode, f"esper retrospect accept --yes {name}" in alone.stderr) == (2, True)
    assert not (project / ".esper").exists()
    agreed = esper("retrospect", "accept", "--yes", name)
    target = project / f".esper/skills/{name}/SKILL.md"
    assert agreed.returncode == 0
    assert target.read_text() in agreed.stdout
    assert esper("retrospect", "accept", "--yes", name).returncode == 2
    assert f"project:{name}" in esper("skills", "list", "--json").stdout


def test_a_skill_that_nobody_proposed_is_refused(esper) -> None:
    done = esper("retrospect", "accept", "../../secret")
    assert done.returncode == 2
    assert "no proposed skill named '../../secret'" in done.stderr
