from __future__ import annotations

import subprocess
import sys

from places import PATIENCE_S

_PROGRAM = """
import sys

from esper_agents.orchestration.langgraph_names import StateGraph

heavy = {"langgraph_sdk.client", "httpx", "websockets", "langsmith.types.sandbox_response"}
print(sorted(heavy & sys.modules.keys()))

from langgraph_sdk import get_client
import langsmith.types

print(get_client.__module__, langsmith.types.RunSelectField is not None, type(langsmith.types).__name__)
print(sorted({"langgraph_sdk.client", "langsmith.types.sandbox_response"} & sys.modules.keys()))
"""


def test_the_server_parts_of_langgraph_are_imported_when_they_are_used():
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    before, names, after = done.stdout.splitlines()
    assert before == "[]"
    assert names.endswith("True module")
    assert after == "['langgraph_sdk.client', 'langsmith.types.sandbox_response']"


def test_a_package_that_was_imported_before_stays_as_it_is():
    program = (
        "import langgraph_sdk; before = type(langgraph_sdk)\n"
        "import esper_agents.orchestration.langgraph_names\n"
        "import sys; print(before is type(sys.modules['langgraph_sdk']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.strip() == "True"
