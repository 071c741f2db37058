from __future__ import annotations

import os
import subprocess

import pytest
from certificate_samples import TRAIN, certificate, evidence, finding, source

from esper_agents.archive.verification.statement import CheckOutcome, SubjectState, verify_subjects
from esper_agents.certificates.statement import statement
from esper_agents.domain.finding import Location
from esper_agents.errors import IntegrityError
from esper_agents.git.commit_files import CommitFiles


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    (root / "examples").mkdir(parents=True)
    (root / "examples" / "train.py").write_text(TRAIN, encoding="utf-8")
    return root


def judged(*paths, findings=()):
    files = tuple(source(path) for path in paths or ("examples/train.py",))
    return statement(certificate(evidence=(evidence(examined=files),), examined=files, findings=findings))


def look(data, root):
    (check,) = verify_subjects(data, root)
    return check


def test_a_file_that_is_what_it_was_is_valid(project):
    assert look(judged(), project).state is SubjectState.VALID


def test_a_file_with_one_byte_more_is_stale(project):
    with (project / "examples" / "train.py").open("a") as file:
        file.write("\n")
    check = look(judged(), project)
    assert check.state is SubjectState.STALE
    assert check.detail.startswith(f"expected sha256:{source().sha256}, found sha256:")


def test_a_file_that_is_gone_is_missing(project):
    (project / "examples" / "train.py").unlink()
    assert look(judged(), project).state is SubjectState.MISSING


def test_a_folder_or_a_pipe_in_its_place_is_no_file(project):
    path = project / "examples" / "train.py"
    path.unlink()
    os.mkfifo(path)
    assert look(judged(), project).state is SubjectState.MISSING


@pytest.mark.parametrize(
    "path", ["../outside.py", "/etc/passwd", "examples/../../outside.py", "link.py", "folder/outside.py"]
)
def test_nothing_outside_the_project_is_read(project, path):
    outside = project.parent / "outside.py"
    outside.write_text(TRAIN, encoding="utf-8")
    (project / "link.py").symlink_to(outside)
    (project / "folder").symlink_to(project.parent)
    check = look(judged(path), project)
    assert check.state is SubjectState.UNREADABLE
    assert check.detail == "path is outside the project"


def test_a_link_inside_the_project_is_followed(project):
    (project / "link.py").symlink_to("examples/train.py")
    assert look(judged("link.py"), project).state is SubjectState.VALID


def test_a_link_to_itself_cannot_be_read(project):
    (project / "loop.py").symlink_to("loop.py")
    assert look(judged("loop.py"), project).state in {SubjectState.UNREADABLE, SubjectState.MISSING}


def test_a_name_that_no_file_can_have_is_missing_or_unreadable(project):
    for name in ("x" * 5000, "a\x00b"):
        assert look(judged(name), project).state in {SubjectState.UNREADABLE, SubjectState.MISSING}


def test_a_citation_holds_while_its_line_says_the_same(project):
    (citation,) = look(judged(findings=(finding(),)), project).citations
    assert citation.name == "ESP301 at examples/train.py:9"
    assert citation.outcome is CheckOutcome.HOLDS


def test_a_citation_in_a_stale_file_holds_where_its_own_line_is_the_same(project):
    path = project / "examples" / "train.py"
    path.write_text(TRAIN.replace("    losses.append", "losses.append") + "# more\n", encoding="utf-8")
    check = look(judged(findings=(finding(),)), project)
    assert check.state is SubjectState.STALE
    assert check.citations[0].outcome is CheckOutcome.HOLDS


def test_a_citation_whose_line_moved_says_where_to(project):
    path = project / "examples" / "train.py"
    path.write_text("# new\n# lines\n" + TRAIN, encoding="utf-8")
    (citation,) = look(judged(findings=(finding(),)), project).citations
    assert citation.outcome is CheckOutcome.FAILS
    assert citation.detail == "cited line moved to 11"


def test_a_citation_whose_line_is_gone_fails(project):
    path = project / "examples" / "train.py"
    path.write_text(TRAIN.replace("append(loss)", "append(loss.detach())"), encoding="utf-8")
    (citation,) = look(judged(findings=(finding(),)), project).citations
    assert (citation.outcome, citation.detail) == (CheckOutcome.FAILS, "cited line not found")


def test_a_citation_without_an_excerpt_cannot_be_decided(project):
    (citation,) = look(judged(findings=(finding(excerpt=""),)), project).citations
    assert citation.outcome is CheckOutcome.CANNOT_DECIDE


def test_a_citation_beyond_the_end_of_the_file_fails(project):
    (citation,) = look(judged(findings=(finding(location=Location("examples/train.py", 99)),)), project).citations
    assert citation.detail == "cited line moved to 9"


def test_a_line_with_characters_that_the_record_escaped_is_found_again(project):
    text = TRAIN.replace("append(loss)", "append(loss)  # \x0c\x1b \u202e")
    (project / "examples" / "train.py").write_bytes(text.encode() + b"\xff\xfe\n")
    excerpt = text.split("\n")[8]
    (citation,) = look(judged(findings=(finding(excerpt=excerpt),)), project).citations
    assert citation.outcome is CheckOutcome.HOLDS


def test_where_nothing_was_read_there_is_nothing_to_look_at(project):
    assert verify_subjects(statement(certificate(evidence=(), examined=())), project) == ()


def test_bytes_that_are_no_certificate_are_refused(project):
    with pytest.raises(IntegrityError):
        verify_subjects(b"{}", project)


def test_looking_again_writes_nothing(project):
    before = {path: path.stat().st_mtime_ns for path in project.rglob("*")}
    verify_subjects(judged(findings=(finding(),)), project)
    assert {path: path.stat().st_mtime_ns for path in project.rglob("*")} == before


def test_files_of_a_commit_are_compared_instead_of_those_of_the_folder(project):
    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-C", str(project), *arguments]
        subprocess.run(command, check=True, capture_output=True)

    git("init", "-q")
    git("add", "-A")
    git("commit", "-q", "-m", "one")
    (project / "examples" / "train.py").unlink()
    (project / "examples" / "new.py").write_text("x = 1\n")
    (kept,) = verify_subjects(judged(), project, CommitFiles(project, "HEAD"))
    assert kept.state is SubjectState.VALID
    (absent,) = verify_subjects(judged("examples/new.py"), project, CommitFiles(project, "HEAD"))
    assert absent.state is SubjectState.MISSING
