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


STATUS = "REQUIRES_REMEDIATION"
EXAMPLES = list(zip(BLOCKS, (STATUS, STATUS, STATUS, "ssh-ed25519", "pytorch-code-reviewer"), strict=True))


@pytest.mark.parametrize(("block", "result"), EXAMPLES, ids=["sync", "async", "verification", "no project", "review"])
def test_an_example_of_the_page_prints_its_result(block, result, tmp_path):
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
    assert result in done.stdout
