from __future__ import annotations

import copy
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from partial_installs import closure

from esper_agents.extras import Extra, MissingExtraError, is_installed, require_extra

ROOT = Path(__file__).parents[1]
# Packages of the base, this distribution not counted.
MOST_PACKAGES = 26


def test_the_base_is_small_and_has_no_agents_models_or_fixes() -> None:
    found = closure() - {"esper-agents"}
    assert len(found) <= MOST_PACKAGES, sorted(found)
    assert not found & {"anthropic", "langgraph", "langchain-core", "langsmith", "libcst", "torch", "httpx2"}


def test_every_extra_has_a_name_here_and_all_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = sorted(each.value for each in Extra)
    assert sorted(project["optional-dependencies"]) == sorted([*names, "all"])
    assert project["optional-dependencies"]["all"] == [f"esper-agents[{','.join(names)}]"]
    installed = {line for line in requires("esper-agents") or () if "extra ==" not in line}
    assert len(installed) == len(project["dependencies"]), "install the distribution again: pip install -e ."


@pytest.mark.parametrize("extra", [Extra.AGENTS, Extra.FIX, Extra.TRACE, Extra.POSTGRESQL])
def test_an_installed_extra_is_there(extra) -> None:
    assert is_installed(extra)
    require_extra(extra)


def test_a_missing_extra_survives_copying() -> None:
    error = copy.copy(MissingExtraError(Extra.FIX))
    assert (error.extra, error.remedy) == (Extra.FIX, "pip install 'esper-agents[fix]'")
