"""`esper archive export --html`: what it writes, says and refuses."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from places import Place


@pytest.fixture
def judged(judged_project, home):
    return Place(judged_project.root, home)


def test_the_pages_are_written_and_counted_again_and_again(judged):
    shown = judged.esper("archive", "export", "--html", "public", code=0).stdout
    assert "exported: 1 certificate, public/index.html" in shown
    first = judged.esper("archive", "export", "--html", "public", "--json", code=0).json
    written = [path for path in (judged.root / "public").rglob("*") if path.is_file()]
    # The list of the files is the one that no page links to.
    assert first["files"] == len(written) - 1
    assert (first["index"], first["certificates"], first["incomplete"]) == ("public/index.html", 1, [])
    assert first["size_bytes"] == sum(path.stat().st_size for path in written if path.name != ".esper-pages")


def test_the_pages_in_a_folder_of_the_project_are_no_files_of_the_project(judged):
    judged.esper("archive", "export", "--html", "public", code=0)
    judged.esper("archive", "export", "--html", "public", code=0)
    assert "public" not in (judged.root / "public" / "files.html").read_text().partition("</main>")[0]


def test_a_file_and_a_folder_exclude_each_other(judged):
    for arguments in ((), ("toy.tar", "--html", "public")):
        problem, remedy = judged.esper("archive", "export", *arguments).problem(2)
        assert "either a file or a folder" in problem
        assert "--html public" in remedy


def test_a_folder_with_other_files_is_refused(judged):
    problem, remedy = judged.esper("archive", "export", "--html", ".").problem(2)
    assert "is not empty, and no earlier export wrote it" in problem
    assert "--html public" in remedy
    (judged.root / "notes.txt").write_text("a file")
    assert "is not a folder" in judged.esper("archive", "export", "--html", "notes.txt").problem(2)[0]


def test_a_modified_certificate_has_a_page_that_says_so(judged):
    (database,) = judged.home.glob("projects/*/esper.db")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("DROP TRIGGER IF EXISTS certificate_no_update")
        connection.execute("UPDATE certificate SET statement = replace(statement, 'critical', 'harmless')")
    shown = judged.esper("archive", "export", "--html", "public", code=0).stdout
    assert "error instead: certificates/crt_" in shown
    (page,) = (judged.root / "public" / "certificates").glob("*.html")
    assert "was changed after it was issued" in page.read_text()
