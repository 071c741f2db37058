"""The registry finds every agent, lets none replace another, and goes on where one cannot be used."""

from __future__ import annotations

import os
import sys

import pytest

from esper_agents.agents.registry import load_registry
from esper_agents.errors import NotFoundError

HERON = "---\nname: heron\ndescription: Counts herons.\nhands_off_to: [nan-debugger, reed, unknown]\n---\nYou count.\n"


def write(path, text: str = HERON):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    return root


def reasons(registry) -> str:
    return "\n".join(error.problem for error in registry.refused)


def test_a_projects_agents_are_found_beside_ours_under_names_of_their_own(project) -> None:
    write(project / ".claude/agents/heron.md")
    write(project / ".esper/agents/reed.md", HERON.replace("heron", "reed"))
    write(project / ".claude/agents/profiler.md", HERON.replace("name: heron", "name: profiler"))
    registry = load_registry(project)
    assert {"project:heron", "project:reed", "project:profiler", "profiler"} <= set(registry.agents)
    assert registry.get("profiler").description != "Counts herons."
    assert registry.refused == ()


def test_the_first_of_two_agents_of_one_name_stays_and_the_second_is_refused(project) -> None:
    first = write(project / ".esper/agents/heron.md")
    write(project / ".claude/agents/heron.md")
    registry = load_registry(project)
    assert registry.get("project:heron").path == str(first)
    assert "the name 'project:heron' is already used" in reasons(registry)


def test_a_file_that_cannot_be_used_does_not_stop_the_others(project) -> None:
    write(project / ".claude/agents/a.md", "")
    write(project / ".claude/agents/heron.md")
    registry = load_registry(project)
    assert "project:heron" in registry.agents
    assert "a.md: the file is empty" in reasons(registry)


def test_documents_that_are_no_agents_are_left_out(project) -> None:
    for name in ("README.md", "CLAUDE.md", "notes.txt"):
        write(project / ".claude/agents" / name)
    registry = load_registry(project)
    assert not any(name.startswith("project:") for name in registry.agents)
    assert registry.refused == ()


@pytest.mark.parametrize("target", ["outside/secret.md", "project/secret.md"])
def test_a_link_out_of_the_folder_is_refused(project, tmp_path, target) -> None:
    write(tmp_path / target)
    (project / ".claude/agents").mkdir(parents=True)
    (project / ".claude/agents/heron.md").symlink_to(tmp_path / target)
    registry = load_registry(project)
    assert "project:heron" not in registry.agents
    assert "a link to a file outside its folder" in reasons(registry)


def test_a_folder_that_is_a_link_out_of_the_project_is_refused(project, tmp_path) -> None:
    write(tmp_path / "outside/heron.md")
    (project / ".claude").mkdir()
    (project / ".claude/agents").symlink_to(tmp_path / "outside")
    registry = load_registry(project)
    assert "project:heron" not in registry.agents
    assert "a link to a file outside its folder" in reasons(registry)


def test_a_link_within_the_folder_is_followed(project) -> None:
    write(project / ".claude/agents/birds/heron.md")
    (project / ".claude/agents/heron.md").symlink_to("birds/heron.md")
    assert "project:heron" in load_registry(project).agents


def test_what_is_no_file_is_refused_and_not_waited_for(project) -> None:
    (project / ".claude/agents").mkdir(parents=True)
    os.mkfifo(project / ".claude/agents/pipe.md")
    assert "is not a file" in reasons(load_registry(project))


def test_a_folder_of_very_many_definitions_is_read_in_part_and_said_so(project) -> None:
    for number in range(501):
        write(project / f".claude/agents/a{number:03}.md", "x\n")
    registry = load_registry(project)
    assert "contains more than 500 definitions" in reasons(registry)
    assert sum(name.startswith("project:") for name in registry.agents) == 500


def test_further_files_and_folders_are_read_without_a_namespace(tmp_path) -> None:
    write(tmp_path / "birds/heron.md")
    reed = write(tmp_path / "reed.md", HERON.replace("heron", "reed"))
    ours_again = write(tmp_path / "profiler.md", HERON.replace("name: heron", "name: profiler"))
    registry = load_registry(None, extra=[tmp_path / "birds", reed, ours_again, tmp_path / "none.md"])
    assert {"heron", "reed"} <= set(registry.agents)
    assert "the name 'profiler' is already used" in reasons(registry)
    assert "none.md: is not a file" in reasons(registry)


def test_neighbours_are_those_of_the_definition_and_the_known_ones_are_those_that_exist(project) -> None:
    write(project / ".claude/agents/heron.md")
    write(project / ".claude/agents/reed.md", HERON.replace("heron", "reed"))
    write(project / ".claude/agents/nan-debugger.md", HERON.replace("heron", "nan-debugger", 1))
    registry = load_registry(project)
    assert registry.neighbours("project:heron") == ("nan-debugger", "reed", "unknown")
    assert registry.neighbours_known("project:heron") == ("nan-debugger", "project:reed")
    assert "project:reed" not in registry.neighbours_known("pytorch-expert")


def test_an_unknown_name_offers_the_nearest_ones() -> None:
    with pytest.raises(NotFoundError, match="no agent named 'pytorch-expret'") as caught:
        load_registry(None).get("pytorch-expret")
    assert "'pytorch-expert'" in caught.value.remedy


def test_the_registry_cannot_be_changed() -> None:
    registry = load_registry(None)
    with pytest.raises(TypeError):
        registry.agents["x"] = registry.get("profiler")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, one of which may announce agents."""

    def install(value: str) -> None:
        write(tmp_path / "site/birds-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: birds\nVersion: 1.0\n")
        write(tmp_path / "site/birds-1.0.dist-info/entry_points.txt", f"[esper_agents.agents]\nbirds = {value}\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))

    write(tmp_path / "site/esper_test_birds/heron.md")
    write(
        tmp_path / "site/esper_test_birds/__init__.py",
        "from pathlib import Path\nHERE = Path(__file__).parent\nN = 3\n",
    )
    yield install
    sys.modules.pop("esper_test_birds", None)


@pytest.mark.parametrize("value", ["esper_test_birds", "esper_test_birds:HERE"])
def test_another_package_adds_agents_by_an_entry_point(site, value) -> None:
    site(value)
    assert "heron" in load_registry(None).agents


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("esper_test_none", "cannot be imported"),
        ("esper_test_birds:MISSING", "cannot be imported"),
        ("esper_test_birds:N", "neither a path nor a package"),
    ],
)
def test_a_broken_entry_point_is_refused_and_does_not_stop_the_others(site, value, problem) -> None:
    site(value)
    registry = load_registry(None)
    assert problem in reasons(registry)
    assert "pytorch-expert" in registry.agents


def test_an_agent_of_the_project_is_known_by_its_short_name_unless_that_is_another_agent(project) -> None:
    write(project / ".claude/agents/heron.md")
    write(project / ".claude/agents/profiler.md", HERON.replace("name: heron", "name: profiler"))
    registry = load_registry(project)
    assert set(registry.known_as("heron")) == set(registry.known_as("project:heron")) == {"heron", "project:heron"}
    assert registry.known_as("profiler") == ("profiler",)
    assert registry.known_as("project:profiler") == ("project:profiler",)
    with pytest.raises(NotFoundError) as refused:
        registry.get("heron")
    assert refused.value.remedy == "did you mean 'project:heron'?"
