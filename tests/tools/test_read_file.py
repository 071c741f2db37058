from __future__ import annotations

import pytest

from esper_agents.domain.evidence import source_file
from esper_agents.errors import EvidenceError
from esper_agents.tools.read_file import read_file

pytestmark = pytest.mark.anyio


@pytest.fixture
def numbers(project):
    (project / "numbers.txt").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    return project


async def test_lines_come_back_with_the_file_they_were_read_from(call, numbers):
    found = await call("read-file", path="numbers.txt", first_line=10, last_line=12)
    assert found.output["lines"] == ["line 10", "line 11", "line 12"]
    assert found.summary == "numbers.txt:10-12"
    assert found.examined == (source_file("numbers.txt", (numbers / "numbers.txt").read_bytes()),)
    assert found.examined[0].lines == 1000


async def test_at_most_400_lines_are_read(call, numbers):
    found = await call("read-file", path="numbers.txt")
    assert (found.output["first_line"], found.output["last_line"]) == (1, 400)
    found = await call("read-file", path="numbers.txt", first_line=500, last_line=1000)
    assert (found.output["first_line"], found.output["last_line"]) == (500, 899)


@pytest.mark.parametrize(
    ("first", "last", "lines"),
    [(-5, 2, ["line 1", "line 2"]), (999, 5000, ["line 999", "line 1000"]), (2000, 0, []), (5, 4, [])],
)
async def test_bounds_beyond_the_file_are_cut(call, numbers, first, last, lines):
    assert (await call("read-file", path="numbers.txt", first_line=first, last_line=last)).output["lines"] == lines


async def test_bytes_that_are_no_utf_8_are_shown_and_not_an_error(call, project):
    (project / "latin.txt").write_bytes(b"gr\xfc\xdfe\n")
    assert (await call("read-file", path="latin.txt")).output["lines"] == ["gr\ufffd\ufffde"]


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link", ".", "nosuch"])
async def test_what_lies_outside_or_is_no_file_is_refused(call, project, path):
    (project.parent / "secret.txt").write_text("password")
    (project / "link").symlink_to("../secret.txt")
    with pytest.raises(EvidenceError):
        await call("read-file", path=path)


async def test_an_enormous_file_is_refused(call, project):
    with (project / "big.txt").open("wb") as file:
        file.truncate(6_000_000)
    with pytest.raises(EvidenceError, match="is no file of at most"):
        await call("read-file", path="big.txt")


@pytest.mark.parametrize("path", ["numbers.txt", "with space.txt", "-dash.txt"])
async def test_the_command_beside_it_prints_the_same_lines(call, numbers, shell, path):
    (numbers / path).write_bytes((numbers / "numbers.txt").read_bytes())
    arguments = {"path": path, "first_line": 3, "last_line": 5}
    found = await call("read-file", **arguments)
    assert shell(read_file.rerun(arguments)) == found.output["lines"]
