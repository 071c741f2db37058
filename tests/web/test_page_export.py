"""Static pages of an archive: links, index, content policy, and the folder that takes them."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from urllib.parse import urljoin, urlsplit

import pytest
from archive_samples import Archive, identifier, made
from hostile_texts import PLACES, hostile_certificate, hostile_texts
from web_samples import Document

from esper_agents.api import open_project, trust_key
from esper_agents.certificates.statement import normal
from esper_agents.errors import StorageError, UsageError
from esper_agents.web import export_pages
from esper_agents.web.export.page_files import file_name, page_file
from esper_agents.web.export.target_folder import MARKER, TargetFolder

pytestmark = pytest.mark.anyio

SCRIPT = re.compile(r"window\.esperCertificates\((.*)\);\n")


def records(folder):
    """Return the records of the index: scripts that call one function with plain data."""
    rows = []
    for script in sorted((folder / "static").glob("certificates-*.js")):
        data = json.loads(SCRIPT.fullmatch(script.read_text("ascii")).group(1))
        rows += [(row, data["texts"]) for row in data["rows"]]
    return rows


def html_files(folder):
    return sorted(folder.rglob("*.html"))


async def archive_all(root, *certificates):
    """Archive certificates in a project, and return their identifiers, newest first."""
    async with open_project(root) as project:
        store = Archive(project.services.store.store)
        return store.fill(*certificates, project=project.services.project, logged=True)


@pytest.fixture
async def exported(judged_project, tmp_path):
    """Return the folder with the exported pages of a project with one certificate."""
    await export_pages(judged_project.root, tmp_path / "public")
    return tmp_path / "public"


async def test_every_link_of_every_exported_page_leads_to_a_file_of_the_export(exported):
    pages = html_files(exported)
    assert {"index.html", "files.html", "agents.html", "trends.html", "log.html"} <= {page.name for page in pages}
    for page in pages:
        for link in Document(page.read_text()).links:
            target = urlsplit(urljoin(page.as_uri(), link))
            assert not urlsplit(link).scheme, (page, link)
            assert not link.startswith("/"), (page, link)
            assert os.path.exists(target.path), (page, link)  # noqa: PTH110 - a path of a URL
            assert target.path.startswith(str(exported)), (page, link)


async def test_exported_pages_need_no_server_and_show_no_path_of_this_machine(exported, judged_project):
    for page in html_files(exported):
        text = page.read_text()
        assert 'http-equiv="content-security-policy" content="default-src &#x27;none&#x27;;' in text, page
        assert "unsafe" not in text.partition("</head>")[0], page
        assert "<style" not in text, page
        assert "EventSource" not in text, page
        assert "data-events" not in text, page
        if page.parent == exported:
            assert str(judged_project.root) not in text, page


async def test_the_certificate_and_its_file_are_exported_as_the_server_shows_them(exported, judged_project):
    shown = Document((exported / "certificates" / f"{judged_project.id}.html").read_text()).text
    assert "Verified at the export: signature, log, evidence and files match." in shown
    assert "loss.backward()" in shown
    statement = json.loads((exported / "certificates" / f"{judged_project.id}.json").read_text())
    assert statement["predicate"]["id"] == judged_project.id
    assert "REQUIRES_REMEDIATION stands against it" in Document((exported / "files.html").read_text()).text
    (of_file,) = (exported / "files").glob("train-py-*.html")
    assert "Findings over time" in of_file.read_text()


async def test_the_index_has_what_the_list_filters_by(exported, judged_project):
    ((row, texts),) = records(exported)
    (
        certificate,
        at,
        status,
        agent,
        component,
        request,
        _,
        signer,
        owner,
        is_trusted,
        origin,
        *_,
        rules,
        files,
        said,
        kind,
    ) = row
    assert certificate == judged_project.id
    assert at.startswith("20")
    assert is_trusted == 1
    named = [texts[number] for number in (status, agent, component, request, origin, kind)]
    expected = ["REQUIRES_REMEDIATION", "pytorch-code-reviewer", "train", "review this training code", "local"]
    assert named == [*expected, "approval"]
    assert texts[signer].startswith("SHA256:")
    assert texts[owner] != texts[signer]
    assert "ESP101" in {texts[number] for number in rules}
    assert "train.py" in {texts[number] for number in files}
    assert any("gradients are added up" in texts[number] for number in said)


async def test_a_large_archive_has_several_scripts_and_every_certificate_once(make_project, monkeypatch, tmp_path):
    monkeypatch.setattr("esper_agents.web.export.search_records.MOST_IN_SCRIPT", 3)
    monkeypatch.setattr("esper_agents.web.export.search_records._AT_ONCE", 2)
    root = make_project()
    ids = await archive_all(root, *map(made, range(7)))
    written = await export_pages(root, tmp_path / "public")
    assert [row[0] for row, _ in records(tmp_path / "public")] == ids
    assert len(list((tmp_path / "public" / "static").glob("certificates-*.js"))) == 3
    assert written.certificates == 7
    assert written.incomplete == ()


async def test_an_archive_without_certificates_has_pages_that_say_so(make_project, tmp_path):
    written = await export_pages(make_project(), tmp_path / "public")
    assert (written.certificates, written.incomplete) == (0, ())
    assert "No certificates yet" in (tmp_path / "public" / "index.html").read_text()
    assert records(tmp_path / "public") == []


async def test_untrusted_certificates_of_a_clone_are_exported_as_untrusted(clone, judged_project, ann_key, tmp_path):
    await export_pages(clone, tmp_path / "public")
    ((row, _),) = records(tmp_path / "public")
    assert row[9] == 0
    assert "NOT TRUSTED" in (tmp_path / "public" / "certificates" / f"{judged_project.id}.html").read_text()
    trust_key(ann_key)
    await export_pages(clone, tmp_path / "public")
    ((row, texts),) = records(tmp_path / "public")
    assert (row[9], texts[row[8]]) == (1, "ann@example.org")


async def test_a_later_export_replaces_the_pages_of_an_earlier_one_and_keeps_other_files(
    exported, judged_project, tmp_path
):
    listed = (exported / MARKER).read_text()
    (exported / "certificates" / "crt_old.html").write_text("an earlier page")
    (exported / MARKER).write_text(listed + "certificates/crt_old.html\n")
    (exported / "CNAME").write_text("archive.example.org\n")
    (exported / "index.html").write_text("damaged")
    await export_pages(judged_project.root, exported)
    assert not (exported / "certificates" / "crt_old.html").exists()
    assert (exported / "CNAME").read_text() == "archive.example.org\n"
    assert "Certificates" in (exported / "index.html").read_text()
    assert (exported / MARKER).read_text() == listed


@pytest.mark.parametrize("content", ["file", "folder", "link"])
async def test_a_folder_with_other_content_is_refused_and_left_as_it_is(judged_project, tmp_path, content):
    target = tmp_path / "notes"
    target.mkdir()
    if content == "file":
        (target / "thesis.txt").write_text("two years of work")
    elif content == "folder":
        (target / "chapters").mkdir()
    else:
        (target / MARKER).symlink_to("/etc/hostname")
    before = sorted(target.iterdir())
    with pytest.raises(UsageError, match="not empty"):
        await export_pages(judged_project.root, target)
    assert sorted(target.iterdir()) == before


async def test_a_changed_list_removes_nothing_outside_the_folder(exported, judged_project, tmp_path):
    (tmp_path / "precious.txt").write_text("keep")
    names = (
        "../precious.txt",
        "a/../../precious.txt",
        str(tmp_path / "precious.txt"),
        "static/../../precious.txt",
        "..",
    )
    (exported / MARKER).write_text("\n".join(("list", *names, "")))
    await export_pages(judged_project.root, exported)
    assert (tmp_path / "precious.txt").read_text() == "keep"


async def test_links_and_fifos_in_the_folder_are_not_opened(exported, judged_project, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "written.html").write_text("keep")
    for name in ("index.html", "files.html", "log.html"):
        (exported / name).unlink()
    (exported / "index.html").symlink_to(outside / "written.html")
    (exported / "files.html").hardlink_to(outside / "written.html")
    os.mkfifo(exported / "log.html")
    await export_pages(judged_project.root, exported)
    assert (outside / "written.html").read_text() == "keep"
    for name in ("index.html", "files.html", "log.html"):
        assert "<h1" in (exported / name).read_text()
    (exported / "agents").rename(tmp_path / "moved")
    (exported / "agents").symlink_to(outside)
    with pytest.raises(StorageError, match="symbolic link"):
        await export_pages(judged_project.root, exported)
    assert [path.name for path in outside.iterdir()] == ["written.html"]


async def test_a_folder_that_cannot_be_written_is_said(judged_project, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        await export_pages(judged_project.root, tmp_path / "file" / "public")


def test_an_interrupted_export_can_be_repeated(tmp_path):
    folder = tmp_path / "public"
    with suppress(KeyboardInterrupt), TargetFolder(folder) as interrupted:
        interrupted.write("agents/one.html", b"1")
        raise KeyboardInterrupt
    with TargetFolder(folder) as again:
        again.write("agents/two.html", b"2")
    assert [path.name for path in (folder / "agents").iterdir()] == ["two.html"]


async def test_hostile_texts_are_text_on_exported_pages_and_in_the_index(make_project, tmp_path):
    root, hostile = make_project(), normal(hostile_certificate(hostile_texts(PLACES)))
    parts = ("findings", "evidence", "summary", "task", "verdict", "agent", "component", "examined")
    await archive_all(root, made(7, **{name: getattr(hostile, name) for name in parts}))
    await export_pages(root, tmp_path / "public")
    for page in html_files(tmp_path / "public"):
        document = Document(page.read_text())
        assert not {"iframe", "object", "embed", "base", "style"} & set(document.tags), page
        assert not [name for name in document.attributes if name.startswith("on")], page
    for script in (tmp_path / "public" / "static").glob("certificates-*.js"):
        assert SCRIPT.fullmatch(script.read_text("ascii")), script


def test_different_pages_have_different_files_whatever_their_names_are():
    paths = [
        "a.py",
        "A.py",
        "a_py",
        "a/b.py",
        "a-b.py",
        "../a.py",
        "..",
        ".",
        "x" * 300,
        "x" * 301,
        "ä.py",
        "_",
        "a\nb",
    ]
    names = [file_name(path) for path in paths]
    assert len({name.lower() for name in names}) == len(paths)
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,79}", name) for name in names)
    assert page_file(f"/certificates/{identifier(1)}") == f"certificates/{identifier(1)}.html"
    assert page_file("/log?before=50") == "log-before-50.html"
    assert page_file("/?agent=x") == "index.html"


async def test_exported_pages_contain_no_whole_file(exported):
    pages = [page.read_text() for page in exported.rglob("*.html")]
    assert any("loss.backward()" in page for page in pages)
    assert not any('class="line" id="L' in page or "#L8" in page for page in pages)
