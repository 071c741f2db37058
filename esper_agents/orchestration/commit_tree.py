"""Private copy of a commit, for a session about a change that is not checked out."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.project import GitRevision
from esper_agents.errors import EvidenceError
from esper_agents.git.process import git
from esper_agents.git.project_state import revision
from esper_agents.tools.certified_tree import in_thread, scratch_tree
from esper_agents.tools.lab_pool import LabPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from esper_agents.domain.task import Task
    from esper_agents.tools.tool import ToolContext


def revision_of(root: Path, task: Task) -> GitRevision:
    """Return the git state that a task is about: of the project now, or the head commit of a change.

    Args:
        root: The project's folder.
        task: The task.
    """
    now, change = revision(root), task.change
    if change is None or change.is_checked_out:
        return now
    tree = (git(root, "rev-parse", "--verify", "-q", f"{change.head}^{{tree}}") or "").strip()
    return GitRevision(change.head, tree, "", now.remote, is_git=True, dirty=())


@asynccontextmanager
async def context_for(task: Task, context: ToolContext) -> AsyncIterator[ToolContext]:
    """Yield what the tools of a session read: the project, or a private copy of the commit that its change leads to.

    The copy is deleted when the block ends; a resumed session makes the same one again.

    Args:
        task: The task of the session.
        context: The project.

    Raises:
        EvidenceError: The commit is no longer in the repository, or cannot be written.
    """
    change = task.change
    if change is None or change.is_checked_out:
        yield context
        return
    root = context.root.resolve()
    async with in_thread(scratch_tree(root, revision_of(root, task), ())) as tree:
        if tree.unknown:
            problem = f"the commit {change.head[:12]} of {change.asked!r} is not in this repository any more"
            raise EvidenceError(problem, remedy=f"fetch it, or check it out: git switch --detach {change.head[:12]}")
        bench = LabPool(tree.root)
        try:
            yield replace(context, root=tree.root, bench=bench, checkout=root)
        finally:
            await bench.close()
