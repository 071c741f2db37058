"""Run git safely: nothing from the repository's configuration or attributes runs, no fetches."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

_TIMEOUT_S = 30
# A repository may bring its own configuration; none of it may start a program.
_INERT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat")
# Variables that make git use a different repository than the given one; git hooks set them.
_ELSEWHERE = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"))
# A partial clone fetches missing objects through programs that its configuration names. Older gits know only the second
# variable.
_OFFLINE = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
# Environment variable with the location of the signing key; no child process needs it.
_KEY_FILE = "ESPER_SIGNING_KEY_FILE"
_FILTERS = r"^filter\..*\.(clean|smudge|process|required)$"
# Git's message about a path inside a submodule that was not fetched.
_TOO_DEEP = b"in submodule"
_ORIGIN = "remote.origin.url"
_OF_REPOSITORY = frozenset(("local", "worktree"))


def git(root: Path, *arguments: str, emptied: Sequence[str] = (), index: Path | None = None) -> str | None:
    """Return git's output, or None if it fails or is not installed.

    Args:
        root: A folder of the repository.
        arguments: Command and options.
        emptied: Settings to disable, such as the filters of `configured`.
        index: The index file to use instead of the repository's own.
    """
    environment = _environment(emptied) | ({"GIT_INDEX_FILE": str(index)} if index else {})
    try:
        # A process group of its own: Ctrl-C is for this process, and a git killed by it would look like "not under
        # git".
        done = subprocess.run(
            _command(root, arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            start_new_session=True,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Bytes that are not UTF-8 are escaped, because the ledger stores text and no project path may contain them.
    return done.stdout.decode("utf-8", "backslashreplace") if done.returncode == 0 else None


def ignored_paths(root: str, paths: Sequence[str]) -> set[str]:
    """Return the given paths that git ignores; files tracked by git are not ignored.

    The owner of the repository does not matter, because nothing of its configuration runs.

    Args:
        root: The folder of the repository.
        paths: Files and folders in the repository, none of them behind a symbolic link.
    """
    try:
        done = subprocess.run(
            _command(Path(root), ["-c", "safe.directory=*", "check-ignore", "-z", "--stdin"]),
            input=b"\0".join(map(os.fsencode, paths)),
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            start_new_session=True,
            env=_environment(()),
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    if done.returncode > 1 and len(paths) > 1 and _TOO_DEEP in done.stderr:
        # One path lies in a missing submodule: ask about the others without it.
        half = len(paths) // 2
        return ignored_paths(root, paths[:half]) | ignored_paths(root, paths[half:])
    return {os.fsdecode(each) for each in done.stdout.split(b"\0") if each}


@dataclass(frozen=True, slots=True)
class RunningGit:
    """A running git process.

    Attributes:
        ask: Its standard input.
        answers: Its standard output.
        wait: Function that waits for its end and returns its exit code.
    """

    ask: IO[bytes]
    answers: IO[bytes]
    wait: Callable[[], int]


@contextmanager
def running_git(root: Path, *arguments: str) -> Iterator[RunningGit]:
    """Yield a running git process, which is terminated at the end of the block.

    Object names are resolved literally: replacement refs of the repository are ignored.

    Args:
        root: A folder of the repository.
        arguments: Command and options.

    Raises:
        OSError: git is not installed.
    """
    with subprocess.Popen(
        _command(root, arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**_environment(()), "GIT_NO_REPLACE_OBJECTS": "1"},
    ) as process:
        if process.stdin is None or process.stdout is None:
            raise OSError("no pipes")
        try:
            yield RunningGit(process.stdin, process.stdout, process.wait)
        finally:
            process.kill()


def toplevel(folder: Path) -> Path | None:
    """Return the git work tree that contains a folder, or None."""
    found = git(folder, "rev-parse", "--show-toplevel")
    top = Path(found.rstrip("\n")).resolve() if found and found.strip() else None
    # A repository may declare any folder as its work tree; accept only one that contains this folder.
    return top if top is not None and folder.resolve().is_relative_to(top) else None


@dataclass(frozen=True, slots=True)
class Configured:
    """Relevant values of git's configuration, read in one call.

    Attributes:
        filters: Settings of the repository itself that name filter programs; the user's own settings are kept.
        origin: The URL of `origin`; empty if there is none.
    """

    filters: tuple[str, ...]
    origin: str


def configured(root: Path) -> Configured:
    """Return the relevant values of git's configuration."""
    said = git(root, "config", "-z", "--show-scope", "--get-regexp", rf"{_FILTERS}|^{re.escape(_ORIGIN)}$") or ""
    parts = said.split("\0")
    settings = [(scope, *each.partition("\n")[::2]) for scope, each in zip(parts[::2], parts[1::2], strict=False)]
    addresses = [text for _, name, text in settings if name == _ORIGIN]
    filters = tuple(name for scope, name, _ in settings if name != _ORIGIN and scope in _OF_REPOSITORY)
    return Configured(filters, addresses[-1] if addresses else "")


def _command(root: Path, arguments: Sequence[str]) -> list[str]:
    return ["git", *_INERT, "--no-optional-locks", "-C", str(root), *arguments]


def _environment(emptied: Sequence[str]) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if name not in {*_ELSEWHERE, _KEY_FILE}} | _OFFLINE
    first = int(kept.get("GIT_CONFIG_COUNT") or 0)
    # Not `-c`: the name of a filter may contain `=`.
    for number, name in enumerate(emptied, first):
        kept |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": ""}
    return kept | {"GIT_CONFIG_COUNT": str(first + len(emptied))}
