"""`esper pr` through the real entry point, on small repositories with a branch."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import jsonschema
import pytest
from imitated_host import ImitatedHost
from places import FAULTY, SOUND, Place

SCHEMA = Path(__file__).parents[2] / "review/sarif-2.1.0.schema.json"
FIXABLE = "import torch\n\n\ndef train(model, x):\n    with torch.cuda.amp.autocast():\n        return model(x)\n"
# Variables of jobs that run these tests themselves.
NO_JOB = dict.fromkeys(
    ("GITHUB_BASE_REF", "GITHUB_STEP_SUMMARY", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL", "GITHUB_EVENT_PATH"), ""
)


@pytest.fixture
def branch(make_project, home, git):
    """Return a place whose project has a branch with given files."""

    def make(files, before=None):
        root = make_project({"train.py": SOUND} if before is None else before)
        git(root, "switch", "-q", "-c", "feature")
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", "second")
        return Place(root, home)

    return make


@pytest.fixture
def host():
    with ImitatedHost() as running:
        yield running


def job(host, tmp_path, **more):
    """Return the variables of a job of GitHub for a pull request."""
    known = {
        "GITHUB_API_URL": host.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": "t",
        "GITHUB_REF": "refs/pull/7/merge",
    }
    return {**NO_JOB, **known, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), **more}


def pr(place, *arguments, code=0, env=None):
    return place.esper("pr", *arguments, code=code, env={**NO_JOB, **(env or {})})


def test_the_comment_has_verdict_findings_removals_and_one_command(branch):
    shown = pr(branch({"train.py": FAULTY}), code=3).stdout
    assert shown.startswith("<!-- esper-pr -->\n### esper: 2 critical, 1 warning introduced (1 removed guard or test)")
    assert "**Verdict:** none yet. No valid certificate covers 1 of 1 changed file" in shown
    assert shown.count("```sh") == 1
    assert (
        'fix the 2 critical findings, then run:\n\n```sh\nesper submit --pr --allow run-tests "safe to merge?"' in shown
    )
    assert shown.index("Guards and tests removed") < shown.index("(`ESP702`)") < shown.index("New findings")
    assert "- **critical** `train.py:5` gradients are added up" in shown


def test_a_safe_fix_is_a_patch_that_git_applies(branch, git):
    place = branch({"amp.py": FIXABLE}, before={"one.py": "x = 1\n"})
    shown = pr(place, "--fail-on", "never").stdout
    assert "(patch below)" in shown
    patch = shown.split("```diff\n")[1].split("```")[0]
    (place.root / "fix.patch").write_text(patch)
    git(place.root, "apply", "fix.patch")
    assert 'torch.amp.autocast("cuda")' in (place.root / "amp.py").read_text()


def test_only_what_the_branch_brings_is_reported(branch):
    place = branch({"new.py": "x = 1\n"}, before={"train.py": FAULTY})
    assert "### esper: no new findings" in pr(place).stdout


def test_a_branch_without_python_sources_needs_no_verdict(branch):
    shown = pr(branch({"README.md": "hello\n"})).stdout
    assert "### esper: no Python source changed" in shown
    assert "**Verdict:** none needed" in shown


def test_the_change_is_compared_with_the_merge_base_and_not_with_the_tip(branch, git):
    place = branch({"new.py": "x = 1\n"})
    git(place.root, "switch", "-q", "main")
    (place.root / "train.py").write_text(FAULTY)
    git(place.root, "commit", "-q", "-a", "-m", "on main")
    git(place.root, "switch", "-q", "feature")
    shown = pr(place).stdout
    assert "no new findings" in shown
    assert "1 of 1 changed source " in shown


def test_another_base_is_named_in_the_command_by_its_commit(branch, git):
    place = branch({"new.py": FAULTY})
    git(place.root, "branch", "release", "HEAD")
    (place.root / "other.py").write_text("x = 1\n")
    git(place.root, "add", "-A")
    git(place.root, "commit", "-q", "-m", "third")
    shown = pr(place, "--base", "release").stdout
    assert f"esper submit --diff {git(place.root, 'rev-parse', 'release')} --allow run-tests" in shown


def test_the_target_branch_of_a_job_is_the_base(branch, git):
    place = branch({"new.py": FAULTY})
    git(place.root, "update-ref", "refs/remotes/origin/stable", "HEAD")
    assert "no Python source changed" in pr(place, env={"GITHUB_BASE_REF": "stable"}).stdout
    problem, remedy = pr(place, code=2, env={"GITHUB_BASE_REF": "absent"}).problem(2)
    assert problem == "this clone does not have the target branch 'absent'"
    assert "fetch-depth: 0" in remedy


def test_annotations_are_at_most_ten_of_each_level_and_the_report_is_the_summary(branch, host, tmp_path):
    loops = "\n\n".join(FAULTY.replace("def train", f"def train{number}") for number in range(14))
    place = branch({"many.py": loops})
    done = pr(place, "--format", "github", code=3, env=job(host, tmp_path))
    lines = done.stdout.splitlines()
    assert sum(line.startswith("::error ") for line in lines) == 10
    assert sum(line.startswith("::warning ") for line in lines) == 10
    assert lines[-1] == "found 14 critical, 14 warnings in 2 files"
    assert (tmp_path / "summary.md").read_text().startswith("<!-- esper-pr -->\n### esper: 14 critical, 14 warnings")
    assert host.requests == []


def test_one_comment_is_created_and_then_updated(branch, host, tmp_path):
    place = branch({"train.py": FAULTY})
    first = pr(place, "--format", "github", "--post", code=3, env=job(host, tmp_path))
    assert "comment created: https://host/c/1" in first.stdout
    (place.root / "train.py").write_text(SOUND)
    second = pr(place, "--format", "github", "--post", env=job(host, tmp_path))
    assert "comment updated: https://host/c/1" in second.stdout
    (comment,) = host.comments
    assert "no Python source changed" in comment["body"]


@pytest.mark.parametrize("status", [403, 422, 502])
def test_an_error_of_the_host_is_two_lines_and_not_a_failed_review(branch, host, tmp_path, status):
    place = branch({"new.py": "x = 1\n"})
    for _ in range(3):
        host.answer_once("GET", "/repos/o/r/issues/7/comments", status)
    done = pr(place, "--format", "github", "--post", env=job(host, tmp_path))
    assert (
        done.stderr.splitlines()[0] == f"esper: GitHub answered {status} to GET /repos/o/r/issues/7/comments: as asked"
    )
    assert "**Verdict:**" in (tmp_path / "summary.md").read_text()
    for _ in range(3):
        host.answer_once("GET", "/repos/o/r/issues/7/comments", status)
    done = pr(place, "--format", "github", "--post", "--require-comment", code=1, env=job(host, tmp_path))
    assert f"answered {status}" in done.problem(1)[0]


def test_a_job_of_a_fork_without_a_token_has_its_summary(branch, host, tmp_path):
    place = branch({"new.py": "x = 1\n"})
    done = pr(place, "--format", "github", "--post", env=job(host, tmp_path, GITHUB_TOKEN=""))
    assert done.stderr.startswith("esper: GITHUB_TOKEN is not set, so no comment can be posted\n  fix: ")
    assert "**Verdict:**" in (tmp_path / "summary.md").read_text()
    assert host.requests == []


def test_a_merge_request_has_a_note_and_a_code_quality_report(branch, host):
    place = branch({"train.py": FAULTY})
    env = {"CI_API_V4_URL": host.url, "CI_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "7", "GITLAB_TOKEN": "t"}
    host.user_status = 200
    done = pr(place, "--format", "gitlab", "--post", code=3, env=env)
    issues = json.loads(done.stdout)
    assert {issue["check_name"] for issue in issues} == {"ESP101", "ESP301", "ESP702"}
    assert {issue["severity"] for issue in issues} <= {"info", "minor", "major", "critical", "blocker"}
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert issues[0]["location"]["lines"]["begin"] > 0
    (note,) = host.comments
    assert note["body"].startswith("<!-- esper-pr -->")
    assert {name.lower(): text for name, text in host.requests[0][2].items()}["private-token"] == "t"
    assert done.stderr == "comment created: https://host/c/1\n"


def test_junit_and_sarif_are_valid_and_tell_the_same_findings(branch):
    place = branch({"train.py": FAULTY, "fine.py": "x = 1\n"})
    suites = ET.fromstring(pr(place, "--format", "junit", code=3).stdout)  # noqa: S314 - our own text
    counts = {suite.get("name"): (suite.get("tests"), suite.get("failures")) for suite in suites}
    assert counts == {"esper review": ("2", "1"), "esper gate": ("2", "2")}
    log = json.loads(pr(place, "--format", "sarif", code=3).stdout)
    jsonschema.validate(log, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert {each["ruleId"] for each in log["runs"][0]["results"]} == {"ESP101", "ESP301", "ESP702"}


def test_a_secret_in_the_code_reaches_neither_comment_nor_annotation(branch):
    key = "sk-ant-api03-" + "a1B2c3D4" * 6
    place = branch({"amp.py": FIXABLE.replace("model(x)", f'model(x, key="{key}")'), "x.py": FAULTY})
    for style in ("markdown", "github", "gitlab", "junit", "sarif"):
        assert key not in pr(place, "--format", style, "--fail-on", "never").stdout


def test_every_changed_source_that_was_not_reviewed_is_named(branch, git):
    place = branch({"fine.py": "x = 1\n", ".hidden/x.py": FAULTY, "build/y.py": FAULTY, "wide.py": "x = 1\n"})
    (place.root / "wide.py").write_bytes(b"\xff\xfe\x00\x01")
    (place.root / "link.py").symlink_to("/etc/passwd")
    Path(os.fsdecode(bytes(place.root) + b"/bad\xff.py")).write_text(FAULTY)
    git(place.root, "add", "-A")
    git(place.root, "commit", "-q", "-m", "third")
    shown = pr(place, code=4).stdout
    assert "### esper: 5 files not reviewed" in shown
    assert "Static review of 1 of 6 changed sources" in shown
    for name in ("wide.py", ".hidden/x.py", "build/y.py", "link.py", "bad\\xff.py"):
        assert f"- `{name}`: " in shown.split("**Not reviewed**")[1]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--post",), "--post does not post markdown"),
        (("--author", "x"), "--require-comment and --author belong to --post"),
        (("--base", "--output=x"), "'--output=x' is not a valid revision"),
        (("--base", "nowhere"), "there is no revision 'nowhere'"),
    ],
)
def test_wrong_usage_is_two_lines(branch, arguments, problem):
    assert pr(branch({"new.py": "x = 1\n"}), *arguments, code=2).problem(2)[0] == problem


def test_a_folder_without_git_or_without_a_common_commit_is_two_lines(make_project, home, git, tmp_path):
    place = Place(make_project({"train.py": SOUND}, name="plain", under_git=False), home)
    assert "not a git repository" in pr(place, code=2).problem(2)[0]
    root = make_project({"train.py": SOUND})
    git(root, "switch", "-q", "--orphan", "other")
    git(root, "commit", "-q", "--allow-empty", "-m", "alone")
    assert "no common commit" in pr(Place(root, home), code=2).problem(2)[0]


@pytest.mark.slow
def test_fifty_thousand_changed_lines_are_one_comment_of_bounded_size(branch, host, tmp_path):
    files = {
        f"part_{number}.py": "\n\n".join(FAULTY.replace("def train", f"def train{loop}") for loop in range(50))
        for number in range(110)
    }
    assert sum(file.count("\n") for file in files.values()) > 50_000
    place = branch(files)
    done = pr(place, "--format", "github", "--post", code=3, env=job(host, tmp_path))
    assert "comment created" in done.stdout
    assert len(done.stdout.splitlines()) < 30
    (comment,) = host.comments
    assert len(comment["body"].encode()) <= 65_536
    assert "5500 critical" in comment["body"].replace(",", "")


def test_a_harness_that_a_measurement_wrote_here_is_no_part_of_the_branch(branch, git):
    place = branch({"new.py": "x = 1\n"})
    harness = place.root / ".esper" / "harness" / "new_f.py"
    harness.parent.mkdir(parents=True)
    harness.write_text("x = 1\n")
    shown = pr(place).stdout
    assert "Not reviewed" not in shown
    assert "1 of 1 changed file" in shown
    git(place.root, "add", "-f", str(harness))
    git(place.root, "commit", "-q", "-m", "harness")
    assert "`.esper/harness/new_f.py`: a link, or excluded by its name or folder" in pr(place).stdout
