"""A task about a merge, a branch or a diff is about the change: what it brings is judged, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from esper_agents.api import CoverageState, ReviewOptions, open_project, review_files
from esper_agents.domain.change import HEAD, change_of
from esper_agents.domain.status import Status
from esper_agents.errors import EvidenceError, InputFileError, UsageError
from esper_agents.review.task_change import change_in_request, digest_now

pytestmark = pytest.mark.anyio

TRAIN = """import torch
from torch import nn


def train_epoch(model, loader, optimizer, history):
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss.detach())


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    return sum(nn.functional.mse_loss(model(x), y).item() for x, y in loader)
"""
# A finding that has been there all along.
OLD = "import torch\n\n\ndef load(path):\n    return torch.load(path, weights_only=False)\n"


def git(root, *words):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", "-C", root, *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    (root / "tests").mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    (root / "train.py").write_text(TRAIN)
    (root / "load.py").write_text(OLD)
    (root / "tests/test_train.py").write_text("def test_it():\n    assert 1\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "switch", "-qc", "feature")
    return root


def edit(root, old, new, file="train.py"):
    text = (root / file).read_text()
    assert old in text
    (root / file).write_text(text.replace(old, new))


def test_a_branch_that_the_request_names_is_the_change_wherever_the_work_tree_is(repository):
    edit(repository, "loss.detach()", "loss")
    git(repository, "commit", "-qam", "keep the loss")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "branch", "fix/history")
    git(repository, "branch", "release-2", "main")
    git(repository, "switch", "-qc", "other", "main")
    found = change_in_request(repository, "can I merge `fix/history` into main?")
    assert (found.head, found.paths, found.is_checked_out) == (head, ("train.py",), False)
    assert change_of(found.options, found.paths) == found
    git(repository, "switch", "-q", "fix/history")
    assert change_in_request(repository, "can I merge fix/history?") is None
    for request in ("is fix/history ok to go into release-2?", "ok to merge into release-2?"):
        assert change_in_request(repository, request).base == git(repository, "rev-parse", "main")
    git(repository, "switch", "-q", "--detach")
    found = change_in_request(repository, "is branch feature safe to merge?")
    assert (found.asked, found.head, found.paths) == ("main...feature", head, ("train.py",))
    # Ordinary words that are also names of branches do not name them.
    assert change_in_request(repository, "did the last change remove a feature?") is None


async def judged(root, request, allow=(), **options):
    async with open_project(root) as project:
        task = project.tasks.restrict(project.tasks.create(request, **options), allow=allow)
        result = await (await project.tasks.submit(task)).run()
        return task, await project.certificates.read(result.certificate.id)


@pytest.mark.parametrize(
    "request_", ["is this safe to merge into main?", "lgtm? ship it", "kann der Branch gemergt werden?"]
)
async def test_a_question_about_merging_is_about_what_the_branch_changes(repository, request_):
    edit(repository, "loss.detach()", "loss")
    edit(repository, "    model.eval()\n", "")
    git(repository, "commit", "-qam", "simplify")
    task, certificate = await judged(repository, request_)
    assert task.paths == ("train.py",)
    assert task.change.base == git(repository, "rev-parse", "main")
    found = {(finding.claim.rule, str(finding.claim.location)) for finding in certificate.findings}
    assert {("ESP702", "train.py:12"), ("ESP702", "train.py:17")} <= found
    assert not any(finding.claim.location.path == "load.py" for finding in certificate.findings)
    assert certificate.verdict.status not in {Status.GO, Status.APPROVED, Status.CONDITIONALLY_APPROVED}
    assert not any(line.name == "change-not-judged" for line in certificate.verdict.ceiling.lines)


async def test_uncommitted_changes_of_the_branch_are_part_of_it(repository):
    edit(repository, "        optimizer.zero_grad()\n", "")
    _, certificate = await judged(repository, "may I merge this?")
    assert certificate.verdict.status is Status.NO_GO
    assert "ESP702" in {finding.claim.rule for finding in certificate.findings}


async def test_a_named_change_is_judged_whatever_the_request_says(repository):
    git(repository, "tag", "v1")
    edit(repository, "    model.eval()\n", "")
    git(repository, "commit", "-qam", "second")
    edit(repository, "loss.detach()", "loss")
    for diff, lines in {"v1": [12, 17], "HEAD": [12]}.items():
        _, certificate = await judged(repository, "review this", diff=diff)
        assert [
            finding.claim.location.line for finding in certificate.findings if finding.claim.rule == "ESP702"
        ] == lines


async def test_the_staged_change_leaves_out_what_is_not_staged(repository):
    edit(repository, "loss.detach()", "loss")
    git(repository, "add", "-A")
    edit(repository, "torch.load(path", "torch.load(  # unstaged\n        path", "load.py")
    task, certificate = await judged(repository, "review this", diff="--staged")
    assert task.paths == ("train.py",)
    assert "ESP702" in {finding.claim.rule for finding in certificate.findings}
    assert task.command().endswith("--staged")


async def test_a_staged_change_whose_sources_are_not_in_the_work_tree_is_refused(repository):
    edit(repository, "loss.detach()", "loss")
    git(repository, "commit", "-qam", "second")
    edit(repository, "    model.eval()\n", "")
    git(repository, "add", "-A")
    edit(repository, "loss.backward()", "loss.backward()  # more")
    async with open_project(repository) as project:
        with pytest.raises(UsageError, match=r"train.py in the work tree, which agents read, is not") as refused:
            project.tasks.create("review this", diff="--staged")
        assert "git stash --keep-index" in refused.value.remedy
        # That of two commits is read from git instead.
        assert not project.tasks.create("review this", diff="main..feature").change.is_checked_out


async def test_files_of_the_change_that_no_rule_reads_leave_the_question_open(repository):
    edit(repository, "optimizer.step()", "optimizer.step()  # done")
    (repository / "config.yaml").write_text("lr: 10\n")
    (repository / "README.md").write_text("a document\n")
    _, certificate = await judged(repository, "safe to merge?")
    (gap,) = [each for each in certificate.gaps if "what the change does in" in each.what]
    assert gap.what.endswith("config.yaml")
    (line,) = [line for line in certificate.verdict.ceiling.lines if line.name == "change-unread"]
    assert line.because.endswith("'config.yaml'")
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW


async def test_no_change_is_approved_while_nothing_shows_that_a_test_executed_it(repository):
    edit(repository, "optimizer.step()", "optimizer.step()  # done")
    _, certificate = await judged(repository, "safe to merge?")
    assert "change-not-executed" in {line.name for line in certificate.verdict.ceiling.lines}


async def test_the_certificate_names_the_commits_and_the_digest_of_the_change(repository):
    edit(repository, "loss.detach()", "loss")
    git(repository, "commit", "-qam", "simplify")
    async with open_project(repository) as project:
        task = project.tasks.create("safe to merge?", diff="main..feature")
        result = await (await project.tasks.submit(task)).run()
        certificate = await project.certificates.read(result.certificate.id)
        markdown = await project.certificates.markdown(result.certificate.id)
    change = change_of(certificate.task.options)
    assert (change.base, change.head) == (git(repository, "rev-parse", "main"), git(repository, "rev-parse", "feature"))
    assert f"- Change judged: `main..feature`, from commit `{change.base}` to commit `{change.head}`" in markdown
    assert change.sha256[:12] in markdown


async def test_a_deleted_test_leaves_the_question_open(repository):
    edit(repository, "optimizer.step()", "optimizer.step()  # done")
    (repository / "tests/test_train.py").unlink()
    _, certificate = await judged(repository, "safe to merge?")
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert any("tests/test_train.py" in gap.what and gap.blocks_approval for gap in certificate.gaps)


async def test_the_command_that_repeats_the_task_names_the_change(repository):
    edit(repository, "loss.detach()", "loss")
    git(repository, "commit", "-qam", "simplify")
    async with open_project(repository) as project:
        assert project.tasks.create("safe to merge?").command().endswith("--pr")
        assert project.tasks.create("review it", diff="main..").command().endswith("--diff main..")


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        ("nosuch", "there is no revision 'nosuch'"),
        ("main..nosuch", "there is no revision 'nosuch'"),
        ("HEAD", "no Python source changed in 'HEAD'"),
        ("--staged", "no Python source changed in '--staged'"),
        ("-x", "'-x' is not a valid revision"),
    ],
)
async def test_a_change_that_does_not_exist_is_refused(repository, diff, problem):
    async with open_project(repository) as project:
        with pytest.raises(UsageError, match=r"revision|changed") as refused:
            project.tasks.create("review this", diff=diff)
    assert problem in refused.value.problem
    assert refused.value.remedy


async def test_a_branch_without_a_default_branch_or_without_changes_is_refused_if_it_is_named(repository):
    async with open_project(repository) as project:
        with pytest.raises(UsageError, match="does not differ from 'main'"):
            project.tasks.create("safe to merge?", is_branch=True)
        git(repository, "branch", "-m", "main", "first")
        with pytest.raises(UsageError, match="default branch of this repository is not known"):
            project.tasks.create("safe to merge?", is_branch=True)
        # A question that only sounds like one about a change is then about the files, and the verdict says so.
        assert project.tasks.create("safe to merge?").change is None


async def test_histories_without_a_common_commit_are_refused_with_what_to_do(repository):
    git(repository, "switch", "-q", "--orphan", "other")
    (repository / "train.py").write_text(TRAIN)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "other")
    async with open_project(repository) as project:
        with pytest.raises(UsageError, match="have no common commit") as refused:
            project.tasks.create("safe to merge?", is_branch=True)
    assert "A..B" in refused.value.remedy


UTIL = "def scale(x):\n    return 2 * x\n\n\ndef clamp(x):\n    return max(x, 0)\n"
UTIL_TESTS = "from util import scale\n\n\ndef test_scale():\n    assert scale(2) == 4\n"


@pytest.fixture
def tested(repository, monkeypatch):
    """Return the repository with a file that is tested in part, on a branch."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (repository / "util.py").write_text(UTIL)
    (repository / "tests/test_util.py").write_text(UTIL_TESTS)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "util")
    git(repository, "branch", "-f", "main")
    return repository


async def test_a_change_is_safe_to_merge_once_tests_that_execute_it_pass(tested):
    edit(tested, "2 * x", "x + x", "util.py")
    _, certificate = await judged(tested, "safe to merge?")
    assert certificate.verdict.status is Status.NEEDS_FURTHER_REVIEW
    (offered,) = [gap for gap in certificate.gaps if gap.what.startswith("whether the tests that reach the change")]
    assert offered.what.endswith("1 of 2 tests, in 1 file")
    assert "--allow run-tests --pr" in offered.command
    task, certificate = await judged(tested, "safe to merge?", allow=["run-tests"])
    assert (certificate.verdict.status, certificate.verdict.ceiling.lines) == (Status.GO, ())
    label = f"change {task.change.base[:9]}..work tree (1 file)"
    async with open_project(tested) as project:
        (listed, *_) = await project.certificates.list(limit=1)
        assert await project.certificates.changes([listed]) == {certificate.id: label}
        gate, file = project.certificates.gate, [tested / "util.py"]
        # The content of the main branch has no certificate, unless the question is about what differs from it.
        (alone,) = (await gate(file)).coverage
        assert (alone.standing, label in alone.why) == (CoverageState.UNCOVERED, True)
        (merged,) = (await gate(since="main")).coverage
        assert (merged.path, merged.standing, merged.certificate) == ("util.py", CoverageState.COVERED, certificate.id)
        edit(tested, "max(x, 0)", "max(x, 1)", "util.py")
        (later,) = (await gate(file, since="main")).coverage
        assert (later.standing, later.why) == (
            CoverageState.NOT_CURRENT,
            f"the file has changed since {label} was judged",
        )


async def test_a_change_that_breaks_a_test_is_not_and_an_edit_that_no_test_executes_stays_open(tested):
    edit(tested, "max(x, 0)", "max(x, -1)", "util.py")
    _, certificate = await judged(tested, "safe to merge?", allow=["run-tests"])
    assert [line.name for line in certificate.verdict.ceiling.lines] == ["change-not-executed"]
    assert any("util.py:6" in gap.what for gap in certificate.gaps)
    edit(tested, "2 * x", "3 * x", "util.py")
    _, certificate = await judged(tested, "safe to merge?", allow=["run-tests"])
    assert certificate.verdict.status is Status.NO_GO
    assert any("fails and passes without the change" in finding.claim.message for finding in certificate.findings)


@pytest.fixture
def elsewhere(tested):
    """Return the repository with a branch `fix/sum`, while `main` is checked out with an edit of its own."""
    git(tested, "switch", "-qc", "fix/sum")
    edit(tested, "2 * x", "x + x", "util.py")
    (tested / "extra.py").write_text("import util\n\n\ndef double(x):\n    return util.scale(x)\n")
    (tested / "tests/test_extra.py").write_text("import extra\n\n\ndef test_it():\n    assert extra.double(2) == 4\n")
    git(tested, "add", "-A")
    git(tested, "commit", "-qm", "sum")
    git(tested, "switch", "-q", "main")
    (tested / "util.py").write_text(UTIL.replace("2 * x", "4 * x"))
    return tested


async def test_a_branch_that_is_not_checked_out_is_judged_and_tested_from_its_commit(elsewhere):
    before = git(elsewhere, "status", "--porcelain"), (elsewhere / "util.py").read_text()
    task, certificate = await judged(elsewhere, "can I merge fix/sum into main?", allow=["run-tests"])
    assert task.paths == ("extra.py", "tests/test_extra.py", "util.py")
    assert (certificate.verdict.status, certificate.verdict.ceiling.lines) == (Status.GO, ())
    assert certificate.revision.commit == git(elsewhere, "rev-parse", "fix/sum")
    assert certificate.revision.dirty == ()
    data = git(elsewhere, "show", "fix/sum:util.py").encode() + b"\n"
    assert {each.sha256 for each in certificate.examined if each.path == "util.py"} == {sha256(data).hexdigest()}
    after = git(elsewhere, "status", "--porcelain", "--", ".", ":(exclude)docs"), (elsewhere / "util.py").read_text()
    assert after == before
    assert "esper-reproduce-" not in str(certificate)


async def test_the_findings_of_a_branch_that_is_not_checked_out_are_those_of_the_branch(elsewhere):
    git(elsewhere, "stash", "-q")
    git(elsewhere, "switch", "-q", "fix/sum")
    edit(elsewhere, "    model.eval()\n", "")
    edit(elsewhere, "x + x", "3 * x", "util.py")
    git(elsewhere, "commit", "-qam", "worse")
    _, here = await judged(elsewhere, "is this safe to merge into main?", allow=["run-tests"], diff="main...fix/sum")
    git(elsewhere, "switch", "-q", "main")
    task, apart = await judged(elsewhere, "can I merge fix/sum into main?", allow=["run-tests"])
    assert not task.change.is_checked_out
    assert here.verdict.status is apart.verdict.status is Status.NO_GO
    shown = [{(finding.claim.rule, str(finding.claim.location)) for finding in one.findings} for one in (here, apart)]
    assert shown[0] == shown[1]
    (failed,) = [
        finding.claim for finding in apart.findings if finding.claim.rule == "TESTS" and "util" in finding.claim.message
    ]
    assert failed.remedy.startswith(f"run git switch --detach {task.change.head[:12]}, python -m pytest")


async def test_evidence_about_a_branch_that_is_not_checked_out_is_reproduced_from_its_commit(elsewhere):
    _, certificate = await judged(elsewhere, "can I merge fix/sum into main?")
    review = next(each for each in certificate.evidence if each.tool == "static-review")
    assert "--diff=" in review.rerun
    async with open_project(elsewhere) as project:
        task = await project.tasks.reproduction(certificate.id)
        result = await (await project.tasks.submit(task)).run()
        again = await project.certificates.read(result.certificate.id)
    outcomes = {each.output["tool"]: each.output["outcome"] for each in again.evidence if "outcome" in each.output}
    assert outcomes["static-review"] == "reproduced"


async def test_a_commit_that_is_gone_stops_the_session_with_what_to_do(elsewhere):
    async with open_project(elsewhere) as project:
        task = project.tasks.create("can I merge fix/sum into main?")
        gone = replace(task, options={**task.options, HEAD: "1" * 40})
        session = await project.tasks.submit(gone)
        with pytest.raises(EvidenceError, match="is not in this repository any more"):
            await session.run()


async def test_a_review_of_two_commits_takes_files_that_the_work_tree_lacks(elsewhere, monkeypatch):
    monkeypatch.chdir(elsewhere)
    report = review_files(ReviewOptions((Path("extra.py"),), revision="main..fix/sum")).report
    assert [each.path for each in report.examined if each.path == "extra.py"]
    with pytest.raises(InputFileError, match=r"no such file or folder in main\.\.fix/sum"):
        review_files(ReviewOptions((Path("nosuch.py"),), revision="main..fix/sum"))


async def test_the_digest_of_a_change_tells_whether_it_moved_since_the_task_was_made(tested):
    edit(tested, "2 * x", "x + x", "util.py")
    git(tested, "commit", "-qam", "sum")
    async with open_project(tested) as project:
        branch = project.tasks.create("safe to merge?").change
        commits = project.tasks.create("review it", diff="main..HEAD").change
    assert digest_now(tested, branch) == branch.sha256
    assert digest_now(tested, commits) == commits.sha256
    edit(tested, "max(x, 0)", "max(x, 1)", "util.py")
    assert digest_now(tested, branch) not in {"", branch.sha256}
    assert digest_now(tested, commits) == ""


async def test_renamed_deleted_binary_and_oddly_named_files_of_a_change_are_told_apart(repository):
    git(repository, "mv", "train.py", "train er.py")
    (repository / "größe.py").write_text("def g():\n    return 1\n")
    (repository / "weights.bin").write_bytes(bytes(range(256)))
    (repository / "load.py").unlink()
    async with open_project(repository) as project:
        task = project.tasks.create("safe to merge?", is_branch=True)
    assert task.paths == ("größe.py", "train er.py")
    assert (task.change.deleted, task.change.others) == (("load.py", "train.py"), ("weights.bin",))
    assert "'train er.py'" in task.command()


async def test_published_certificates_are_no_part_of_a_change_and_code_beside_them_is(repository):
    edit(repository, "optimizer.step()", "optimizer.step()  # done")
    async with open_project(repository) as project:
        before = project.tasks.create("safe to merge?", is_branch=True).change
        folder = repository / "docs/ai/agents/pytorch-code-reviewer/certificates"
        folder.mkdir(parents=True)
        for name in ("one.md", "one.html", "one.dsse.json", "one.tlog-proof"):
            (folder / name).write_text("optimizer.step()\n")
        assert project.tasks.create("safe to merge?", is_branch=True).change == before
        git(repository, "add", "docs")
        git(repository, "commit", "-qm", "certificates")
        assert project.tasks.create("safe to merge?", is_branch=True).change == before
        (folder / "hidden.py").write_text("import os\n")
        (folder / "settings.toml").write_text("x = 1\n")
        later = project.tasks.create("safe to merge?", is_branch=True).change
    inside = folder.relative_to(repository).as_posix()
    assert later.paths == (f"{inside}/hidden.py", "train.py")
    assert later.others == (f"{inside}/settings.toml",)


async def test_a_submodule_that_a_change_moves_is_one_of_the_files_that_no_rule_reads(repository, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    git(other, "commit", "-q", "--allow-empty", "-m", "one")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "vendored")
    edit(repository, "optimizer.step()", "optimizer.step()  # done")
    async with open_project(repository) as project:
        assert set(project.tasks.create("safe to merge?").change.others) == {".gitmodules", "vendored"}
        git(repository, "commit", "-qam", "vendored")
        assert "vendored" in project.tasks.create("review it", diff="main..feature").change.others


async def test_a_shallow_clone_without_the_common_commit_is_refused_with_what_to_fetch(repository, tmp_path):
    edit(repository, "optimizer.step()", "optimizer.step()  # done")
    git(repository, "commit", "-qam", "done")
    git(repository, "switch", "-q", "main")
    git(repository, "commit", "-q", "--allow-empty", "-m", "more")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", "--no-single-branch", f"file://{repository}", str(clone))
    git(clone, "switch", "-q", "feature")
    async with open_project(clone) as project:
        with pytest.raises(UsageError, match="have no common commit in this clone") as refused:
            project.tasks.create("safe to merge?", is_branch=True)
    assert refused.value.remedy == "fetch the history: git fetch --unshallow"
