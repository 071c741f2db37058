from __future__ import annotations

import os
import subprocess
import sys

import pytest
from certificate_samples import every_text
from hostile_texts import ATTACKS
from measured_samples import full_and_measured

from esper_agents.certificates.statement import statement
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown

RENDER = """
import sys
from esper_agents.certificates.views.html import render_html
from esper_agents.certificates.views.markdown import render_markdown
sys.stdout.buffer.write({name}(sys.stdin.buffer.read()).encode())
"""


@pytest.mark.sample(2)
@pytest.mark.parametrize("render", [render_markdown, render_html])
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_view_is_the_same_in_another_process_with_another_hash_seed_clock_and_language(render, seed):
    data = statement(every_text(full_and_measured(), ATTACKS[0]))
    made = subprocess.run(
        [sys.executable, "-c", RENDER.format(name=render.__name__)],
        input=data,
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": seed, "LC_ALL": "C", "TZ": "Asia/Tokyo"},
    )
    assert made.stdout.decode() == render(data)
