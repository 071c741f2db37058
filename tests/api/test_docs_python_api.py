"""The examples of `docs/python-api.md` run on a small project."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import FAULTY, environment, write

PAGE = (Path(__file__).parents[2] / "docs/python-api.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.sample(1)
@pytest.mark.parametrize("block", BLOCKS, ids=["sync", "async"])
def test_an_example_of_the_page_prints_the_status(block, tmp_path):
    write(tmp_path / "my-project", {"train.py": FAULTY})
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "REQUIRES_REMEDIATION" in done.stdout
