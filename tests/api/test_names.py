"""The public names of `esper_agents.api`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from esper_agents import api


def imported_for_types():
    tree = ast.parse(Path(api.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {(node.module, name.name) for node in block.body for name in node.names}


def test_the_table_of_names_is_what_type_checkers_see():
    assert {(module, name) for module, names in api._NAMES.items() for name in names} == imported_for_types()
    assert sorted(api._MODULES) == sorted(api.__all__)


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name):
    assert getattr(api, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nosuch"):
        _ = api.nosuch


def test_importing_the_api_loads_no_service():
    code = "import sys, esper_agents.api; print([m for m in sys.modules if m.startswith('esper_agents.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['esper_agents.renamed', 'esper_agents.api']"
