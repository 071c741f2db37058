from __future__ import annotations

import subprocess

import pytest
from places import write

from esper_agents.domain.evidence import source_file
from esper_agents.errors import EsperError, UsageError
from esper_agents.tools.git_history import git_blame, git_log, git_show, git_state
from esper_agents.tools.project_files import project_files
from esper_agents.tools.tool import ToolContext

pytestmark = pytest.mark.anyio


@pytest.fixture
def history(make_project, git):
    """Return a project of two commits and a change that is not committed."""
    root = make_project({"a.py": "one = 1\ntwo = 2\n", "b.py": "b = 1\n", ".env": "K=seekret\n"})
    (root / "a.py").write_text("one = 1\ntwo = 22\n")
    (root / ".env").write_text("K=other-seekret\n")
    git(root, "commit", "-qam", "change two\n\nBecause it was wrong.")
    (root / "b.py").write_text("b = 3\n")
    return root


async def run(tool, root, **arguments):
    return await tool.run(ToolContext(root), arguments)


async def test_commits_are_told_newest_first(history, git):
    found = (await run(git_log, history)).output["commits"]
    assert [each["subject"] for each in found] == ["change two", "first"]
    assert (found[0]["commit"], found[0]["author"]) == (git(history, "rev-parse", "HEAD"), "Test")
    assert found[0]["body"] == "Because it was wrong."


async def test_a_message_is_told_as_it_is_whatever_stands_in_it(history, git):
    git(history, "commit", "-qam", "odd \x1f\x1e one\n\nHEAD\n\x1e0\n" + "x" * 5_000)
    (found, *_) = (await run(git_log, history)).output["commits"]
    assert found["subject"] == "odd \x1f\x1e one"
    assert found["body"].startswith("HEAD\n\x1e0\nxxx")
    assert len(found["body"]) < 2_200


async def test_commits_may_be_chosen_by_path_range_and_number(history):
    assert len((await run(git_log, history, paths=["b.py"])).output["commits"]) == 1
    assert len((await run(git_log, history, revision="HEAD~1..HEAD")).output["commits"]) == 1
    assert len((await run(git_log, history, most=1)).output["commits"]) == 1
    assert len((await run(git_log, history, most=-5)).output["commits"]) == 1


@pytest.mark.parametrize(
    ("revision", "said", "unsaid"),
    [
        ("", "+b = 3", "two"),
        ("HEAD", "+two = 22", "b = 3"),
        ("HEAD~1", "+one = 1", "22"),
        ("HEAD~1..HEAD", "-two = 2", "b = 3"),
        ("HEAD~1...HEAD", "-two = 2", "b = 3"),
    ],
)
async def test_what_differs_is_told_and_secrets_are_withheld(history, revision, said, unsaid):
    found = (await run(git_show, history, revision=revision)).output
    assert said in found["diff"]
    assert unsaid not in found["diff"]
    assert "seekret" not in str(found)
    assert found["withheld"] == ([] if revision == "" else [".env"])


async def test_a_difference_of_secrets_alone_is_empty(history):
    found = await run(git_show, history, revision="HEAD", paths=[".env"])
    assert found.output == {"files": [".env"], "withheld": [".env"], "diff": ""}


async def test_a_long_difference_is_cut_and_kept_whole(history, tmp_path):
    (history / "b.py").write_text("".join(f"b = {number}\n" for number in range(9_000)))
    found = await git_show.run(ToolContext(history, home=tmp_path / "kept"), {})
    (kept,) = found.artifacts
    assert len(found.output["diff"]) < 13_000
    assert kept.sha256 in found.output["diff"]
    whole = (tmp_path / "kept" / "artifacts" / kept.sha256[:2] / kept.sha256).read_text()
    assert whole.count("\n+b = ") == 8_999


@pytest.mark.parametrize(
    "revision", ["nosuch", "HEAD:.env", "HEAD:a.py", "--output=x", "-p", "HEAD^{tree}", "a\nb", "HEAD~9"]
)
async def test_what_is_no_commit_is_refused(history, revision):
    for tool in (git_show, git_log):
        with pytest.raises(UsageError):
            await run(tool, history, revision=revision)
    assert not (history / "x").exists()


async def test_who_wrote_a_line_last_is_told(history, git):
    git(history, "checkout", "-q", "b.py")
    found = await run(git_blame, history, path="a.py")
    assert [(each["line"], each["subject"], each["text"]) for each in found.output["lines"]] == [
        (1, "first", "one = 1"),
        (2, "change two", "two = 22"),
    ]
    assert found.examined == (source_file("a.py", (history / "a.py").read_bytes()),)
    assert len((await run(git_blame, history, path="a.py", first_line=2)).output["lines"]) == 1


@pytest.mark.parametrize("path", [".env", "../x", "nosuch.py", ".git/config", "-L"])
async def test_lines_of_secrets_and_of_nothing_are_refused(history, path):
    with pytest.raises(EsperError):
        await run(git_blame, history, path=path)
    with pytest.raises(EsperError):
        await run(git_blame, history, path="a.py", first_line=99)


async def test_a_project_without_git_has_no_history(make_project):
    root = make_project(under_git=False)
    for tool, arguments in ((git_log, {}), (git_show, {}), (git_blame, {"path": "train.py"})):
        with pytest.raises(UsageError, match="git"):
            await run(tool, root, **arguments)


@pytest.mark.parametrize("revision", ["", "HEAD", "HEAD~1..HEAD"])
async def test_nothing_that_a_repository_configures_is_run(history, git, tmp_path, revision):
    mark = tmp_path / "mark"
    for name in (
        "diff.external",
        "core.pager",
        "gpg.program",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.fsmonitor",
    ):
        git(history, "config", name, f"touch {mark}; cat")
    for name in ("log.showSignature", "diff.noprefix", "diff.mnemonicPrefix"):
        git(history, "config", name, "true")
    git(history, "config", "filter.evil.clean", f"touch {mark}; cat")
    (history / ".gitattributes").write_text("* diff=evil filter=evil\n")
    found = await run(git_show, history, revision=revision)
    assert "diff --git a/" in found.output["diff"]
    assert "seekret" not in found.output["diff"]
    await run(git_log, history, revision=revision or "HEAD")
    await run(git_blame, history, path="b.py")
    assert not mark.exists()


async def test_the_commands_beside_them_say_the_same(history):
    def said(command):
        return subprocess.run(command, shell=True, cwd=history, capture_output=True, text=True, check=True).stdout  # noqa: S602

    assert said(git_log.rerun({"paths": ["a.py"]})).count("commit ") == 2
    assert "+b = 3" in said(git_show.rerun({"paths": ["b.py"]}))
    assert "+two = 22" in said(git_show.rerun({"revision": "HEAD"}))
    assert len(said(git_blame.rerun({"path": "a.py"})).splitlines()) == 2


async def test_the_tool_tells_the_commit_and_what_differs(project, git, shell):
    found = await git_state.run(ToolContext(project), {})
    assert found.output["commit"] == git(project, "rev-parse", "HEAD")
    assert found.summary == f"commit {found.output['commit'][:12]}, clean"
    write(project, {"docs/ai/agents/a/certificates/c.md": "import torch\n"})
    certified = await git_state.run(ToolContext(project), {})
    assert certified.summary == f"commit {found.output['commit'][:12]}, clean but for certificates"
    assert certified.output == found.output
    assert project_files(ToolContext(project)) == ("train.py",)
    (project / "train.py").write_text("x = 2\n")
    assert (await git_state.run(ToolContext(project), {})).output["dirty"] == ["train.py"]
    assert shell(git_state.rerun({})) == [found.output["commit"], " M train.py"]
