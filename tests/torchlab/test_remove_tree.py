"""What user code left in its scratch folder is deleted, and nothing beside it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from esper_agents.torchlab import remove_tree
from esper_agents.torchlab.remove_tree import remove


def _deep(folder, depth):
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("down", dir_fd=here)
        below = os.open("down", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_folder_deeper_than_any_recursion_is_deleted(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    _deep(folder, 200)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        remove(folder)
    finally:
        sys.setrecursionlimit(usual)
    assert not folder.exists()


def test_links_are_deleted_and_not_followed(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("x")
    folder = tmp_path / "scratch"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "kept")
    remove(folder)
    remove(folder)
    assert not folder.exists()
    assert (tmp_path / "kept" / "file").read_text() == "x"


AS_NOBODY = """
import os, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from esper_agents.torchlab.remove_tree import remove
os.setresuid(65534, 65534, 65534)
remove(Path(sys.argv[2]))
sys.exit(Path(sys.argv[2]).exists())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_is_closed_to_its_owner_is_deleted():
    theirs = Path(tempfile.mkdtemp(prefix="esper-test-"))
    (theirs / "scratch" / "closed").mkdir(parents=True)
    for folder, mode in ((theirs / "scratch" / "closed", 0), (theirs / "scratch", 0), (theirs, 0o700)):
        folder.chmod(mode)
        os.chown(folder, 65534, 65534)
    here = str(Path(remove_tree.__file__).parents[2])
    subprocess.run([sys.executable, "-c", AS_NOBODY, here, str(theirs / "scratch")], check=True)
    theirs.rmdir()
