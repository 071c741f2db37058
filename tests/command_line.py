"""The `esper` command in this process, built once: building it takes ten times as long as most commands."""

from __future__ import annotations

from functools import cache

import typer.main
import typer.testing

from esper_agents.cli import main

build = cache(main.build)
# Typer's runner would make the command of an application anew for every call.
typer.testing._get_command = cache(typer.main.get_command)
