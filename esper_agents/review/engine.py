"""Review engine: from paths to diagnostics."""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Diagnostic
from esper_agents.errors import InputFileError, UsageError
from esper_agents.review.cache import program_digest
from esper_agents.review.catalogue import catalogue, select
from esper_agents.review.discover import discover
from esper_agents.review.judging import ReviewedFile, judge
from esper_agents.review.leniency import is_generated
from esper_agents.review.parsing import tables_of
from esper_agents.review.parts import divide
from esper_agents.review.portable_parts import (
    PortablePart,
    PortableSource,
    ReviewedPart,
    settings_folder,
    settings_of,
)
from esper_agents.review.report import FileSize, Progress, ReviewReport
from esper_agents.review.source import ReviewSource, Unreadable, from_bytes, read, read_content
from esper_agents.review.versions import TorchSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType

    from esper_agents.domain.evidence import SourceFile
    from esper_agents.domain.finding import Category
    from esper_agents.review.cache import Cache
    from esper_agents.review.discover import DiscoveredFile
    from esper_agents.review.parts import Part
    from esper_agents.review.portable_parts import PartReviewer
    from esper_agents.review.report import SuppressedDiagnostic
    from esper_agents.review.rule import Rule
    from esper_agents.review.tables import FileTables

__all__ = ["Progress", "ReviewReport", "Unreadable", "review", "review_read", "review_sources"]


def review(  # noqa: PLR0913 - the options of the command
    root: Path,
    paths: Sequence[Path],
    *,
    categories: Collection[Category] | None = None,
    rules: Collection[str] | None = None,
    on_file: Callable[[str], None] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    extra: Sequence[ModuleType] = (),
    cache: Cache | None = None,
    elsewhere: PartReviewer | None = None,
) -> ReviewReport:
    """Review Python files and notebooks for faulty PyTorch patterns. Does not run their code.

    The same files give the same report, byte for byte. Files are reviewed together, so pass all related files at once.

    Args:
        root: The project's folder; paths in the report are relative to it.
        paths: Files and directories in it; relative ones start at the root.
        categories: Run only the rules of these categories; None runs all.
        rules: Run only these rules, by code or name; None runs all.
        on_file: Called with each path before it is read.
        on_progress: Called before each file is read and before it is checked.
        extra: Modules with further rules.
        cache: Cache of reports; not used if rules from other packages are installed.
        elsewhere: Reviews the parts in other processes; None for this process.

    Raises:
        InputFileError: A path does not exist, or contains nothing to review.
        NotFoundError: A named rule does not exist.
    """
    unread: dict[str, Unreadable] = {}
    candidates = discover(root, paths, notebooks=True, unread=unread)
    cacheable = None if extra else cache
    entry = None
    if cacheable is not None:
        entry = cacheable.entry(root, candidates, categories=categories, rules=rules, unread=tuple(unread.values()))
    if entry is not None and (kept := entry.read()) is not None:
        return kept
    with _collector_paused():
        known = catalogue(extra)
    run = _Run(select(known, categories=categories, names=rules), known, TorchSettings(root), len(candidates))
    run.on_file, run.on_progress = on_file, on_progress
    run.unreadable += unread.values()
    parts = divide(candidates)
    run.parts += [part.name for part in parts] if len(parts) > 1 else []
    if elsewhere is not None:
        for reviewed in elsewhere(_portable(part, root, run) for part in parts):
            run.join(reviewed)
    else:
        for part in parts:
            run.add(_read(candidate, run) for candidate in part.candidates)
            if len(parts) > 1:
                gc.collect()
    report = run.report()
    if entry is not None:
        entry.write(report)
    return report


def review_sources(
    sources: Mapping[str, str], *, rules: Collection[str] | None = None, extra: Sequence[ModuleType] = ()
) -> ReviewReport:
    """Review source texts by path, as `review` does files.

    Raises:
        NotFoundError: A named rule does not exist.
    """
    return review_read((from_bytes(text.encode(), path) for path, text in sources.items()), rules=rules, extra=extra)


def review_read(
    sources: Iterable[ReviewSource | Unreadable],
    *,
    root: Path | None = None,
    categories: Collection[Category] | None = None,
    rules: Collection[str] | None = None,
    extra: Sequence[ModuleType] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> ReviewReport:
    """Review sources read from elsewhere, such as a commit, as `review` does files.

    Args:
        sources: Sources to review together.
        root: The project's folder, for its settings; None without a project.
        categories: Run only the rules of these categories; None runs all.
        rules: Run only these rules, by code or name; None runs all.
        extra: Modules with further rules.
        on_progress: Called before each file is checked.

    Raises:
        NotFoundError: A named rule does not exist.
    """
    known = catalogue(extra)
    held = sorted(sources, key=_path_of)
    settings = None if root is None else TorchSettings(root)
    run = _Run(select(known, categories=categories, names=rules), known, settings, len(held))
    run.on_progress = on_progress
    run.add(held)
    return run.report()


def _path_of(source: ReviewSource | Unreadable) -> str:
    return source.path if isinstance(source, Unreadable) else source.record.path


def _read(candidate: DiscoveredFile, run: _Run) -> ReviewSource | Unreadable:
    run.tell("reading", candidate.path)
    source = read(candidate.file, candidate.path)
    if candidate.is_explicit:
        refuse_if_pointless(source)
    return source


def _portable(part: Part, root: Path, run: _Run) -> PortablePart:
    """Return a part with the contents of its files; those that cannot be read are added to the run."""
    sources = []
    for candidate in part.candidates:
        run.tell("reading", candidate.path)
        content = read_content(candidate.file, candidate.path)
        if isinstance(content, Unreadable):
            if candidate.is_explicit:
                refuse_if_pointless(content)
            run.unreadable.append(content)
        else:
            sources.append(PortableSource(candidate.path, content, candidate.is_explicit))
    settings = settings_of(root, (source.path for source in sources))
    return PortablePart(tuple(sources), settings, tuple(rule.code for rule in run.rules), _program(run.known))


def _program(known: Sequence[Rule]) -> str:
    """Return the code of the review, its rules and the Python that runs them, as far as results depend on them."""
    codes = " ".join(sorted(rule.code for rule in known))
    return f"{program_digest()} {sys.version_info.major}.{sys.version_info.minor} {codes}"


def review_portable(part: PortablePart) -> ReviewedPart:
    """Review a part in a process that does not have its project.

    Args:
        part: The part.

    Raises:
        UsageError: This process has another version of the review.
        InputFileError: A file that the user named has nothing to review.
    """
    with _collector_paused():
        known = catalogue(())
    if part.program != _program(known):
        problem = "a process that reviews a part has other rules, or another version of esper-agents or Python"
        raise UsageError(problem, remedy="install the same esper-agents and plugins on every machine")
    with settings_folder(part.settings) as root:
        run = _Run(select(known, categories=None, names=part.rules), known, TorchSettings(root), len(part.sources))
        run.add(_opened(source) for source in part.sources)
        return run.reviewed()


def _opened(source: PortableSource) -> ReviewSource | Unreadable:
    read_source = from_bytes(source.content, source.path)
    if source.is_explicit:
        refuse_if_pointless(read_source)
    return read_source


def refuse_if_pointless(source: ReviewSource | Unreadable) -> None:
    """Refuse a file that a user named and that has nothing to review.

    Raises:
        InputFileError: The file is empty, or binary.
    """
    if isinstance(source, ReviewSource) and not source.text.strip() and not source.unread:
        raise InputFileError(source.record.path, "the file is empty", remedy="name a file with code in it")
    if isinstance(source, Unreadable) and source.problem.startswith("binary"):
        raise InputFileError(source.path, "binary, not Python source", remedy="name a .py file or a directory")


@dataclass(slots=True)
class _Run:
    """State of a review in progress, part by part."""

    rules: Sequence[Rule]
    known: Sequence[Rule]
    settings: TorchSettings | None
    total: int
    on_file: Callable[[str], None] | None = None
    on_progress: Callable[[Progress], None] | None = None
    claims: list[Diagnostic] = field(default_factory=list)
    examined: list[SourceFile] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    generated: list[str] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    silenced: list[SuppressedDiagnostic] = field(default_factory=list)
    sizes: list[FileSize] = field(default_factory=list)
    suppressed: int = 0

    def add(self, sources: Iterable[ReviewSource | Unreadable]) -> None:
        """Review sources that belong together."""
        with _collector_paused():
            files = list(self._files(sources))
            codes = {rule.code for rule in self.known}
            judged = judge(files, self.rules, known=codes, settings=self.settings, on_file=self._judging)
            for file in files:
                _let_go(file.tables)
        self.claims += judged.claims
        self.unreadable += judged.failures
        self.suppressed += judged.suppressed
        self.silenced += judged.silenced

    def join(self, part: ReviewedPart) -> None:
        """Add the review of a part that another process made."""
        self.claims += part.claims
        self.examined += part.examined
        self.unreadable += part.unreadable
        self.generated += part.generated
        self.silenced += part.silenced
        self.sizes += part.sizes
        self.suppressed += part.suppressed
        for record in part.examined:
            self._judging(record.path)

    def reviewed(self) -> ReviewedPart:
        """Return the results for `join`."""
        return ReviewedPart(
            tuple(self.claims),
            tuple(self.examined),
            tuple(self.unreadable),
            tuple(self.generated),
            tuple(self.silenced),
            tuple(self.sizes),
            self.suppressed,
        )

    def _files(self, sources: Iterable[ReviewSource | Unreadable]) -> Iterator[ReviewedFile]:
        for source in sources:
            if isinstance(source, Unreadable):
                self.unreadable.append(source)
                continue
            self.unreadable += source.unread
            python = self.settings.python_near(source.record.path) if self.settings is not None else None
            tables = tables_of(source, python)
            if isinstance(tables, Diagnostic):
                self._add_syntax_error(tables, source)
                continue
            if isinstance(tables, Unreadable):
                self.unreadable.append(tables)
                continue
            self.examined.append(source.record)
            self.sizes.append(FileSize(tables.path, source.lines, tables.imports_torch))
            self.generated += [tables.path] if is_generated(tables.purpose) else []
            yield ReviewedFile(tables, source.notebook)

    def _add_syntax_error(self, claim: Diagnostic, source: ReviewSource) -> None:
        """Add a syntax error as a diagnostic, or as an unreadable file if its rule does not run."""
        if any(rule.code == claim.rule for rule in self.rules):
            self.claims.append(claim)
            self.examined.append(source.record)
            self.sizes.append(FileSize(source.record.path, source.lines, imports_torch=False))
        else:
            self.unreadable.append(Unreadable(source.record.path, claim.message, claim.remedy, claim.location.line))

    def _judging(self, path: str) -> None:
        self.tell("judging", path)

    def tell(self, doing: str, path: str) -> None:
        """Report the next file to the progress callback."""
        if doing == "reading" and self.on_file is not None:
            self.on_file(path)
        if self.on_progress is not None:
            done = self.done[doing] = self.done.get(doing, -1) + 1
            self.on_progress(Progress(doing, done, self.total, path))

    def report(self) -> ReviewReport:
        """Return the report of the review."""
        return ReviewReport(
            claims=tuple(sorted(self.claims, key=lambda each: each.location.path)),
            examined=tuple(sorted(self.examined, key=lambda each: each.path)),
            unreadable=tuple(sorted(self.unreadable, key=lambda each: (each.path, each.line or 0, each.problem))),
            rules=tuple(rule.code for rule in self.rules),
            suppressed=self.suppressed,
            lines=sum(size.lines for size in self.sizes),
            torch_files=sum(size.imports_torch for size in self.sizes),
            generated=tuple(sorted(self.generated)),
            parts=tuple(self.parts),
            silenced=tuple(sorted(self.silenced, key=lambda each: each.claim.location.path)),
            sizes=tuple(sorted(self.sizes, key=lambda each: each.path)),
        )


def _let_go(file: FileTables) -> None:
    """Clear tables that are no longer needed: they form cycles, which the garbage collector frees late."""
    for function in file.functions:
        for block in function.blocks:
            block.loop = None
        for each in (function.blocks, function.calls, function.returns, function.inner, function.assignments):
            each.clear()
    for owner in file.classes:
        owner.methods.clear()
        owner.attributes.clear()
    vars(file).clear()


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector: trees and rules live to the end, and it would traverse them repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
