"""Tests of `esper explain`."""

from __future__ import annotations

import json

import pytest
from places import command

SOURCE = """import torch

def forward(x):
    gate = torch.sigmoid(x)
    gate *= 2.0
    return gate

loss = forward(1).sum()
loss.backward()
"""
MESSAGE = (
    "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [3]], which is output 0 of SigmoidBackward0, is at version 1; expected version 0 instead."
)
TRACE = (
    'Traceback (most recent call last):\n  File "/home/lee/proj/net.py", line 9, in <module>\n    loss.backward()\n'
    f'  File "/opt/lib/python3.10/site-packages/torch/_tensor.py", line 5, in backward\n    f()\n{MESSAGE}\n'
)


@pytest.fixture
def esper(tmp_path):
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "crash.log").write_text(TRACE)

    def run(*arguments):
        return command("explain", *arguments, cwd=tmp_path)

    return run


def problem(done):
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith("esper: ")
    assert second.startswith("  fix: ")
    return first


def test_a_trace_of_another_machine_is_answered_with_cause_line_and_change(esper):
    done = esper("crash.log")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "net.py:5 changes `gate` in place, and the sigmoid at net.py:4 needs its own output" in said
    assert "Write `gate = gate * 2.0`." in said
    assert "/home/lee/proj/net.py:9 is net.py:9 of this project (same text)" in said
    assert "next       esper review net.py" in done.stdout


def test_json_has_the_same_fields(esper):
    explained = json.loads(esper("crash.log", "--json").stdout)
    assert explained["family"] == "in-place-modification"
    assert explained["cause"] == "kept-output-changed"
    assert explained["location"] == "net.py:5"
    assert explained["is_certain"] is True


def test_the_output_and_the_exit_code_of_a_command_are_passed_through(esper):
    script = "import sys; print('step 1'); print('warm', file=sys.stderr); sys.exit(7)"
    done = esper("--", "python3", "-c", script)
    assert (done.returncode, done.stdout) == (7, "step 1\n")
    assert done.stderr.startswith("warm\n")
    assert "printed no error message" in done.stderr


def test_the_failure_of_a_command_is_explained_after_its_output(esper):
    done = esper("--", "python3", "-c", "import missing_package_of_mine")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert "`missing_package_of_mine` is not installed" in " ".join(done.stderr.split())


def test_a_command_that_succeeds_is_not_explained(esper):
    done = esper("--", "python3", "-c", "print(1)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_an_unknown_error_keeps_its_line_and_ends_undecided(esper, tmp_path):
    (tmp_path / "other.log").write_text(TRACE.replace(MESSAGE, "StrangeError: odd"))
    done = esper("other.log")
    assert done.returncode == 4
    assert "net.py:9: StrangeError: odd" in done.stdout


def test_a_text_without_an_error_is_refused_in_two_lines(esper, tmp_path):
    (tmp_path / "fine.log").write_text("step 1\nstep 2\n" * 2500)
    assert "no stack trace or error message" in problem(esper("fine.log"))
    (tmp_path / "empty.log").write_text("")
    assert "the text is empty" in problem(esper("empty.log"))


def test_a_missing_file_and_a_missing_program_are_refused_in_two_lines(esper):
    assert "missing.log" in problem(esper("missing.log"))
    assert "no-such-program" in problem(esper("--", "no-such-program"))
    assert "name either" in problem(esper("crash.log", "--", "python3"))


def test_secrets_of_a_log_are_not_shown(esper, tmp_path):
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"
    (tmp_path / "secret.log").write_text(f"ValueError: no access with token {secret}\n")
    done = esper("secret.log")
    assert secret not in done.stdout + done.stderr


def test_of_two_traces_the_first_is_explained_and_the_other_counted(esper, tmp_path):
    (tmp_path / "two.log").write_text(TRACE + "retry\n" + TRACE.replace(MESSAGE, "ValueError: other"))
    done = esper("two.log")
    assert "net.py:5" in done.stdout
    assert "1 more in this text" in done.stdout
    assert "ValueError: other" in done.stdout


def test_a_failing_line_that_is_gone_is_not_replaced_by_its_caller(esper, tmp_path):
    inner = '  File "/home/lee/proj/gone.py", line 3, in step\n    loss.sum().backward()\n'
    (tmp_path / "gone.log").write_text(TRACE.replace('  File "/opt', f'{inner}  File "/opt').replace("Sigmoid", "Sin"))
    said = " ".join(esper("gone.log").stdout.split())
    assert "net.py:9 calls /home/lee/proj/gone.py:3, which is not in this project as printed." in said


def test_a_trace_of_another_project_says_how_to_name_that(esper, tmp_path):
    (tmp_path / "other.log").write_text(TRACE.replace("proj/net.py", "proj/other.py"))
    assert "`--project PATH` names" in " ".join(esper("other.log").stdout.split())


def test_a_message_is_taken_as_text_quoted_or_not(esper):
    assert "net.py:5 changes `gate`" in esper(MESSAGE).stdout
    done = esper("IndexError:", "index", "out", "of", "range", "in", "self")
    assert done.returncode == 0
    assert "embedding" in done.stdout
    assert "net.py:5" in esper(TRACE).stdout


def test_a_name_that_is_no_message_is_a_missing_file(esper):
    assert "missing log.txt" in problem(esper("missing log.txt"))


def test_a_session_and_a_text_exclude_each_other(esper):
    assert "--session names the text" in problem(esper("crash.log", "--session", "latest"))


def test_a_frame_of_an_installed_package_is_the_projects_where_the_project_is_that_package(tmp_path):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "queue.py").write_text("def put(rows, memory):\n    assert len(rows) <= len(memory)\n")
    (tmp_path / "crash.log").write_text(
        'Traceback (most recent call last):\n  File "/home/lee/train.py", line 9, in <module>\n    put(rows, memory)\n'
        '  File "/opt/lib/python3.10/site-packages/nets/queue.py", line 2, in put\n'
        "    assert len(rows) <= len(memory)\nAssertionError\n"
    )
    done = command("explain", "crash.log", cwd=tmp_path)
    assert "nets/queue.py:2: this comparison of values is false: `len(rows)`" in " ".join(done.stdout.split())
