"""The reason why pytest ran no test is one line, from the real output of pytest, with what fixes it."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import write

from esper_agents.tools.pytest_problems import pytest_problem

TEST = "def test_it():\n    assert 1\n"
CASES = {
    "option of a plugin": (
        {"pytest.ini": "[pytest]\naddopts = --memray --x\n", "test_a.py": TEST},
        "pytest does not know '--memray', an option of pytest-memray, which is not installed for the tests",
        "pip install pytest-memray",
    ),
    "unknown option": (
        {"pytest.ini": "[pytest]\naddopts = --nosuchoption\n", "test_a.py": TEST},
        "pytest does not know the option '--nosuchoption'",
        "remove it from addopts",
    ),
    "plugin that is missing": (
        {"pytest.ini": "[pytest]\naddopts = -p nosuch_plugin\n", "test_a.py": TEST},
        "pytest cannot load its plugin 'nosuch_plugin': No module named 'nosuch_plugin'",
        "pip install nosuch-plugin",
    ),
    "required plugin": (
        {"pytest.ini": "[pytest]\nrequired_plugins = pytest-nosuch>=2\n", "test_a.py": TEST},
        "pytest lacks plugins that the project requires: pytest-nosuch>=2",
        "pip install 'pytest-nosuch>=2'",
    ),
    "version of pytest": (
        {"pytest.ini": "[pytest]\nminversion = 99.1\n", "test_a.py": TEST},
        "the project requires pytest 99.1",
        "pip install 'pytest>=99.1'",
    ),
    "import in conftest": (
        {"conftest.py": "import nosuchmodule.sub\n", "test_a.py": TEST},
        "conftest.py imports 'nosuchmodule', which is not installed for the tests",
        "pip install nosuchmodule",
    ),
    "fault in conftest": (
        {"conftest.py": "import os\n\nos.nosuch()\n", "test_a.py": TEST},
        "conftest.py cannot be imported: AttributeError: module 'os' has no attribute 'nosuch'",
        "python conftest.py",
    ),
    "nothing collected": (
        {"test_a.py": "def check_it():\n    assert 1\n"},
        "pytest found no tests in test_a.py",
        "python -m pytest test_a.py",
    ),
    "all deselected": (
        {"pytest.ini": "[pytest]\naddopts = -k other\n", "test_a.py": TEST},
        "pytest found 1 tests in test_a.py and its settings deselect all of them",
        "remove -m or -k from addopts",
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("case", CASES)
def test_the_reason_is_one_line_with_what_fixes_it(tmp_path, case):
    files, text, remedy = CASES[case]
    write(tmp_path, {"pytest.ini": "[pytest]\n"} | files)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "test_a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = pytest_problem(
        done.returncode,
        done.stdout + done.stderr,
        paths=["test_a.py"],
        python=sys.executable,
        root=tmp_path,
        rerun="python -m pytest test_a.py",
    )
    assert found.text == text
    assert remedy in found.remedy


def test_an_output_without_a_known_reason_is_quoted_by_its_line_about_the_error(tmp_path):
    printed = "INTERNALERROR> Traceback\nINTERNALERROR> RuntimeError: broken\nno tests ran in 0.1s\n"
    found = pytest_problem(3, printed, paths=["a.py"], python="python", root=tmp_path, rerun="again")
    assert (found.text, found.remedy) == ("pytest exited with 3 (internal error): RuntimeError: broken", "again")
    assert pytest_problem(4, "", paths=["a.py"], python="p", root=tmp_path, rerun="x").text.endswith("no output")


def test_an_interpreter_without_pytest_is_named_with_the_command_that_installs_it(tmp_path):
    # -S leaves out the folder in which pytest is installed.
    ran = subprocess.run([sys.executable, "-S", "-m", "pytest"], capture_output=True, text=True, check=False)
    found = pytest_problem(
        ran.returncode, ran.stdout + ran.stderr, paths=["tests"], python=sys.executable, root=tmp_path, rerun="again"
    )
    assert found.text == f"pytest is not installed for {sys.executable}"
    assert found.remedy == f"{sys.executable} -m pip install pytest"
