"""Find the change that a task is about: named by the user, or of the current branch."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.domain.change import BRANCH, STAGED, TaskChange
from esper_agents.errors import UsageError
from esper_agents.git.process import git, toplevel
from esper_agents.git.revisions import commit_of
from esper_agents.paths import PUBLISHED
from esper_agents.review.changed_sources import change_since, staged_change
from esper_agents.review.source import ReviewSource, read

if TYPE_CHECKING:
    from pathlib import Path

    from esper_agents.review.changed_sources import TreePair

# Usual names of a default branch, for a repository whose remote has none.
_DEFAULTS = ("main", "master", "trunk", "develop")
_SOURCES, _DOCUMENTS = (".py", ".ipynb"), (".md", ".rst", ".png", ".svg", ".jpg")


def change_named(root: Path, asked: str) -> TaskChange:
    """Return the change that a user named.

    Args:
        root: The work tree.
        asked: A revision, for the changes since then; `A..B`; `A...B`, from their common commit; or `--staged`.

    Raises:
        UsageError: A revision does not exist, the folder is not under git, nothing changed, or the new sources are not
            those of the work tree.
    """
    if asked == STAGED:
        found = _of(asked, _commit(root, "HEAD"), "", staged_change(root, ["."]))
    elif ".." in asked:
        dots = "..." if "..." in asked else ".."
        first, _, second = asked.partition(dots)
        base, head = _commit(root, first or "HEAD"), _commit(root, second or "HEAD")
        base = _merge_base(root, base, head) if dots == "..." else base
        found = _of(asked, base, head, change_since(root, f"{base}..{head}", ["."]))
    else:
        base = _commit(root, asked)
        found = _of(asked, base, "", change_since(root, base, ["."]))
    if not (found.paths or found.deleted):
        raise UsageError(f"no Python source changed in {asked!r}", remedy="name another revision: git log --oneline")
    _refuse_other_sources(root, found)
    return found


def change_of_branch(root: Path) -> TaskChange:
    """Return the change of the current branch: its work tree against the merge base with the default branch.

    On the default branch itself these are the changes that are not committed.

    Raises:
        UsageError: There is no default branch or no common commit, or nothing changed.
    """
    default = default_branch(root)
    head = _commit(root, "HEAD")
    if not default:
        raise UsageError(
            "the default branch of this repository is not known, so the change cannot be determined",
            remedy='name what to compare with: esper submit --diff REV "REQUEST"',
        )
    base = _merge_base(root, _commit(root, default), head)
    found = _of(default, base, "", change_since(root, base, ["."]))
    if not (found.paths or found.deleted):
        raise UsageError(
            f"this work tree does not differ from {default!r} in any Python source",
            remedy='switch to the branch in question, or name the change: esper submit --diff A..B "REQUEST"',
        )
    return replace(found, asked=BRANCH)


def default_branch(root: Path) -> str:
    """Return the repository's default branch: of the remote, else a usual name; empty if there is none."""
    remote = (git(root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD") or "").strip()
    if remote and git(root, "rev-parse", "--verify", "-q", remote):
        return remote
    local = (git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes/origin") or "").split()
    found = [name for each in _DEFAULTS for name in (each, f"origin/{each}") if name in local]
    return found[0] if found else ""


def _of(asked: str, base: str, head: str, trees: TreePair) -> TaskChange:
    before = {each.record.path: each.record.sha256 for each in trees.before if isinstance(each, ReviewSource)}
    after = {each.record.path: each.record.sha256 for each in trees.after if isinstance(each, ReviewSource)}
    changed = [path for path in trees.paths if not path.startswith(f"{PUBLISHED}/")]
    rows = "".join(f"{before.get(path, '-')} {after.get(path, '-')} {path}\n" for path in changed)
    sources = [path for path in changed if path.endswith(_SOURCES)]
    here = {*after, *(each.path for each in trees.after if not isinstance(each, ReviewSource))}
    return TaskChange(
        asked,
        base,
        head,
        sha256(rows.encode("utf-8", "surrogatepass")).hexdigest(),
        tuple(path for path in sources if path in here),
        tuple(path for path in sources if path not in here),
        tuple(path for path in changed if not path.endswith(_SOURCES + _DOCUMENTS)),
    )


def _refuse_other_sources(root: Path, change: TaskChange) -> None:
    """Reject a change whose new sources are not in the work tree: tests and other tools read the work tree.

    Raises:
        UsageError: A changed source differs from the file in the work tree.
    """
    is_staged = change.asked == STAGED
    if not (is_staged or change.head):
        return
    trees = staged_change(root, change.paths) if is_staged else change_since(root, change.since, change.paths)
    for each in trees.after:
        if not isinstance(each, ReviewSource) or each.record.path not in change.paths:
            continue
        here = read(root / each.record.path, each.record.path)
        if not isinstance(here, ReviewSource) or here.record.sha256 != each.record.sha256:
            problem = f"{each.record.path} in the work tree, which tests would run, is not that of {change.asked!r}"
            checkout = f"check it out first: git switch --detach {change.head[:12]}"
            remedy = "set the other changes aside: git stash --keep-index" if is_staged else checkout
            raise UsageError(problem, remedy=remedy)


def _commit(root: Path, name: str) -> str:
    if toplevel(root) != root.resolve():
        remedy = "name the files instead of a change"
        raise UsageError(f"{str(root)!r} is not a git repository, so it has no change to judge", remedy=remedy)
    return commit_of(root, name)


def _merge_base(root: Path, one: str, other: str) -> str:
    found = (git(root, "merge-base", one, other) or "").strip()
    if found:
        return found
    is_shallow = (git(root, "rev-parse", "--is-shallow-repository") or "").strip() == "true"
    remedy = "fetch the history: git fetch --unshallow" if is_shallow else "name the change as A..B"
    raise UsageError(f"{one[:12]} and {other[:12]} have no common commit in this clone", remedy=remedy)
