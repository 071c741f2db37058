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


MODEL = "import torch\n\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(8, 8)\n"
STATUS = "REQUIRES_REMEDIATION"
RESULTS = (STATUS, STATUS, STATUS, "ssh-ed25519", "pytorch-code-reviewer", "one graph, and nothing breaks it")
EXAMPLES = list(zip(BLOCKS, RESULTS, strict=True))
NAMES = ["sync", "async", "verification", "no project", "review", "measurement"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("block", "result"), EXAMPLES, ids=NAMES)
def test_an_example_of_the_page_prints_its_result(block, result, tmp_path):
    if "project.measure." in block:
        pytest.importorskip("torch", reason="no torch: the measurement was NOT run")
    write(tmp_path / "my-project", {"train.py": FAULTY, "model.py": MODEL})
    subprocess.run(["git", "init", "--quiet", tmp_path / "my-project"], check=True)
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
