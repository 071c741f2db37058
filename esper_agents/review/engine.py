"""The review: from paths to claims."""

from __future__ import annotations

import ast
import gc
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Claim, Location, fingerprint
from esper_agents.errors import InputFileError
from esper_agents.review.builder import fill
from esper_agents.review.catalogue import catalogue, select
from esper_agents.review.discover import discover
from esper_agents.review.index import ProjectIndex
from esper_agents.review.leniency import applies, purpose_of, severity_in
from esper_agents.review.pages import explain
from esper_agents.review.source import Source, Unreadable, from_bytes, read
from esper_agents.review.suppress import find_suppressions
from esper_agents.review.tables import FileTables

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.review.rule import Hit, Rule

__all__ = ["Report", "Unreadable", "explain", "review", "review_sources"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a review found, and what it looked at.

    Attributes:
        claims: What was found, by path, line, column and rule.
        examined: The files that were read and parsed, by path.
        unreadable: The files that were not, by path, each with why.
        rules: The codes of the rules that ran.
        suppressed: How many claims a comment with a reason silenced.
        lines: How many lines were examined.
        torch_files: How many of the files import torch themselves.
    """

    claims: tuple[Claim, ...]
    examined: tuple[SourceFile, ...]
    unreadable: tuple[Unreadable, ...]
    rules: tuple[str, ...]
    suppressed: int
    lines: int
    torch_files: int


def review(
    root: Path,
    paths: Sequence[Path],
    *,
    categories: Collection[Category] | None = None,
    rules: Collection[str] | None = None,
    on_file: Callable[[str], None] | None = None,
    extra: Sequence[ModuleType] = (),
) -> Report:
    """Review Python files for patterns that go wrong in PyTorch. Runs none of their code.

    The same files give the same report, to the byte. Files are reviewed together, so name all that belong together.

    Args:
        root: The project's folder; paths in the report are relative to it.
        paths: Files and directories in it; relative ones start at the root.
        categories: Run only the rules of these; None runs all.
        rules: Run only these, by code or name; None runs all.
        on_file: Called with each path before it is read.
        extra: Modules with further rules.

    Raises:
        InputFileError: A path that does not exist, or that holds nothing to review.
        NotFoundError: A rule that does not exist.
    """
    chosen = select(catalogue(extra), categories=categories, names=rules)
    sources: list[Source | Unreadable] = []
    for candidate in discover(root, paths):
        if on_file is not None:
            on_file(candidate.path)
        source = read(candidate.file, candidate.path)
        if candidate.is_explicit:
            _refuse_if_pointless(source)
        sources.append(source)
    return _report(sources, chosen)


def review_sources(
    sources: Mapping[str, str], *, rules: Collection[str] | None = None, extra: Sequence[ModuleType] = ()
) -> Report:
    """Review source text by path, as `review` does files.

    Raises:
        NotFoundError: A rule that does not exist.
    """
    chosen = select(catalogue(extra), categories=None, names=rules)
    return _report([from_bytes(text.encode(), path) for path, text in sorted(sources.items())], chosen)


def _refuse_if_pointless(source: Source | Unreadable) -> None:
    if isinstance(source, Source) and not source.text.strip():
        raise InputFileError(source.record.path, "the file is empty", remedy="name a file with code in it")
    if isinstance(source, Unreadable) and source.problem.startswith("binary"):
        raise InputFileError(source.path, "no Python source but binary", remedy="name a .py file or a directory")


def _report(sources: Iterable[Source | Unreadable], rules: tuple[Rule, ...]) -> Report:
    unreadable: list[Unreadable] = []
    examined: list[SourceFile] = []
    tables: list[FileTables] = []
    with _collector_paused():
        for source in sources:
            known = source if isinstance(source, Unreadable) else _tables(source)
            if isinstance(known, Unreadable):
                unreadable.append(known)
            elif isinstance(source, Source):
                examined.append(source.record)
                tables.append(known)
        outcome = _run(tables, rules)
    return Report(
        claims=tuple(outcome.claims),
        examined=tuple(examined),
        unreadable=tuple(sorted((*unreadable, *outcome.too_deep), key=lambda each: (each.path, each.problem))),
        rules=tuple(rule.code for rule in rules),
        suppressed=outcome.suppressed,
        lines=sum(record.lines for record in examined),
        torch_files=sum(file.imports_torch for file in tables),
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: all trees live to the end, and walking them over and over costs most."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _tables(source: Source) -> FileTables | Unreadable:
    path = source.record.path
    try:
        with warnings.catch_warnings():
            # Reviewed code may hold invalid escapes; they are not ours to warn about.
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
        file = FileTables(path, _module_name(path), source.text, tree, purpose_of(path), find_suppressions(source.text))
        fill(file)
    except SyntaxError as error:
        return Unreadable(path, f"does not parse: {error.msg}", f"run `python -m py_compile {path}`", error.lineno)
    except (RecursionError, MemoryError):
        return Unreadable(path, "nests too deeply to be parsed", "split the expression, or leave the file out", None)
    return file


def _module_name(path: str) -> str:
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@dataclass(slots=True)
class _Outcome:
    """What the rules said, while it is gathered."""

    claims: list[Claim] = field(default_factory=list)
    too_deep: list[Unreadable] = field(default_factory=list)
    suppressed: int = 0


def _run(files: Sequence[FileTables], rules: Sequence[Rule]) -> _Outcome:
    index = ProjectIndex(files)
    outcome = _Outcome()
    for file in files:
        found = [(rule, hit) for rule in rules for hit in _hits(file, index, rule, outcome.too_deep)]
        seen: dict[tuple[str, str], int] = {}
        for rule, hit in sorted(found, key=lambda each: (each[1].line, each[1].column, each[0].code)):
            if _is_suppressed(file, rule.code, hit):
                outcome.suppressed += 1
            else:
                outcome.claims.append(_claim(file, rule, hit, seen))
    return outcome


def _hits(file: FileTables, index: ProjectIndex, rule: Rule, too_deep: list[Unreadable]) -> Iterable[Hit]:
    """Return what a rule finds in a file, each place once; what it cannot follow is noted."""
    if not applies(rule.category, file.purpose):
        return ()
    places: dict[tuple[int, int], Hit] = {}
    try:
        for hit in rule.check(file, index):
            places.setdefault((hit.line, hit.column), hit)
    except RecursionError:
        too_deep.append(Unreadable(file.path, f"nests too deeply for {rule.code}", "split the expression", None))
    return places.values()


def _is_suppressed(file: FileTables, code: str, hit: Hit) -> bool:
    return any(
        each.counts and code in each.codes and hit.line <= each.line <= hit.end_line for each in file.suppressions
    )


def _claim(file: FileTables, rule: Rule, hit: Hit, seen: dict[tuple[str, str], int]) -> Claim:
    excerpt = file.lines[hit.line - 1] if hit.line <= len(file.lines) else ""
    key = (rule.code, " ".join(excerpt.split()))
    occurrence = seen[key] = seen.get(key, -1) + 1
    return Claim(
        rule=rule.code,
        name=rule.name,
        severity=severity_in(file.purpose, hit.severity or rule.severity),
        category=rule.category,
        location=Location(file.path, hit.line, _characters(excerpt, hit.column), hit.end_line),
        message=hit.message,
        remedy=hit.remedy,
        confidence=hit.confidence,
        basis=hit.basis,
        excerpt=excerpt,
        fingerprint=fingerprint(rule.code, file.path, excerpt, occurrence),
    )


def _characters(line: str, column: int) -> int:
    """Return a column in characters; the syntax tree counts bytes of UTF-8."""
    return column if line.isascii() else len(line.encode()[: column - 1].decode(errors="replace")) + 1
