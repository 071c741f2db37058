"""Run the review engine for the options of `esper review`: paths, changes, baseline file, fixes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.errors import InputFileError, UsageError
from esper_agents.git.find_project import find_project
from esper_agents.review.outcome import ReviewOutcome

if TYPE_CHECKING:
    from esper_agents.domain.finding import Category
    from esper_agents.review.changes import DiffReview
    from esper_agents.review.fixes import Patch
    from esper_agents.review.report import ReviewReport


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """Options of a review.

    Attributes:
        paths: Files and directories, as given.
        categories: Run only rules of these categories; None runs all.
        rules: Run only these rules; None runs all.
        revision: Base revision of the change; empty without --diff.
        baseline: Baseline file.
        is_staged: Whether to review the staged changes.
        may_cache: Whether to read and write the cache.
    """

    paths: tuple[Path, ...]
    categories: list[Category] | None
    rules: list[str] | None
    revision: str
    baseline: Path | None
    is_staged: bool
    may_cache: bool = True

    def __post_init__(self) -> None:
        """Raise an error for contradictory options.

        Raises:
            UsageError: Both --diff and --staged are given, or neither a path nor a change.
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
        """Project directory."""
        return Path(find_project(list(self.paths), Path.cwd()).root)


def outcome_of(asked: ReviewOptions) -> ReviewOutcome:
    """Return the review for the options.

    Raises:
        EsperError: A given path does not exist or cannot be read.
    """
    root = asked.root
    if asked.is_change:
        difference = _difference(asked, root)
        outcome = ReviewOutcome(difference.report, earlier=difference.earlier)
    else:
        outcome = ReviewOutcome(_report(asked, root))
    return outcome if asked.baseline is None else _without_known(outcome, asked.baseline, root)


def _report(asked: ReviewOptions, root: Path) -> ReviewReport:
    from esper_agents.cli.review.progress import told
    from esper_agents.paths import home
    from esper_agents.review.cache import Cache
    from esper_agents.review.engine import review

    here = Path.cwd()
    with told() as on_progress:
        return review(
            root,
            [here / path for path in asked.paths],
            categories=asked.categories,
            rules=asked.rules,
            on_progress=on_progress,
            cache=Cache(home() / "cache" / "review") if asked.may_cache else None,
        )


def _difference(asked: ReviewOptions, root: Path) -> DiffReview:
    from esper_agents.agents.companions import declared_companions
    from esper_agents.review.changed_sources import change_since, staged_change
    from esper_agents.review.changes import review_change

    paths = _relative(asked, root)
    change = staged_change(root, paths) if asked.is_staged else change_since(root, asked.revision, paths)
    declared = declared_companions(root)
    found = review_change(
        root,
        change.before,
        change.after,
        paths=change.paths,
        companions=declared.companions,
        categories=asked.categories,
        rules=asked.rules,
    )
    unreadable = (*found.report.unreadable, *declared.unreadable)
    return replace(found, report=replace(found.report, unreadable=unreadable))


def _relative(asked: ReviewOptions, root: Path) -> frozenset[str]:
    here = Path.cwd()
    named = {(here / path).resolve().relative_to(root.resolve()).as_posix() for path in asked.paths}
    return frozenset(named or {"."})


def _without_known(outcome: ReviewOutcome, file: Path, root: Path) -> ReviewOutcome:
    from esper_agents.review.baseline import apply_baseline, load

    report = outcome.report
    examined = {each.path for each in report.examined}
    compared = apply_baseline(report.claims, load(file), examined=examined, rules=report.rules, root=root)
    # A finding that the change did not introduce is not a stale baseline entry.
    stale = compared.stale if outcome.earlier is None else ()
    return replace(outcome, report=replace(report, claims=compared.new), known=compared.known, stale=stale)


def write_down_baseline(asked: ReviewOptions, file: Path) -> str:
    """Write all findings to a baseline file and return a message.

    Raises:
        UsageError: The options select a change: earlier findings would be missing.
        InputFileError: The file cannot be written.
    """
    from esper_agents.review.baseline import dump_baseline

    if asked.is_change:
        raise UsageError("a baseline lists the findings of whole files", remedy="leave out --diff and --staged")
    report = outcome_of(replace(asked, baseline=None)).report
    try:
        _replace(file, dump_baseline(report.claims).encode())
    except OSError as error:
        problem = f"the baseline cannot be written, {error.strerror}"
        raise InputFileError(str(file), problem, remedy="name a file in an existing directory") from error
    return f"{file}: {number_of(len(report.claims), 'finding')} in {number_of(len(report.examined), 'file')}"


def _replace(file: Path, content: bytes) -> None:
    import os
    import tempfile

    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(stream.fileno(), 0o666 & ~mask)
        Path(name).replace(file)
    finally:
        Path(name).unlink(missing_ok=True)


def mended(asked: ReviewOptions) -> ReviewOutcome:
    """Apply safe fixes and return the review of the fixed files."""
    from esper_agents.review.fixes import plan_fixes, write

    root = asked.root
    before = outcome_of(asked)
    mending = plan_fixes(root, before.report)
    failed = write(root, mending.patches)
    if not mending.patches:
        return replace(before, not_mended=tuple(mending.left))
    unwritten = {each.claim.fingerprint for each in failed}
    done = [each for patch in mending.patches for each in patch.claims if each.fingerprint not in unwritten]
    return replace(outcome_of(asked), mended=tuple(done), not_mended=(*mending.left, *failed))


def patch_text(asked: ReviewOptions, outcome: ReviewOutcome) -> str:
    """Return the fixes as a patch for `git apply`."""
    from esper_agents.review.fixes import plan_fixes

    return "".join(_unified(each) for each in plan_fixes(asked.root, outcome.report).patches)


def _unified(patch: Patch) -> str:
    from difflib import unified_diff

    # Keep the original encoding: a patch consists of bytes.
    before, after = (_lines(each.decode("utf-8", "surrogateescape")) for each in (patch.before, patch.after))
    lines = unified_diff(before, after, f"a/{patch.path}", f"b/{patch.path}")
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    r"""Return lines split at `\n` only, as in patches."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
