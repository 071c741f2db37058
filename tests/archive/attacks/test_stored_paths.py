"""Texts of rows, records, manifests and workers that could become paths: nothing outside is read or written."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import pytest
from certificate_samples import certificate, source

from esper_agents.agents.plugin_store import installed_plugins, plugins_folder
from esper_agents.archive.publishing import write_document
from esper_agents.domain.memory import NoteKind
from esper_agents.errors import NotFoundError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.certified_tree import scratch_tree
from esper_agents.torchlab.lab import Lab
from esper_agents.torchlab.worker.results import WrittenFile
from esper_agents.torchlab.worker_failure import WorkerError

HOSTILE = [
    "../../../etc/passwd",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/../../b",
    "a\0b",
    "a\nb",
    "con",
    "~root",
    ".git/config",
]
OUTSIDE = "secret = 1\n"


@pytest.fixture
def canary(tmp_path):
    """Return a folder beside a file that must be neither read nor written."""
    (tmp_path / "canary").write_text(OUTSIDE)
    (tmp_path / "inside").mkdir()
    yield tmp_path / "inside"
    assert (tmp_path / "canary").read_text() == OUTSIDE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["canary", "inside"]


@pytest.mark.parametrize("digest", [*HOSTILE, "../canary", sha256(OUTSIDE.encode()).hexdigest().upper()])
def test_an_artifact_is_found_by_a_digest_alone(canary, digest):
    with pytest.raises(NotFoundError):
        Artifacts(canary).path(digest)


@pytest.mark.parametrize("agent", [*HOSTILE, "../canary"])
def test_an_exported_memory_document_stays_in_the_folder_of_its_export(canary, agent):
    path = write_document(canary, agent, NoteKind.DECISION, "text")
    assert path.resolve().parent.parent == canary.resolve()


@pytest.mark.parametrize("digest", ["../../canary", "..", "/etc", "a" * 63, "A" * 64, "\u0661" * 64])
def test_an_installed_plugin_lies_under_its_digest_alone(home, digest):
    plugins_folder().mkdir(parents=True)
    (plugins_folder() / "installed.json").write_text(json.dumps({"plugins": {"shaper": digest}}))
    found = installed_plugins()
    assert (found.plugins, found.refused) == ((), ())


@pytest.mark.parametrize("path", ["../canary", "a/../../canary", ".git/config", "/etc/passwd"])
def test_a_recorded_path_is_not_written_outside_the_scratch_tree(canary, path):
    recorded = replace(source("a.py", OUTSIDE), path=path)
    revision = replace(certificate().revision, commit="")
    with scratch_tree(canary, revision, (recorded,)) as tree:
        assert tree.missing == {path}
        assert list(tree.root.rglob("*")) == []


@pytest.mark.parametrize("name", ["../canary", "..", "", ".", "/etc/passwd", "link"])
def test_an_artifact_that_a_worker_names_is_a_file_of_its_scratch(canary, name):
    scratch = canary / "scratch"
    scratch.mkdir()
    (scratch / "link").symlink_to(canary.parent / "canary")
    with pytest.raises(WorkerError):
        Lab.kept(SimpleNamespace(keep=canary), scratch, WrittenFile(name, "text/plain"))


def test_an_artifact_of_a_worker_is_not_written_through_a_link(canary):
    scratch = canary / "scratch"
    scratch.mkdir()
    (scratch / "plot.html").write_text("plot")
    (canary / "plot.html").symlink_to(canary.parent / "canary")
    made = Lab.kept(SimpleNamespace(keep=canary), scratch, WrittenFile("plot.html", "text/html"))
    assert (made.path.is_symlink(), made.path.read_text()) == (False, "plot")
