"""Apply safe fixes: compute new sources, review those, and write them if nothing else changed."""

from __future__ import annotations

import io
import re
import tokenize
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.atomic_file import atomic_file
from esper_agents.review.catalogue import catalogue
from esper_agents.review.diff import TreeSnapshot, introduced_by_change
from esper_agents.review.engine import review_read
from esper_agents.review.fixable import FixRequest, find_fix_requests
from esper_agents.review.outcome import UnfixedDiagnostic
from esper_agents.review.rewriting import SourceSpan, rewrite
from esper_agents.review.source import ReviewSource, from_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import ModuleType

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.report import ReviewReport
    from esper_agents.review.rule import Rule

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Patch:
    """One file before and after its fixes.

    Attributes:
        path: Relative to the root.
        before: Content that was reviewed.
        after: Content to write.
        claims: Diagnostics that the patch fixes.
    """

    path: str
    before: bytes
    after: bytes
    claims: tuple[Diagnostic, ...]

    @property
    def unified(self) -> str:
        """The patch as `git apply` reads it; bytes that are not UTF-8 are surrogates."""
        from difflib import unified_diff

        # Keep the original encoding: a patch consists of bytes.
        before, after = (_lines(each.decode("utf-8", "surrogateescape")) for each in (self.before, self.after))
        lines = unified_diff(before, after, f"a/{self.path}", f"b/{self.path}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    r"""Return lines split at `\n` only, as in patches."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


@dataclass(slots=True)
class FixPlan:
    """Planned fixes of a report.

    Attributes:
        patches: Changed files, sorted by path.
        left: Diagnostics not fixed although their rule has a fix.
    """

    patches: list[Patch] = field(default_factory=list)
    left: list[UnfixedDiagnostic] = field(default_factory=list)


def plan_fixes(root: Path, report: ReviewReport, *, extra: Sequence[ModuleType] = ()) -> FixPlan:
    """Plan the fixes for the diagnostics of a report; writes nothing.

    A new source is accepted only if it parses, and if its review reports the same diagnostics as before except the
    fixed ones, and no new ones.

    Args:
        root: The project's folder.
        report: A review of files in that folder.
        extra: Modules with further rules that the review used.
    """
    rules = {each.code: each for each in catalogue(extra)}
    mending = FixPlan()
    held = _held(root, report)
    by_path: dict[str, list[Diagnostic]] = defaultdict(list)
    for claim in report.claims:
        if claim.rule in rules and rules[claim.rule].is_fixable:
            by_path[claim.location.path].append(claim)
    proposed = [
        patch
        for path, claims in sorted(by_path.items())
        if (patch := _proposed(path, claims, held, rules, mending)) is not None
    ]
    _keep_sound(proposed, _Check(root, held, extra), mending)
    return mending


def _held(root: Path, report: ReviewReport) -> dict[str, bytes]:
    """Return the content of the reviewed files, without those that have changed since."""
    found: dict[str, bytes] = {}
    for record in report.examined:
        try:
            content = (root / record.path).read_bytes()
        except OSError:
            continue
        source = from_bytes(content, record.path)
        if isinstance(source, ReviewSource) and source.record.sha256 == record.sha256:
            found[record.path] = content
    return found


def _proposed(
    path: str, claims: list[Diagnostic], held: Mapping[str, bytes], rules: Mapping[str, Rule], mending: FixPlan
) -> Patch | None:
    problem = "notebooks are not written to" if path.endswith(".ipynb") else ""
    problem = problem or ("" if path in held else "the file has changed since it was reviewed")
    if not problem:
        try:
            return _patch(path, claims, held, rules, mending)
        except ValueError as error:
            problem = str(error)
    mending.left += [UnfixedDiagnostic(claim, problem) for claim in claims]
    return None


def _patch(
    path: str, claims: list[Diagnostic], held: Mapping[str, bytes], rules: Mapping[str, Rule], mending: FixPlan
) -> Patch | None:
    text, encoding, has_mark = _decoded(held[path])
    source = from_bytes(held[path], path)
    wanted = find_fix_requests(source, claims, rules) if isinstance(source, ReviewSource) else {}
    kept = _imported_elsewhere(path, wanted, held)
    rewritten = rewrite(text, {span: each.order for span, each in wanted.items()}, kept_imports=kept)
    done = [each.claim for span, each in wanted.items() if span in rewritten.done]
    mending.left += [UnfixedDiagnostic(claim, "no safe fix; edit it by hand") for claim in claims if claim not in done]
    if not done or rewritten.text == text:
        return None
    after = (_BOM if has_mark else b"") + rewritten.text.encode(encoding)
    return Patch(path, held[path], after, tuple(done))


def _decoded(content: bytes) -> tuple[str, str, bool]:
    """Return a source text with its own line ends, its encoding, and whether it starts with a byte-order mark."""
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    has_mark = content.startswith(_BOM)
    plain = "utf-8" if encoding == "utf-8-sig" else encoding
    return content.removeprefix(_BOM).decode(plain), plain, has_mark


def _imported_elsewhere(path: str, wanted: Mapping[SourceSpan, FixRequest], held: Mapping[str, bytes]) -> set[str]:
    """Return the called names that another file imports from this one, according to its text."""
    names = {each.old_name for each in wanted.values() if each.old_name}
    stem = Path(path).stem
    if not names or stem == "__init__":
        return names
    others = [content.decode(errors="replace") for other, content in held.items() if other != path]
    return {name for name in names if any(_takes(each, stem, name) for each in others if stem in each)}


def _takes(text: str, stem: str, name: str) -> bool:
    module, word = re.escape(stem), re.escape(name)
    taken = rf"\bfrom\s+[.\w]*\b{module}\s+import\s*(\([^)]*\b{word}\b|[^(\n]*(\b{word}\b|\*))|\b{module}\.{word}\b"
    return re.search(taken, text) is not None


def _keep_sound(proposed: list[Patch], check: _Check, mending: FixPlan) -> None:
    """Keep the patches that change nothing but the fixed diagnostics: all at once, else one by one."""
    if check.is_sound(proposed):
        mending.patches = proposed
        return
    for patch in proposed:
        if len(proposed) > 1 and check.is_sound([*mending.patches, patch]):
            mending.patches.append(patch)
        else:
            why = "the review reports other problems in the fixed source"
            mending.left += [UnfixedDiagnostic(claim, why) for claim in patch.claims]


class _Check:
    """Review of patched files, compared with the review of the original ones."""

    def __init__(self, root: Path, held: Mapping[str, bytes], extra: Sequence[ModuleType]) -> None:
        self._root = root
        self._held = held
        self._extra = extra

    @cached_property
    def _before(self) -> _Reviewed:
        return self._reviewed({})

    def is_sound(self, patches: Sequence[Patch]) -> bool:
        """Return whether a review after some patches differs only by the diagnostics that they fix."""
        if not patches:
            return True
        before, after = self._before, self._reviewed({each.path: each.after for each in patches})
        if not after.problems <= before.problems:
            return False
        meant = {claim.fingerprint for patch in patches for claim in patch.claims}
        places = {(claim.location.path, claim.location.line) for patch in patches for claim in patch.claims}
        gone = introduced_by_change(after.side, before.side)
        # A second rule's diagnostic on the same line may disappear too: two rules report an old name.
        beyond = [each for each in gone if (each.location.path, each.location.line) not in places]
        return (
            not introduced_by_change(before.side, after.side)
            and meant <= {each.fingerprint for each in gone}
            and not beyond
        )

    def _reviewed(self, changed: Mapping[str, bytes]) -> _Reviewed:
        sources = [from_bytes(changed.get(path, content), path) for path, content in self._held.items()]
        report = review_read(sources, root=self._root, extra=self._extra)
        texts = {source.record.path: source.text for source in sources if isinstance(source, ReviewSource)}
        problems = frozenset((each.path, each.problem) for each in report.unreadable)
        return _Reviewed(TreeSnapshot(texts, report.claims), problems)


@dataclass(frozen=True, slots=True)
class _Reviewed:
    """Diagnostics of a review, and the files it could not read."""

    side: TreeSnapshot
    problems: frozenset[tuple[str, str]]


def write(root: Path, patches: Iterable[Patch]) -> list[UnfixedDiagnostic]:
    """Write patches, each file in one step; return those not written because a file changed or is not writable."""
    left: list[UnfixedDiagnostic] = []
    for patch in patches:
        try:
            _write(root / patch.path, patch)
        except _ChangedError:
            left += [UnfixedDiagnostic(claim, "the file has changed since it was reviewed") for claim in patch.claims]
        except OSError as error:
            problem = f"the file cannot be written: {error.strerror}"
            left += [UnfixedDiagnostic(claim, problem) for claim in patch.claims]
    return left


class _ChangedError(Exception):
    """A file that changed while its fixes were computed."""


def _write(file: Path, patch: Patch) -> None:
    """Replace a file's content and keep its mode; links keep pointing to it."""
    target = file.resolve()
    with atomic_file(target, mode=target.stat().st_mode & 0o7777) as made:
        made.stream.write(patch.after)
        if target.read_bytes() != patch.before:
            raise _ChangedError
