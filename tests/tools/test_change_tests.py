"""Tests chosen for a change, on real repositories: by imports, through other files, and by names."""

from __future__ import annotations

import pytest
from places import git, write

from esper_agents.tools.change_tests import MOST_FILES, changed_files, choose_tests, importers
from esper_agents.tools.tool import ToolContext

FILES = {
    "src/pkg/__init__.py": "",
    "src/pkg/loss.py": "def hinge(x):\n    return max(0, x)\n",
    "src/pkg/train.py": "from pkg.loss import hinge\n\n\ndef step(x):\n    return hinge(x)\n",
    "src/pkg/other.py": "def other():\n    return 1\n",
    "tests/conftest.py": "import pytest\n",
    "tests/test_train.py": "from pkg.train import step\n\n\ndef test_step():\n    assert step(1)\n",
    "tests/test_zloss.py": "from pkg.loss import hinge\n\n\ndef test_hinge():\n    assert hinge(1)\n"
    "def test_two():\n    pass\n",
    "tests/test_other.py": "from pkg import other\n\n\ndef test_other():\n    assert other.other()\n",
}


@pytest.fixture
def chosen(project):
    """Return a function from edited files to the tests that are chosen for the edit."""

    def choose(edited, within=(), more=None):
        write(project, FILES | (more or {}))
        git(project, "init", "-q")
        git(project, "add", "-A")
        git(project, "commit", "-qm", "one")
        write(project, edited)
        context = ToolContext(project)
        return choose_tests(context, changed_files(context, "HEAD"), within)

    return choose


def test_tests_that_import_the_change_directly_or_not_are_chosen_and_those_that_name_it_come_first(chosen):
    found = chosen({"src/pkg/loss.py": "def hinge(x):\n    return max(1, x)\n"})
    assert found.files == ("tests/test_zloss.py", "tests/test_train.py")
    assert (found.tests, found.all_tests, found.reaching, found.omitted) == (3, 4, 2, 0)


def test_a_changed_test_is_chosen_and_tests_outside_the_named_folders_are_not(chosen):
    found = chosen({"tests/test_other.py": "def test_other():\n    assert 1\n"}, ["tests/test_other.py"])
    assert (found.files, found.all_tests) == (("tests/test_other.py",), 1)


def test_where_no_test_imports_the_change_all_tests_are_candidates_up_to_a_limit(chosen):
    more = {f"tests/test_{number}.py": "def test_it():\n    pass\n" for number in range(MOST_FILES)}
    found = chosen({"tool.py": "def unused():\n    return 1\n"}, ["tests"], more)
    assert (found.reaching, len(found.files), found.omitted) == (0, MOST_FILES, 3)


def test_a_conftest_that_changed_concerns_the_tests_below_it(chosen):
    found = chosen({"tests/conftest.py": "import pytest\n\nX = 1\n"})
    assert set(found.files) == {"tests/test_other.py", "tests/test_train.py", "tests/test_zloss.py"}


def test_names_with_spaces_and_other_alphabets_deleted_and_renamed_files_are_read(chosen, project):
    named = ("src/pkg/two words.py", "src/pkg/größe.py")
    chosen(dict.fromkeys(named, "def g():\n    return 2\n"), (), dict.fromkeys(named, "def g():\n    return 1\n"))
    (project / "src/pkg/loss.py").rename(project / "src/pkg/losses.py")
    context = ToolContext(project)
    found = {changed_file.path: changed_file for changed_file in changed_files(context, "HEAD")}
    assert [found[path].lines.statements for path in named] == [{2}, {2}]
    assert found["src/pkg/loss.py"].after is None
    assert importers(context, "src/pkg/loss.py") == ("src/pkg/train.py", "tests/test_zloss.py")
