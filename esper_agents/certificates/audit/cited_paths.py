"""Resolve cited paths to the files of a commit."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esper_agents.certificates.audit.subject import Subject
    from esper_agents.git.history import GitHistory

_DRIVE = re.compile(r"[A-Za-z]:")
_OUTSIDE = ("/etc/", "/usr/", "/opt/", "/tmp/", "/var/", "/proc/", "/sys/", "/dev/", "/root/.", "~/.")  # noqa: S108


def is_outside(path: str) -> bool:
    """Return whether a path refers to a system location that no repository contains."""
    return path.startswith(_OUTSIDE) or "site-packages/" in path


def commits_for(subject: Subject) -> tuple[str, ...]:
    """Return the commits that a document may refer to: those it names, the one that added it, and its parent.

    A memory document is extended over time, so it refers to the commit that changed it last.
    """
    history = subject.history
    if history is None:
        return ()
    named = (history.commit(each) for each, _ in subject.document.commits[:20])
    is_memory = subject.document.kind != "certificate"
    came = subject.changed if is_memory else subject.added
    with_it = (came.commit, *came.parents[:1]) if came else (history.head,)
    return tuple(dict.fromkeys(each for each in (*with_it, *named) if each))


def find_cited(history: GitHistory, commit: str, path: str, folder: str) -> tuple[str, ...]:
    """Return the files of a commit that a cited path may refer to; empty if no file matches.

    Paths of other machines, partial paths and bare names are matched as well.

    Args:
        history: The repository.
        commit: Commit to search.
        path: Path as written.
        folder: Folder of the document, to which links such as `../a.py` are relative.
    """
    plain = _DRIVE.sub("", path.replace("\\", "/"), count=1)
    if plain.startswith(".."):
        plain = posixpath.normpath(posixpath.join(folder, plain))
    elif not plain.startswith(("/", "~")):
        plain = posixpath.normpath(plain)
    if not plain.startswith(("/", "~", "..")) and history.blob(commit, plain):
        return (plain,)
    tree = history.tree(commit)
    if tree is None:
        return ()
    same_name = tree.by_name.get(plain.rpartition("/")[2], ())
    if plain.startswith(("/", "~")):
        return _by_end(plain, same_name, history.root.name)
    return tuple(each for each in same_name if each == plain or each.endswith(f"/{plain}"))


def _by_end(plain: str, same_name: tuple[str, ...], root: str) -> tuple[str, ...]:
    """Return the files whose path is the end of a path from another machine."""
    whole = plain.lstrip("/~")
    found = []
    for each in same_name:
        above = whole.removesuffix(each)
        is_end = above != whole and (not above or above.endswith("/"))
        # A single name is ambiguous: it is a file of the top folder only if that folder is named before it.
        if is_end and ("/" in each or above.rstrip("/").rpartition("/")[2] in {"", root}):
            found.append(each)
    return (max(found, key=len),) if found else ()
