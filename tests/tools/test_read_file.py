from __future__ import annotations

import pytest

from esper_agents.domain.evidence import lines_read, source_file
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.tools.model_output import model_view
from esper_agents.tools.read_file import read_file
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext
from tests.tools.evidence_samples import evidence_with

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


async def test_a_definition_after_a_form_feed_is_read_at_the_line_of_the_parser(call, project):
    (project / "feeds.py").write_text('"""A\u2028B."""\n\x0c\ndef load():\n    return 1\n')
    whole = await call("read-file", path="feeds.py", first_line=3)
    assert whole.output["lines"] == ["def load():", "    return 1"]
    (part,) = (await call("read-file", places=["feeds.py:load"])).output["parts"]
    assert (part["first_line"], part["lines"]) == (3, ["def load():", "    return 1"])
    (hit,) = (await call("search-code", text="return 1", paths=["feeds.py"])).output["hits"]
    assert hit["line"] == 4


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "link", ".", "nosuch"])
async def test_what_lies_outside_or_is_no_file_is_refused(call, project, path):
    (project.parent / "secret.txt").write_text("password")
    (project / "link").symlink_to("../secret.txt")
    with pytest.raises(EvidenceError):
        await call("read-file", path=path)


async def test_an_enormous_file_is_refused(call, project):
    with (project / "big.txt").open("wb") as file:
        file.truncate(6_000_000)
    with pytest.raises(EvidenceError, match="is not a file of at most"):
        await call("read-file", path="big.txt")


@pytest.mark.parametrize("path", ["numbers.txt", "with space.txt", "-dash.txt"])
async def test_the_command_beside_it_prints_the_same_lines(call, numbers, shell, path):
    (numbers / path).write_bytes((numbers / "numbers.txt").read_bytes())
    arguments = {"path": path, "first_line": 3, "last_line": 5}
    found = await call("read-file", **arguments)
    assert shell(read_file.rerun(arguments)) == found.output["lines"]


@pytest.fixture
def ignored(project):
    (project / ".gitignore").write_text("data/\n*.log\nlocal.py\n")
    (project / "data").mkdir()
    (project / "data" / "t.csv").write_text("needle\n")
    (project / "run.log").write_text("needle\n")
    (project / "local.py").write_text("needle = 1\n")
    return project


@pytest.mark.parametrize("path", ["data/t.csv", "run.log", "local.py"])
async def test_what_git_ignores_is_refused_unless_the_user_named_it(call, ignored, path):
    with pytest.raises(EvidenceError, match="git ignores it") as raised:
        await call("read-file", path=path)
    assert f"name '{path}'" in raised.value.remedy
    named = ToolContext(ignored, named=("train.py", "data", "run.log", "local.py"))
    assert "needle" in (await load_tools().get("read-file").run(named, {"path": path})).output["lines"][0]


async def test_a_folder_that_git_knows_does_not_name_what_is_ignored_in_it(ignored):
    for name in (".", "sub"):
        (ignored / "sub").mkdir(exist_ok=True)
        (ignored / "sub" / "x.log").write_text("needle")
        with pytest.raises(EvidenceError, match="git ignores it"):
            await load_tools().get("read-file").run(ToolContext(ignored, named=(name,)), {"path": "sub/x.log"})


async def test_a_secret_is_refused_although_the_user_named_it(ignored):
    (ignored / "data" / "terraform.tfstate").write_text("{}")
    context = ToolContext(ignored, named=("data", "data/terraform.tfstate"))
    with pytest.raises(EvidenceError, match="holds secrets"):
        await load_tools().get("read-file").run(context, {"path": "data/terraform.tfstate"})


async def test_what_git_tracks_is_read_whatever_its_rules_say(call, ignored, git):
    git(ignored, "add", "-f", "run.log")
    assert (await call("read-file", path="run.log")).output["lines"] == ["needle"]


async def test_searches_withhold_what_git_ignores_and_say_so(call, ignored):
    for tool, asked in (
        ("search-files", {"pattern": "needle"}),
        ("find-files", {"pattern": "**/*"}),
        ("search-code", {"text": "needle", "paths": ["."]}),
    ):
        found = await call(tool, **asked)
        assert "data/t.csv" not in str(found.output.get("hits", "")) + str(found.output.get("paths", ""))
        assert "local.py" in {each["path"] for each in found.output["withheld"]}
        assert "withheld: secret, or ignored by git" in found.summary
    related = await call("related-code", paths=["train.py"])
    assert "local.py" in {each["path"] for each in related.output["withheld"]}


async def test_a_folder_that_git_ignores_is_not_searched(call, ignored):
    for tool, asked in (("search-files", {"pattern": "needle"}), ("find-files", {"pattern": "*"})):
        with pytest.raises(EvidenceError, match="git ignores it"):
            await call(tool, path="data", **asked)


async def test_in_a_project_that_a_repository_around_it_ignores_nothing_counts_as_ignored(make_project):
    around = make_project({".gitignore": "inner/\n", "inner/train.py": "needle = 1\n"})
    found = await load_tools().get("read-file").run(ToolContext(around / "inner"), {"path": "train.py"})
    assert found.output["lines"] == ["needle = 1"]


async def test_several_places_are_read_at_once_and_a_missing_one_spoils_only_itself(call, project):
    (project / "net.py").write_text(
        "class Net:\n    def forward(self, x):\n        return x\n\n\ndef loss(x):\n    return x\n"
    )
    found = await call("read-file", places=["net.py:Net.forward", "net.py:6-7", "nosuch.py"])
    first, second, missing = found.output["parts"]
    assert (first["first_line"], first["last_line"], first["lines"][0]) == (2, 3, "    def forward(self, x):")
    assert second["lines"] == ["def loss(x):", "    return x"]
    assert "nosuch.py" in missing["problem"]
    assert found.summary == "net.py:2-3, net.py:6-7; 1 place not read"
    assert lines_read(evidence_with(found)) == {"net.py": ((2, 3), (6, 7))}


async def test_a_model_sees_the_number_of_every_line_of_every_place(call, project):
    (project / "net.py").write_text("a = 1\nb = 2\n")
    found = await call("read-file", places=["net.py:2", "net.py:1"])
    assert "2: b = 2" in model_view(evidence_with(found))
    assert "1: a = 1" in model_view(evidence_with(found))


async def test_a_definition_that_does_not_exist_is_refused_with_those_that_do(call, project):
    (project / "net.py").write_text("def loss(x):\n    return x\n")
    with pytest.raises(EvidenceError, match="does not define 'lost'") as refused:
        await call("read-file", places=["net.py:lost"])
    assert refused.value.remedy == "it defines loss"


async def test_a_method_named_without_its_class_must_be_unmistakable(call, project):
    (project / "net.py").write_text("class A:\n    def f(self): ...\n\n\nclass B:\n    def f(self): ...\n")
    with pytest.raises(EvidenceError, match="more than once") as refused:
        await call("read-file", places=["net.py:f"])
    assert refused.value.remedy == "name one of A.f, B.f"


@pytest.mark.parametrize("arguments", [{}, {"path": "a.py", "places": ["a.py"]}, {"places": ["a.py"] * 21}])
async def test_arguments_that_name_no_place_or_too_many_are_refused(call, arguments):
    with pytest.raises(UsageError):
        await call("read-file", **arguments)
