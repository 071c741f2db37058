"""Snapshot of a git project for other machines: its commit, and what differs from it."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import re
import stat
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import EvidenceError, IntegrityError, UsageError
from esper_agents.file_bundle import BundledFile, pack_files, refuse_path, unpack_files, write_files
from esper_agents.git.process import configured, git, running_git, toplevel
from esper_agents.git.project_state import revision
from esper_agents.git.trees import EXECUTABLE, LINK, GitTreeEntry, contents, entries, fields
from esper_agents.tools.file_access import is_private
from esper_agents.tools.secret_stores import secret_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

MOST_BYTES = 64 * 2**20
_TREE, _OBJECTS = "tree/", "objects/"
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_FORMATS = {"sha1": 40, "sha256": 64}
_KINDS = ("commit", "tree", "blob")
_AT_ONCE = 500
_REMEDY = "submit the task again from the machine that has the project"


@dataclass(frozen=True, slots=True)
class ProjectSnapshot:
    """Snapshot of a project.

    Attributes:
        data: Its bytes.
        commit: The commit.
        files: Paths of the files that it contains.
        withheld: Paths of the secret files that it does not contain.
    """

    data: bytes
    commit: str
    files: frozenset[str]
    withheld: tuple[str, ...]


@dataclass(slots=True)
class _WorkTree:
    """Files of a work tree that may travel."""

    files: dict[str, BundledFile]
    links: dict[str, str]
    withheld: list[str]


def take_snapshot(root: Path, most_bytes: int = MOST_BYTES) -> ProjectSnapshot:
    """Return a snapshot of a project: commit, changed and new files; without ignored files and secret stores.

    Args:
        root: The project's folder, the top of a git work tree.
        most_bytes: Maximum size of all its contents.

    Raises:
        UsageError: It is not a git work tree with a commit, or too large.
        EvidenceError: git cannot read the commit, or a file cannot be read.
    """
    state = revision(root) if toplevel(root) == root.resolve() else None
    if state is None or not state.commit:
        problem = f"{str(root)!r} is not a git work tree with a commit, so that it cannot travel"
        raise UsageError(problem, remedy="commit the project, or run the worker on this machine")
    committed = {entry.path: entry for entry in entries(root, state.commit)}
    staged = set(_listed(root, "ls-files", "-z"))
    others = _listed(root, "ls-files", "-z", "--others", "--exclude-standard")
    found = _read(root, sorted({*staged, *others}), most_bytes)
    objects = _objects(root, state.commit, committed, found, most_bytes)
    added = sorted(path for path in staged - committed.keys() if path in found.files)
    facts = {
        "commit": state.commit,
        "branch": state.branch,
        "format": "sha1" if len(state.commit) == _FORMATS["sha1"] else "sha256",
        "links": json.dumps(found.links, sort_keys=True),
        "added": json.dumps(added),
        "removed": json.dumps(sorted(committed.keys() - staged)),
        "withheld": json.dumps(sorted(found.withheld)),
    }
    files = [BundledFile(f"{_TREE}{file.path}", file.content, file.is_executable) for file in found.files.values()]
    return ProjectSnapshot(
        pack_files((*files, *objects), facts), state.commit, frozenset(found.files), tuple(sorted(found.withheld))
    )


def _listed(root: Path, *arguments: str) -> list[str]:
    with running_git(root, *arguments) as process:
        names = [os.fsdecode(name) for name in fields(process.answers) if name]
        if process.wait() != 0:
            raise EvidenceError("git cannot list the files of the project", remedy="run `git status` in the project")
    return names


def _read(root: Path, paths: Iterable[str], most_bytes: int) -> _WorkTree:
    found, size, top = _WorkTree({}, {}, []), 0, root.resolve()
    for path in paths:
        # A folder that became a link may lead out of the project; git lists the files of the folder.
        if (top / path).parent.resolve() != (top / path).parent or not os.path.lexists(top / path):
            continue
        facts = os.lstat(top / path)
        if is_private(path):
            found.withheld.append(path)
        elif stat.S_ISLNK(facts.st_mode):
            found.links[path] = str((top / path).readlink())
        elif stat.S_ISREG(facts.st_mode):
            size += facts.st_size
            if size > most_bytes:
                raise _too_large(root, most_bytes)
            _add(found, path, _content(top / path), is_executable=bool(facts.st_mode & stat.S_IXUSR))
    return found


def _content(file: Path) -> bytes | str:
    """Return the bytes of a regular file, or why it cannot be read."""
    try:
        found = read_plain(file, MOST_BYTES, follow=False)
    except (OSError, ValueError) as error:
        return str(error)
    return found.data if found is not None else "it is not a regular file"


def _add(found: _WorkTree, path: str, content: bytes | str, *, is_executable: bool) -> None:
    """Add a file, unless it is a secret store.

    Raises:
        EvidenceError: It cannot be read, or its path cannot be in a snapshot.
    """
    if isinstance(content, str):
        raise EvidenceError(f"{path!r} cannot travel: {content}", remedy="make it readable, or let git ignore it")
    try:
        refuse_path(path)
    except IntegrityError as error:
        raise EvidenceError(error.problem, remedy=error.remedy) from error
    if secret_store(content, path):
        found.withheld.append(path)
    else:
        found.files[path] = BundledFile(path, content, is_executable)


def _too_large(root: Path, most_bytes: int) -> UsageError:
    problem = f"the files of {str(root)!r} that git does not ignore have over {most_bytes // 2**20} MiB"
    return UsageError(problem, remedy="let git ignore data and results, or put the project on the workers' machines")


def _objects(
    root: Path, commit: str, committed: Mapping[str, GitTreeEntry], found: _WorkTree, most_bytes: int
) -> Iterator[BundledFile]:
    """Yield the objects of a commit but the contents that the work tree has, and those of secret stores."""
    name = _hash_of(commit)
    known = {_object_id(name, "blob", file.content) for file in found.files.values()}
    trees = _listed(root, "ls-tree", "-r", "-d", "-z", "--full-tree", commit)
    size = 0
    with contents(root) as reader:

        def packed(object_id: str) -> BundledFile:
            kind, content = reader.read_object(object_id)
            return BundledFile(f"{_OBJECTS}{object_id}", f"{kind} {len(content)}\0".encode() + content)

        top = (git(root, "rev-parse", f"{commit}^{{tree}}") or "").strip()
        about = [line.partition("\t")[0].split() for line in trees]
        subtrees = {object_id for _, kind, object_id in about if kind == "tree"}
        yield from map(packed, sorted({commit, top, *subtrees}))
        for path, entry in sorted(committed.items()):
            if entry.object_id in known or entry.mode not in {LINK, EXECUTABLE, "100644"} or is_private(path):
                continue
            known.add(entry.object_id)
            blob = packed(entry.object_id)
            size += len(blob.content)
            if size > most_bytes:
                raise _too_large(root, most_bytes)
            if not secret_store(blob.content.partition(b"\0")[2], path):
                yield blob


def _hash_of(commit: str) -> Any:
    return hashlib.sha1 if len(commit) == _FORMATS["sha1"] else hashlib.sha256


def _object_id(name: Any, kind: str, content: bytes) -> str:
    return str(name(f"{kind} {len(content)}\0".encode() + content).hexdigest())


def restore_snapshot(data: bytes, root: Path, most_bytes: int = MOST_BYTES) -> None:
    """Write a snapshot into a new private folder, as a git work tree with one commit.

    Nothing of it is run. Links that lead out of the folder are omitted.

    Args:
        data: Bytes of the snapshot, from another machine.
        root: A missing folder in a private one.
        most_bytes: Maximum size of the work tree, and of the other objects of the commit.

    Raises:
        IntegrityError: It is damaged, too large, or names a path outside the folder.
        EvidenceError: The folder cannot be written.
    """
    files, facts = unpack_files(data, 2 * most_bytes)
    commit, form = facts.get("commit", ""), facts.get("format", "")
    if not _OBJECT_ID.fullmatch(commit) or _FORMATS.get(form) != len(commit):
        raise IntegrityError("the snapshot names no commit", remedy=_REMEDY)
    tree = [
        BundledFile(file.path.removeprefix(_TREE), file.content, file.is_executable)
        for file in files
        if file.path.startswith(_TREE)
    ]
    objects = [file for file in files if file.path.startswith(_OBJECTS)]
    try:
        root.mkdir(mode=0o700)
        if git(root, "init", "-q", "--template=", f"--object-format={form}") is None:
            raise EvidenceError("git cannot make a repository to work in", remedy="run `git --version`; 2.31 will do")
        write_files(root, tree)
        _write_objects(root / ".git" / "objects", _hash_of(commit), objects, tree)
        (root / ".git" / "shallow").write_text(f"{commit}\n", encoding="ascii")
        omitted = _write_links(root, _names(facts, "links"))
    except OSError as error:
        problem = f"the snapshot cannot be written to {str(root)!r}: {error.strerror}"
        raise EvidenceError(problem, remedy="free some space, or set TMPDIR to another folder") from error
    _write_index(root, commit, facts, tree, omitted)


def _names(facts: Mapping[str, str], fact: str) -> Any:
    try:
        found = json.loads(facts[fact])
    except (KeyError, ValueError, RecursionError) as error:
        raise IntegrityError(f"the snapshot has no readable list of {fact} files", remedy=_REMEDY) from error
    if not isinstance(found, dict | list) or not all(isinstance(each, str) for each in found):
        raise IntegrityError(f"the snapshot has no readable list of {fact} files", remedy=_REMEDY)
    return found


def _write_objects(folder: Path, name: Any, objects: Iterable[BundledFile], tree: Iterable[BundledFile]) -> None:
    whole = [(file.path.removeprefix(_OBJECTS), file.content) for file in objects]
    for named, content in whole:
        is_known = content.partition(b" ")[0].decode("ascii", "replace") in _KINDS
        if not is_known or name(content).hexdigest() != named:
            raise IntegrityError(f"object {named[:64]!r} of the snapshot does not match its name", remedy=_REMEDY)
    blobs = {_object_id(name, "blob", file.content): file.content for file in tree}
    whole += [(object_id, f"blob {len(content)}\0".encode() + content) for object_id, content in blobs.items()]
    for object_id, content in whole:
        place = folder / object_id[:2] / object_id[2:]
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(zlib.compress(content, 1))


def _write_links(root: Path, links: Any) -> list[str]:
    """Write the links that stay inside the folder, after the files, and return the others."""
    omitted = []
    for path, target in links.items() if isinstance(links, dict) else ():
        refuse_path(path)
        place = root / path
        if not isinstance(target, str) or not _stays_inside(path, target):
            omitted.append(path)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.parent.resolve() != root.resolve() / posixpath.dirname(path) or os.path.lexists(place):
            raise IntegrityError(f"link {path[:200]!r} of the snapshot cannot be there", remedy=_REMEDY)
        place.symlink_to(target)
    return omitted


def _stays_inside(path: str, target: str) -> bool:
    """Return whether a link stays in the folder: it climbs first, and no further than to the top."""
    parts = target.split("/")
    climbs = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    is_plain = not target.startswith("/") and "\0" not in target and ".." not in parts[climbs:]
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return is_plain and climbs <= path.count("/") and ".git" not in inside.casefold().split("/")


def _write_index(
    root: Path, commit: str, facts: Mapping[str, str], tree: Iterable[BundledFile], omitted: Sequence[str]
) -> None:
    name = _hash_of(commit)
    branch = f"refs/heads/{facts.get('branch', '')}"
    if facts.get("branch") and git(root, "check-ref-format", branch) is not None:
        git(root, "symbolic-ref", "HEAD", branch)
        git(root, "update-ref", branch, commit)
    else:
        git(root, "update-ref", "--no-deref", "HEAD", commit)
    if git(root, "read-tree", commit) is None:
        raise IntegrityError("the snapshot does not contain the tree of its commit", remedy=_REMEDY)
    added, removed, withheld = (_names(facts, fact) for fact in ("added", "removed", "withheld"))
    for path in (*added, *removed, *withheld):
        refuse_path(path)
    files = {file.path: file for file in tree}
    # By object names: `git add` would run the filters that the user configured.
    staged: list[str] = []
    for file in (files[path] for path in added if path in files):
        mode = EXECUTABLE if file.is_executable else "100644"
        staged += ["--cacheinfo", f"{mode},{_object_id(name, 'blob', file.content)},{file.path}"]
    tracked = set(_listed(root, "ls-files", "-z")) - set(removed)
    absent = [path for path in (*withheld, *omitted) if path in tracked]
    filters = configured(root).filters
    for options, paths in (
        (("--add",), staged),
        (("--force-remove", "--"), removed),
        (("--skip-worktree", "--"), absent),
    ):
        for start in range(0, len(paths), _AT_ONCE):
            git(root, "update-index", *options, *paths[start : start + _AT_ONCE], emptied=filters)
