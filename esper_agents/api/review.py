"""Lint reviews of paths and changes, baseline files and fixes; no database."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.api.rules import ALL_RULES, RuleDescription, lint_rules, rule_page
from esper_agents.api.service import Service
from esper_agents.errors import InputFileError, UsageError
from esper_agents.extras import Extra, is_installed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType

    from esper_agents.domain.finding import Category, Diagnostic
    from esper_agents.review.changes import DiffReview
    from esper_agents.review.fixes import Patch
    from esper_agents.review.model.explanation import LineFacts
    from esper_agents.review.outcome import ReviewOutcome
    from esper_agents.review.portable_parts import PartReviewer
    from esper_agents.review.report import Progress, ReviewReport, SuppressedDiagnostic

_CONTEXT_LINES = 3


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """Options of a review.

    Attributes:
        paths: Files and directories; relative ones start at the current directory.
        categories: Run only rules of these categories; None runs all.
        rules: Run only these rules, by code or name; None runs all.
        revision: Report only diagnostics introduced since this revision, or between `A..B`; empty for whole files.
        baseline: Baseline file with accepted diagnostics.
        is_staged: Whether to report only diagnostics introduced by the staged changes.
        may_cache: Whether to read and write the cache of reports in the data directory.
        with_context: Whether the rest of the project is analysed with the paths.
        extra: Modules with additional rules.
        project: A path in the project; None for the project of the paths.
    """

    paths: tuple[Path, ...]
    categories: Sequence[Category] | None = None
    rules: Sequence[str] | None = None
    revision: str = ""
    baseline: Path | None = None
    is_staged: bool = False
    may_cache: bool = True
    with_context: bool = True
    extra: tuple[ModuleType, ...] = ()
    project: Path | None = None

    def __post_init__(self) -> None:
        """Raise an error for contradictory options.

        Raises:
            UsageError: Both a revision and the staged changes are selected, or neither a path nor a change.
        """
        if self.revision and self.is_staged:
            raise UsageError("--diff and --staged are mutually exclusive", remedy="omit one of them")
        if not self.paths and not self.is_change:
            raise UsageError("no path was named", remedy="esper review train.py")

    @property
    def is_change(self) -> bool:
        """Whether a change is reviewed."""
        return bool(self.revision) or self.is_staged

    @property
    def root(self) -> Path:
        """Project directory.

        Raises:
            InputFileError: A path does not exist.
            UsageError: The paths belong to two projects.
        """
        from esper_agents.git.find_project import find_project

        # A source of the newer of two commits need not be in the work tree.
        paths = [_nearest(path) for path in self.paths] if ".." in self.revision else list(self.paths)
        return Path(find_project([self.project] if self.project else paths, Path.cwd()).root)


@dataclass(frozen=True, slots=True)
class LineReview:
    """Findings at one line of a file.

    Attributes:
        path: File, relative to the project.
        line: Line, from 1.
        diagnostics: Findings whose range contains the line.
        suppressed: Suppressed findings whose range contains the line, with the reasons.
        source: Lines of the file around the findings, by line number; empty for notebooks.
        other_lines: Lines of the other findings of the file, in order.
        values: Values that the line binds, as the semantic model sees them.
        events: What happens at the line in a training or an evaluation, as the semantic model sees it.
        note: What limits the values and events; empty if nothing does.
    """

    path: str
    line: int
    diagnostics: tuple[Diagnostic, ...]
    suppressed: tuple[SuppressedDiagnostic, ...]
    source: Mapping[int, str]
    other_lines: tuple[int, ...]
    values: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    note: str = ""


def review_files(
    options: ReviewOptions,
    on_progress: Callable[[Progress], None] | None = None,
    *,
    elsewhere: PartReviewer | None = None,
) -> ReviewOutcome:
    """Return the review of files or of a change; runs none of the code and writes no file of the project.

    Args:
        options: Paths, rules, and the change or baseline file to compare with.
        on_progress: Called before each file is read and before it is checked.
        elsewhere: Reviews the parts of whole files in other processes; None for this process.

    Raises:
        InputFileError: A path does not exist, or the baseline file cannot be read.
        NotFoundError: A named rule does not exist.
        UsageError: The revision does not exist, or no rule is selected.

    Example:
        from pathlib import Path

        from esper_agents.api import ReviewOptions, review_files

        outcome = review_files(ReviewOptions((Path("train.py"),), rules=["ESP305"]))
        for diagnostic in outcome.report.claims:
            print(diagnostic.location, diagnostic.message)
    """
    from esper_agents.review.outcome import ReviewOutcome

    root = options.root
    if options.is_change:
        difference = _difference(options, root, on_progress)
        outcome = ReviewOutcome(difference.report, earlier=difference.earlier)
    else:
        outcome = ReviewOutcome(_report(options, root, on_progress, elsewhere))
    return outcome if options.baseline is None else _without_known(outcome, options.baseline, root)


def fix_files(options: ReviewOptions, on_progress: Callable[[Progress], None] | None = None) -> ReviewOutcome:
    """Apply safe fixes to the files, and return the review of the fixed files; see `review_files` for the errors."""
    from esper_agents.review.fixes import plan_fixes, write

    root = options.root
    before = review_files(options, on_progress)
    plan = plan_fixes(root, before.report, extra=options.extra)
    failed = write(root, plan.patches)
    if not plan.patches:
        return replace(before, not_mended=tuple(plan.left))
    unwritten = {each.claim.fingerprint for each in failed}
    fixed = [claim for patch in plan.patches for claim in patch.claims if claim.fingerprint not in unwritten]
    return replace(review_files(options, on_progress), mended=tuple(fixed), not_mended=(*plan.left, *failed))


def fixes_as_patch(options: ReviewOptions, outcome: ReviewOutcome) -> str:
    """Return the safe fixes for a review as a patch for `git apply`; writes nothing.

    Args:
        options: Options of the review.
        outcome: The review.
    """
    from esper_agents.review.fixes import plan_fixes

    plan = plan_fixes(options.root, outcome.report, extra=options.extra)
    return "".join(patch.unified for patch in plan.patches)


def write_baseline(options: ReviewOptions, file: Path) -> ReviewReport:
    """Write all diagnostics of a review to a baseline file, and return the review.

    Args:
        options: Options of the review; their baseline file is ignored.
        file: File to write or replace.

    Raises:
        UsageError: The options select a change: earlier diagnostics would be missing.
        InputFileError: The file cannot be written.
    """
    from esper_agents.review.baseline import save_baseline

    if options.is_change:
        raise UsageError("a baseline lists the findings of whole files", remedy="leave out --diff and --staged")
    report = review_files(replace(options, baseline=None)).report
    try:
        save_baseline(file, report.claims)
    except OSError as error:
        problem = f"the baseline cannot be written, {error.strerror}"
        raise InputFileError(str(file), problem, remedy="name a file in an existing directory") from error
    return report


def review_as_sarif(
    outcome: ReviewOutcome, *, extra: Sequence[ModuleType] = (), options: ReviewOptions | None = None
) -> dict[str, object]:
    """Return a review as a SARIF 2.1.0 log.

    Args:
        outcome: The review.
        extra: Modules with additional rules.
        options: Options of the review, to add its safe fixes; see `shareable_fixes`. None for no fixes.
    """
    from esper_agents.review.catalogue import catalogue
    from esper_agents.review.sarif import as_sarif

    return as_sarif(outcome, catalogue(extra), () if options is None else shareable_fixes(options, outcome))


def shareable_fixes(options: ReviewOptions, outcome: ReviewOutcome) -> tuple[Patch, ...]:
    """Return the safe fixes for a review that contain no secret; none without the extra `fix`.

    Args:
        options: Options of the review.
        outcome: The review.
    """
    if not is_installed(Extra.FIX):
        return ()
    from esper_agents.certificates.redaction import redacted, secrets_of
    from esper_agents.review.fixes import plan_fixes

    patches = plan_fixes(options.root, outcome.report, extra=options.extra).patches
    known = secrets_of(os.environ)
    return tuple(patch for patch in patches if redacted(patch.unified, known=known).value == patch.unified)


def review_line(options: ReviewOptions, file: Path, line: int) -> LineReview:
    """Return the findings at one line of a file.

    Args:
        options: Options of the review; the file is one of its paths, and the others are reviewed together with it.
        file: The file; a relative path starts at the current directory.
        line: Line, from 1.

    Raises:
        InputFileError: The file does not exist or cannot be reviewed.
        UsageError: The line is not in the file, or a change is selected.
    """
    root = options.root
    (path,) = _relative(replace(options, paths=(file,)), root)
    report = review_files(options).report
    reported = [claim for claim in report.claims if claim.location.path == path]
    suppressed = [each for each in report.silenced if each.claim.location.path == path]
    if (problem := next((each for each in report.unreadable if each.path == path), None)) is not None:
        raise InputFileError(path, problem.problem, remedy=problem.remedy)
    source = _lines_around(root / path, line)
    facts = _facts_at(options, path, line)
    return LineReview(
        path,
        line,
        tuple(each for each in reported if _contains(each, line)),
        tuple(each for each in suppressed if _contains(each.claim, line)),
        source,
        tuple(sorted({each.location.line for each in reported if not _contains(each, line)})),
        facts.values,
        facts.events,
        facts.note,
    )


def _facts_at(options: ReviewOptions, path: str, line: int) -> LineFacts:
    """Return what the semantic model of the project, or of the named paths, knows about a line."""
    from esper_agents.review.discover import discover
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.explanation import line_facts
    from esper_agents.review.parsing import tables_of
    from esper_agents.review.parts import size_of
    from esper_agents.review.project_context import MOST_CONTEXT_BYTES, project_sources
    from esper_agents.review.source import Unreadable, read
    from esper_agents.review.tables import FileTables

    root = options.root
    named = discover(root, [Path(each) for each in sorted(_relative(options, root))], unread={})
    around = project_sources(root, {}) if options.with_context else ()
    if sum(map(size_of, around)) > MOST_CONTEXT_BYTES:
        around = ()
    candidates = {each.path: each for each in (*around, *named) if not each.path.endswith(".ipynb")}
    sources = [read(each.file, each.path) for each in candidates.values()]
    tables = [tables_of(source) for source in sources if not isinstance(source, Unreadable)]
    return line_facts(ProjectIndex([each for each in tables if isinstance(each, FileTables)]), path, line)


def _contains(diagnostic: Diagnostic, line: int) -> bool:
    location = diagnostic.location
    return location.line <= line <= max(location.line, location.end_line)


def _lines_around(file: Path, line: int) -> dict[int, str]:
    """Return the lines of a file around a line, by number; none for a notebook.

    Raises:
        UsageError: The file has fewer lines.
    """
    from esper_agents.review.source import ReviewSource, read

    source = read(file, file.name)
    if not isinstance(source, ReviewSource) or source.notebook is not None:
        return {}
    lines = source.text.removesuffix("\n").split("\n")
    if not 1 <= line <= len(lines):
        raise UsageError(f"{str(file.name)!r} has no line {line}", remedy=f"name a line from 1 to {len(lines)}")
    first = max(1, line - _CONTEXT_LINES)
    return dict(enumerate(lines[first - 1 : line + _CONTEXT_LINES], first))


def _report(
    options: ReviewOptions,
    root: Path,
    on_progress: Callable[[Progress], None] | None,
    elsewhere: PartReviewer | None,
) -> ReviewReport:
    from esper_agents.review.cache import review_cache
    from esper_agents.review.project_context import MOST_CONTEXT_BYTES, review_in_project

    here = Path.cwd()
    return review_in_project(
        root,
        [here / path for path in options.paths],
        categories=options.categories,
        rules=options.rules,
        on_progress=on_progress,
        extra=options.extra,
        cache=review_cache(_without_secrets) if options.may_cache else None,
        most_bytes=MOST_CONTEXT_BYTES if options.with_context else 0,
        elsewhere=elsewhere,
    )


def _without_secrets(report: ReviewReport) -> ReviewReport:
    # Imported when a report is stored: it takes longer than a report from the cache.
    from esper_agents.certificates.redaction import redacted, secrets_of

    return redacted(report, known=secrets_of(os.environ)).value


def _difference(options: ReviewOptions, root: Path, on_progress: Callable[[Progress], None] | None) -> DiffReview:
    from esper_agents.agents.companions import declared_companions
    from esper_agents.review.changed_sources import change_since, staged_change
    from esper_agents.review.changes import review_change

    paths = _relative(options, root)
    change = staged_change(root, paths) if options.is_staged else change_since(root, options.revision, paths)
    _refuse_unknown(options, root, change.paths)
    declared = declared_companions(root)
    found = review_change(
        root,
        change.before,
        change.after,
        paths=change.paths,
        companions=declared.companions,
        categories=options.categories,
        rules=options.rules,
        extra=options.extra,
        on_progress=on_progress,
    )
    unreadable = (*found.report.unreadable, *declared.unreadable)
    return replace(found, report=replace(found.report, unreadable=unreadable))


def _relative(options: ReviewOptions, root: Path) -> frozenset[str]:
    named = {(Path.cwd() / path).resolve(): path for path in options.paths}
    for real, path in named.items():
        if not real.is_relative_to(root.resolve()):
            raise InputFileError(str(path), "path outside the project", remedy=f"name a path in {str(root)!r}")
    return frozenset(real.relative_to(root.resolve()).as_posix() for real in named) or frozenset({"."})


def _nearest(path: Path) -> Path:
    """Return a path, or the innermost folder of it that exists."""
    return next((each for each in (path, *path.parents) if each.exists()), path)


def _refuse_unknown(options: ReviewOptions, root: Path, changed: Sequence[str]) -> None:
    """Reject a named path that neither exists nor is part of the change.

    Raises:
        InputFileError: There is one.
    """
    for path in options.paths:
        inside = (Path.cwd() / path).resolve().relative_to(root.resolve())
        if not path.exists() and not any(Path(each).is_relative_to(inside) for each in changed):
            raise InputFileError(str(path), f"no such file or folder in {options.revision}", remedy="correct the path")


def _without_known(outcome: ReviewOutcome, file: Path, root: Path) -> ReviewOutcome:
    from esper_agents.review.baseline import apply_baseline, load

    report = outcome.report
    examined = {each.path for each in report.examined}
    compared = apply_baseline(report.claims, load(file), examined=examined, rules=report.rules, root=root)
    # A finding that the change did not introduce is not a stale baseline entry.
    stale = compared.stale if outcome.earlier is None else ()
    return replace(outcome, report=replace(report, claims=compared.new), known=compared.known, stale=stale)


class ReviewService(Service):
    """Lint reviews of an open project, with the rules that it was opened with."""

    def options(
        self,
        *paths: str | Path,
        categories: Sequence[Category] | None = None,
        rules: Sequence[str] | None = None,
        revision: str = "",
        staged: bool = False,
        baseline: str | Path | None = None,
    ) -> ReviewOptions:
        """Return the options of a review of the project.

        Args:
            paths: Files and directories, relative to the project; the whole project if empty.
            categories: Run only rules of these categories; None runs all.
            rules: Run only these rules, by code or name; None runs all.
            revision: Report only diagnostics introduced since this revision, or between `A..B`.
            staged: Whether to report only diagnostics introduced by the staged changes.
            baseline: Baseline file, relative to the project.

        Raises:
            UsageError: Both a revision and the staged changes are selected.
        """
        return ReviewOptions(
            tuple(self._root / Path(path).expanduser() for path in paths or (self._root,)),
            categories,
            rules,
            revision,
            None if baseline is None else self._root / baseline,
            is_staged=staged,
            extra=self._services.additions.rules,
        )

    def check(self, options: ReviewOptions) -> ReviewOutcome:
        """Return the review of files or of a change; see `review_files`."""
        return review_files(options)

    def fix(self, options: ReviewOptions) -> ReviewOutcome:
        """Apply safe fixes, and return the review of the fixed files; see `fix_files`."""
        return fix_files(options)

    def patch(self, options: ReviewOptions) -> str:
        """Return the safe fixes as a patch for `git apply`; writes nothing."""
        return fixes_as_patch(options, review_files(options))

    def write_baseline(self, options: ReviewOptions, file: str | Path) -> ReviewReport:
        """Write all diagnostics to a baseline file, relative to the project; see `write_baseline`."""
        return write_baseline(options, self._root / file)

    def rules(self, code: str = ALL_RULES) -> tuple[RuleDescription, ...]:
        """Return the rules of the project, or the one with a code or name; see `lint_rules`."""
        return lint_rules(code, extra=self._services.additions.rules)

    def rule_page(self, code: str = ALL_RULES) -> str:
        """Return the page of a rule as Markdown; see `rule_page`."""
        return rule_page(code, extra=self._services.additions.rules)
