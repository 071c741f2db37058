from __future__ import annotations

import pytest

from esper_agents.tools.executable_lines import executable_lines


def statements(text):
    return sorted(set(executable_lines(text).statements.values()))


def test_statements_in_functions_count_and_those_that_an_import_executes_do_not():
    text = "import os\nA = os.getcwd()\n\n\nclass C:\n    b = 1\n\n    def m(self):\n        'doc'\n        return 1\n"
    assert statements(text) == [10]
    assert not executable_lines(text).is_script


def test_a_statement_of_several_lines_is_one_whichever_of_them_runs():
    found = executable_lines("def f():\n    return (\n        1\n        + 2\n    )\n")
    assert found.statements == {2: 2, 3: 2, 4: 2, 5: 2}
    assert found.count == 1


def test_what_is_in_a_branch_a_loop_a_handler_and_a_function_inside_counts_by_itself():
    text = "def f(x):\n    try:\n        if x:\n            a()\n        else:\n            b()\n"
    text += (
        "    except OSError:\n        c()\n    def g():\n        d()\n    match x:\n        case 1:\n            e()\n"
    )
    assert statements(text) == [2, 3, 4, 6, 8, 9, 10, 11, 13]


@pytest.mark.parametrize(
    "text", ["", "A = 1\nB = (1, 2)\n", "import os\nfrom os import path\n", "class C:\n    x: int\n"]
)
def test_in_a_file_of_constants_nothing_can_be_executed(text):
    assert executable_lines(text).count == 0


def test_in_a_file_without_a_function_what_does_something_counts():
    found = executable_lines(
        "import a\nX = 1\na.run()\nfor i in a:\n    X += i\nif __name__ == '__main__':\n    a.go()\n"
    )
    assert sorted(set(found.statements.values())) == [3, 4, 5, 7]
    assert found.is_script


def test_what_is_not_python_is_refused():
    with pytest.raises(SyntaxError):
        executable_lines("def f(:\n")
