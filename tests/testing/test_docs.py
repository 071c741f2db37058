"""What docs/testing.md shows runs as it stands there."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from esper_agents.testing import conformance, script

PAGE = (Path(__file__).parents[2] / "docs/testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.sample(2)
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_a_block_of_the_page_runs(block, tmp_path):
    file = tmp_path / "example.py"
    file.write_text(block, encoding="utf-8")
    runpy.run_path(str(file), run_name="__main__")


def test_the_page_names_every_part_of_a_script_and_every_check():
    parts = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    assert parts == [each.__name__ for each in script.Part.__args__]
    checks = re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)
    assert checks == [each.__name__ for each in conformance.CHECKS]
