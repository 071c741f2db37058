from __future__ import annotations

import pytest

pytestmark = pytest.mark.anyio

FILES = {
    "pkg/__init__.py": "",
    "pkg/model.py": "import torch\n\n\nclass Net: ...\n",
    "pkg/train.py": "from .model import Net\n",
    "pkg/serve.py": "from pkg import (\n    model,\n)\n",
    "pkg/other.py": "# import model, it says\nmodel = 1\n",
    "tests/test_model.py": "import pkg.model as m\n",
    "scripts/run.py": "from model import Net\n",
    "broken.py": "from pkg.model import (\n",
    "pyproject.toml": "[project]\nname = 'pkg'\n",
    "configs/base.yaml": "lr: 0.1\n",
    "notes.yaml": "a: 1\n",
}


@pytest.fixture
def filled(project):
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return project


async def test_callers_tests_and_configuration_are_found_by_what_they_import(call, filled):
    found = await call("related-code", paths=["pkg/model.py"])
    assert found.output["callers"] == ["pkg/serve.py", "pkg/train.py", "scripts/run.py"]
    assert found.output["tests"] == ["tests/test_model.py"]
    assert {"pyproject.toml", "configs/base.yaml"} <= set(found.output["configuration"])
    assert "notes.yaml" not in found.output["configuration"]
    assert {each.path for each in found.examined} == {*found.output["callers"], *found.output["tests"]}


async def test_files_that_are_named_themselves_are_not_related(call, filled):
    found = await call("related-code", paths=["pkg"])
    assert found.output["callers"] == ["scripts/run.py"]
    assert found.output["own"] == 5


async def test_a_call_can_be_told_as_a_command(shell, filled):
    from esper_agents.tools.registry import load_tools

    said = load_tools().get("related-code").rerun({"paths": ["pkg/model.py"]})
    assert {each.split(":")[0].removeprefix("./") for each in shell(said)} >= {"pkg/train.py", "tests/test_model.py"}
