"""Projects to run the installed `esper` on; what is costly to come by is made once and copied."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress

import pytest
from places import FAULTY, SLOW_TEST, SOUND, Place, Slow, git, write

from esper_agents.paths import PUBLISHED


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """Return what makes a project of files, under git unless told otherwise, with an empty home."""

    def make(files, *, under_git=True):
        folder = tmp_path_factory.mktemp("place")
        root = folder / "toy"
        root.mkdir()
        write(root, files)
        if under_git:
            git(root, "init", "-q", "-b", "main", "--template=")
            git(root, "add", "-A")
            git(root, "commit", "-q", "--allow-empty", "-m", "first")
        return Place(root, folder / "home")

    return make


@pytest.fixture(scope="session")
def toy(place):
    """Return a project with a faulty file and a sound one, and how its first review went."""
    made = place({"train.py": FAULTY, "sound.py": SOUND})
    return made, made.esper("submit", "review this training code", "train.py")


@pytest.fixture(scope="session")
def published_at_first(toy):
    """Return the published files of the project before any test added some."""
    return {path for path in (toy[0].root / PUBLISHED).rglob("*") if path.is_file()}


@pytest.fixture
def known(toy, published_at_first, tmp_path):
    """Return the project with one session and one certificate, which this test may do to what it likes."""
    # What other tests published is by others for this home.
    for path in [each for each in (toy[0].root / PUBLISHED).rglob("*") if each.is_file()]:
        if path not in published_at_first:
            path.unlink()
    return toy[0].with_home(tmp_path / "home")


@pytest.fixture
def unprivileged():
    """Return what is put before a command so that permissions hold for it, as they do for everybody but root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root, and no setpriv: what happens where nothing may be written was NOT tested")
    dropped = "-dac_override,-dac_read_search"
    return ["setpriv", "--bounding-set", dropped, "--inh-caps", dropped]


@pytest.fixture(scope="session")
def waiting(place):
    """Return a project with a session that waits for leave to run the project's tests, and how it came to wait."""
    made = place({"train.py": SOUND, "tests/test_slow.py": SLOW_TEST, ".gitignore": "__pycache__/\n"})
    # Outside the sandbox: the slow test leaves its traces where another process sees them.
    leave = ("--ask", "run-tests", "--allow", "run-tests:unsandboxed")
    return made, made.esper("submit", "review this training code and run the tests", "train.py", "tests", *leave)


@pytest.fixture
def slow(waiting, tmp_path):
    """Return a session of its own that waits for leave to run the slow test."""
    made = Slow(waiting[0].with_home(tmp_path / "home"), tmp_path)
    yield made
    with suppress(OSError):
        made.go()
