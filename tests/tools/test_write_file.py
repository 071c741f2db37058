from __future__ import annotations

import pytest

from esper_agents.domain.evidence import Risk, source_file
from esper_agents.errors import EsperError, EvidenceError
from esper_agents.storage.artifacts import Artifacts
from esper_agents.tools.edit_file import edit_file
from esper_agents.tools.tool import ToolContext
from esper_agents.tools.write_file import write_file

pytestmark = pytest.mark.anyio
TOKEN = "ghp_" + "Zz9" * 12


async def test_a_new_file_is_written_with_its_folders(context):
    found = await write_file.run(context, {"path": "new/deep/x.py", "content": "x = 1\n"})
    assert (context.root / "new/deep/x.py").read_bytes() == b"x = 1\n"
    assert found.summary == "new/deep/x.py made: 1 line added, 0 removed"
    assert found.output["is_new"]
    assert found.examined == (source_file("new/deep/x.py", b"x = 1\n"),)
    assert found.artifacts == ()


async def test_a_file_that_is_replaced_is_kept_as_it_was(context):
    before = (context.root / "train.py").read_bytes()
    found = await write_file.run(context, {"path": "train.py", "content": "x = 1\r\n"})
    assert (context.root / "train.py").read_bytes() == b"x = 1\r\n"
    assert "-import torch" in found.output["diff"]
    (kept,) = found.artifacts
    assert Artifacts(context.home / "artifacts").path(kept.sha256).read_bytes() == before


async def test_a_file_with_secrets_in_it_is_not_copied(context):
    (context.root / "train.py").write_text(f"token = '{TOKEN}'\n")
    found = await write_file.run(context, {"path": "train.py", "content": "x = 1\n"})
    assert (found.artifacts, found.output["is_kept"]) == ((), False)
    assert not context.home.exists()


async def test_the_mode_of_a_file_stays(context):
    (context.root / "train.py").chmod(0o755)
    await write_file.run(context, {"path": "train.py", "content": "x = 1\n"})
    assert (context.root / "train.py").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize(
    "path", [".env", ".git/hooks/pre-commit", ".esper/config.toml", "../x.py", "out/x.py", ".", ""]
)
async def test_what_may_not_be_written_is_not(context, path):
    outside = context.root.parent / "outside"
    outside.mkdir()
    (context.root / "out").symlink_to(outside)
    with pytest.raises(EvidenceError):
        await write_file.run(context, {"path": path, "content": "x"})
    with pytest.raises(EsperError):
        await edit_file.run(context, {"path": path, "old_string": "x", "new_string": "y"})
    assert not list(outside.iterdir())
    assert not (context.root.parent / "x.py").exists()


async def test_a_file_with_a_second_name_that_may_lie_outside_is_not_changed(context):
    outside = context.root.parent / "outside.py"
    outside.write_text("x = 1\n")
    (context.root / "inside.py").hardlink_to(outside)
    with pytest.raises(EvidenceError, match="has another hard link"):
        await write_file.run(context, {"path": "inside.py", "content": "x = 2\n"})
    assert outside.read_text() == "x = 1\n"


async def test_a_file_below_a_file_is_refused_in_our_words(context):
    with pytest.raises(EvidenceError) as refused:
        await write_file.run(context, {"path": "train.py/x", "content": "x"})
    assert str(context.root) not in refused.value.problem


async def test_both_want_a_person_to_agree_and_are_never_run_twice():
    for each in (write_file, edit_file):
        assert (each.risk, each.is_repeatable) == (Risk.MEDIUM, False)


async def test_a_text_is_replaced_exactly(context):
    (context.root / "a.py").write_bytes(b"a = 1\r\nb = 1\r\n")
    found = await edit_file.run(context, {"path": "a.py", "old_string": "a = 1", "new_string": "a = 2"})
    assert (context.root / "a.py").read_bytes() == b"a = 2\r\nb = 1\r\n"
    assert found.summary == "a.py changed: 1 line added, 1 removed"
    every = {"path": "a.py", "old_string": "=", "new_string": ":=", "replace_all": True}
    await edit_file.run(context, every)
    assert (context.root / "a.py").read_bytes() == b"a := 2\r\nb := 1\r\n"


@pytest.mark.parametrize(
    ("old", "said"),
    [("nosuch", "not found"), ("= 1", "appears 2 times"), ("", "is empty")],
    ids=["none", "two", "empty"],
)
async def test_a_text_that_does_not_stand_there_once_changes_nothing(context, old, said):
    (context.root / "a.py").write_text("a = 1\nb = 1\n")
    with pytest.raises(EsperError, match=said):
        await edit_file.run(context, {"path": "a.py", "old_string": old, "new_string": "x"})
    assert (context.root / "a.py").read_text() == "a = 1\nb = 1\n"


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"x" * 2_000_001], ids=["binary", "large"])
async def test_a_file_that_is_no_text_or_too_large_is_not_edited(context, data):
    (context.root / "a.bin").write_bytes(data)
    with pytest.raises(EvidenceError):
        await edit_file.run(context, {"path": "a.bin", "old_string": "x", "new_string": "y"})
    assert (context.root / "a.bin").read_bytes() == data


async def test_the_commands_beside_them_do_the_same(project, shell):
    context = ToolContext(project)
    text = "a = 'it''s'\n$HOME `x` \\n\n"
    shell(write_file.rerun({"path": "-odd name.py", "content": text}))
    assert (project / "-odd name.py").read_text() == text
    arguments = {"path": "train.py", "old_string": "import torch", "new_string": "import torch as t"}
    shell(edit_file.rerun(arguments))
    done = (project / "train.py").read_bytes()
    (project / "train.py").write_bytes(done.replace(b"import torch as t", b"import torch"))
    await edit_file.run(context, arguments)
    assert (project / "train.py").read_bytes() == done
