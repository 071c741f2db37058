"""What an audit finds in a real repository: each fault alone, and nothing where nothing is wrong."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from hashlib import md5, sha256

import pytest
from certificate_samples import TRAIN, evidence, measurement, of_status
from freehand import COMMITTED, FOLDER, NAME, STAMP, WRITTEN, Archive, certificate

from esper_agents.certificates.audit.auditing import MEANING
from esper_agents.certificates.audit.checks import load_checks, meanings
from esper_agents.certificates.check import CheckOutcome
from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode, InputFileError

HASH = "Certificate Hash: "
SIGNED = f"## SIGNATURE\nAgent: torch-specialist\nTimestamp: {WRITTEN}\n{HASH}"


def signed(value: str) -> str:
    return certificate(signature=SIGNED + value)


def test_nothing_is_found_where_nothing_is_wrong(archive) -> None:
    assert archive.codes(certificate()) == []
    assert archive.audit().exit_code is ExitCode.DONE


FAULTS = {
    "invented hash": ({"signature": SIGNED + "PERF-CRIT-FIX-APPROVED-FINAL"}, ["hash-no-digest"]),
    "placeholder for a hash": ({"signature": SIGNED + "[to be computed]"}, ["hash-no-digest"]),
    "digest of something else": ({"signature": SIGNED + "7f4a" * 16}, ["hash-not-of-text"]),
    "status that is none": (
        {"decision": "## DECISION/OUTCOME\n**Status**: PASSED\n**Rationale**: good"},
        ["status-unknown"],
    ),
    "status that is nearly one": (
        {"decision": "## DECISION\n**Status**: REQUIRES_IMMEDIATE_REMEDIATION\n**Rationale**: bad"},
        ["status-unknown"],
    ),
    "another status in the words of one": (
        {"decision": "## DECISION/OUTCOME\n**Status**: APPROVED WITH CONDITIONS\n**Rationale**: good"},
        ["status-unknown"],
    ),
    "the template's own list": (
        {"decision": "## DECISION/OUTCOME\n**Status**: [APPROVED/REJECTED/GO]\n**Rationale**: good"},
        ["status-unknown"],
    ),
    "status in other letters": (
        {"decision": "## DECISION/OUTCOME\n**Status**: approved \u2705\n**Rationale**: good"},
        ["status-spelling"],
    ),
    "no status": ({"decision": "## DECISION/OUTCOME\n**Rationale**: good"}, ["status-missing"]),
    "two statuses": (
        {"decision": "## DECISION/OUTCOME\n**Status**: APPROVED\n**Rationale**: good\n**Status**: REJECTED"},
        ["status-twice"],
    ),
    "conditions that are not named": (
        {"decision": "## DECISION\n**Status**: CONDITIONALLY_APPROVED\n**Rationale**: ok\n**Conditions**: none"},
        ["conditions-missing"],
    ),
    "no evidence section": ({"evidence": ""}, ["section-missing"]),
    "no findings section": ({"findings": ""}, ["section-missing"]),
    "empty section": ({"findings": "## FINDINGS\n"}, ["section-empty"]),
    "no component": ({"component": ""}, ["field-missing"]),
    "empty identifier": ({"id": "**Certificate ID**:"}, ["field-missing"]),
    "no rationale": ({"decision": "## DECISION/OUTCOME\n**Status**: GO"}, ["field-missing"]),
    "day without a time": ({"date": "**Date**: 2026-02-10"}, ["date-format"]),
    "zone left out": ({"date": "**Date**: 2026-02-10 09:30:00"}, ["date-format"]),
    "date that does not exist": ({"date": "**Date**: 2026-02-30 09:30:00 UTC"}, ["date-format"]),
    "dates that differ": ({"date": "**Date**: 2026-02-09 09:30:00 UTC"}, ["dates-differ", "dates-differ"]),
    "unknown agent": (
        {"agent": "**Agent**: torch-wizard", "signature": f"## SIGNATURE\nAgent: torch-wizard\nTimestamp: {WRITTEN}"},
        ["agent-unknown", "agent-folder"],
    ),
    "two agents": ({"signature": f"## SIGNATURE\nAgent: pytorch-expert\nTimestamp: {WRITTEN}"}, ["agents-differ"]),
    "absent file": ({"evidence": "## EVIDENCE\n- `src/model.py` was read"}, ["citation-absent"]),
    "absent file with lines, among the findings": (
        {"findings": "## FINDINGS\n- a leak at src/model.py:3"},
        ["citation-absent"],
    ),
    "absent line": ({"findings": "## FINDINGS\n- a leak at `src/train.py:21`"}, ["citation-line"]),
    "lines that end before they begin": (
        {"findings": "## FINDINGS\n- lines 14-12 of `src/train.py`"},
        ["citation-line"],
    ),
    "line nought": ({"findings": "## FINDINGS\n- see src/train.py:0"}, ["citation-line"]),
    "commit that is not there": ({"scope": "## REVIEW SCOPE\n- commit `abcdef0123456789`"}, ["commit-unknown"]),
    "evidence that cites nothing": (
        {"evidence": "## EVIDENCE\n- Tests: 4/4 PASSED\n- Quality 9.0/10"},
        ["evidence-cites-nothing"],
    ),
    "a verdict on no evidence": ({"evidence": "## EVIDENCE\n- None"}, ["evidence-cites-nothing"]),
    "hidden text": ({"findings": "## FINDINGS\n- good \u202edab"}, ["text-hidden"]),
    "terminal escapes": ({"findings": "## FINDINGS\n- \x1b[2Jgood"}, ["text-hidden"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_nothing_else(archive, fault) -> None:
    said, codes = FAULTS[fault]
    assert sorted(archive.codes(certificate(**said))) == sorted(codes)
    assert archive.audit().exit_code is ExitCode.TAMPERED


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (certificate(scope="## 1. Scope of Review \U0001f50d\n- `src/train.py`"), []),
        (certificate(decision="## Decision & Outcome\n- __Status__: `GO`\n- __Rationale__: it runs"), []),
        (certificate(decision="## DECISION/OUTCOME\n| **Status** | NO_GO |\n| Rationale | it fails |"), []),
        (certificate(decision="## DECISION/OUTCOME\n**Status**: **REJECTED**  \n**Rationale**:\n- it leaks"), []),
        (certificate(findings="## FINDINGS\n### 1. Speed\n**Status**: EXCELLENT\n### Evidence\n- none"), []),
        (certificate(findings="## FINDINGS\n```\n## DECISION/OUTCOME\n**Status**: REJECTED\n```\nnone"), []),
        (certificate(findings="## FINDINGS\n<!-- **Status**: REJECTED -->\nnone"), []),
        ("```markdown\n" + certificate() + "```\n", []),
        (certificate().replace("\n", "\r\n"), []),
        ("\ufeff" + certificate(), []),
        (certificate(evidence="**EVIDENCE**\n\n- `src/train.py:12`"), []),
        (certificate(evidence="## EVIDENCE\n- ran `pytest -q tests`"), []),
        (certificate(evidence="## EVIDENCE\n- /home/somebody/work/toy/src/train.py (lines 3-9)"), []),
        (
            certificate(
                evidence="## EVIDENCE\n- train.py, line 20\n- lines 1 to 20 of train.py\n- [x](src/train.py#L3)"
            ),
            [],
        ),
        (certificate(evidence="## EVIDENCE\n- `src/train.py:1-21`, counted with the last empty line"), []),
        (certificate(findings="## FINDINGS\n- Node.js 18 and `tests/test_loop.py` should be added"), []),
        (certificate(scope="## REVIEW SCOPE\n- `src/train.py`; `tests/test_loop.py` is missing"), []),
    ],
)
def test_what_is_only_untidy_is_no_fault(archive, text, codes) -> None:
    assert archive.codes(text) == codes


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        (f"review_train_{STAMP}_0a1b2c3d.md", []),
        ("review.md", ["file-name"]),
        (f"review_{STAMP}.md", ["file-name"]),
        ("review_train_20260210.md", ["file-name"]),
        (f"Review of train_{STAMP}.md", ["file-name"]),
        ("review_train_20260230_093000.md", ["file-name"]),
        ("review_train_20260210_103000.md", ["dates-differ"]),
    ],
)
def test_the_name_of_the_file_has_one_form(archive, name, codes) -> None:
    assert archive.codes(certificate(), name) == codes


@pytest.mark.parametrize(
    ("committed", "code", "words"),
    [
        ("2026-02-10T09:25:00+00:00", None, ""),  # the tolerance
        ("2026-02-10T09:00:00+00:00", "date-after-commit", "30 minutes after"),
        ("2026-02-10T19:35:00+10:00", None, ""),  # 09:35 UTC, though the author's clock shows evening
        ("2026-02-10T09:41:00+10:00", "date-after-commit", "read in the author's zone (+1000) it would not"),
        ("2026-02-10T23:00:00-05:00", None, ""),
        ("2026-02-16T09:41:00+00:00", None, ""),
        ("2026-02-18T09:41:00+00:00", "date-before-commit", "8 days before"),
        ("2026-09-12T09:41:00+00:00", "date-before-commit", "7 months before"),
    ],
)
def test_a_date_is_compared_with_its_commit_in_the_right_zones(archive, committed, code, words) -> None:
    codes = archive.codes(certificate(), at=committed)
    assert codes == ([code] if code else [])
    assert words in archive.details().get(code, "")


def test_more_days_may_lie_between_where_a_person_says_so(archive) -> None:
    archive.codes(certificate(), at="2026-03-10T00:00:00+00:00")
    assert archive.audit().exit_code is ExitCode.TAMPERED
    assert archive.audit(days=60).exit_code is ExitCode.DONE


def test_a_certificate_that_was_moved_is_as_old_as_it_was_before(archive) -> None:
    path = archive.write(certificate(), folder="notes")
    archive.commit()
    archive.git("mv", "notes", "reviews")
    archive.commit("2026-09-01T00:00:00+00:00")
    (document,) = archive.audit(archive.root / "reviews" / path.name).documents
    assert document.problems == ()


def test_a_certificate_that_was_edited_later_is_as_old_as_its_first_commit(archive) -> None:
    archive.write(certificate())
    archive.commit()
    archive.write(certificate(findings="## FINDINGS\n- none"))
    archive.commit("2026-09-01T00:00:00+00:00")
    assert archive.audit().exit_code is ExitCode.DONE


def test_a_certificate_that_came_by_a_merge_is_as_old_as_on_its_branch(archive) -> None:
    archive.git("checkout", "-q", "-b", "side")
    archive.write(certificate())
    archive.commit()
    archive.git("checkout", "-q", "main")
    archive.commit("2026-02-11T00:00:00+00:00")
    at = "2026-09-01T00:00:00+00:00"
    archive.git("merge", "-q", "--no-ff", "-m", "merge", "side", GIT_AUTHOR_DATE=at, GIT_COMMITTER_DATE=at)
    assert archive.audit().exit_code is ExitCode.DONE


def test_a_citation_is_looked_up_at_the_commit_that_it_came_with(archive) -> None:
    archive.write(certificate())
    archive.commit()
    (archive.root / "src/train.py").write_text("x = 1\n")
    archive.commit("2026-04-01T00:00:00+00:00")
    assert archive.audit().exit_code is ExitCode.DONE
    archive.write(certificate().replace("LOOP-0001", "LOOP-0002"), f"later_review_train_{STAMP}.md")
    archive.commit("2026-04-02T00:00:00+00:00")
    assert archive.details()["citation-line"] == "'src/train.py' had 1 line, and 14 is cited"


def test_a_citation_of_a_commit_that_it_names_is_looked_up_there(archive) -> None:
    before = archive.git("rev-parse", "HEAD")
    for at in ("2026-02-01T00:00:00+00:00", "2026-02-02T00:00:00+00:00"):
        (archive.root / "src/train.py").write_text(f"x = {at!r}\n")
        archive.commit(at)
    text = certificate(scope=f"## REVIEW SCOPE\n- `src/train.py` at commit `{before[:10]}`")
    assert archive.codes(text) == []
    assert set(archive.codes(certificate(), f"x_y_{STAMP}.md")) == {"citation-line"}


def test_what_is_not_committed_is_looked_up_in_the_work_tree_and_its_date_is_open(archive) -> None:
    (archive.root / "src/model.py").write_text("a = 1\nb = 2\n")
    archive.write(certificate(evidence="## EVIDENCE\n- `src/model.py:2`"))
    (document,) = archive.audit().documents
    assert [(problem.code, problem.outcome) for problem in document.problems] == [
        ("date-undecided", CheckOutcome.CANNOT_DECIDE)
    ]
    assert archive.audit().exit_code is ExitCode.UNDECIDED
    archive.write(certificate(evidence="## EVIDENCE\n- `src/model.py:3`"))
    assert "citation-line" in archive.details()


def test_what_is_not_committed_and_dated_ahead_of_the_clock_does_not_hold(archive) -> None:
    archive.write(certificate(date="**Date**: 2027-02-10 09:30:00 UTC"))
    assert "11 months ahead" in archive.details()["date-in-future"]


def test_outside_git_dates_and_citations_are_open(tmp_path) -> None:
    lonely = Archive(tmp_path)
    lonely.write(certificate())
    found = lonely.audit()
    assert found.counts == {"citations-undecided": 1, "date-undecided": 1}
    assert found.exit_code is ExitCode.UNDECIDED


def test_in_a_shallow_clone_what_lies_before_it_is_open(archive, tmp_path) -> None:
    archive.write(certificate(evidence="## EVIDENCE\n- `src/gone.py:3`"))
    archive.commit()
    (archive.root / "src/later.py").write_text("x = 1\n")
    archive.commit("2026-09-01T00:00:00+00:00")
    command = ["git", "clone", "-q", "--depth", "1", archive.root.as_uri(), str(tmp_path / "clone")]
    subprocess.run(command, check=True, capture_output=True)
    clone = Archive(tmp_path / "clone")
    assert clone.audit().counts == {"citation-absent": 1, "date-undecided": 1}
    assert clone.audit().exit_code is ExitCode.UNDECIDED


def test_in_a_partial_clone_what_is_not_here_is_open(archive, tmp_path) -> None:
    archive.write(certificate(evidence="## EVIDENCE\n- `src/gone.py:3`"))
    archive.commit()
    archive.git("config", "uploadpack.allowFilter", "true")
    command = ["git", "clone", "-q", "--filter=blob:none", archive.root.as_uri(), str(tmp_path / "clone")]
    subprocess.run(command, check=True, capture_output=True)
    found = Archive(tmp_path / "clone").audit()
    assert (found.counts, found.exit_code) == ({"citation-absent": 1}, ExitCode.UNDECIDED)


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", [certificate(), certificate(signature=SIGNED.removesuffix(" "))])
def test_a_digest_of_the_text_without_its_hash_holds(archive, before, line_end) -> None:
    digest = sha256(before.replace("\n", line_end).encode()).hexdigest()
    text = before if HASH.strip() in before else before.removesuffix("\n") + f"\n{HASH.strip()}\n"
    text = text.replace(HASH.strip(), f"{HASH}sha256:{digest}").replace("\n", line_end)
    assert archive.codes(text) == []


def test_other_digests_and_the_beginning_of_one_hold_as_well(archive) -> None:
    before = certificate()
    for digest in (md5(before.encode()).hexdigest(), f"`{sha256(before.encode()).hexdigest()[:16]}...`"):  # noqa: S324
        assert archive.codes(before.removesuffix("\n") + f"\n{HASH}{digest}\n") == []


def test_a_digest_of_a_cited_file_is_told_from_one_of_the_text(archive) -> None:
    digest = sha256((archive.root / "src/train.py").read_bytes()).hexdigest()
    assert archive.codes(signed(digest)) == ["hash-of-other"]


def test_a_text_that_was_changed_after_its_hash_was_made_is_found_out(archive) -> None:
    before = certificate()
    text = before.removesuffix("\n") + f"\n{HASH}{sha256(before.encode()).hexdigest()}\n"
    assert archive.codes(text) == []
    assert archive.codes(text.replace("3 passed", "4 passed")) == ["hash-of-earlier"]


@pytest.mark.parametrize("value", ["", "N/A", "none", "-"])
def test_a_hash_may_be_left_out(archive, value) -> None:
    assert archive.codes(signed(value)) == []


AGAINST = certificate(
    id="**Certificate ID**: LOOP-0002",
    date="**Date**: 2026-02-10 10:30:00 UTC",
    decision="## DECISION/OUTCOME\n**Status**: REJECTED\n**Rationale**: it leaks",
    signature="## SIGNATURE\nAgent: torch-specialist\nTimestamp: 2026-02-10 10:30:00 UTC",
)
LATER = "loop_review_again_20260210_103000.md"
LATER_COMMIT = "2026-02-10T10:40:00+00:00"


def test_a_later_certificate_that_says_the_opposite_of_the_same_code_contradicts(archive) -> None:
    archive.codes(certificate())
    archive.write(AGAINST, LATER)
    archive.commit(LATER_COMMIT)
    found = {document.path: [problem.code for problem in document.problems] for document in archive.audit().documents}
    assert found == {f"{FOLDER}/{LATER}": ["status-contradicts"], f"{FOLDER}/{NAME}": []}


@pytest.mark.parametrize(
    "text",
    [
        AGAINST.replace("training loop", "data loader"),
        AGAINST.replace("it leaks", f"it leaks, against {NAME}"),
        AGAINST.replace("it leaks", "it leaks; supersedes LOOP-0001"),
        AGAINST.replace("REJECTED", "NEEDS_FURTHER_REVIEW"),
    ],
)
def test_another_component_an_answer_or_an_open_question_contradict_nothing(archive, text) -> None:
    archive.codes(certificate())
    archive.write(text, LATER)
    archive.commit(LATER_COMMIT)
    assert archive.audit().counts == {}


def test_after_a_change_of_the_code_the_opposite_contradicts_nothing(archive) -> None:
    archive.codes(certificate())
    (archive.root / "src/train.py").write_text("".join(f"y_{number} = 1\n" for number in range(30)))
    archive.write(AGAINST, LATER)
    archive.commit(LATER_COMMIT)
    assert archive.audit().counts == {}


def test_a_view_of_ours_holds_its_record_beside_it(archive) -> None:
    record = b'{"_type":"https://in-toto.io/Statement/v1"}'
    archive.write(record, NAME.replace(".md", ".intoto.json"))
    assert archive.codes(signed(f"sha256:{sha256(record).hexdigest()}")) == []
    (archive.root / FOLDER / NAME.replace(".md", ".intoto.json")).write_bytes(record + b" ")
    assert list(archive.details()) == ["hash-not-of-text"]


OUR_FOLDER, OUR_NAME = "docs/ai/agents/pytorch-code-reviewer/certificates", "code_review_examples_train_20260131_093000"


@pytest.fixture
def issued(archive):
    """Return what puts a certificate of ours into a repository that has what it was on: its view, and its record."""
    archive.agents |= {"pytorch-code-reviewer"}
    archive.write(TRAIN, "train.py", "examples")
    commit = archive.commit("2026-01-02T00:00:00+00:00")

    def put(made):
        # Whoever names another commit keeps it.
        here = (
            replace(made.revision, commit=commit) if made.revision == of_status(Status.GO).revision else made.revision
        )
        data = statement(replace(made, agent="pytorch-code-reviewer", revision=here))
        archive.write(data, f"{OUR_NAME}.intoto.json", OUR_FOLDER)
        view = archive.write(render_markdown(data), f"{OUR_NAME}.md", OUR_FOLDER)
        archive.commit("2026-01-31T09:31:00+00:00")
        return view

    return put


def codes_of(archive, view):
    (document,) = archive.audit(view).documents
    return [(problem.code, problem.line) for problem in document.problems]


@pytest.mark.sample(6)
@pytest.mark.parametrize("with_artifacts", [False, True])
@pytest.mark.parametrize("status", Status)
def test_certificates_of_ours_of_every_status_have_nothing_against_them(
    archive, issued, status, with_artifacts
) -> None:
    made = of_status(status)
    others = (replace(measurement(20), summary="see `samples.json`"),) if with_artifacts else ()
    measured = tuple(each for each in made.evidence if not each.artifacts)
    assert codes_of(archive, issued(replace(made, evidence=(*measured, *others)))) == []


def artifact_line(view) -> tuple[int, str]:
    lines = view.read_text().splitlines()
    return next((number, line) for number, line in enumerate(lines, 1) if "Artifact: `samples.json`" in line)


@pytest.mark.parametrize(("old", "new"), [("samples.json", "proof.json"), ("samples.json", "train.py"), ("ab", "ac")])
def test_an_artifact_that_is_not_in_the_record_does_not_hold(archive, issued, old, new) -> None:
    view = issued(replace(of_status(Status.RECOMMEND), evidence=(evidence(), measurement())))
    number, line = artifact_line(view)
    view.write_text(view.read_text().replace(line, line.replace(old, new)))
    assert codes_of(archive, view) == [("artifact-unknown", number)]


def test_an_artifact_that_stands_in_no_record_of_this_certificate_does_not_hold(archive, issued) -> None:
    view = issued(replace(of_status(Status.RECOMMEND), evidence=(evidence(), measurement())))
    number, _ = artifact_line(view)
    record = view.with_suffix(".intoto.json")
    record.write_bytes(record.read_bytes().replace(b"samples.json", b"zamples.json"))
    assert ("citation-absent", number) in codes_of(archive, view)
    record.unlink()
    assert ("citation-absent", number) in codes_of(archive, view)


def test_a_line_of_a_file_that_is_called_like_an_artifact_is_looked_up(archive, issued) -> None:
    view = issued(replace(of_status(Status.RECOMMEND), evidence=(evidence(), measurement(summary="samples.json:3"))))
    assert [code for code, _ in codes_of(archive, view)] == ["citation-absent"]


@pytest.mark.parametrize("fate", ["never committed", "deleted later"])
def test_files_that_the_record_examined_need_not_be_in_git(archive, issued, fate) -> None:
    if fate == "never committed":
        archive.git("reset", "-q", "--hard", "HEAD~1")
    else:
        (archive.root / "examples/train.py").unlink()
    commit = archive.commit("2026-01-03T00:00:00+00:00")
    archive.commit("2026-01-04T00:00:00+00:00")
    made = of_status(Status.REQUIRES_REMEDIATION)
    view = issued(replace(made, revision=replace(made.revision, commit=commit)))
    assert "examples/train.py" in view.read_text()
    assert [code for code, _ in codes_of(archive, view) if code.startswith("citation")] == []
    lines = view.read_text()
    view.write_text(lines + "\n- `examples/model.py:3` and `examples/train.py:9999`\n")
    codes = [code for code, _ in codes_of(archive, view) if code.startswith("citation")]
    assert len(codes) == 2


def test_folders_are_walked_and_other_markdown_is_passed_over(archive) -> None:
    archive.write(certificate())
    archive.write("# Readme\n\nWhat a certificate is.\n", "README.md")
    archive.write("# Notes\n", "notes.md", "docs")
    archive.commit()
    found = archive.audit(archive.root, archive.root / FOLDER / NAME)
    assert ([document.path for document in found.documents], found.passed_over) == ([f"{FOLDER}/{NAME}"], 2)
    assert len(archive.audit(archive.root / "docs/notes.md").documents) == 1


def test_no_certificate_at_all_is_wrong_usage(archive) -> None:
    with pytest.raises(InputFileError, match="neither a certificate nor a memory document"):
        archive.audit(archive.root / "src")
    with pytest.raises(InputFileError, match="no such file or folder"):
        archive.audit(archive.root / "none")


def test_what_cannot_be_read_is_said_and_decides_nothing(archive) -> None:
    archive.codes(certificate())
    archive.write(certificate().encode() + b"\0", f"nul_x_{STAMP}.md")
    (archive.root / FOLDER / f"huge_x_{STAMP}.md").write_bytes(b"")
    os.truncate(archive.root / FOLDER / f"huge_x_{STAMP}.md", 100 * 2**20)
    os.mkfifo(archive.root / FOLDER / f"fifo_x_{STAMP}.md")
    (archive.root / FOLDER / f"link_x_{STAMP}.md").symlink_to("/etc/passwd")
    (archive.root / FOLDER / "loop").symlink_to(archive.root)
    found = archive.audit()
    assert found.counts == {"unreadable": 2}
    assert len(found.left_out) == 2
    assert found.exit_code is ExitCode.UNDECIDED
    for name in (f"fifo_x_{STAMP}.md", f"link_x_{STAMP}.md"):
        (document,) = archive.audit(archive.root / FOLDER / name).documents
        assert [problem.code for problem in document.problems] == ["unreadable"]


def test_nothing_that_a_repository_configures_runs(archive, tmp_path) -> None:
    trap, sprung = tmp_path / "trap", tmp_path / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch {sprung}\n")
    trap.chmod(0o755)
    archive.codes(certificate())
    head = archive.git("cat-file", "commit", "HEAD")
    about, _, message = head.partition("\n\n")
    (tmp_path / "commit").write_text(
        f"{about}\ngpgsig -----BEGIN PGP SIGNATURE-----\n -----END PGP SIGNATURE-----\n\n{message}"
    )
    made = archive.git("hash-object", "-t", "commit", "-w", str(tmp_path / "commit"))
    archive.git("update-ref", "HEAD", made)
    (archive.root / ".git/info").mkdir(exist_ok=True)
    (archive.root / ".git/info/attributes").write_text("* diff=trap filter=trap\n")
    for setting in ("diff.external", "diff.trap.textconv", "diff.trap.command", "filter.trap.smudge", "gpg.program"):
        archive.git("config", setting, str(trap))
    for setting in ("core.pager", "core.sshCommand", "pager.log", "core.fsmonitor"):
        archive.git("config", setting, str(trap))
    archive.git("config", "log.showSignature", "true")
    assert archive.audit().exit_code is ExitCode.DONE
    assert not sprung.exists()
    archive.git("log", "-1")
    assert sprung.exists(), "the trap was no trap"


def test_every_problem_that_can_be_found_says_what_it_means(archive) -> None:
    known = meanings()
    assert len(known) == sum(len(check.MEANING) for check in load_checks())
    assert not known.keys() & MEANING.keys()
    assert {code for _, codes in FAULTS.values() for code in codes} <= known.keys()


def test_a_name_that_is_not_utf_8_is_audited_and_shown_escaped(archive) -> None:
    folder = os.fsencode(archive.root / FOLDER)
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a name in bytes
    with open(os.path.join(folder, b"loop_\xff_20260210_093000.md"), "wb") as file:  # noqa: PTH118, PTH123 - likewise
        file.write(certificate().encode())
    archive.commit(COMMITTED)
    (document,) = archive.audit().documents
    assert document.path.endswith("loop_\\xff_20260210_093000.md")
    assert [problem.code for problem in document.problems] == ["file-name"]
