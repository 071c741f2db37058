"""The set-up of a project: what is made, and what is never touched."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
import yaml

from esper_agents.api import SetupPart, SetupState, plan_setup, set_up
from esper_agents.certificates.suggested_command import problem_of
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.api import SetupStep

REQUIREMENT = "git+https://git.example.org/esper-agents@v0.2.0"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    for each in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ESPER_MODEL_SERVER"):
        monkeypatch.delenv(each, raising=False)
    root = tmp_path / "project"
    root.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "remote", "add", "origin", "git@github.com:lab/nets.git"], cwd=root, check=True)
    return root


def _by_part(steps: tuple[SetupStep, ...]) -> dict[SetupPart, SetupStep]:
    return {step.part: step for step in steps}


def test_a_plan_writes_nothing(project: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    steps = _by_part(plan_setup(project, requirement=REQUIREMENT))

    assert sorted(tmp_path.rglob("*")) == before
    assert [step for step in steps if steps[step].state is SetupState.MISSING] == ["key", "hook", "ci"]
    assert "playbooks answer" in steps[SetupPart.MODEL].text


def test_a_second_run_finds_everything_done(project: Path) -> None:
    first = _by_part(set_up(project, requirement=REQUIREMENT))
    second = _by_part(set_up(project, requirement=REQUIREMENT))

    for part in (SetupPart.KEY, SetupPart.HOOK, SetupPart.CI):
        assert (first[part].state, first[part].is_new) == (SetupState.DONE, True)
        assert (second[part].state, second[part].is_new) == (SetupState.DONE, False)
    assert "SHA256:" in second[SetupPart.KEY].text


def test_the_hook_stops_a_commit_with_a_faulty_change(project: Path) -> None:
    set_up(project, without=[SetupPart.KEY, SetupPart.CI])
    (project / "load.py").write_text('import torch\n\nstate = torch.load("a.pt", weights_only=False)\n')
    subprocess.run(["git", "add", "load.py"], cwd=project, check=True)
    commit = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-qm", "load"]
    # The hook calls `esper` by name: the one of this environment.
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"  # noqa: PTH120 - not resolved
    done = subprocess.run(
        commit, cwd=project, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )

    assert done.returncode != 0
    assert "ESP901 unsafe-load" in done.stdout + done.stderr


def test_the_workflow_is_valid_and_passes_no_text_of_a_pull_request_to_a_shell(project: Path) -> None:
    step = _by_part(set_up(project, requirement=REQUIREMENT, without=[SetupPart.KEY]))[SetupPart.CI]
    assert step.file is not None
    steps = yaml.safe_load(step.file.read_text())["jobs"]["review"]["steps"]

    assert steps[2]["run"] == f"python -m pip install {REQUIREMENT}"
    assert "${{" not in steps[3]["run"]
    assert problem_of(steps[3]["run"]) == ""
    assert steps[3]["run"].startswith("esper pr --format github --post")
    assert steps[3]["env"] == {"GITHUB_TOKEN": "${{ github.token }}"}
    permissions = yaml.safe_load(step.file.read_text())["permissions"]
    assert permissions == {"contents": "read", "pull-requests": "write"}


@pytest.mark.parametrize("wrong", ["a b", "-r evil.txt", "x${{ secrets.T }}", "a\nb"])
def test_a_requirement_that_is_no_requirement_is_refused(project: Path, wrong: str) -> None:
    with pytest.raises(UsageError, match="not a requirement"):
        plan_setup(project, requirement=wrong)


def test_existing_hooks_and_configurations_are_shown_the_lines_and_not_changed(project: Path) -> None:
    hook = project / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nruff check\n")
    step = _by_part(set_up(project))[SetupPart.HOOK]
    assert (step.state, hook.read_text()) == (SetupState.MANUAL, "#!/bin/sh\nruff check\n")
    assert "esper review --staged" in step.content

    (project / ".pre-commit-config.yaml").write_text("repos: []\n")
    step = _by_part(set_up(project))[SetupPart.HOOK]
    assert step.state is SetupState.MANUAL
    assert yaml.safe_load("repos:\n" + step.content)["repos"][0]["hooks"][0]["language"] == "system"


def test_another_hook_folder_is_named(project: Path) -> None:
    subprocess.run(["git", "config", "core.hooksPath", "tools/hooks"], cwd=project, check=True)

    step = _by_part(set_up(project))[SetupPart.HOOK]
    assert step.state is SetupState.MANUAL
    assert "tools/hooks" in step.text


def test_a_project_outside_github_gets_the_command_for_its_ci(project: Path) -> None:
    subprocess.run(["git", "remote", "set-url", "origin", "https://git.example.org/a"], cwd=project, check=True)

    step = _by_part(set_up(project, requirement=REQUIREMENT))[SetupPart.CI]
    assert (step.state, step.file) == (SetupState.MANUAL, None)
    assert step.text.endswith("esper pr --base origin/main --fail-on warning")

    subprocess.run(["git", "remote", "set-url", "origin", "https://gitlab.example.org/a"], cwd=project, check=True)
    step = _by_part(plan_setup(project))[SetupPart.CI]
    assert "esper pr --format gitlab --post" in step.text


def test_a_folder_without_git_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "home"))
    folder = tmp_path / "plain"
    folder.mkdir()

    assert "git init" in _by_part(plan_setup(folder))[SetupPart.HOOK].text


def test_an_installation_from_a_folder_has_no_address_for_ci(project: Path) -> None:
    step = _by_part(plan_setup(project))[SetupPart.CI]

    assert step.state is SetupState.MANUAL or f"esper-agents=={version('esper-agents')}" in step.content


def test_consent_is_reported_and_never_given(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    step = _by_part(set_up(project))[SetupPart.MODEL]

    assert step.state is SetupState.MANUAL
    assert "esper models allow" in step.text
