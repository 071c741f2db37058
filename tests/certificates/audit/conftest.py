"""A repository with a source file, and room for certificates."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from freehand import TRAIN, Archive


@pytest.fixture
def archive(make_project):
    """Return a repository whose only commit, of 1 January 2026, holds `src/train.py` of 20 lines."""
    root = make_project(under_git=False, files={"src/train.py": TRAIN})
    made = Archive(root)
    made.git("init", "-q", "-b", "main", "--template=")
    made.commit("2026-01-01T00:00:00+00:00")
    return made
