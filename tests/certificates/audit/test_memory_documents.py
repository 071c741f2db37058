"""What an audit finds in the documents that agents keep for themselves."""

from __future__ import annotations

import json

import pytest
from certificate_samples import of_status
from freehand import COMMITTED, NAME, certificate

from esper_agents.certificates.statement import parse, statement
from esper_agents.certificates.views.markdown import render_markdown
from esper_agents.domain.status import Status
from esper_agents.errors import ExitCode

FOLDER = "docs/ai/agents/torch-specialist"
FILES = ("working-memory.md", "decisions-log.md", "next-actions.md")


@pytest.fixture
def codes(archive):
    """Return what writes one memory document beside a certificate, commits both, and says what is wrong with it."""

    def audit(name, text):
        archive.write(certificate())
        archive.write(text, name, FOLDER)
        archive.commit()
        return [problem.code for document in archive.audit().documents for problem in document.problems]

    return audit


@pytest.mark.parametrize("name", FILES)
def test_a_document_that_names_what_there_is_holds(codes, name) -> None:
    text = f"# Notes\n\n## 2026-02-10: the loop\n\n- APPROVED by `{NAME}`, at `src/train.py:12`\n"
    assert codes(name, text) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("- see `loop_review_none_20260101_000000.md`", "certificate-absent"),
        (f"- {NAME} says REJECTED", "certificate-differs"),
        ("- a leak at `src/train.py:99`", "citation-line"),
        ("- a leak at src/model.py:3", "citation-absent"),
        ("**Status**: FULLY APPROVED", "memory-status"),
        ("- from crt_0198f0a1b2c37d4e8f00112233445566", "certificate-elsewhere"),
        ("- good \u202edab", "text-hidden"),
    ],
)
def test_each_fault_is_found(codes, name, line, code) -> None:
    assert codes(name, f"# Notes\n\n{line}\n") == [code]


@pytest.mark.parametrize(
    ("name", "line", "found"),
    [
        ("decisions-log.md", "## 2026-05-01: the loader", ["memory-date"]),
        ("working-memory.md", "Last updated: 2026-05-01", ["memory-date"]),
        ("next-actions.md", "## 2026-05-01: the loader", []),
        ("decisions-log.md", "## Review on 2026-05-01", []),
        ("decisions-log.md", "The run of 2026-05-01 is planned", []),
        ("working-memory.md", "- `src/model.py` was read", ["citation-absent"]),
        ("next-actions.md", "- write `src/model.py`", []),
        ("working-memory.md", "- `model.py`", []),
        ("working-memory.md", "**Status**: IN PROGRESS", []),
    ],
)
def test_what_is_to_come_is_no_claim(codes, name, line, found) -> None:
    assert codes(name, f"# Notes\n\n{line}\n") == found


def test_an_escaped_underscore_is_read_as_it_is_shown(archive, codes) -> None:
    archive.write("x = 1\n", "test_train.py", "tests")
    assert codes("decisions-log.md", "# Notes\n\n- tests/test\\_train.py was read, and tests/test\\_train.py:1\n") == []
    assert codes("decisions-log.md", "# Notes\n\n- tests/test\\_model.py was read\n") == ["citation-absent"]


def note(*paths: str) -> str:
    sources = json.dumps([[path, "0" * 64] for path in paths])
    return f'- Decision: {paths[0]} was read\n<!-- esper:note {{"sources":{sources}}} -->\n'


def test_a_source_of_a_note_that_no_record_shows_is_undecided(archive, codes) -> None:
    assert codes("decisions-log.md", "# Notes\n\n" + note("src/gone.py")) == ["citation-absent"]
    assert archive.audit().exit_code is ExitCode.UNDECIDED
    assert codes("decisions-log.md", "# Notes\n\n- src/made_up.py was read\n" + note("src/gone.py")) != []
    assert archive.audit().exit_code is ExitCode.TAMPERED


def test_a_file_that_a_certificate_beside_the_document_examined_was_there(archive, codes) -> None:
    data = statement(of_status(Status.REQUIRES_REMEDIATION))
    (file, *_) = parse(data).examined
    folder = f"{FOLDER}/certificates"
    archive.write(data, "ours.intoto.json", folder)
    archive.write(render_markdown(data), "ours.md", folder)
    line = f"- {file.path} was read, at {file.path}:{file.lines}"
    name = "decisions-log.md"
    archive.write(f"# Notes\n\n{line}\n", name, FOLDER)
    archive.commit()
    path = archive.root / FOLDER / name
    assert archive.audit(path).exit_code is ExitCode.DONE
    path.write_text(f"# Notes\n\n- {file.path}:{file.lines + 1}\n")
    assert archive.audit(path).exit_code is ExitCode.TAMPERED


def test_a_document_that_grows_is_compared_with_its_newest_commit(archive) -> None:
    archive.write("# Decisions\n\n## 2026-02-10: one\n", "decisions-log.md", FOLDER)
    archive.commit()
    (archive.root / "src/model.py").write_text("x = 1\n")
    archive.write(
        "# Decisions\n\n## 2026-02-10: one\n\n## 2026-02-20: two, at src/model.py:1\n", "decisions-log.md", FOLDER
    )
    archive.commit("2026-02-20T12:00:00+00:00")
    assert archive.audit().exit_code is ExitCode.DONE


def test_a_certificate_of_the_repository_that_is_not_audited_is_there_all_the_same(archive) -> None:
    archive.write(certificate())
    path = archive.write(f"# Notes\n\n- {NAME}\n", "working-memory.md", FOLDER)
    archive.commit(COMMITTED)
    assert archive.audit(path).exit_code is ExitCode.DONE
