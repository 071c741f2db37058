"""Write the option tables of the measurements into `docs/torch.md`: `python checks/option_tables.py`.

Each measurement needs a section of its own, written by hand; its table is replaced, or added at the end of the section.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.torchlab.measurement import measurements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.torchlab.measurement import MeasurementDescriptor

FILE = Path(__file__).parents[1] / "docs" / "torch.md"
_TABLE = re.compile(r"^\| option \| default \| meaning \|\n(?:\|.*\n)+", re.MULTILINE)


def updated(page: str, described: Iterable[MeasurementDescriptor]) -> tuple[str, list[str]]:
    """Return the page with the tables, and the commands that have no section.

    Args:
        page: Text of the page.
        described: The measurements.
    """
    absent = []
    for each in described:
        section = re.search(rf"^## `{each.command}`.*\n(?:(?!## ).*\n?)*", page, re.MULTILINE)
        if section is None:
            absent.append(each.command)
            continue
        if not each.option_list() and not each.fail_on:
            continue
        table = f"{each.option_table()}\n"
        text, count = _TABLE.subn(lambda _, table=table: table, section[0], count=1)
        text = text if count else f"{text.rstrip()}\n\n{table}\n"
        page = f"{page[: section.start()]}{text}{page[section.end() :]}"
    return page.rstrip("\n") + "\n", absent


if __name__ == "__main__":
    written, without = updated(FILE.read_text(encoding="utf-8"), measurements())
    FILE.write_text(written, encoding="utf-8")
    for command in without:
        sys.stderr.write(f"docs/torch.md has no section '## `{command}`: ...': write one, then run this again\n")
    sys.exit(bool(without))
