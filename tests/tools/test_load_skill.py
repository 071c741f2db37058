from __future__ import annotations

import pytest

from esper_agents.domain.evidence import Risk
from esper_agents.domain.skill import SkillText
from esper_agents.errors import EvidenceError
from esper_agents.tools.registry import load_tools
from esper_agents.tools.tool import ToolContext

pytestmark = pytest.mark.anyio

TOOL = load_tools().get("load-skill")


@pytest.fixture
def load(tmp_path):
    """Call the tool where one skill is at hand."""

    def run(text, **arguments):
        def skills(name, sheet):
            return SkillText(name, sheet, text, f"skills/{name}/{sheet or 'SKILL'}.md", "ab" * 32)

        return TOOL.run(ToolContext(tmp_path, skills=skills), arguments)

    return run


async def test_the_text_comes_with_its_path_and_digest(load):
    found = await load("one\ntwo", name="herons", sheet="nests")
    assert found.summary == "skills/herons/nests.md"
    assert found.output == {
        "skill": "herons",
        "sheet": "nests",
        "path": "skills/herons/nests.md",
        "sha256": "ab" * 32,
        "first_line": 1,
        "last_line": 2,
        "lines": 2,
        "text": "one\ntwo",
    }


async def test_a_long_text_is_read_in_parts(load):
    text = "\n".join(f"line {number}" for number in range(1, 1001))
    first = await load(text, name="herons")
    assert (first.output["first_line"], first.output["last_line"]) == (1, 400)
    assert first.summary == "skills/herons/SKILL.md, lines 1-400 of 1000"
    last = await load(text, name="herons", first_line=801)
    assert last.output["text"].splitlines()[-1] == "line 1000"


async def test_one_endless_line_is_cut(load):
    assert len((await load("word " * 100_000, name="herons")).output["text"]) == 40_000


async def test_without_skills_it_says_so(tmp_path):
    with pytest.raises(EvidenceError, match="no skills are available"):
        await TOOL.run(ToolContext(tmp_path), {"name": "herons"})


async def test_it_only_reads_and_can_be_made_again():
    assert (TOOL.risk, TOOL.is_repeatable) == (Risk.LOW, True)
    assert TOOL.rerun({"name": "herons", "sheet": "nests"}) == "esper skills show herons nests"
