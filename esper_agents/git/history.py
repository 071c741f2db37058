"""Read git history of documents and cited files; runs no hooks and fetches nothing."""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import IO, TYPE_CHECKING

from esper_agents.git.process import RunningGit, git, running_git
from esper_agents.git.trees import fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Self

_CHUNK = 1 << 16
_MOST_FIELDS = 5_000_000
_MOST_TREES = 8
_MOST_TREE_FILES = 500_000
_MOST_BLOB_BYTES = 64 * 2**20
_MOST_FOLLOWED = 10
# A commit argument begins with fixed text, and a path is never passed in its position.
_COMMIT = "%x02%H%x00%P%x00%aI%x00%cI%x00"
# A repository could configure its own programs for signature checks, diffs or file conversion.
_LOG = (
    *("--literal-pathspecs", "log", "-z", "--topo-order", "-m", "--no-renames", "--no-show-signature", "--no-ext-diff"),
    *("--no-textconv", "--no-color", "--ignore-submodules=all", "--name-status", f"--format={_COMMIT}"),
)
_STATUS = re.compile(r"[ACDMRTUXB]\d*")


@dataclass(frozen=True, slots=True)
class DocumentCommit:
    """Commit that changed a document.

    Attributes:
        commit: Object ID.
        parents: Object IDs of its parents.
        authored: Author time, in the author's zone.
        committed: Committer time, in the committer's zone.
        is_boundary: Whether its parents are missing (shallow clone), so it does not show when a file was added.
    """

    commit: str
    parents: tuple[str, ...]
    authored: datetime
    committed: datetime
    is_boundary: bool


@dataclass(frozen=True, slots=True)
class CommitTree:
    """Files of a commit.

    Attributes:
        files: Object ID by path.
        by_name: Paths by file name.
        code: Digest over all files except agent documents; equal if those files are equal.
    """

    files: dict[str, str]
    by_name: dict[str, tuple[str, ...]]
    code: str


@dataclass
class _Touched:
    added: dict[str, DocumentCommit] = field(default_factory=dict)
    changed: dict[str, DocumentCommit] = field(default_factory=dict)


class GitHistory:
    """Git queries on one repository; a context manager that ends its git processes on exit."""

    def __init__(self, root: Path, paths: Sequence[str]) -> None:
        """Open a work tree for queries.

        Args:
            root: Top folder of the work tree.
            paths: Folders and files that contain documents, relative to the top folder.
        """
        self.root = root
        self._ends = ExitStack()
        self.is_shallow = (git(root, "rev-parse", "--is-shallow-repository") or "").strip() == "true"
        promisors = git(root, "config", "--get-regexp", r"^remote\..*\.promisor$")
        # In a partial clone, an object that is not found may still exist.
        self.is_partial = bool((promisors or "").strip())
        self.head = (git(root, "rev-parse", "--verify", "-q", "HEAD") or "").strip()
        self._touched = self._read_log([path for path in paths if path not in {"", "."}]) if self.head else _Touched()
        self._trees: OrderedDict[str, CommitTree | None] = OrderedDict()
        self._check: RunningGit | None = None
        self._batch: RunningGit | None = None
        self._line_counts = lru_cache(20_000)(self._count_lines)
        self._codes: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def added(self, path: str) -> DocumentCommit | None:
        """Return the first commit that added a document, under any earlier name; None if it is not committed."""
        found = self._touched.added.get(path)
        for _ in range(_MOST_FOLLOWED):
            if found is None or not found.parents:
                break
            before = self._same_file_before(path, found)
            if before is None:
                break
            path, found = before, self._read_log([before], found.parents[0]).added.get(before) or found
        return found

    def changed(self, path: str) -> DocumentCommit | None:
        """Return the newest commit that changed a document; None if it is not committed."""
        return self._touched.changed.get(path)

    def tree(self, commit: str) -> CommitTree | None:
        """Return the files of a commit; None if they cannot be read."""
        if commit not in self._trees:
            self._trees[commit] = self._read_tree(commit)
            if len(self._trees) > _MOST_TREES:
                self._trees.popitem(last=False)
        self._trees.move_to_end(commit)
        return self._trees[commit]

    def code(self, commit: str) -> str:
        """Return a digest for the code of a commit: equal if no file except agent documents differs.

        Args:
            commit: Object ID of the commit; empty for the newest.
        """
        wanted = commit or self.head
        if wanted not in self._codes:
            tree = self.tree(wanted) if wanted else None
            # An unreadable tree is equal to no other.
            self._codes[wanted] = tree.code if tree else wanted
        return self._codes[wanted]

    def commit(self, name: str) -> str:
        """Return the object ID of a commit from a prefix; empty if there is none."""
        about = self._about(f"{name}^{{commit}}")
        return about[0] if about else ""

    def blob(self, commit: str, path: str) -> str:
        """Return the object ID of a file in a commit; empty if there is none."""
        about = self._about(f"{commit}:{path}")
        return about[0] if about and about[1] == "blob" else ""

    def lines(self, blob: str) -> int | None:
        """Return the line count of a blob; None if it cannot be read or is too long."""
        return self._line_counts(blob)

    def read(self, blob: str) -> bytes | None:
        """Return the bytes of a blob; None if it cannot be read or is too long."""
        about = self._about(blob)
        data = b"".join(self._chunks(blob))
        return data if about is not None and len(data) == about[2] else None

    def _same_file_before(self, path: str, found: DocumentCommit) -> str | None:
        """Return the name of a document in the parent commit, if the commit only renamed it."""
        blob, before = self.blob(found.commit, path), self.tree(found.parents[0])
        if not blob or before is None or path in before.files:
            return None
        name = path.rpartition("/")[2]
        likely = before.by_name.get(name, ()) or tuple(file for file in before.files if file.lower().endswith(".md"))
        return next((each for each in likely if before.files[each] == blob), None)

    def _read_log(self, paths: Sequence[str], start: str = "HEAD") -> _Touched:
        touched = _Touched()
        with running_git(self.root, *_LOG, start, "--", *paths) as process:
            fields = _fields(process.answers)
            now: DocumentCommit | None = None
            for each in fields:
                word = each.lstrip("\n")
                if word.startswith("\x02"):
                    now = self._recorded(word[1:], next(fields, ""), next(fields, ""), next(fields, ""))
                elif _STATUS.fullmatch(word) and now is not None:
                    path = next(fields, "")
                    touched.changed.setdefault(path, now)
                    if word == "A":
                        touched.added[path] = now
        return touched

    def _recorded(self, commit: str, parents: str, authored: str, committed: str) -> DocumentCommit | None:
        try:
            written, recorded = datetime.fromisoformat(authored), datetime.fromisoformat(committed)
        except ValueError:
            return None
        before = tuple(parents.split())
        return DocumentCommit(commit, before, written, recorded, is_boundary=self.is_shallow and not before)

    def _read_tree(self, commit: str) -> CommitTree | None:
        files: dict[str, str] = {}
        names: dict[str, list[str]] = {}
        code = sha256()
        with running_git(self.root, "ls-tree", "-r", "-z", "--full-tree", commit) as process:
            for each in _fields(process.answers):
                about, _, path = each.partition("\t")
                words = about.split()
                if len(words) != 3 or len(files) >= _MOST_TREE_FILES:  # noqa: PLR2004 - mode, type, object id
                    return None
                files[path] = words[2]
                names.setdefault(path.rpartition("/")[2], []).append(path)
                if not path.startswith("docs/ai/"):
                    code.update(os.fsencode(each) + b"\0")
            if process.wait() != 0:
                return None
        return CommitTree(files, {name: tuple(paths) for name, paths in names.items()}, code.hexdigest())

    def _about(self, name: str) -> tuple[str, str, int] | None:
        if "\n" in name or "\0" in name:
            return None
        if self._check is None:
            self._check = self._ends.enter_context(running_git(self.root, "cat-file", "--batch-check"))
        words = _ask(self._check, name).split()
        return (words[0], words[1], int(words[2])) if len(words) == 3 and words[2].isdecimal() else None  # noqa: PLR2004

    def _count_lines(self, blob: str) -> int | None:
        about = self._about(blob)
        count, size, last = 0, 0, b"\n"
        for chunk in self._chunks(blob):
            count, size, last = count + chunk.count(b"\n"), size + len(chunk), chunk[-1:]
        return count + (last != b"\n") if about is not None and size == about[2] else None

    def _chunks(self, blob: str) -> Iterator[bytes]:
        about = self._about(blob)
        if about is None or about[1] != "blob" or about[2] > _MOST_BLOB_BYTES:
            return
        if self._batch is None:
            self._batch = self._ends.enter_context(running_git(self.root, "cat-file", "--batch"))
        if _ask(self._batch, blob).split()[1:2] != ["blob"]:
            return
        left = about[2]
        while left > 0:
            chunk = self._batch.answers.read(min(left, _CHUNK))
            if not chunk:
                return
            left -= len(chunk)
            yield chunk
        self._batch.answers.read(1)


def _ask(process: RunningGit, name: str) -> str:
    try:
        process.ask.write(os.fsencode(name) + b"\n")
        process.ask.flush()
        return os.fsdecode(process.answers.readline())
    except (BrokenPipeError, UnicodeEncodeError):
        return ""


def _fields(stream: IO[bytes]) -> Iterator[str]:
    return map(os.fsdecode, islice(fields(stream), _MOST_FIELDS))
