from __future__ import annotations

import pytest

from esper_agents.errors import EsperError
from esper_agents.tools.find_files import find_files

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(project):
    for path in ("src/a/model.py", "src/b/model.pyi", "src/b/deep/x.py", "README.md", ".env"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("")
    return project


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("*", ".", ["README.md", "src/", "train.py"]),
        ("**/*.py", ".", ["src/a/model.py", "src/b/deep/x.py", "train.py"]),
        (
            "src/**",
            ".",
            ["src/", "src/a/", "src/a/model.py", "src/b/", "src/b/deep/", "src/b/deep/x.py", "src/b/model.pyi"],
        ),
        ("*/model.py*", "src", ["src/a/model.py", "src/b/model.pyi"]),
        ("**/deep/*", "src/b", ["src/b/deep/x.py"]),
        ("[Rt]*.[mp]?", ".", ["README.md", "train.py"]),
        ("*.env", ".", []),
        ("nosuch/**", ".", []),
    ],
)
async def test_paths_are_found_by_pattern_and_secrets_are_not(call, tree, pattern, path, found):
    assert (await call("find-files", pattern=pattern, path=path)).output["paths"] == found


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "", "a/../../b", "x" * 301, "**/a/**/b/**/c/**/d/**"])
async def test_patterns_that_lead_out_or_take_too_long_are_refused(call, tree, pattern):
    with pytest.raises(EsperError):
        await call("find-files", pattern=pattern)


@pytest.mark.parametrize("path", ["..", "nosuch", ".git"])
async def test_folders_outside_or_git_s_own_are_refused(call, tree, path):
    with pytest.raises(EsperError):
        await call("find-files", pattern="*", path=path)


async def test_at_most_500_paths_are_told_and_how_many_there_are(call, tree):
    for number in range(501):
        (tree / f"many{number:03}.txt").write_text("")
    found = await call("find-files", pattern="many*.txt")
    assert (len(found.output["paths"]), found.output["found"]) == (500, 501)
    assert "first 500 shown" in found.summary


@pytest.mark.parametrize(("pattern", "path"), [("**/*.py", "."), ("*/model.py*", "src"), ("**/x.py", "src/b")])
async def test_the_command_beside_it_finds_the_same_files(call, tree, shell, pattern, path):
    arguments = {"pattern": pattern, "path": path}
    found = await call("find-files", **arguments)
    assert sorted(shell(find_files.rerun(arguments))) == found.output["paths"] != []
