"""Harness files: source that runs, a digest that shows edits, and nothing but plain values."""

from __future__ import annotations

import pytest

from esper_agents.errors import EvidenceError, UsageError
from esper_agents.torchlab.harness import (
    HarnessPlan,
    harness_file,
    harness_text,
    is_edited,
    is_generated,
    own_harness_file,
    write_harness,
)
from esper_agents.torchlab.worker.scaffold.result import HarnessArgument

FILE = harness_file("pkg/model.py:Net")
TARGET = f"{FILE}:make"


def plan(kind="class", *, make=(), call=(), qualname="Net", target="pkg/model.py:Net", folder="."):
    return HarnessPlan(target, kind, "pkg.model", qualname, folder, tuple(make), tuple(call))


def given(name, text, *imports, is_positional=True):
    return HarnessArgument(name, text, imports, is_positional)


def test_the_file_is_named_for_the_target():
    assert FILE == ".esper/harness/pkg_model_Net.py"
    assert harness_file("losses.py:Focal.forward") == ".esper/harness/losses_Focal_forward.py"


def test_a_file_of_another_target_is_not_that_of_a_target_with_the_same_plain_name(tmp_path):
    assert own_harness_file(tmp_path, "pkg/model.py:Net") == FILE
    write_harness(tmp_path, FILE, harness_text(plan()))
    assert own_harness_file(tmp_path, "pkg/model.py:Net") == FILE
    other = own_harness_file(tmp_path, "pkg_model.py:Net")
    assert other.startswith(".esper/harness/pkg_model_Net_")
    write_harness(tmp_path, other, harness_text(plan(target="pkg_model.py:Net")))
    assert own_harness_file(tmp_path, "pkg_model.py:Net") == other
    write_harness(tmp_path, other, harness_text(plan()))
    with pytest.raises(UsageError, match=r"is not a harness of pkg_model\.py:Net"):
        own_harness_file(tmp_path, "pkg_model.py:Net")


def test_a_harness_that_the_user_wrote_keeps_its_plain_name(tmp_path):
    write_harness(tmp_path, FILE, "def make(): ...\n")
    assert own_harness_file(tmp_path, "pkg/model.py:Net") == FILE


def test_a_harness_makes_the_object_and_its_inputs(tmp_path, monkeypatch):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "model.py").write_text(
        "class Net:\n    def __init__(self, size, config):\n        self.size, self.width = size, config.width\n"
    )
    made = [given("size", "(4, -1)"), given("config", "Settings(width=8)")]
    text = harness_text(plan(make=made, call=[given("x", "[1.0]"), given("flag", "False", is_positional=False)]))
    write_harness(tmp_path, FILE, text)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    names = {"__file__": str(tmp_path / FILE), "__name__": "harness"}
    exec(compile((tmp_path / FILE).read_text(), FILE, "exec"), names)  # noqa: S102 - the harness under test
    net = names["make"]()
    assert (net.size, net.width) == ((4, -1), 8)
    assert names["get_inputs"]() == (([1.0],), {"flag": False})


def test_an_edited_harness_is_no_longer_a_generated_one(tmp_path):
    write_harness(tmp_path, FILE, harness_text(plan(call=[given("x", "3")])))
    assert is_generated(tmp_path, TARGET)
    assert not is_edited(tmp_path, FILE)
    path = tmp_path / FILE
    path.write_text(path.read_text().replace("x = 3", "x = 4"))
    assert not is_generated(tmp_path, TARGET)
    assert is_edited(tmp_path, FILE)
    path.write_text("def make(): ...\n")
    assert is_edited(tmp_path, FILE)


def test_files_elsewhere_are_no_harness(tmp_path):
    write_harness(tmp_path, FILE, harness_text(plan()))
    (tmp_path / "m.py").write_text((tmp_path / FILE).read_text())
    assert not is_generated(tmp_path, "m.py:make")
    assert is_generated(tmp_path, f"./.esper/../{TARGET}")
    assert not is_generated(tmp_path, ".esper/harness/absent.py:make")


@pytest.mark.parametrize(
    "changed",
    [
        plan(call=[given("x", "__import__('os').system('true')")]),
        plan(call=[given("x", "torch.hub.load('a', 'b')")]),
        plan(call=[given("x", "torch.load('a')")]),
        plan(call=[given("x", "(lambda: 1)()")]),
        plan(call=[given("x", "Net.__init__.__globals__")]),
        plan(call=[given("x = 1\nimport os", "1")]),
        plan(call=[given("x", "Sys.exit()", ("os\nimport sys", "Sys"))]),
        plan(qualname="Net\nimport os"),
        plan(folder='" + x + "'),
        plan(folder=".."),
        plan(target='m.py:"""'),
        plan(target="m.py:\\"),
    ],
)
def test_anything_but_plain_values_is_refused(changed):
    with pytest.raises(EvidenceError, match="not plain values"):
        harness_text(changed)


def test_a_harness_folder_that_leads_outside_is_refused(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    project = tmp_path / "project"
    (project / ".esper").mkdir(parents=True)
    (project / ".esper" / "harness").symlink_to(outside)
    with pytest.raises(UsageError, match="is a link to another folder"):
        write_harness(project, FILE, harness_text(plan()))
    assert not list(outside.iterdir())
