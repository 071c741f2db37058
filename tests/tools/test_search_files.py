from __future__ import annotations

import pytest

from esper_agents.domain.evidence import lines_read, source_file
from esper_agents.errors import EsperError, EvidenceError, UsageError
from esper_agents.tools import search_files as module
from esper_agents.tools.search_files import search_files
from tests.tools.evidence_samples import evidence_with

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(project):
    (project / "conf").mkdir()
    (project / "conf" / "a.yaml").write_text("lr: 0.1\n# LR twice\n")
    (project / "b.py").write_text("lr = 0.1\n")
    (project / ".env").write_text("lr=seekret\n")
    (project / "data.bin").write_bytes(b"lr\0lr")
    (project / "big.txt").write_text("lr\n" * 1_000_000)
    (project / "link.py").symlink_to("b.py")
    return project


async def test_lines_that_fit_are_told_with_the_files_as_they_were_read(call, tree):
    found = await call("search-files", pattern=r"^lr\s*[:=]")
    assert found.output["hits"] == [
        {"path": "b.py", "line": 1, "text": "lr = 0.1"},
        {"path": "conf/a.yaml", "line": 1, "text": "lr: 0.1"},
    ]
    assert found.examined == tuple(source_file(path, (tree / path).read_bytes()) for path in ("b.py", "conf/a.yaml"))
    assert found.summary == r"2 lines fit '^lr\\s*[:=]', first at b.py:1; 1 file withheld: secret, or ignored by git"
    assert found.output["withheld"] == [{"path": ".env", "why": "its name is that of a secret"}]


async def test_case_folder_and_kind_of_file_may_be_chosen(call, tree):
    assert len((await call("search-files", pattern="lr", ignore_case=True, path="conf")).output["hits"]) == 2
    assert [each["path"] for each in (await call("search-files", pattern="lr", files="*.py")).output["hits"]] == [
        "b.py"
    ]
    assert [each["path"] for each in (await call("search-files", pattern="lr", path="b.py")).output["hits"]] == ["b.py"]
    assert (await call("search-files", pattern="lr", path="conf", files="*.py")).summary == "no line matches 'lr'"


async def test_an_expression_that_never_ends_is_stopped(call, tree, monkeypatch):
    (tree / "trap.txt").write_text("a" * 60 + "!\n")
    monkeypatch.setattr(module, "_PATIENCE_S", 0.5)
    with pytest.raises(EvidenceError, match="the search took over"):
        await call("search-files", pattern="(a+)+$", path="trap.txt")


@pytest.mark.parametrize("pattern", ["(", "[", "*", "x" * 1001])
async def test_what_is_no_expression_is_refused_in_a_line(call, tree, pattern):
    with pytest.raises(UsageError) as refused:
        await call("search-files", pattern=pattern)
    assert "\n" not in refused.value.problem


async def test_at_most_200_lines_come_back_and_long_ones_are_cut(call, tree):
    (tree / "many.txt").write_text("hit\n" * 300)
    found = await call("search-files", pattern="hit", path="many.txt")
    assert (len(found.output["hits"]), found.output["is_cut"]) == (200, True)
    (tree / "many.txt").write_text("hit" + "x" * 1000 + "\n")
    assert len((await call("search-files", pattern="hit", path="many.txt")).output["hits"][0]["text"]) == 300


@pytest.mark.parametrize("path", ["..", ".env", ".git", "../secret.txt", "nosuch"])
async def test_places_outside_and_secrets_are_refused(call, tree, path):
    (tree.parent / "secret.txt").write_text("lr")
    with pytest.raises(EsperError):
        await call("search-files", pattern="lr", path=path)


@pytest.mark.parametrize(
    "arguments", [{"pattern": "0.1"}, {"pattern": "lr", "files": "**/*.yaml", "ignore_case": True}]
)
async def test_the_command_beside_it_finds_the_same_lines(call, tree, shell, arguments):
    for beside in ("big.txt", "link.py", ".env"):
        (tree / beside).unlink()
    found = await call("search-files", **arguments)
    lines = shell(search_files.rerun(arguments))
    assert len(lines) == len(found.output["hits"]) > 0


async def test_the_lines_around_a_match_are_shown_and_count_as_read(call, project):
    (project / "a.txt").write_text("one\ntwo\nneedle\nfour\nfive\n")
    found = await call("search-files", pattern="needle", path="a.txt", lines_around=1)
    (hit,) = found.output["hits"]
    assert (hit["first_line"], hit["lines"]) == (2, ["two", "needle", "four"])
    assert lines_read(evidence_with(found)) == {"a.txt": ((2, 4),)}


async def test_too_many_lines_around_a_match_are_refused(call):
    with pytest.raises(UsageError, match="lines_around is 21"):
        await call("search-files", pattern="x", lines_around=21)
