"""Helpers for tests with clones of a repository."""

from __future__ import annotations

import asyncio
import subprocess

from esper_agents.api import open_project


def git(folder, *arguments):
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def asked(root, question):
    async def run():
        async with open_project(root) as project:
            return await question(project.certificates)

    return asyncio.run(run())
