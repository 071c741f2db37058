from __future__ import annotations

import pytest

from esper_agents.errors import EsperError
from esper_agents.tools.search_code import search_code

pytestmark = pytest.mark.anyio


@pytest.fixture
def two(project):
    (project / "model.py").write_text("import torch\n\nmodel = torch.compile(net)\n  # torch.compile again\n")
    (project / "notes.txt").write_text("torch.compile\n")
    return project


async def test_every_line_that_holds_the_string_is_found(call, two):
    found = await call("search-code", text="torch.compile", paths=["."])
    assert found.output["hits"] == [
        {"path": "model.py", "line": 3, "text": "model = torch.compile(net)"},
        {"path": "model.py", "line": 4, "text": "# torch.compile again"},
    ]
    assert found.summary == "2 lines hold 'torch.compile', first at model.py:3"
    assert [each.path for each in found.examined] == ["model.py"]


async def test_the_string_is_no_pattern(call, two):
    assert (await call("search-code", text="torch.c.mpile", paths=["."])).output["hits"] == []
    assert (await call("search-code", text="(net)", paths=["."])).output["hits"][0]["line"] == 3


async def test_only_the_paths_that_are_named_are_searched(call, two):
    assert (await call("search-code", text="import torch", paths=["train.py"])).output["hits"] == [
        {"path": "train.py", "line": 1, "text": "import torch"}
    ]


async def test_nothing_found_is_said(call, two):
    found = await call("search-code", text="nowhere to be seen", paths=["."])
    assert (found.summary, found.examined) == ("no line contains 'nowhere to be seen'", ())


async def test_at_most_50_lines_come_back_with_their_number_and_long_ones_are_cut(call, two):
    (two / "many.py").write_text("hit = 1\n" * 300 + "hit = '" + "x" * 1000 + "'\n")
    found = await call("search-code", text="hit", paths=["many.py"])
    assert len(found.output["hits"]) == 50
    assert found.summary.startswith("301 lines hold")
    (two / "many.py").write_text("hit = '" + "x" * 1000 + "'\n")
    assert len((await call("search-code", text="hit", paths=["many.py"])).output["hits"][0]["text"]) == 300


async def test_what_lies_outside_is_not_searched(call, two):
    (two.parent / "secret.py").write_text("password = 1\n")
    (two / "link.py").symlink_to("../secret.py")
    (two / "folder").symlink_to("..")
    assert (await call("search-code", text="password", paths=["."])).output["hits"] == []
    for path in ("..", "../secret.py", "link.py", "folder"):
        with pytest.raises(EsperError):
            await call("search-code", text="password", paths=[path])


async def test_secrets_that_git_ignores_are_not_searched(call, two):
    (two / "my_secrets.py").write_text("password = 1\n")
    assert len((await call("search-code", text="password", paths=["."])).output["hits"]) == 1
    (two / ".gitignore").write_text("my_secrets.py\n")
    assert (await call("search-code", text="password", paths=[".", "my_secrets.py"])).output["hits"] == []


@pytest.mark.parametrize("text", ["torch.compile", "-e", "'", "$HOME", "\\"])
async def test_the_command_beside_it_finds_the_same_lines(call, two, shell, text):
    (two / "odd.py").write_text("a = '-e'\nb = \"'\"\nc = '$HOME'\nd = '\\\\'\n")
    arguments = {"text": text, "paths": ["."]}
    found = await call("search-code", **arguments)
    assert len(shell(search_code.rerun(arguments))) == len(found.output["hits"]) > 0
