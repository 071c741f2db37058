"""The option tables of `docs/torch.md`, as `make docs` writes them."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from esper_agents.torchlab.measurement import measurement, measurements

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/torch.md").read_text(encoding="utf-8")
updated = runpy.run_path(str(ROOT / "checks/option_tables.py"))["updated"]


def test_the_page_has_the_tables_of_all_measurements():
    assert updated(PAGE, measurements()) == (PAGE, []), "run `python checks/option_tables.py`"


def test_a_table_is_replaced_in_the_section_of_its_measurement():
    changed = PAGE.replace("| `--calls` | `3` |", "| `--calls` | `4` |")
    assert changed != PAGE
    assert updated(changed, measurements()) == (PAGE, [])


def test_a_section_without_a_table_gets_one_at_its_end():
    watch = measurement("watch")
    page = "# Measure\n\n## `watch`: lines\n\nCounts.\n\n## `other`: something\n\nText.\n"
    expected = page.replace("Counts.\n", f"Counts.\n\n{watch.option_table()}\n")
    assert updated(page, [watch]) == (expected, [])


def test_a_measurement_without_a_section_is_named():
    assert updated("# Measure\n", [measurement("watch")]) == ("# Measure\n", ["watch"])


@pytest.mark.parametrize("described", measurements(), ids=lambda described: described.kind)
def test_the_level_of_fail_on_and_its_help_are_both_given_or_both_absent(described):
    assert bool(described.fail_on) == bool(described.fail_help)
