"""Reviews whose parts are reviewed from their contents alone, as other machines do."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from places import FAULTY, SOUND, git, write

from esper_agents.errors import InputFileError, UsageError
from esper_agents.review import engine
from esper_agents.review.engine import review, review_portable
from esper_agents.review.parts import divide

LIBRARY = "[tool.esper.review]\nlibraries = []\n[project]\nname = 'toy'\nversion = '1'\nrequires-python = '>=3.8'\n"
FILES = {
    "train.py": FAULTY,
    "model/layers.py": "import torch\n\n\ndef scaled(x):\n    return torch.compile(x)\n",
    "model/requirements.txt": "torch==1.12\n",
    "plain/a.py": SOUND,
    "plain/b.py": "def f(:\n",
    "plain/c.py": b"\xff\xfe",
    "plain/d.py": "match 1:\n    case 1:\n        pass\n",
    "notebook.ipynb": '{"cells": [], "nbformat": 4, "nbformat_minor": 5, "metadata": {}}',
    "pyproject.toml": LIBRARY,
}


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "toy"
    write(root, FILES)
    (root / "plain" / "gone.py").symlink_to("nowhere.py")
    git(root, "init", "-q", "--template=")
    return root


def elsewhere(seen, parts):
    for part in parts:
        seen.append(part)
        yield pickle.loads(pickle.dumps(review_portable(pickle.loads(pickle.dumps(part)))))  # noqa: S301 - own bytes


@pytest.mark.parametrize("most_bytes", [10**6, 300, 1])
def test_parts_that_travel_give_the_report_of_one_process(project, monkeypatch, most_bytes):
    monkeypatch.setattr(engine, "divide", partial(divide, most_bytes=most_bytes))
    here = review(project, [Path()])
    seen = []
    there = review(project, [Path()], elsewhere=partial(elsewhere, seen))
    assert there == here
    assert here.claims
    assert here.unreadable
    assert len(seen) == max(1, len(here.parts))


def test_only_the_contents_of_a_part_travel_and_the_settings_near_it(project):
    seen = []
    review(project, [Path("model")], elsewhere=partial(elsewhere, seen))
    (part,) = seen
    assert [source.path for source in part.sources] == ["model/layers.py"]
    assert {file.path for file in part.settings} == {"pyproject.toml", "model/requirements.txt"}
    assert str(project).encode() not in pickle.dumps(part)


def test_another_version_of_the_review_is_refused(project):
    seen = []
    review(project, [Path()], elsewhere=partial(elsewhere, seen))
    with pytest.raises(UsageError, match="another version of esper-agents or Python"):
        review_portable(replace(seen[0], program="older"))


def test_a_named_file_with_nothing_to_review_is_refused_as_in_one_process(project):
    (project / "empty.py").touch()
    for parts in (None, partial(elsewhere, [])):
        with pytest.raises(InputFileError, match="the file is empty"):
            review(project, [Path("empty.py")], elsewhere=parts)
