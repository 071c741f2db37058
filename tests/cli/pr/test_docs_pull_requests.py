"""What `docs/pull-requests.md` says of the command and of the action is so."""

from __future__ import annotations

import re
from pathlib import Path

import typer
import yaml

from esper_agents.cli.pr import register

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/pull-requests.md").read_text(encoding="utf-8")


def test_every_option_of_the_command_is_on_the_page():
    app = typer.Typer()
    register(app)
    command = typer.main.get_command(app)
    options = {name for param in command.params for name in param.opts if name.startswith("--")}
    assert options - {"--project", "--install-completion", "--show-completion"} <= set(re.findall(r"--[\w-]+", TEXT))
    shown = "\n".join(line for line in TEXT.splitlines() if line.startswith("esper pr") or "- esper pr" in line)
    assert set(re.findall(r"--[\w-]+", shown)) <= options


def test_every_input_of_the_action_is_in_the_table():
    table = "\n".join(line for line in TEXT.splitlines() if line.startswith("| `"))
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    assert inputs.keys() <= set(re.findall(r"`([\w-]+)`", table))


def test_the_workflows_are_yaml_and_their_action_has_the_inputs():
    workflow, pipeline = (
        yaml.safe_load(each) for each in re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    )
    inputs = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["inputs"]
    step = next(each for each in workflow["jobs"]["esper"]["steps"] if "esper-agents" in each["uses"])
    assert step["with"].keys() <= inputs.keys()
    assert all("esper pr" in each or "pip" in each for each in pipeline["esper"]["script"])
