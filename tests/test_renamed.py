"""Names of 0.1.0 still work: public ones with a warning, and those that recorded playbooks import."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from esper_agents import api, renamed, testing


@pytest.mark.parametrize(
    ("module", "earlier", "current"),
    [(api, "UseTools", "CallTools"), (api, "Outcome", "SessionResult"), (testing, "Use", "ToolUseBlock")],
)
def test_an_earlier_public_name_is_the_current_one_and_says_so(module, earlier, current):
    with pytest.warns(DeprecationWarning, match=f"is now {module.__name__}.{current}"):
        assert getattr(module, earlier) is getattr(module, current)
    assert earlier not in module.__all__


def test_a_name_that_never_was_is_missing_as_elsewhere():
    with pytest.raises(AttributeError, match=r"module 'esper_agents.api' has no attribute 'Nothing'"):
        _ = api.Nothing


@pytest.mark.parametrize("earlier", renamed._MOVED)
def test_every_module_and_name_that_a_recorded_playbook_may_import_is_there(earlier):
    current, names = renamed._MOVED[earlier]
    for name in names.values():
        assert hasattr(importlib.import_module(current), name)


def test_a_recorded_playbook_imports_by_the_names_that_it_was_written_with():
    code = (
        "import builtins; from esper_agents.renamed import import_recorded\n"
        "names = {'__builtins__': {**vars(builtins), '__import__': import_recorded}}\n"
        "exec('from esper_agents.domain.move import Answer, Conclude, UseTools', names)\n"
        "exec('from esper_agents.reasoning.parts import COMPILER', names)\n"
        "exec('import json, esper_agents.errors', names)\n"
        "print(names['UseTools'].__name__, names['Answer'].__name__, names['Conclude'].__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "CallTools UserAnswer Conclude\n"
