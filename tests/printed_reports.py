"""Reports of measurements as the command prints them."""

from __future__ import annotations

import io

from rich.console import Console

from esper_agents.cli.torch.measurements import print_section
from esper_agents.torchlab.measurement import measurement


def printed(report, width: int = 100) -> str:
    """Return what the terminal shows for a report."""
    screen = io.StringIO()
    about = measurement(report.kind)
    for section in about.sections(about.parsed(report), report.subject):
        print_section(section, Console(file=screen, width=width, markup=False, highlight=False))
    return screen.getvalue()
