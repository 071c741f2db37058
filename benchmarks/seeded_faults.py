"""Puts one small mistake at a time into a copy of the checkout, and says which test of `make test` notices it.

The mistakes are in seeded_faults/faults.toml. The tests nearest to a mistake run first. Run it from anywhere with the
environment that `make test` makes: `python benchmarks/seeded_faults.py [--only PACKAGE] [--nearest]`.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
FAULTS = Path(__file__).with_name("seeded_faults") / "faults.toml"
ENVIRONMENT = Path(sys.prefix)
# The selection of `make test`, in one process: which test comes first must not depend on who is quicker.
SELECTED = ("-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-m", "not slow")
LONGEST_S = 3600
_FIRST = 4
# So many letters make two names alike, as of suppress.py and test_suppression.py.
_ALIKE = 5
_FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True)
class Fault:
    """One mistake.

    Attributes:
        package: Where it is, as `--only` takes it.
        file: Relative to the checkout.
        old: What stands there once.
        new: What is put in its place.
        breaks: What goes wrong with it.
    """

    package: str
    file: str
    old: str
    new: str
    breaks: str


def main() -> None:
    """Try the faults, and exit with 1 where one is not caught."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="PACKAGE", help="faults of one package alone")
    parser.add_argument("--nearest", action="store_true", help="leave out the tests that are far from the fault")
    asked = parser.parse_args()
    faults = [Fault(**each) for each in tomllib.loads(FAULTS.read_text())["fault"]]
    wanted = [each for each in faults if asked.only in {"", each.package}]
    if not wanted:
        parser.error(f"no fault is in {asked.only!r}; known: {', '.join(sorted({each.package for each in faults}))}")
    missed = 0
    with copied() as copy:
        for number, fault in enumerate(wanted, 1):
            by = caught_by(copy, fault, nearest_alone=asked.nearest)
            missed += not by
            how = f"caught by {by}" if by else "NOT CAUGHT"
            print(f"{number:2}/{len(wanted)} {fault.file}: {fault.breaks}\n      {how}", flush=True)
    print(f"{len(wanted) - missed} of {len(wanted)} faults caught")
    sys.exit(missed > 0)


@contextmanager
def copied() -> Iterator[Path]:
    """Yield a copy of the checkout as it is, with an environment of its own whose `esper` runs the copy."""
    with tempfile.TemporaryDirectory(prefix="esper-faults-") as folder:
        copy = Path(folder) / "checkout"
        listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0"):
            if name and (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, copy / name)
        shutil.copytree(ENVIRONMENT, copy / ".venv", symlinks=True, copy_function=_linked)
        old, new = str(ENVIRONMENT).encode(), str(copy / ".venv").encode()
        for file in (copy / ".venv" / "bin").iterdir():
            if file.is_file() and not file.is_symlink():
                _rewrite(file, old, new)
        for file in (copy / ".venv").glob("lib/python*/site-packages/_editable_impl_*.pth"):
            _rewrite(file, str(ROOT).encode(), str(copy).encode())
        # Some tests look at the files that git knows.
        for command in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", "-C", str(copy), *command], check=True)
        yield copy


def _linked(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _rewrite(file: Path, old: bytes, new: bytes) -> None:
    """Change a file of the copied environment, and not the one that it is a link to."""
    held, mode = file.read_bytes(), file.stat().st_mode
    if old in held:
        file.unlink()
        file.write_bytes(held.replace(old, new))
        file.chmod(mode)


def caught_by(copy: Path, fault: Fault, *, nearest_alone: bool) -> str:
    """Return the first test that fails with a fault in place; empty where none does."""
    file = copy / fault.file
    held = file.read_text()
    if held.count(fault.old) != 1:
        sys.exit(f"{fault.file} holds {held.count(fault.old)} times, and not once: {fault.old!r}")
    near = nearest(copy, fault)
    # Few at first: most faults are caught there, and collecting all others takes longer than running these.
    rounds = [each for each in (near[:_FIRST], near[_FIRST:]) if each]
    if not nearest_alone:
        rounds.append(["tests", *(f"--ignore={each}" for each in near)])
    file.write_text(held.replace(fault.old, fault.new))
    try:
        found = next(filter(None, (failing(copy, each) for each in rounds)), "")
    finally:
        file.write_text(held)
    # A test that fails without the fault has noticed nothing.
    # The case that noticed may have a name that no command line can give: its function is run whole.
    if "::" in found and failing(copy, [found.partition("[")[0]]):
        sys.exit(f"{found} fails without any fault, too")
    return found


def failing(copy: Path, arguments: list[str]) -> str:
    """Return the first of some tests that fails, and `(tests do not end)` where they go on for ever."""
    command = [str(copy / ".venv" / "bin" / "python"), "-m", "pytest", *SELECTED, *arguments]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False, timeout=LONGEST_S)
    except subprocess.TimeoutExpired:
        return "(tests do not end)"
    if done.returncode in {0, 5}:
        return ""
    found = _FAILED.search(done.stdout)
    return found[1] if found else f"(pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-300:]!r})"


def nearest(copy: Path, fault: Fault) -> list[str]:
    """Return the test files nearest to a fault, nearest first.

    Those of its file's name, then those that name the function it is in, then those of its folder's mirror, then those
    that import its file.
    """
    place = PurePosixPath(fault.file)
    texts = {path: path.read_text() for path in sorted((copy / "tests").rglob("test_*.py"))}
    mirror = copy.joinpath("tests", *(place.parts[1:-1] if place.parts[0] == "esper_agents" else place.parts[:1]))
    mirror = next(each for each in (mirror, *mirror.parents) if each.is_dir())
    own = [each for each in texts if each.stem in {f"test_{place.stem}", f"test_{place.parent.name}_{place.stem}"}]
    # Names of data files stand in the tests as they are.
    module = ".".join(place.with_suffix("").parts) if place.suffix == ".py" else place.name
    importing = [each for each, text in texts.items() if module in text or f"{place.stem}." in text]
    within = re.compile(rf"\b(?:{'|'.join(enclosing(copy / place, fault.old)) or '(?!)'})\b")
    naming = [each for each in importing if within.search(texts[each])]
    inside = [each for each in texts if each.is_relative_to(mirror)]
    near = sorted(own, key=lambda each: each.parent != mirror)
    near += [each for each in inside if each.stem.startswith(f"test_{place.stem[:_ALIKE]}")]
    near += [each for each in naming if each in inside] + naming + inside
    near += [each for each in importing if module in texts[each]]
    return [each.relative_to(copy).as_posix() for each in dict.fromkeys(near)]


def enclosing(file: Path, text: str) -> list[str]:
    """Return the names of the public functions and classes that a text stands in."""
    if file.suffix != ".py":
        return []
    source = file.read_text()
    line = source[: source.index(text)].count("\n") + 1
    return [
        each.name
        for each in ast.walk(ast.parse(source))
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and each.lineno <= line <= (each.end_lineno or 0)
        and not each.name.startswith("_")
    ]


if __name__ == "__main__":
    main()
