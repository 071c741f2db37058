"""Another package brings agents, skills, tools, rules and playbooks; the certificate says which, of what version."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from hashlib import sha256

import pytest

from esper_agents.errors import DefinitionError
from esper_agents.extensions import extensions

FILES = {
    "birds/__init__.py": "",
    "birds/agents/__init__.py": "",
    "birds/agents/heron.md": "---\nname: heron\ndescription: Counts herons.\nskills: [reeds]\n---\nYou count.\n",
    "birds/skills/__init__.py": "",
    "birds/skills/reeds/SKILL.md": "---\nname: reeds\ndescription: Reeds.\n---\nCut in winter.\n",
    "birds/counting.py": """
from esper_agents.api import Conclude, Risk, ToolCall, ToolContext, ToolResult, UseTools, tool

@tool("count-herons", risk=Risk.LOW, repeatable=True, rerun=lambda _: "count herons")
async def count(context: ToolContext) -> ToolResult:
    \"\"\"Count herons.\"\"\"
    return ToolResult("seven herons", {"herons": 7})

def play(brief):
    calls = (ToolCall("count-herons", {}), ToolCall("static-review", {"paths": ["train.py"]}))
    yield UseTools(calls)
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
        outcome = await (await project.submit(project.task("review this", ["train.py"], agent="heron"))).run()
        print(encode(await project.read(outcome.certificate.id)))

asyncio.run(main())
"""


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
