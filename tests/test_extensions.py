"""Another package brings agents, skills, tools, rules and playbooks; the certificate says which, of what version."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from certificate_samples import claim
from toys import calls

import esper_agents.tools
from esper_agents.api import Conclude, Risk, ToolContext, ToolResult, tool
from esper_agents.domain.finding import Location
from esper_agents.errors import DefinitionError
from esper_agents.extensions import extensions
from esper_agents.tools.registry import load_tools

FILES = {
    "birds/__init__.py": "",
    "birds/agents/__init__.py": "",
    "birds/agents/heron.md": "---\nname: heron\ndescription: Counts herons.\nskills: [reeds]\n---\nYou count.\n",
    "birds/skills/__init__.py": "",
    "birds/skills/reeds/SKILL.md": "---\nname: reeds\ndescription: Reeds.\n---\nCut in winter.\n",
    "birds/counting.py": """
from esper_agents.api import Conclude, Risk, ToolCall, ToolContext, ToolResult, CallTools, tool

@tool("count-herons", risk=Risk.LOW, repeatable=True, rerun=lambda _: "count herons")
async def count(context: ToolContext) -> ToolResult:
    \"\"\"Count herons.\"\"\"
    return ToolResult("seven herons", {"herons": 7})

def play(brief):
    calls = (ToolCall("count-herons", {}), ToolCall("static-review", {"paths": ["train.py"]}))
    yield CallTools(calls)
    return Conclude("seven herons")
""",
    "birds/rules.py": """
from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import FileRule

class Printed(FileRule):
    \"\"\"A call of print.\"\"\"

    code, name, severity, category = "ESP499", "printed", Severity.SUGGESTION, Category.PERFORMANCE
    bad, good = "print(1)\\n", "x = 1\\n"

    def look(self, file):
        return iter(())
""",
    "birds-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: birds\nVersion: 1.5\n",
    "birds-1.5.dist-info/entry_points.txt": """[esper_agents.agents]
birds = birds.agents
[esper_agents.skills]
birds = birds.skills
[esper_agents.tools]
count = birds.counting:count
[esper_agents.playbooks]
heron = birds.counting:play
[esper_agents.rules]
birds = birds.rules
""",
}
SESSION = """
import asyncio, json
from esper_agents.api import open_project
from esper_agents.domain.codec import encode

async def main():
    async with open_project(".") as project:
        task = project.tasks.create("review this", ["train.py"], agent="heron")
        outcome = await (await project.tasks.submit(task)).run()
        print(encode(await project.certificates.read(outcome.certificate.id)))

asyncio.run(main())
"""


@pytest.fixture
def known_once():
    """Have tools be looked up each time."""


@pytest.fixture
def site(tmp_path):
    def write(files):
        for path, text in files.items():
            file = tmp_path / "site" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path / "site"

    return write


def test_what_another_package_brings_is_used_and_named_with_version_and_digest_on_the_certificate(site, project):
    folder = site(FILES)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    issued = json.loads(done.stdout)
    (definition,) = issued["definitions"]
    assert definition["definition_provider"] == definition["provider"] == "birds 1.5"
    assert definition["sha256"] == sha256(FILES["birds/agents/heron.md"].encode()).hexdigest()
    assert len(definition["reasoner_sha256"]) == 64
    (skill,) = definition["skills"]
    assert (skill["name"], skill["provider"]) == ("reeds", "birds 1.5")
    assert skill["sha256"] == sha256(FILES["birds/skills/reeds/SKILL.md"].encode()).hexdigest()
    counted, reviewed = issued["evidence"]
    assert counted["provider"] == f"birds 1.5 sha256:{sha256(FILES['birds/counting.py'].encode()).hexdigest()}"
    said = f"birds 1.5 sha256:{sha256(FILES['birds/rules.py'].encode()).hexdigest()}"
    assert reviewed["output"]["providers"] == {"ESP499": said}


def test_a_package_that_cannot_be_imported_is_refused_by_its_name_and_version(site, monkeypatch):
    entry = "[esper_agents.tools]\ngone = birds_that_are_not_there:tool\n"
    monkeypatch.syspath_prepend(str(site({**FILES, "birds-1.5.dist-info/entry_points.txt": entry})))
    with pytest.raises(DefinitionError) as caught:
        list(extensions("esper_agents.tools"))
    assert "esper_agents.tools: gone: cannot be imported" in caught.value.problem
    assert "birds 1.5" in caught.value.remedy


BAD = """
from esper_agents.api import Risk, ToolContext, ToolResult, tool

@tool("count-geese", risk=Risk.LOW, repeatable=True)
async def count(context: ToolContext) -> ToolResult:
    \"\"\"Count geese.\"\"\"
    return ToolResult("no geese", {"geese": 0})
"""


def test_a_tool_that_lacks_something_is_refused_with_file_and_remedy_and_hinders_no_other(site, monkeypatch):
    points = FILES["birds-1.5.dist-info/entry_points.txt"].replace(
        "count = birds.counting:count",
        "count = birds.counting:count\ngeese = birds.geese:count\nrules = birds.rules:Printed",
    )
    folder = site({**FILES, "birds/geese.py": BAD, "birds-1.5.dist-info/entry_points.txt": points})
    monkeypatch.syspath_prepend(str(folder))
    found = load_tools()
    assert "count-herons" in found.tools
    assert "count-geese" not in found.tools
    geese, rules = found.refused
    assert geese.problem == f"{folder / 'birds/geese.py'}:4: tool 'count-geese' has no `rerun`"
    assert geese.remedy.startswith("add rerun=lambda arguments:")
    assert rules.problem == "esper_agents.tools: rules: is not a tool"
    for name in [module for module in sys.modules if module.partition(".")[0] == "birds"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("options", "function", "said"),
    [
        ({"rerun": None}, "async def it(context): 'Do.'", "has no `rerun`"),
        ({"risk": None}, "async def it(context): 'Do.'", "has no `risk`"),
        ({"repeatable": None}, "async def it(context): 'Do.'", "`repeatable`"),
        ({}, "def it(context): 'Do.'", "is not an async function"),
        ({}, "async def it(): 'Do.'", "takes no `ToolContext`"),
        ({}, "async def it(context): pass", "has no docstring"),
    ],
)
def test_what_a_tool_must_have_is_checked_when_it_is_made(options, function, said):
    made = {}
    exec(function, made)  # noqa: S102 - the text above
    with pytest.raises(DefinitionError, match=said):
        tool("it", **({"risk": Risk.LOW, "repeatable": True, "rerun": lambda _: "it"} | options))(made["it"])


SAMPLE = re.search(
    r"### A tool\n\n```python\n(.*?)```", (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(), re.DOTALL
)[1]


def test_the_tool_of_the_documentation_works_in_a_package(site, toybox, monkeypatch):
    files = {
        "my_package/__init__.py": "",
        "my_package/lines.py": SAMPLE,
        "my_package-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: my_package\nVersion: 1.0\n",
        "my_package-1.0.dist-info/entry_points.txt": "[esper_agents.tools]\nlines = my_package.lines:count_lines\n",
    }
    monkeypatch.syspath_prepend(str(site(files)))
    (evidence,) = _counted(toybox)
    assert (evidence.outcome, evidence.rerun) == ("completed", "wc -l train.py")
    assert [file.path for file in evidence.examined] == ["train.py"]


def test_the_tool_of_the_documentation_works_as_a_file_of_ours(toybox, tmp_path, monkeypatch):
    text = SAMPLE.replace(
        "from esper_agents.api import Risk, ToolContext, ToolResult, source_file, tool",
        "from esper_agents.domain.evidence import Risk, source_file\n"
        "from esper_agents.tools.tool import ToolContext, ToolResult, tool",
    )
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/count_lines_of_a_file.py").write_text(text)
    monkeypatch.setattr(esper_agents.tools, "__path__", [*esper_agents.tools.__path__, str(tmp_path / "ours")])
    (evidence,) = _counted(toybox)
    assert evidence.output["lines"] > 0


def _counted(toybox):
    toybox.tools = [replace(load_tools().tools["count-lines"], name="count-lines-here")]
    return _ran(toybox, "count-lines-here", {"path": "train.py"})


def test_a_finding_in_a_file_that_is_not_in_examined_fails_the_call_and_says_what_to_add(toybox):
    @tool("finder", risk=Risk.LOW, repeatable=True, rerun=lambda arguments: f"find {arguments['path']}")
    async def find(context: ToolContext, path: str = "train.py") -> ToolResult:
        """Find something."""
        return ToolResult("found", {}, claims=(claim(location=Location(path, 1, 1, 1)),))

    toybox.tools = [find]
    (evidence,) = _ran(toybox, "finder", {"path": "train.py"})
    assert (evidence.outcome, evidence.rerun) == ("failed", "find train.py")
    assert "'finder' reports something in 'train.py' and does not list that file in `examined`" in evidence.summary


def test_a_tool_that_cannot_say_how_to_repeat_a_call_fails_that_call(toybox):
    @tool("forgetful", risk=Risk.LOW, repeatable=True, rerun=lambda arguments: arguments["missing"])
    async def forget(context: ToolContext) -> ToolResult:
        """Forget something."""
        return ToolResult("done", {})

    toybox.tools = [forget]
    (evidence,) = _ran(toybox, "forgetful", {})
    assert (evidence.outcome, evidence.rerun) == ("failed", "")
    assert "`rerun` of tool 'forgetful'" in evidence.summary


def _ran(toybox, name, arguments):
    def play(brief):
        reports = yield calls(name, **arguments)
        return Conclude(reports[0].evidence.summary)

    toybox.agent(f"{name}er", play=play)

    async def run():
        async with toybox.open() as opened:
            outcome = await (await toybox.submit(opened, f"{name}er")).run()
            return (await opened.certificates.read(outcome.certificate.id)).evidence

    return asyncio.run(run())
