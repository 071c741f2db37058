"""What our skills say of torch holds for the torch that is installed, and their code runs there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from esper_agents.agents.definition_warnings import DefinitionWarnings
from esper_agents.agents.front_matter import read_document
from esper_agents.paths import data_folder

SKILLS = data_folder("prompts") / "skills"
FILES = {file.relative_to(SKILLS).as_posix(): file.read_text(encoding="utf-8") for file in SKILLS.glob("*/*.md")}
SHEETS = sorted(name for name in FILES if not name.endswith("/SKILL.md"))
ROOT = Path(__file__).parents[2]
SYMBOLS = tomllib.loads((ROOT / "esper_agents/review/symbols.toml").read_text(encoding="utf-8"))["symbol"]
ACCEPTANCE = tomllib.loads((ROOT / "esper_agents/torchlab/acceptance.toml").read_text(encoding="utf-8"))
KINDS = {"has", "gone", "holds", "warns", "raises", "symbol"}
NEWEST = (2, 13)
# What is not so, to see that it is noticed.
FALSE_FACTS = {
    "false fact 1": {"has": "torch.no_such_name"},
    "false fact 2": {"gone": "torch.optim.Muon"},
    "false fact 3": {"holds": "torch.ones(1).item() == 2"},
    "false fact 4": {"warns": "torch.ones(1).sin()", "as": "FutureWarning"},
    "false fact 5": {"raises": "torch.ones(1).sin()", "as": "ValueError"},
}
FALSE_BLOCKS = {
    "false block 1": "import torch\n\nassert torch.ones(1).item() == 2\n",
    "false block 2": "import warnings\n\nwarnings.warn('old')\n",
    "false block 3": "import torch\n\ntorch.set_float32_matmul_precision('high')\n",
}


def facts_of(name):
    field = read_document(FILES[name], DefinitionWarnings(name)).fields.get("facts")
    return field.content if field else []


def blocks_of(name):
    found = re.finditer(r"^```python\n(.*?)^```$", FILES[name], re.MULTILINE | re.DOTALL)
    return {f"{name}:{FILES[name].count(chr(10), 0, each.start()) + 1}": each[1] for each in found}


def version(text):
    return tuple(int(each) for each in text.split("."))


@pytest.fixture(scope="module")
def problems():
    """Ask everything of one process that has torch."""
    blocks = {place: source for name in FILES for place, source in blocks_of(name).items()}
    facts = {
        f"{name} fact {number}": fact
        for name in FILES
        for number, fact in enumerate(facts_of(name), 1)
        if "symbol" not in fact
    }
    command = [sys.executable, str(Path(__file__).with_name("run_skill_facts.py"))]
    asked = json.dumps({"blocks": blocks | FALSE_BLOCKS, "facts": FALSE_FACTS | facts})
    # Process groups of one process find each other without asking for the name of the machine.
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FILES))
def test_the_code_of_a_sheet_runs_without_a_warning_and_its_facts_hold(problems, name):
    assert {place: problem for place, problem in problems.items() if place.startswith(name)} == {}


@pytest.mark.slow
def test_what_is_not_so_is_noticed(problems):
    assert {place for place in problems if place.startswith("false ")} == FALSE_FACTS.keys() | FALSE_BLOCKS.keys()


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_fact_is_of_a_kind_that_is_checked(name):
    for fact in facts_of(name):
        assert len(KINDS & fact.keys()) == 1, fact
        assert fact.keys() <= KINDS | {"as", "since", "deprecated", "removed"}, fact
        assert ("as" in fact) == bool({"warns", "raises"} & fact.keys()), fact


@pytest.mark.parametrize("name", sorted(FILES))
def test_what_is_deprecated_or_gone_is_what_the_table_of_the_review_says(name):
    for fact in facts_of(name):
        if "symbol" not in fact:
            continue
        entries = [symbol for symbol in SYMBOLS if fact["symbol"] in symbol["names"]]
        said = {key: fact[key] for key in ("deprecated", "removed") if key in fact}
        assert said, fact
        assert any(said.items() <= entry.items() for entry in entries), fact


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_version_that_is_named_stands_on_a_fact(name):
    body = read_document(FILES[name], DefinitionWarnings(name)).body
    prose = re.sub(r"^```.*?^```$", "", body, flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"(?:[Tt]orch|since|in|from)\s+(2\.\d+)\b", prose))
    known = {fact[key] for fact in facts_of(name) for key in ("since", "deprecated", "removed") if key in fact}
    assert named - known <= ({"2.9", "2.13"} if name.endswith("/SKILL.md") else {"2.13"})
    assert all(version(each) <= NEWEST for each in known)


@pytest.mark.parametrize("name", SHEETS)
def test_a_sheet_says_what_it_is_for_what_to_check_and_what_goes_wrong(name):
    headings = re.findall(r"^## (.+)$", FILES[name], re.MULTILINE)
    assert headings == ["What it is for", "What to check", "Code", "Traps", "Versions"]
    assert facts_of(name)
    assert blocks_of(name)


def test_the_thresholds_are_those_that_the_lab_decides_by():
    text = FILES["performance-governance/SKILL.md"]
    assert ACCEPTANCE["threshold"] == {"latency": 1.25, "throughput": 1.3, "training-step": 1.3}
    assert (
        "A latency 1.25 times faster (20 % less time), a training step 1.3 times faster, a throughput 1.3 times higher"
        in text
    )


def test_the_four_sections_of_the_protocol_have_the_words_of_the_record():
    from typing import get_args, get_type_hints

    from esper_agents.domain.agent_action import RiskAssessment
    from esper_agents.domain.assumption import Tier
    from esper_agents.domain.finding import Confidence

    protocol = FILES["sme-agent-protocol/SKILL.md"]
    hints = get_type_hints(RiskAssessment)
    words = (*Confidence, *get_args(hints["reversibility"]), *get_args(hints["implementation_risk"]))
    assert [word for word in words if word.lower() not in protocol.lower()] == []
    assert all(tier in FILES["completion-drive-methodology/SKILL.md"] for tier in Tier)


def test_a_command_that_is_named_exists():
    import typer
    from command_line import build

    commands = typer.main.get_command(build()).commands["torch"].list_commands(None)
    assert set(re.findall(r"esper torch ([\w-]+)", "".join(FILES.values()))) <= set(commands)
