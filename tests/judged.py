"""A project with one certificate, made in this process."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from esper_agents.api import open_project
from esper_agents.certificates.signing import signing_key

FAULTY = """import torch


def train(model, loader, optimizer, loss_fn):
    total = 0.0
    for x, y in loader:
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


@dataclass(frozen=True)
class Judged:
    """A project whose `train.py` was reviewed.

    Attributes:
        root: The project's folder.
        id: The certificate.
        view: Its published view.
        record: Its published envelope.
    """

    root: Path
    id: str
    view: Path
    record: Path

    @property
    def proof(self) -> Path:
        """Its published proof."""
        return self.view.with_suffix(".tlog-proof")

    @property
    def train(self) -> Path:
        """The file that was reviewed."""
        return self.root / "train.py"


def judge(root: Path) -> Judged:
    """Review `train.py` of a project; a critical finding stands at line 8 and a warning at line 10."""
    outcome = asyncio.run(_review(root))
    return Judged(root, outcome.certificate.id, outcome.view, outcome.view.with_suffix(".dsse.json"))


async def _review(root: Path):
    async with open_project(root) as project:
        task = project.tasks.create("review this training code", [root / "train.py"], agent="pytorch-code-reviewer")
        return await (await project.tasks.submit(task)).run()


def judge_and_forget() -> None:
    """Review a project and verify its certificate, and leave nothing of it but what this process has worked out."""
    with tempfile.TemporaryDirectory(prefix="esper-test-judged-") as folder, pytest.MonkeyPatch.context() as own:
        own.setenv("ESPER_HOME", str(Path(folder, "home")))
        root = Path(folder, "toy")
        root.mkdir()
        (root / "train.py").write_text(FAULTY)
        asyncio.run(_verify(judge(root)))
    # A process keeps the key that it signed with.
    signing_key._given = None
    signing_key._read.clear()


async def _verify(judged: Judged) -> None:
    async with open_project(judged.root) as project:
        assert (await project.certificates.verify(judged.id)).certificate
        assert project.agents.route("review this training code").agent


def judged_before(home: Path) -> Judged:
    """Return a project under git as `judge` leaves it, with its home; it is reviewed once and then copied.

    It always lies in the same folder, since that names it in what is on record.
    """
    folder, judged = _judged_once()
    shutil.rmtree(judged.root, ignore_errors=True)
    shutil.copytree(folder / "root", judged.root, symlinks=True)
    shutil.copytree(folder / "home", home, dirs_exist_ok=True)
    return judged


@cache
def _judged_once() -> tuple[Path, Judged]:
    folder = Path(tempfile.mkdtemp(prefix="esper-test-judged-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = folder / "here" / "toy"
    root.mkdir(parents=True)
    (root / "train.py").write_text(FAULTY)
    for arguments in (("init", "-q", "-b", "main", "--template="), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run(["git", "-C", str(root), *arguments], check=True)
    with pytest.MonkeyPatch.context() as own:
        own.setenv("ESPER_HOME", str(folder / "home"))
        judged = judge(root)
    shutil.copytree(root, folder / "root", symlinks=True)
    return folder, judged
