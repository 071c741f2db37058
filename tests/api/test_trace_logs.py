"""Tests of `esper_agents.api.trace_logs`: errors of logs that a request names become a part of it."""

from __future__ import annotations

import pytest

from esper_agents.api import open_project
from esper_agents.api.trace_logs import error_part, with_named_logs
from esper_agents.domain.request import Material
from esper_agents.domain.status import QuestionType

TRACE = (
    'Traceback (most recent call last):\n  File "/home/lee/train.py", line 5, in train\n    loss.backward()\n'
    "RuntimeError: grad can be implicitly created only for scalar outputs\n"
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "crash.log").write_text(f"epoch 1\n{TRACE}")
    (tmp_path / "notes.txt").write_text("nothing failed\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_log_in_the_words_and_a_log_among_the_paths_are_read(folder) -> None:
    named, rest = with_named_logs("why does it crash? see crash.log", ["train.py"], folder)
    assert named.endswith(f"Content of crash.log:\nepoch 1\n{TRACE.strip()}")
    assert rest == ("train.py",)
    assert with_named_logs("why does it crash?", ["crash.log", "train.py"], folder) == (
        named.replace(" see crash.log", ""),
        ("train.py",),
    )


def test_a_text_without_an_error_and_a_file_elsewhere_stay_as_they_are(folder, tmp_path_factory) -> None:
    other = tmp_path_factory.mktemp("other") / "secret.log"
    other.write_text(TRACE)
    (folder / "linked.log").symlink_to(other)
    for request in ("see notes.txt", "see missing.log", f"see {other}", "see linked.log"):
        assert with_named_logs(request, ["notes.txt", str(other)], folder) == (request, ("notes.txt", str(other)))


def test_of_a_long_log_the_part_around_the_error_is_taken(folder) -> None:
    (folder / "long.log").write_text("step\n" * 4000 + TRACE + "step\n" * 4000)
    part = error_part(folder / "long.log")
    assert TRACE in part
    assert len(part) < 16_000


@pytest.mark.anyio
async def test_a_task_contains_the_error_without_secrets(project, monkeypatch) -> None:
    secret = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"
    (project / "crash.log").write_text(f"token {secret}\n{TRACE}")
    monkeypatch.chdir(project)
    async with open_project(project) as opened:
        task = opened.tasks.create("what is wrong since i added this? crash.log")
        assert "only for scalar outputs" in task.request
        assert secret not in task.request
        assert (task.kind, task.change) == (QuestionType.ADVICE, None)
        assert Material.TRACE in opened.tasks.parse(task.request).materials
