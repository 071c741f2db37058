"""What lets `lgtm? ship it` be decided on a sound project, with and without tests, as a person reads it."""

from __future__ import annotations

import subprocess

import pytest
from places import SOUND, environment, git, write

ASKED = ("submit", "lgtm? ship it", "train.py")
BATCHES = """class Batches(list):
    def mean(self):
        return self

    def backward(self):
        self.append(1)


class Optimizer:
    steps = 0

    def zero_grad(self):
        pass

    def step(self):
        self.steps += 1


"""
EXECUTES = (
    "from train import train\n\n\n"
    + BATCHES
    + """def test_every_batch_is_a_step():
    optimizer = Optimizer()
    train(lambda batch: batch, [Batches(), Batches()], optimizer)
    assert optimizer.steps == STEPS
"""
)
PASSES, FAILS = EXECUTES.replace("STEPS", "2"), EXECUTES.replace("STEPS", "3")
BESIDE = "import train\n\n\ndef test_names():\n    assert train.train.__name__ == 'train'\n"


def said(done, label):
    """Return the texts that stand behind a label on the last screen."""
    screen = done.stdout.rpartition("\n\n")[2]
    return [line.split(maxsplit=1)[1] for line in screen.splitlines() if line.split(" ", 1)[0] == label]


@pytest.mark.sample(1)
@pytest.mark.parametrize("files", [{}, {"test_train.py": PASSES}])
def test_with_nothing_run_nothing_is_decided_and_the_printed_command_is_the_one_that_decides(place, files):
    made = place({"train.py": SOUND, **files})
    done = made.esper(*ASKED, code=4)
    assert said(done, "verdict") == ["NEEDS_FURTHER_REVIEW for train"]
    assert said(done, "because") == ["no test that passed and no comparison with a reference executed train.py"]
    (command,) = said(done, "next")
    comment = "" if files else " # after adding tests that call train.py"
    assert command == f"esper submit 'lgtm? ship it' train.py --allow run-tests{comment}"
    again = subprocess.run(  # noqa: S602 - as it is pasted
        command, shell=True, cwd=made.root, env=environment(made.home), capture_output=True, text=True, check=False
    )
    if files:
        assert again.returncode == 0, again.stdout
        assert "verdict    GO for train" in again.stdout
        assert said(again, "ran") == ["1 test passed and executed 5 of 5 lines of train.py"]
        certificate = made.esper("certificates", "show", "latest", "--json").json["predicate"]
        assert certificate["verdict"]["rationale"] == "1 test passed and executed 5 of 5 lines of train.py"
        assert certificate["caveats"] == [
            "1 test passed and executed 5 of 5 lines of train.py; what depends on data or devices can stay hidden."
        ]
        assert git(made.root, "status", "--porcelain", ":!docs") == ""
    else:
        assert again.returncode == 4, again.stdout
        assert "the project has no tests" in " ".join(again.stdout.split())
        (following,) = said(again, "next")
        assert following.startswith("esper submit 'lgtm? ship it' train.py")
        assert following.endswith(" --allow run-tests # after adding tests that call train.py")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("test", "code", "status", "because"),
    [
        (BESIDE, 4, "NEEDS_FURTHER_REVIEW", "no test that passed and no comparison with a reference executed train.py"),
        (FAILS, 3, "NO_GO", "the tests fail"),
    ],
)
def test_tests_that_execute_nothing_of_it_lift_nothing_and_failing_tests_decide_against(
    place, test, code, status, because
):
    made = place({"train.py": SOUND, "test_train.py": test})
    done = made.esper(*ASKED, "--allow", "run-tests", code=code)
    assert said(done, "verdict") == [f"{status} for train"]
    assert because in " ".join(done.stdout.split())


@pytest.mark.slow
def test_after_tests_that_execute_nothing_the_same_command_is_not_offered_again(place):
    made = place({"train.py": SOUND, "test_train.py": BESIDE})
    done = made.esper(*ASKED, "--allow", "run-tests", code=4)
    assert [each.removeprefix("known").strip() for each in said(done, "not")] == [
        "no passing test executed train.py (0 of 5 lines); add tests that call it"
    ]
    (command,) = said(done, "next")
    assert command.startswith("esper submit --rerun crt_")
    assert command.endswith(" --allow run-tests # after adding tests that call train.py")
    write(made.root, {"test_train.py": PASSES})
    again = subprocess.run(  # noqa: S602 - as it is pasted
        command, shell=True, cwd=made.root, env=environment(made.home), capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stdout


@pytest.mark.slow
def test_a_folder_whose_tests_execute_nothing_is_named_by_its_files(place):
    made = place({"train.py": SOUND, "model.py": SOUND, "test_train.py": BESIDE})
    done = made.esper("submit", "lgtm? ship it", ".", "--allow", "run-tests", code=4)
    (missing,) = said(done, "not")
    assert missing.startswith("known  no passing test executed ")
    assert "and . is in question" not in done.stdout


@pytest.mark.slow
def test_a_question_about_a_branch_is_not_decided_by_tests_that_pass(place):
    made = place({"train.py": SOUND, "test_train.py": PASSES})
    done = made.esper("submit", "may I merge this branch?", "train.py", "--allow", "run-tests", code=4)
    assert "the question is about a change" in said(done, "because")[0]


def test_a_project_cannot_allow_its_own_tests_and_can_forbid_them(place):
    made = place({"train.py": SOUND, "test_train.py": PASSES})
    rule = '[[rule]]\ntool = "run-tests*"\naction = "{}"\n'
    write(made.root, {".esper/config.toml": rule.format("allow")})
    assert "run-tests in" not in made.esper(*ASKED, code=4).stdout
    write(made.root, {".esper/config.toml": rule.format("deny")})
    done = made.esper(*ASKED, "--allow", "run-tests", code=4)
    assert "run-tests denied: not allowed, because of the project's settings" in " ".join(done.stdout.split())


def test_what_cannot_be_allowed_is_refused_with_what_can(place):
    made = place({"train.py": SOUND})
    problem, remedy = made.esper(*ASKED, "--allow", "run-test").problem(2)
    assert problem == "no tool named 'run-test'"
    assert "'run-tests'" in remedy
    problem, remedy = made.esper(*ASKED, "--allow", "run-tests:net").problem(2)
    assert problem == "run-tests has no exception 'net'"
    assert remedy == "allow run-tests, or one of run-tests:network, run-tests:read=PATH, run-tests:unsandboxed"


@pytest.mark.slow
def test_what_was_allowed_was_allowed_for_that_session(place):
    made = place({"train.py": SOUND, "test_train.py": PASSES})
    made.esper(*ASKED, "--allow", "run-tests", code=0)
    done = made.esper("submit", "--rerun", "latest", code=4)
    assert said(done, "next")[0].endswith(" --allow run-tests")
    assert said(done, "next")[0].startswith("esper submit --rerun crt_")
