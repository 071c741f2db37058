"""`esper review` through the real entry point."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOOP = """\
for x, y in loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss)
"""


@pytest.fixture
def esper(tmp_path):
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "esper_agents.cli.main", "review", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def train(tmp_path):
    (tmp_path / "train.py").write_text(LOOP)
    return "train.py"


def test_a_critical_finding_fails_and_is_shown_with_its_line(esper, train):
    done = esper(train)
    assert done.returncode == 3
    assert "train.py:3:5: critical ESP101 gradients-not-cleared" in done.stdout
    assert "       3 |     loss.backward()" in done.stdout
    assert "train.py:5:5: warning ESP301 loss-kept-with-graph" in done.stdout


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--category", "memory"), 0),
        (("--category", "memory", "--fail-on", "warning"), 3),
        (("--rule", "ESP901", "--fail-on", "suggestion"), 0),
        (("--rule", "loss-kept-with-graph", "--fail-on", "suggestion"), 3),
    ],
)
def test_the_asked_level_and_rules_decide_the_exit_code(esper, train, options, code):
    assert esper(train, *options).returncode == code


def test_json_holds_claims_and_digests(esper, train):
    shown = json.loads(esper(train, "--json").stdout)
    assert [claim["rule"] for claim in shown["claims"]] == ["ESP101", "ESP301"]
    assert [len(each["git_blob"]) for each in shown["files"]] == [40]
    assert shown["unreadable"] == []


def test_the_source_cannot_steer_the_terminal(esper, tmp_path):
    (tmp_path / "train.py").write_text(LOOP.replace("(loss)", "(loss)  # \x1b[2J\u202e\x07"))
    shown = esper("train.py").stdout
    assert "losses.append(loss)" in shown
    assert not {"\x1b", "\u202e", "\x07"} & set(shown)


def test_a_file_that_cannot_be_read_is_shown_and_decides_nothing(esper, tmp_path):
    (tmp_path / "broken.py").write_text("def f(:\n")
    done = esper("broken.py")
    assert done.returncode == 4
    assert "broken.py:1: does not parse" in " ".join(done.stdout.split())


def test_a_rule_is_explained_and_all_are_listed(esper):
    page = esper("--explain", "ESP305")
    assert page.returncode == 0
    assert page.stdout.startswith("# ESP305 item-in-training-loop")
    assert "## When it is right" in page.stdout
    assert "ESP101" in esper("--list-rules").stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere.py",), "nowhere.py"),
        (("--explain", "ESP3O5"), "no rule named 'ESP3O5'"),
        ((".",), "no Python file"),
        ((), "no path was named"),
    ],
)
def test_wrong_usage_is_two_lines_and_exit_code_2(esper, arguments, problem):
    done = esper(*arguments)
    assert done.returncode == 2
    assert problem in done.stderr
    assert "  fix: " in done.stderr
    assert "Traceback" not in done.stderr
