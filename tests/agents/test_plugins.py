"""A folder in the plugin format is read as it is; nothing of it is run, and what is no text of its own is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from esper_agents.agents import plugin_store
from esper_agents.agents.plugin_store import add_plugin, installed_plugins, plugins_with, remove_plugin
from esper_agents.agents.plugins import PluginPart, load_plugin
from esper_agents.agents.registry import load_registry
from esper_agents.errors import DefinitionError, NotFoundError, StorageError

PACKS = Path(__file__).parent / "wild/collection_b"
HERON = "---\nname: heron\ndescription: Counts herons.\nhands_off_to: [reed]\n---\nYou count.\n"


@pytest.fixture
def pack(tmp_path):
    """Return what makes a plugin of files by path."""

    def make(files=None, *, name="ponds", manifest=None):
        root = tmp_path / name
        told = {"name": name, "version": "1.0"} if manifest is None else manifest
        written = {"agents/heron.md": HERON} if files is None else files
        for path, text in {".claude-plugin/plugin.json": json.dumps(told), **written}.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text) if isinstance(text, bytes) else file.write_text(text, encoding="utf-8")
        return root

    return make


def test_agents_commands_and_skills_are_found_and_the_rest_is_passed_over() -> None:
    plugin = load_plugin(PACKS / "tensor-engineering")
    assert (plugin.name, plugin.version) == ("tensor-engineering", "2.4.0")
    assert "tensor-engineering:debug-nan" in plugin.names[PluginPart.COMMANDS]
    assert "tensor-engineering:shape-suffixes" in plugin.names[PluginPart.SKILLS]
    assert "tensor-engineering:README" not in plugin.names[PluginPart.AGENTS]
    assert plugin.skill_folders == (PACKS / "tensor-engineering/skills",)
    assert set(plugin.passed_over) == {"README.md", "hooks/hooks.json", "scripts/where.sh"}


def test_folders_and_files_that_the_manifest_names_count_beside_the_usual_ones() -> None:
    plugin = load_plugin(PACKS / "numerics-lab")
    assert plugin.name == "numerics-lab"
    of_manifest = {"ulp-counter", "overflow-hunter", "summation-expert", "stability-prover"}
    assert {path.stem for path in plugin.paths(PluginPart.AGENTS)} == {"interval-arithmetic", *of_manifest}
    assert plugin.names[PluginPart.COMMANDS] == ("numerics-lab:compare",)
    assert plugin.skill_folders == (PACKS / "numerics-lab/custom/skills",)


def test_a_plugin_without_a_manifest_is_called_by_its_folder() -> None:
    assert load_plugin(PACKS / "field-notes").name == "field-notes"


def test_its_agents_stand_under_its_name_and_reach_each_other_by_their_short_ones(pack) -> None:
    plugin = load_plugin(pack({"agents/heron.md": HERON, "agents/reed.md": HERON.replace("heron", "reed")}))
    registry = load_registry(None, plugins=[plugin])
    assert registry.refused == ()
    assert registry.neighbours_known("ponds:heron") == ("ponds:reed",)
    assert registry.get("ponds:heron").provider == f"plugin ponds 1.0 sha256:{plugin.sha256}"


def test_one_agent_that_cannot_be_used_does_not_stop_the_others(pack) -> None:
    registry = load_registry(None, plugins=[load_plugin(pack({"agents/heron.md": HERON, "agents/empty.md": "\n"}))])
    assert "ponds:heron" in registry.agents
    assert "the file is empty" in registry.refused[0].problem


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"agents/heron.md": b"\x7fELF\0\0\0"}, "heron.md: is binary"),
        ({"skills/reeds/SKILL.md": "x" * 1_000_001}, "SKILL.md: is larger than 1000000 bytes"),
        ({"agents/heron.md": HERON, ".claude-plugin/plugin.json": "{\n nonsense"}, "plugin.json:2: is not valid JSON"),
        ({"agents/heron.md": HERON, ".claude-plugin/plugin.json": "[]"}, "is not a JSON object"),
        ({f"agents/{n}.md": HERON for n in range(2_000)}, "contains more than 2000 files"),
        ({f"skills/s{n}/SKILL.md": "x" * 999_000 for n in range(21)}, "has more than 20000000 bytes"),
    ],
)
def test_what_is_no_text_of_a_fair_size_is_refused_in_one_line(pack, files, problem) -> None:
    with pytest.raises(DefinitionError) as caught:
        load_plugin(pack(files))
    assert problem in caught.value.problem
    assert "\n" not in caught.value.problem + caught.value.remedy


@pytest.mark.parametrize("path", ["agents/link.md", "agents", "skills/link", "commands/sub"])
def test_a_link_where_something_would_be_read_is_refused(pack, tmp_path, path) -> None:
    root = pack({"README.md": "no agents yet"})
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.md").write_text("a secret")
    (root / path).parent.mkdir(exist_ok=True)
    (root / path).symlink_to(tmp_path / ("outside/secret.md" if path.endswith(".md") else "outside"))
    with pytest.raises(DefinitionError, match="is a link"):
        load_plugin(root)


def test_a_pipe_is_refused_and_not_waited_for(pack) -> None:
    root = pack()
    os.mkfifo(root / "agents/pipe.md")
    with pytest.raises(DefinitionError, match="not a regular file"):
        load_plugin(root)


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "./agents/../../.."])
def test_a_path_of_the_manifest_that_leads_out_is_refused(pack, path) -> None:
    with pytest.raises(DefinitionError, match="not a path within the plugin"):
        load_plugin(pack(manifest={"name": "ponds", "skills": [path]}))


def test_no_plugin_takes_the_place_of_the_project_in_names(pack) -> None:
    with pytest.raises(DefinitionError, match="cannot be named 'project'"):
        load_plugin(pack(manifest={"name": "Project"}))


@pytest.mark.parametrize(
    "manifest",
    [
        {"name": 5, "version": [], "description": {}, "agents": {"x": 1}, "commands": None, "skills": [None, 7]},
        {"name": "  \n ", "version": "1.0\u001b[31m", "author": [[[]]]},
        {},
    ],
)
def test_a_manifest_with_fields_of_other_types_is_read_for_what_it_says(pack, manifest) -> None:
    plugin = load_plugin(pack(manifest=manifest))
    assert (plugin.name, plugin.version) == ("ponds", "")
    assert plugin.names[PluginPart.AGENTS] == ("ponds:heron",)


def test_a_folder_that_is_no_plugin_is_refused_and_a_marketplace_is_told_apart(tmp_path, pack) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DefinitionError, match="is not a plugin"):
        load_plugin(tmp_path / "empty")
    (tmp_path / "market/.claude-plugin").mkdir(parents=True)
    (tmp_path / "market/.claude-plugin/marketplace.json").write_text("{}")
    with pytest.raises(DefinitionError, match="marketplace"):
        load_plugin(tmp_path / "market")
    with pytest.raises(DefinitionError, match="is not a folder"):
        load_plugin(tmp_path / "nowhere")


def test_an_added_plugin_is_a_copy_that_what_becomes_of_the_source_does_not_touch(pack) -> None:
    root = pack()
    added = add_plugin(root)
    (root / "agents/heron.md").write_text("changed")
    (found,) = installed_plugins().plugins
    assert (found.name, found.sha256) == (added.name, added.sha256)
    assert (found.folder / "agents/heron.md").read_text() == HERON


def test_only_what_is_used_is_copied(pack) -> None:
    added = add_plugin(pack({"agents/heron.md": HERON, "hooks/hooks.json": "{}", "scripts/run.sh": "exit 1"}))
    copied = {path.relative_to(added.folder).as_posix() for path in added.folder.rglob("*") if path.is_file()}
    assert copied == {".claude-plugin/plugin.json", "agents/heron.md"}


def test_adding_a_changed_plugin_replaces_it_and_leaves_nothing_of_the_old_one(pack) -> None:
    root = pack()
    old = add_plugin(root)
    (root / "agents/reed.md").write_text(HERON.replace("heron", "reed"))
    new = add_plugin(root)
    assert [plugin.sha256 for plugin in installed_plugins().plugins] == [new.sha256]
    assert new.folder.is_dir()
    assert not old.folder.exists()


def test_what_a_process_that_died_left_behind_is_gone_after_the_next_change(pack, monkeypatch) -> None:
    root = pack()
    with monkeypatch.context() as patch:
        patch.setattr(plugin_store, "_write_index", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            add_plugin(root)
    assert installed_plugins().plugins == ()
    add_plugin(root)
    folders = [path.name for path in plugin_store.plugins_folder().iterdir() if path.is_dir()]
    assert folders == [installed_plugins().plugins[0].sha256]


def _interrupted(*_):
    raise KeyboardInterrupt


def test_an_added_plugin_whose_files_were_changed_is_refused_and_the_others_are_not(pack) -> None:
    changed, sound = add_plugin(pack()), add_plugin(pack(name="reeds"))
    (changed.folder / "agents/heron.md").write_text("You obey.")
    found = installed_plugins()
    assert [plugin.name for plugin in found.plugins] == [sound.name]
    (refused,) = found.refused
    assert "'ponds' has changed since it was added" in refused.problem
    assert "esper plugins remove ponds" in refused.remedy


def test_a_removed_plugin_is_gone_and_an_unknown_one_offers_the_nearest(pack) -> None:
    added = add_plugin(pack())
    with pytest.raises(NotFoundError) as caught:
        remove_plugin("pond")
    assert "'ponds'" in caught.value.remedy
    assert remove_plugin("ponds") == added.sha256
    assert installed_plugins().plugins == ()
    assert not added.folder.exists()


def test_an_index_that_nobody_can_read_is_refused_with_a_remedy(pack) -> None:
    add_plugin(pack())
    (plugin_store.plugins_folder() / "installed.json").write_text("{}")
    with pytest.raises(DefinitionError, match="cannot be read"):
        installed_plugins()


def test_a_folder_named_for_one_run_goes_before_the_added_plugin_of_its_name(pack, tmp_path) -> None:
    root = pack()
    add_plugin(root)
    (root / "agents/heron.md").write_text(HERON.replace("Counts", "Feeds"))
    (found,) = plugins_with([root]).plugins
    assert found.folder == root
    with pytest.raises(DefinitionError, match="is a plugin named 'ponds'"):
        plugins_with([root, root])


def test_a_data_folder_that_cannot_be_written_is_said_in_our_words(pack, home) -> None:
    (home / "plugins").write_text("a file in the way")
    with pytest.raises(StorageError, match="cannot be written"):
        add_plugin(pack())
