from __future__ import annotations

import re
from pathlib import Path

import pytest
from toys import recording_tool

from esper_agents.domain.evidence import Risk
from esper_agents.errors import EvidenceError, NotFoundError, UsageError
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext, ToolResult, tool

OURS = {"git-state", "read-file", "run-tests", "search-code", "static-review"}


@pytest.fixture
def context(tmp_path):
    root = tmp_path / "toy"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "train.py").write_text("x = 1\n")
    (tmp_path / "secret.py").write_text("password\n")
    return ToolContext(root)


def test_paths_inside_the_project_are_found(context):
    assert context.inside("sub/train.py") == context.root / "sub" / "train.py"
    assert context.inside(".") == context.root
    assert context.inside("sub/../sub/train.py") == context.root / "sub" / "train.py"
    assert context.inside(str(context.root / "sub")) == context.root / "sub"


@pytest.mark.parametrize(
    "path", ["..", "../secret.py", "sub/../../secret.py", "/etc/passwd", "/", "~/x", "sub/../../toy2/x", "../toy-2"]
)
def test_paths_outside_the_project_are_refused(context, path):
    with pytest.raises(EvidenceError) as refused:
        context.inside(path)
    assert "outside the project" in refused.value.problem or path == "~/x"


@pytest.mark.parametrize("target", ["../secret.py", "..", "/etc"])
def test_a_link_that_leads_outside_is_refused(context, target):
    (context.root / "link").symlink_to(target)
    with pytest.raises(EvidenceError, match="outside the project"):
        context.inside("link")


def test_a_link_to_a_link_that_leads_outside_is_refused(context):
    (context.root / "one").symlink_to(context.root.parent)
    (context.root / "two").symlink_to("one")
    with pytest.raises(EvidenceError, match="outside the project"):
        context.inside("two/secret.py")


def test_a_link_that_stays_inside_is_followed(context):
    (context.root / "link").symlink_to("sub")
    assert context.inside("link/train.py") == context.root / "sub" / "train.py"


@pytest.mark.parametrize(
    "path",
    ["nosuch.py", "sub/train.py/deeper", "a\0b", "x" * 5000, "loop"],
    ids=["not there", "below a file", "a zero byte", "too long", "a circle of links"],
)
def test_what_is_not_there_is_refused(context, path):
    (context.root / "loop").symlink_to("loop")
    with pytest.raises(EvidenceError):
        context.inside(path)


WITHHELD = [".env", ".git/config", "data/rows.bin", "../secret.py", "nosuch.py", "."]


@pytest.mark.parametrize("path", WITHHELD)
def test_a_tool_that_reads_by_its_context_gets_no_protected_file(project, path):
    (project / ".env").write_text("TOKEN=1\n")
    (project / ".gitignore").write_text("data/\n")
    (project / "data").mkdir()
    (project / "data/rows.bin").write_bytes(b"1")
    assert ToolContext(project).read("train.py") == (project / "train.py").read_bytes()
    with pytest.raises(EvidenceError):
        ToolContext(project).read(path)
    assert not set(ToolContext(project).files()) & set(WITHHELD)


def test_ignored_files_that_the_user_named_are_read_and_listed(project):
    (project / ".gitignore").write_text("data/\n")
    (project / "data").mkdir()
    (project / "data/rows.bin").write_bytes(b"1")
    context = ToolContext(project, named=("data",))
    assert context.files("data") == ("data/rows.bin",)
    assert context.read("data/rows.bin") == b"1"
    with pytest.raises(EvidenceError, match="is not a file of at most 0 bytes"):
        context.read("data/rows.bin", largest=0)


@tool("measure", risk=Risk.LOW, repeatable=True, rerun=lambda _: "measure")
async def measure(
    context: ToolContext, target: str, *, sizes: list[int] | None = None, dynamic: bool = False
) -> ToolResult:
    """Measure something.

    More about it.

    Args:
        context: The project.
        target: What to measure.
        sizes: Of which sizes.
        dynamic: Whether it moves.
    """
    return ToolResult("measured", {"target": target, "sizes": sizes, "dynamic": dynamic})


def test_the_signature_and_the_docstring_are_the_schema():
    use = measure.use
    assert use.description == "Measure something.\n\nMore about it."
    assert (use.name, use.risk, use.is_repeatable) == ("measure", Risk.LOW, True)
    assert set(use.schema["properties"]) == {"target", "sizes", "dynamic"}
    assert use.schema["required"] == ["target"]
    assert use.schema["additionalProperties"] is False
    assert use.schema["properties"]["target"]["description"] == "What to measure."
    assert use.schema["properties"]["dynamic"]["default"] is False


def test_a_schema_repeats_no_name_as_a_title():
    @tool("titled", risk=Risk.LOW, repeatable=True, rerun=lambda _: "")
    async def titled(context: ToolContext, title: str, sizes: list[int] | None = None) -> ToolResult:
        """Give a title.

        Args:
            context: The project.
            title: What it is called.
            sizes: Of which sizes.
        """
        return ToolResult(title, {"sizes": sizes})

    assert titled.use.schema["properties"]["title"] == {"description": "What it is called.", "type": "string"}
    assert "title" not in titled.use.schema
    assert "title" not in titled.use.schema["properties"]["sizes"]


def test_every_tool_of_ours_says_what_it_is_and_what_each_argument_means():
    tools = load_tools()
    assert set(tools.tools) >= OURS
    for each in tools.tools.values():
        assert each.use.description
        assert each.provider
        for name, described in each.use.schema["properties"].items():
            assert described.get("description"), f"{each.name}.{name}"


def test_the_guide_tells_of_every_tool_and_its_risk():
    guide = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
    rows = [line.split("|")[1:3] for line in guide.splitlines() if line.startswith("| `")]
    told = {name: risk.strip() for names, risk in rows for name in re.findall("`([a-z*-]+)`", names)}
    for each in load_tools().tools.values():
        assert told["torch-*" if each.name.startswith("torch-") else each.name] == each.risk, each.name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "target of tool 'measure': field required"),
        ({"target": 1}, "target of tool 'measure': input should be a valid string"),
        ({"target": "x", "sizes": ["1"]}, "valid integer"),
        ({"target": "x", "sizes": 3}, "valid list"),
        ({"target": "x", "dynamic": "yes"}, "dynamic of tool 'measure': input should be a valid boolean"),
        ({"target": "x", "other": 1}, "other of tool 'measure': extra inputs are not permitted"),
        ({"target": "x", "context": "y"}, "context of tool 'measure'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments, said):
    with pytest.raises(UsageError) as refused:
        measure.validate(arguments)
    assert said in refused.value.problem
    assert "\n" not in refused.value.problem


@pytest.mark.anyio
async def test_a_tool_gets_its_arguments_with_defaults_filled_in(context):
    found = await measure.run(context, {"target": "x", "sizes": [1, 2]})
    assert found.output == {"target": "x", "sizes": [1, 2], "dynamic": False}


def test_a_program_may_bring_tools_but_none_under_a_name_that_is_taken():
    assert load_tools([recording_tool("mine")]).get("mine").provider == "toys 1"
    with pytest.raises(UsageError, match="two tools are named 'read-file'"):
        load_tools([recording_tool("read-file")])


def test_an_unknown_tool_is_refused_with_the_nearest_names():
    with pytest.raises(NotFoundError) as refused:
        load_tools().get("read_file")
    assert "'read-file'" in refused.value.remedy


def test_tools_are_chosen_by_name_and_unknown_names_left_out():
    tools = load_tools()
    assert [each.name for each in tools.named(["search-code", "teleport", "read-file"])] == ["read-file", "search-code"]
    assert {each.name for each in tools.named(None)} >= OURS
    assert tools.named([]) == ()


def test_only_writing_the_shell_and_running_code_without_a_sandbox_want_a_person_to_agree():
    asked = {each.name: each.risk for each in load_tools().tools.values() if each.risk is not Risk.LOW}
    assert asked == {
        "edit-file": Risk.MEDIUM,
        "run-tests": Risk.MEDIUM,
        "shell": Risk.HIGH,
        "write-file": Risk.MEDIUM,
    }


def test_what_changes_something_is_never_run_twice():
    unrepeatable = {each.name for each in load_tools().tools.values() if not each.is_repeatable}
    assert unrepeatable == {"edit-file", "memory", "run-tests", "shell", "write-file"}


def test_an_exception_is_named_by_the_argument_that_wants_it():
    found = load_tools().get("run-tests")
    assert found.exceptions_of({"paths": ["."], "network": True, "data": ["a", "b"], "unsandboxed": False}) == (
        "run-tests:network",
        "run-tests:read=a",
        "run-tests:read=b",
    )
    assert found.exceptions_of({"paths": ["."], "data": None}) == ()
