"""Find the change that a task is about: named by the user, or of the current branch."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.domain.change import BRANCH, STAGED, TaskChange
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.git.diffs import changed_submodules
from esper_agents.git.process import git, toplevel
from esper_agents.git.revisions import commit_of
from esper_agents.review.changed_sources import change_since, staged_change
from esper_agents.review.source import ReviewSource, read

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from esper_agents.review.changed_sources import TreePair

# Usual names of a default branch, for a repository whose remote has none.
_DEFAULTS = ("main", "master", "trunk", "develop")
_INTO = frozenset(("into", "onto", "to", "in", "nach", "dans"))
_BRANCH_WORDS = frozenset(("branch", "branches", "into", "merge", "merging", "onto", "zweig", "rama"))
_LONGEST_REQUEST = 20_000
_SOURCES, _DOCUMENTS = (".py", ".ipynb"), (".md", ".rst", ".png", ".svg", ".jpg")


def change_named(root: Path, asked: str) -> TaskChange:
    """Return the change that a user named.

    Args:
        root: The work tree.
        asked: A revision, for the changes since then; `A..B`; `A...B`, from their common commit; or `--staged`.

    Raises:
        UsageError: A revision does not exist, the folder is not under git, nothing changed, or the staged sources are
            not those of the work tree.
    """
    if asked == STAGED:
        found = _of(root, asked, _commit(root, "HEAD"), "", staged_change(root, ["."], only_changed=True))
    elif ".." in asked:
        dots = "..." if "..." in asked else ".."
        first, _, second = asked.partition(dots)
        base, head = _commit(root, first or "HEAD"), _commit(root, second or "HEAD")
        base = _merge_base(root, base, head) if dots == "..." else base
        found = _of(root, asked, base, head, change_since(root, f"{base}..{head}", ["."], only_changed=True))
    else:
        base = _commit(root, asked)
        found = _of(root, asked, base, "", change_since(root, base, ["."], only_changed=True))
    if not (found.paths or found.deleted):
        raise UsageError(f"no Python source changed in {asked!r}", remedy="name another revision: git log --oneline")
    return _located(root, found)


def change_in_request(root: Path, request: str) -> TaskChange | None:
    """Return the change of the branches that a request names, as in `merge feature/x into develop`.

    Args:
        root: The work tree.
        request: A request about a merge or a change.

    Returns:
        None if the request names no branch, or only the default one: it is about the current branch.

    Raises:
        UsageError: The named branch has no changes or no common commit.
    """
    revisions = _branches(root)
    named = list(_branches_in(request, revisions))
    current = (git(root, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip()
    default = default_branch(root)
    base = next((name for name, is_target in named if is_target), "") or default.removeprefix("origin/")
    head = next((name for name, is_target in named if not is_target and name != base), "")
    if not base or (head in {"", current} and base == default.removeprefix("origin/")):
        return None
    into = revisions.get(base, base)
    return change_of_branch(root, into) if head in {"", current} else change_named(root, f"{into}...{revisions[head]}")


def change_of_branch(root: Path, into: str = "") -> TaskChange:
    """Return the change of the current branch: its work tree against the merge base with another branch.

    On the default branch itself these are the changes that are not committed.

    Args:
        root: The work tree.
        into: The other branch; the default branch if omitted.

    Raises:
        UsageError: There is no default branch or no common commit, or nothing changed.
    """
    default, base = base_of_branch(root, into, remedy='name what to compare with: esper submit --diff REV "REQUEST"')
    found = _of(root, default, base, "", change_since(root, base, ["."], only_changed=True))
    if not (found.paths or found.deleted):
        raise UsageError(
            f"this work tree does not differ from {default!r} in any Python source",
            remedy='switch to the branch in question, or name the change: esper submit --diff A..B "REQUEST"',
        )
    return replace(found, asked=BRANCH)


def base_of_branch(root: Path, into: str = "", *, remedy: str = "name what to compare with") -> tuple[str, str]:
    """Return the branch that the current one is compared with, and their merge base.

    Args:
        root: The work tree.
        into: The other branch; the default branch if omitted.
        remedy: Remedy if the default branch is not known.

    Raises:
        UsageError: There is no default branch, no such revision or no common commit.
    """
    default = into or default_branch(root)
    head = _commit(root, "HEAD")
    if not default:
        problem = "the default branch of this repository is not known, so the change cannot be determined"
        raise UsageError(problem, remedy=remedy)
    return default, _merge_base(root, _commit(root, default), head)


def digest_now(root: Path, change: TaskChange) -> str:
    """Return the digest of a recorded change as it is now: `TaskChange.sha256` if nothing moved since.

    Empty if the change cannot be determined any more, or if the tree no longer contains its new sources.

    Args:
        root: The tree that agents read: the work tree, or the copy of a commit.
        change: The change as recorded.
    """
    try:
        if change.asked == STAGED:
            trees = staged_change(root, ["."], only_changed=True)
        else:
            trees = change_since(root, change.since, ["."], only_changed=True)
        found = _of(root, change.asked, change.base, change.head, trees)
    except (UsageError, EvidenceError):
        return ""
    return "" if _other_source(root, found) else found.sha256


def default_branch(root: Path) -> str:
    """Return the repository's default branch: of the remote, else a usual name; empty if there is none."""
    remote = (git(root, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD") or "").strip()
    if remote and git(root, "rev-parse", "--verify", "-q", remote):
        return remote
    local = (git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes/origin") or "").split()
    found = [name for default in _DEFAULTS for name in (default, f"origin/{default}") if name in local]
    return found[0] if found else ""


def _branches(root: Path) -> dict[str, str]:
    """Return the branches of this clone and of its origin by name, as revisions."""
    listed = (git(root, "for-each-ref", "--format=%(refname:short)", "refs/remotes/origin", "refs/heads") or "").split()
    return {each.removeprefix("origin/"): each for each in listed if each not in {"origin", "origin/HEAD"}}


def _branches_in(request: str, branches: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield the branches that a text names, and whether it names them as the target of a merge.

    A name that is an ordinary word counts only next to a word such as `branch` or `into`.
    """
    words = [each.strip("`'\",;:!?()[]").rstrip(".") for each in request[:_LONGEST_REQUEST].split()]
    for number, word in enumerate(words):
        if word not in branches:
            continue
        before, after = words[number - 1].lower() if number else "", words[number + 1 : number + 2]
        is_target = before in _INTO
        beside = {before, *(each.lower() for each in after)}
        if not word.isalpha() or beside & _BRANCH_WORDS or (is_target and word in _DEFAULTS):
            yield word, is_target


def _of(root: Path, asked: str, base: str, head: str, trees: TreePair) -> TaskChange:
    submodules = changed_submodules(root, base, head)
    before = {each.record.path: each.record.sha256 for each in trees.before if isinstance(each, ReviewSource)}
    after = {each.record.path: each.record.sha256 for each in trees.after if isinstance(each, ReviewSource)}
    rows = "".join(f"{before.get(path, '-')} {after.get(path, '-')} {path}\n" for path in trees.paths)
    rows += "".join(f"submodule {path}\n" for path in submodules)
    sources = [path for path in trees.paths if path.endswith(_SOURCES)]
    here = {*after, *(each.path for each in trees.after if not isinstance(each, ReviewSource))}
    others = {path for path in trees.paths if not path.endswith(_SOURCES + _DOCUMENTS)}
    return TaskChange(
        asked,
        base,
        head,
        sha256(rows.encode("utf-8", "surrogatepass")).hexdigest(),
        tuple(path for path in sources if path in here),
        tuple(path for path in sources if path not in here),
        tuple(sorted(others.union(submodules))),
    )


def _located(root: Path, change: TaskChange) -> TaskChange:
    """Return a change with the tree that contains its new sources: the work tree, or else the head commit.

    Raises:
        UsageError: A staged source differs from the file in the work tree, which agents read.
    """
    other = _other_source(root, change)
    if other and not change.head:
        problem = f"{other} in the work tree, which agents read, is not that of {change.asked!r}"
        raise UsageError(problem, remedy="set the other changes aside: git stash --keep-index")
    return replace(change, is_checked_out=not other)


def _other_source(root: Path, change: TaskChange) -> str:
    """Return the first new source of a change that a tree does not contain; empty if it contains all."""
    is_staged = change.asked == STAGED
    if not (is_staged or change.head):
        return ""
    names = change.paths
    trees = staged_change(root, names) if is_staged else change_since(root, change.since, names, only_changed=True)
    for each in trees.after:
        if not isinstance(each, ReviewSource) or each.record.path not in change.paths:
            continue
        here = read(root / each.record.path, each.record.path)
        if not isinstance(here, ReviewSource) or here.record.sha256 != each.record.sha256:
            return each.record.path
    return ""


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
