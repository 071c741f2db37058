"""The gate on a real project, in the project itself and in a clone that knows nobody."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from command_line import build
from judged import FAULTY
from typer.testing import CliRunner

from esper_agents.api import open_project
from esper_agents.certificates.signing.signing_key import as_ssh, signing_key
from esper_agents.domain.status import QuestionType, Status
from esper_agents.errors import ExitCode, InputFileError, UsageError


@pytest.fixture
def judged(judged_project, monkeypatch):
    monkeypatch.chdir(judged_project.root)
    return judged_project


@pytest.fixture
def key(judged, home):
    """Return the key that issued here, as `esper keys export` writes it."""
    return f"{as_ssh(signing_key(home).public_key)} somebody@somewhere"


@pytest.fixture
def clone(judged, key, monkeypatch, tmp_path):
    """Go to a clone of the project, on a machine that trusts nobody."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(judged.root))
    subprocess.run([*git, "add", "-A"], check=True, capture_output=True)
    subprocess.run([*git, "commit", "-q", "-m", "certificates"], check=True, capture_output=True)
    subprocess.run(["git", "clone", "-q", str(judged.root), str(tmp_path / "clone")], check=True)
    monkeypatch.setenv("ESPER_HOME", str(tmp_path / "nobody"))
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def gate(*arguments):
    done = CliRunner().invoke(build(), ["gate", *arguments, "--json"])
    assert done.stdout, done.exception
    found = json.loads(done.stdout)
    assert found["exit_code"] == done.exit_code
    return done.exit_code, {each["path"]: each["standing"] for each in found["coverage"]}


def test_a_verdict_against_a_file_stops_the_gate(judged):
    assert gate("train.py") == (ExitCode.AGAINST, {"train.py": "against"})


SOUND = """import torch


def train(model, loader, optimizer, loss_fn):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
"""


def submit(root, request, agent="", path="train.py"):
    """Submit a request about a file or folder, and return the certificate."""

    async def run():
        async with open_project(root) as project:
            task = project.tasks.create(request, [root / path], agent=agent)
            entry = (await (await project.tasks.submit(task)).run()).certificate
            return await project.certificates.read(entry.id)

    return asyncio.run(run())


def test_advice_and_narrower_questions_that_come_later_change_nothing(make_project, monkeypatch):
    root = make_project({"train.py": SOUND})
    monkeypatch.chdir(root)
    required = ("--require", "APPROVED", "--require", "CONDITIONALLY_APPROVED")
    submit(root, "is the memory use of train.py ok?", "memory-diagnostician")
    assert gate("train.py", *required) == (ExitCode.NOT_CURRENT, {"train.py": "uncovered"})
    submit(root, "review this training code")
    assert gate("train.py", *required) == (ExitCode.DONE, {"train.py": "covered"})
    assert submit(root, "explain what this does").verdict.kind is QuestionType.ADVICE
    submit(root, "explain what this does", "pytorch-code-reviewer")
    assert gate("train.py", *required) == (ExitCode.DONE, {"train.py": "covered"})


def test_files_that_were_not_read_leave_the_verdict_and_the_gate_undecided(make_project, monkeypatch):
    root = make_project({"train.py": SOUND})
    monkeypatch.chdir(root)
    (root / "odd.py").write_bytes(b"x = 1\ny = 2\nz = '\xff'\n")
    issued = submit(root, "review this training code", path=".")
    assert issued.verdict.status is Status.NEEDS_FURTHER_REVIEW
    assert "files-unread" in [line.name for line in issued.verdict.ceiling.lines]
    assert any("odd.py" in gap.what for gap in issued.gaps)
    assert gate("train.py")[0] is ExitCode.AGAINST


def test_a_status_that_never_counts_is_refused():
    done = CliRunner().invoke(build(), ["gate", "--require", "RECOMMEND"])
    assert isinstance(done.exception, UsageError)


def test_a_file_that_nobody_judged_is_uncovered(judged):
    (judged.root / "other.py").write_text("import torch\n", encoding="utf-8")
    assert gate("other.py") == (ExitCode.NOT_CURRENT, {"other.py": "uncovered"})


def test_the_gate_fails_only_at_the_level_that_the_user_names(judged):
    (judged.root / "other.py").write_text("import torch\n", encoding="utf-8")
    uncovered, against = ("other.py", "--fail-on"), ("train.py", "--fail-on")
    assert [gate(*uncovered, level)[0] for level in ("uncovered", "against", "never")] == [8, 0, 0]
    assert [gate(*against, level)[0] for level in ("uncovered", "against", "never")] == [3, 3, 0]
    assert gate("other.py", "train.py", "--fail-on", "never")[1] == {"other.py": "uncovered", "train.py": "against"}


def test_a_file_that_has_changed_since_is_not_current(judged):
    judged.train.write_text(FAULTY + "\n# more\n", encoding="utf-8")
    assert gate("train.py") == (ExitCode.NOT_CURRENT, {"train.py": "not current"})


def test_where_nobody_is_trusted_nothing_is_decided(clone):
    assert gate("train.py") == (ExitCode.UNDECIDED, {"train.py": "undecided"})
    assert not (clone.parent / "nobody").exists()


def test_a_key_that_is_named_for_this_time_counts_as_text_and_as_file(clone, key, tmp_path):
    (tmp_path / "key.pub").write_text(f"{key}\n", encoding="utf-8")
    for given in (key, str(tmp_path / "key.pub")):
        assert gate("train.py", "--trusted-key", given) == (ExitCode.AGAINST, {"train.py": "against"})


def test_another_key_that_is_named_decides_nothing(clone, tmp_path):
    other = as_ssh(signing_key(tmp_path / "stranger").public_key)
    assert gate("train.py", "--trusted-key", other) == (ExitCode.UNDECIDED, {"train.py": "undecided"})


def test_a_certificate_that_cannot_be_read_stops_the_gate(clone, key):
    record = next((clone / "docs").rglob("*.dsse.json"))
    record.write_bytes(record.read_bytes()[:-20])
    code, standing = gate("train.py", "--trusted-key", key)
    assert code == ExitCode.TAMPERED
    assert set(standing.values()) == {"tampered", "uncovered"}


def test_what_was_imported_never_passes(clone, key):
    view = next((clone / "docs").rglob("code_review*.md"))
    page = view.read_text(encoding="utf-8").replace("REQUIRES_REMEDIATION", "APPROVED")
    shutil.rmtree(clone / "docs")
    (clone / "freehand.md").write_text(page, encoding="utf-8")
    taken = CliRunner().invoke(build(), ["certificates", "import", "freehand.md"])
    assert taken.output.startswith("imported: 1,")
    assert gate("train.py", "--trusted-key", key) == (ExitCode.NOT_CURRENT, {"train.py": "uncovered"})


def said_of(judged, *arguments):
    """Say something of the certificate in the log, where it was issued."""
    done = CliRunner().invoke(build(), ["certificates", arguments[0], judged.id, *arguments[1:]])
    assert done.exit_code == 0, done.output


def test_an_override_counts_in_the_project_and_in_a_clone_where_it_is_accepted_and_not_else(judged, request):
    said_of(judged, "override", "--status", "approved", "--reason", "not shipped", "--yes")
    for trust in ((), ("--trusted-key", request.getfixturevalue("key"))):
        if trust:
            request.getfixturevalue("clone")
        assert gate("train.py", *trust) == (ExitCode.AGAINST, {"train.py": "against"})
        assert gate("train.py", *trust, "--accept-overrides") == (ExitCode.DONE, {"train.py": "covered"})


def test_a_revocation_counts_in_a_clone_by_the_key_that_is_named(judged, key, request):
    said_of(judged, "revoke", "--reason", "wrong data")
    request.getfixturevalue("clone")
    assert gate("train.py", "--trusted-key", key) == (ExitCode.NOT_CURRENT, {"train.py": "not current"})


def test_each_format_is_written_to_the_named_file(judged, tmp_path):
    texts = {}
    for style in ("text", "json", "markdown", "github", "junit", "sarif"):
        file = tmp_path / style
        done = CliRunner().invoke(build(), ["gate", "train.py", "--format", style, "--output", str(file)])
        assert (done.exit_code, done.stdout) == (ExitCode.AGAINST, "")
        texts[style] = file.read_text(encoding="utf-8")
    assert "train.py for pytorch-code-reviewer: against" in texts["text"]
    assert json.loads(texts["json"])["exit_code"] == ExitCode.AGAINST
    assert "| train" in texts["markdown"]
    assert texts["github"].startswith("::error file=train.py,line=1,title=esper gate%3A against::")
    assert ET.fromstring(texts["junit"]).get("failures") == "1"  # noqa: S314 - our own
    assert [each["ruleId"] for each in json.loads(texts["sarif"])["runs"][0]["results"]] == ["gate/against"]


def test_the_next_command_names_the_files_without_coverage(judged):
    (judged.root / "other.py").write_text("import torch\n", encoding="utf-8")
    done = CliRunner().invoke(build(), ["gate", "other.py"])
    assert done.stdout.splitlines()[-1] == 'next: esper submit "review this training code" other.py'


def test_the_old_options_still_write_their_files(judged, tmp_path):
    gate("train.py", "--sarif", str(tmp_path / "gate.sarif"), "--summary", str(tmp_path / "gate.md"))
    assert {path.name for path in tmp_path.iterdir()} >= {"gate.sarif", "gate.md"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--require", "APPROVD"), "there is no status 'APPROVD'"),
        (("--trusted-key", "nonsense"), "neither a key nor a file"),
        (("nowhere",), "no such path"),
        (("--output", "no/such/folder/gate.md"), "cannot be written"),
    ],
)
def test_wrong_usage_is_said(judged, arguments, said):
    done = CliRunner().invoke(build(), ["gate", *arguments])
    assert said in str(done.exception)


@pytest.fixture
def judged_branch(make_project, git, monkeypatch):
    """Return a project whose branch `fix` was judged while `main` is checked out, and the certificate."""
    root = make_project({"train.py": "import torch\n"})
    git(root, "switch", "-q", "-c", "fix")
    (root / "train.py").write_text(SOUND, encoding="utf-8")
    (root / "loss.py").write_text(FAULTY, encoding="utf-8")
    git(root, "add", "train.py", "loss.py")
    git(root, "commit", "-q", "-m", "two")
    git(root, "switch", "-q", "main")
    monkeypatch.chdir(root)

    async def run():
        async with open_project(root) as project:
            task = project.tasks.create("can I merge fix into main?", diff="main...fix")
            entry = (await (await project.tasks.submit(task)).run()).certificate
            return await project.certificates.read(entry.id)

    return root, asyncio.run(run())


def test_a_branch_that_is_not_checked_out_is_gated_by_its_commit(judged_branch, git):
    root, issued = judged_branch
    assert issued.verdict.status is Status.NO_GO
    found = {"loss.py": "against", "train.py": "against"}
    assert gate("--diff", "main...fix") == (ExitCode.AGAINST, found)
    assert gate("--diff", "main..fix", "loss.py") == (ExitCode.AGAINST, {"loss.py": "against"})
    assert gate("--diff", "main...fix", "--fail-on", "never")[0] is ExitCode.DONE
    assert gate("train.py") == (ExitCode.NOT_CURRENT, {"train.py": "not current"})
    git(root, "switch", "-q", "fix")
    (root / "loss.py").write_text(SOUND, encoding="utf-8")
    git(root, "commit", "-q", "-a", "-m", "three")
    git(root, "switch", "-q", "main")
    assert gate("--diff", "main...fix")[1]["loss.py"] == "not current"
    done = CliRunner().invoke(build(), ["gate", "--diff", "main...fix", "no/such"])
    assert isinstance(done.exception, InputFileError)


def test_a_certificate_of_a_commit_that_is_not_checked_out_names_it_and_is_verified_there(judged_branch, git):
    root, issued = judged_branch
    head = git(root, "rev-parse", "fix")

    def verified(*arguments):
        done = CliRunner().invoke(build(), ["certificates", "verify", "latest", *arguments])
        return done.exit_code, done.stdout

    code, text = verified()
    assert code == ExitCode.NOT_CURRENT
    assert f"covers commit {head[:12]}, which is not checked out; its files are unchanged there" in " ".join(
        text.split()
    )
    command = text.splitlines()[-1].removeprefix("next: ")
    assert command == f"esper certificates verify {issued.id} --rev {head[:12]}"
    assert verified("--rev", "fix")[0] == ExitCode.DONE
    assert verified("--rev", "main")[0] == ExitCode.NOT_CURRENT
    assert isinstance(CliRunner().invoke(build(), ["certificates", "verify", "--rev", "no"]).exception, UsageError)
