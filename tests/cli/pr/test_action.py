"""The steps of `action.yml` as shell, in the environment of an event, against a server that imitates GitHub."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from fork_server import ESPER
from imitated_host import ImitatedHost
from places import FAULTY, SOUND, environment, git

ACTION = yaml.safe_load((Path(__file__).parents[3] / "action.yml").read_text(encoding="utf-8"))
INSTALL = "Install esper-agents, as it stands beside this file"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG9vb29vb29vb29vb29vb29vb29vb29vb29vb29vb29v ci"


@pytest.fixture
def host():
    with ImitatedHost() as running:
        yield running


@pytest.fixture
def job(make_project, home, host, tmp_path):
    """Return what runs the action on a branch that adds a file, and its folder."""
    root = make_project({"train.py": SOUND})
    git(root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(root, "switch", "-q", "-c", "feature")
    (tmp_path / "esper-gate/bin").mkdir(parents=True)
    (tmp_path / "esper-gate/bin/esper").symlink_to(ESPER)
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": {"number": 7}}))
    context = {
        "GITHUB_API_URL": host.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_BASE_REF": "main",
        "GITHUB_ACTIONS": "true",
        "GITHUB_SERVER_URL": "https://github.com",
        "GITHUB_EVENT_PATH": tmp_path / "event.json",
        "RUNNER_TEMP": tmp_path,
    }

    def run(files, *, event="pull_request", token="t", **inputs):  # noqa: S107 - a made-up one
        for path, text in files.items():
            (root / path).write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-q", "--allow-empty", "-m", "second")
        return run_action(root, environment(home, **context), {"event_name": event, "token": token}, inputs)

    run.root, run.folder = root, tmp_path
    return run


def run_action(root, variables, github, given):
    """Run the steps whose conditions hold; return the exit codes by name, the output, and the actions they use."""
    inputs = {
        name: given.pop(name.replace("-", "_"), each.get("default", "")) for name, each in ACTION["inputs"].items()
    }
    assert not given
    inputs = {name: filled(text, {}, github) for name, text in inputs.items()}
    codes, output, used, is_failed = {}, "", [], False
    for step in ACTION["runs"]["steps"]:
        condition = step.get("if", "${{ !failed }}")
        if step.get("name") == INSTALL or not holds(condition, inputs, github, is_failed=is_failed):
            continue
        if "uses" in step:
            used.append(step["uses"].partition("@")[0])
            continue
        env = variables | {name: filled(text, inputs, github) for name, text in step.get("env", {}).items()}
        # Each step has a summary file of its own.
        env["GITHUB_STEP_SUMMARY"] = str(Path(variables["RUNNER_TEMP"]) / f"summary-{step['name']}.md")
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(shell, env=env, cwd=root, capture_output=True, text=True, check=False)
        codes[step["name"]] = done.returncode
        output += done.stdout + done.stderr
        is_failed |= done.returncode != 0
    return codes, output, used


def filled(text, inputs, github):
    """Return a text with its expressions `${{ inputs.x }}` and `${{ github.x }}` filled in."""
    known = {f"inputs.{name}": each for name, each in inputs.items()} | {
        f"github.{name}": each for name, each in github.items()
    }
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: known[found[1]], str(text))


def holds(condition, inputs, github, *, is_failed):
    """Return whether a condition holds: comparisons of inputs and of the event, joined by `&&`."""
    parts = [each.strip() for each in condition.removeprefix("${{").removesuffix("}}").split("&&")]
    known = {f"inputs.{name}": each for name, each in inputs.items()} | {"github.event_name": github["event_name"]}
    if "!cancelled()" not in parts and is_failed:
        return False
    compared = [part.split(" == ") for part in parts if not part.startswith("!")]
    return all(known[name] == value.strip("'") for name, value in compared)


def test_a_pull_request_is_reviewed_commented_and_gated(job, host):
    codes, output, used = job({"new.py": FAULTY}, trust=KEY)
    assert codes == {"Review the pull request": 3, "Look at the certificates": 8}
    assert "::error file=new.py,line=5" in output
    (comment,) = host.comments
    assert "### esper: 1 critical, 1 warning introduced" in comment["body"]
    commit = git(job.root, "rev-parse", "HEAD")
    assert f"(https://github.com/o/r/blob/{commit}/new.py#L5)" in comment["body"]
    log = json.loads((job.root / "esper-review.sarif").read_text())
    assert {each["ruleId"] for each in log["runs"][0]["results"]} == {"ESP101", "ESP301"}
    assert "github/codeql-action/upload-sarif" in used
    assert (job.folder / "summary-Review the pull request.md").read_text().count("### esper:") == 1


def test_a_sound_change_passes_and_its_comment_is_updated(job, host):
    assert job({"new.py": FAULTY}, gate="false")[0] == {"Review the pull request": 3}
    codes, output, _ = job({"new.py": "x = 1\n"}, gate="false")
    assert codes == {"Review the pull request": 0}
    assert "comment updated" in output
    assert "no new findings" in host.comments[0]["body"]


@pytest.mark.parametrize(("token", "status"), [("", 200), ("t", 403), ("t", 502)])
def test_a_fork_without_permissions_has_its_summary_and_no_failed_job(job, host, token, status):
    for _ in range(3):
        host.answer_once("GET", "/repos/o/r/issues/7/comments", status, {"message": "Resource not accessible"})
    codes, output, _ = job({"new.py": "x = 1\n"}, token=token, gate="false")
    assert codes == {"Review the pull request": 0}
    assert host.comments == []
    assert output.count("esper: ") == 1
    assert "**Verdict:**" in (job.folder / "summary-Review the pull request.md").read_text()


def test_what_a_fork_brings_does_not_run_and_loosens_nothing(job):
    hostile = {
        "conftest.py": "open('ran', 'w')\n",
        "test_x.py": "def test_x():\n    open('ran', 'w')\n",
        "::error file=a.py::wrong.py": FAULTY,
    }
    (job.root / ".esper").mkdir()
    (job.root / ".esper/config.toml").write_text('[[rule]]\ntool = "*"\naction = "allow"\n')
    codes, output, _ = job(hostile, trust=KEY)
    assert codes == {"Review the pull request": 3, "Look at the certificates": 8}
    assert not (job.root / "ran").exists()
    commands = [line for line in output.splitlines() if line.lstrip().startswith("::")]
    assert commands
    assert all(re.match(r"::(error|warning|notice) file=[^:]*,line=\d+,", command) for command in commands)


def test_the_gate_needs_a_key_and_fails_without_one(job):
    codes, output, _ = job({"new.py": "x = 1\n"}, comment="false")
    assert codes["Look at the certificates"] != 0
    assert "Traceback" not in output


def test_a_push_is_gated_and_not_reviewed(job, host):
    codes, _, used = job({"new.py": "x = 1\n"}, event="push", trust=KEY)
    assert list(codes) == ["Look at the certificates"]
    assert host.requests == []
    assert used == ["actions/setup-python"]


def test_every_input_is_described_and_every_action_is_pinned():
    assert all(each["description"] for each in ACTION["inputs"].values())
    steps = ACTION["runs"]["steps"]
    assert all(re.search(r"@[0-9a-f]{40}$", step["uses"]) for step in steps if "uses" in step)
    assert not [step for step in steps if "${{" in step.get("run", "")]
