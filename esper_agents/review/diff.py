"""New diagnostics of a change: those of the new tree without a match in the old one."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.domain.finding import Diagnostic

# Minimum similarity for two lines to count as one edited line, and for two files to count as one renamed file.
_SAME_LINE = 0.6
_SAME_FILE = 0.5
# Above these sizes only equal items match: comparing all pairs would take too long.
_MOST_PAIRS = 40_000
_MOST_CELLS = 9_000_000
_NEIGHBOURS = 2
_RANK = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """Tree before or after a change.

    Attributes:
        texts: Source of each reviewed file, by path.
        claims: Diagnostics in these files.
    """

    texts: Mapping[str, str]
    claims: Sequence[Diagnostic]


@dataclass(frozen=True, slots=True)
class SnapshotComparison:
    """Diagnostics that differ between two trees.

    Attributes:
        introduced: New diagnostics, worsened ones included, in the order of the new tree.
        worsened: Those of them that the old tree had with a lower severity.
        fixed: Diagnostics of the old tree without a counterpart in the new one, in its order.
    """

    introduced: tuple[Diagnostic, ...]
    worsened: tuple[Diagnostic, ...]
    fixed: tuple[Diagnostic, ...]


def introduced_by_change(before: TreeSnapshot, after: TreeSnapshot) -> tuple[Diagnostic, ...]:
    """Return the diagnostics that a change introduced, in the order of the new tree; see `compare_snapshots`."""
    return compare_snapshots(before, after).introduced


def compare_snapshots(before: TreeSnapshot, after: TreeSnapshot) -> SnapshotComparison:
    """Return the diagnostics that a change introduced, worsened and fixed.

    A diagnostic is old if its rule reported the same line before. Lines are the same if difflib maps one
    to the other, ignoring white space; if one was edited slightly and the severity did not rise; or if they are equal,
    have the same neighbours, and were moved. Renamed files are followed. All others are new, even on an unchanged
    line: then the cause is a change in another line or file.
    """
    was_called = renamed(before.texts, after.texts)
    old, new = _by_path(before.claims), _by_path(after.claims)
    is_called = {was: path for path, was in was_called.items()}
    left_old: list[_Place] = []
    left_new: list[_Place] = []
    fixed: list[Diagnostic] = []
    worsened: list[Diagnostic] = []
    for path in sorted(new.keys() | {is_called.get(was, was) for was in old}):
        was = was_called.get(path, path)
        before_it = _File(before.texts.get(was, ""), old.pop(was, []))
        matched = _match(before_it, _File(after.texts.get(path, ""), new.get(path, [])))
        left_old += matched.left_old
        left_new += matched.left_new
        fixed += matched.fixed
        worsened += matched.worsened
    made, gone = _not_moved(left_old, left_new)
    brought = {id(place.claim) for place in made}
    worse = {id(each) for each in worsened} & brought
    removed = {id(each) for each in (*fixed, *(place.claim for place in gone))}
    return SnapshotComparison(
        tuple(claim for claim in after.claims if id(claim) in brought),
        tuple(claim for claim in after.claims if id(claim) in worse),
        tuple(claim for claim in before.claims if id(claim) in removed),
    )


@dataclass(frozen=True, slots=True)
class _File:
    text: str
    claims: list[Diagnostic]


@dataclass(frozen=True, slots=True)
class _Place:
    """Diagnostic without a counterpart so far, with the lines of its file."""

    claim: Diagnostic
    lines: list[str]

    @property
    def line(self) -> str:
        """The line of the diagnostic."""
        return self.lines[self.claim.location.line - 1] if self.claim.location.line <= len(self.lines) else ""

    def surroundings(self) -> tuple[list[str], list[str]]:
        """Return the nearest non-empty lines above and below."""
        place = self.claim.location.line - 1
        above = [line for line in reversed(self.lines[max(0, place - 8) : place]) if line]
        below = [line for line in self.lines[place + 1 : place + 9] if line]
        return above[:_NEIGHBOURS], below[:_NEIGHBOURS]


@dataclass(frozen=True, slots=True)
class _Matched:
    left_old: list[_Place]
    left_new: list[_Place]
    fixed: list[Diagnostic]
    worsened: list[Diagnostic]


def _match(old: _File, new: _File) -> _Matched:
    """Pair the diagnostics of one file before and after, and return the unpaired ones."""
    old_lines, new_lines = _normalised(old.text), _normalised(new.text)
    steps = _steps(old_lines, new_lines)
    waiting = list(old.claims)
    left = [claim for claim in new.claims if not _take(waiting, claim, _carried(steps, claim.location.line))]
    left = [each for each in left if not _take_edited(waiting, each, steps)]
    # Whatever pairs now without regard to the severity has become worse.
    worsened = [
        each
        for each in left
        if _take(waiting, each, _carried(steps, each.location.line), may_be_worse=True)
        or _take_edited(waiting, each, steps, may_be_worse=True)
    ]
    # If the line still exists and the diagnostic does not, it was fixed: it did not move.
    gone = [each for each in waiting if not _is_still_there(steps, each.location.line)]
    fixed = [each for each in waiting if each not in gone]
    return _Matched(
        [_Place(each, old_lines) for each in gone], [_Place(each, new_lines) for each in left], fixed, worsened
    )


def _take(waiting: list[Diagnostic], claim: Diagnostic, line: int | None, *, may_be_worse: bool = False) -> bool:
    for each in waiting:
        if each.rule == claim.rule and each.location.line == line and (may_be_worse or _is_no_worse(claim, each)):
            waiting.remove(each)
            return True
    return False


def _take_edited(
    waiting: list[Diagnostic], claim: Diagnostic, steps: Sequence[_Step], *, may_be_worse: bool = False
) -> bool:
    """Pair with the old diagnostic on the line that was edited into this one."""
    block = next((step for step in steps if step.new_start < claim.location.line <= step.new_end), None)
    if block is None or block.is_equal:
        return False
    for each in waiting:
        is_there = each.rule == claim.rule and block.old_start < each.location.line <= block.old_end
        if (
            is_there
            and (may_be_worse or _is_no_worse(claim, each))
            and _alike(each.excerpt, claim.excerpt) >= _SAME_LINE
        ):
            waiting.remove(each)
            return True
    return False


def _is_no_worse(claim: Diagnostic, old: Diagnostic) -> bool:
    return _RANK[claim.severity] >= _RANK[old.severity]


def _not_moved(old: list[_Place], new: list[_Place]) -> tuple[list[_Place], list[_Place]]:
    """Return the new diagnostics to which no old one was moved, within or across files, and the old ones left."""
    waiting: dict[tuple[str, str], list[_Place]] = defaultdict(list)
    for each in old:
        waiting[each.claim.rule, each.line].append(each)
    left = []
    for place in new:
        candidates = waiting.get((place.claim.rule, place.line), [])
        moved = next((candidate for candidate in candidates if _was_moved(candidate, place)), None)
        if moved is None:
            left.append(place)
        else:
            candidates.remove(moved)
    return left, [place for places in waiting.values() for place in places]


def _was_moved(old: _Place, new: _Place) -> bool:
    above, below = old.surroundings()
    now_above, now_below = new.surroundings()
    return (
        _is_no_worse(new.claim, old.claim)
        and (above[:1] == now_above[:1] or below[:1] == now_below[:1])
        and (_alike(" ".join(above + below), " ".join(now_above + now_below)) >= _SAME_LINE)
    )


@dataclass(frozen=True, slots=True)
class _Step:
    """Run of lines that were kept or replaced; lines from 0, ends exclusive."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int
    is_equal: bool


def _steps(old: list[str], new: list[str]) -> list[_Step]:
    start = _equal_length(old, new)
    end = _equal_length(old[start:][::-1], new[start:][::-1])
    old_rest, new_rest = old[start : len(old) - end], new[start : len(new) - end]
    # difflib's heuristic for long files ignores frequent lines, and most lines of code are frequent.
    is_small = len(old_rest) * len(new_rest) <= _MOST_CELLS
    matcher = SequenceMatcher(None, old_rest, new_rest, autojunk=not is_small)
    middle = [
        _Step(start + old_from, start + old_to, start + new_from, start + new_to, tag == "equal")
        for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes()
    ]
    last = _Step(len(old) - end, len(old), len(new) - end, len(new), is_equal=True)
    return [_Step(0, start, 0, start, is_equal=True), *middle, last]


def _equal_length(old: list[str], new: list[str]) -> int:
    return next((place for place, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _carried(steps: Sequence[_Step], line: int) -> int | None:
    """Return the old line that became a line of the new file; None if there is none."""
    for step in steps:
        if step.is_equal and step.new_start < line <= step.new_end:
            return line - step.new_start + step.old_start
    return None


def _is_still_there(steps: Sequence[_Step], line: int) -> bool:
    return any(step.is_equal and step.old_start < line <= step.old_end for step in steps)


def _by_path(claims: Iterable[Diagnostic]) -> dict[str, list[Diagnostic]]:
    found: dict[str, list[Diagnostic]] = defaultdict(list)
    for claim in claims:
        found[claim.location.path].append(claim)
    return dict(found)


def _normalised(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n")]


def _alike(one: str, other: str) -> float:
    return SequenceMatcher(None, " ".join(one.split()), " ".join(other.split()), autojunk=False).ratio()


def line_after(before: str, after: str, line: int) -> int:
    """Return the line of a new text at which a line of the old one is or was: itself, or the one that took its place.

    Args:
        before: The old text.
        after: The new text.
        line: Line of the old text, from 1.
    """
    for step in _steps(_normalised(before), _normalised(after)):
        if step.old_start < line <= step.old_end:
            # A replaced block is followed line by line as far as it reaches; a deleted one is at the line after it.
            return step.new_start + min(line - step.old_start, max(1, step.new_end - step.new_start))
    return 1


def renamed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the old names of renamed files, by their new names."""
    gone = sorted(before.keys() - after.keys())
    come = sorted(after.keys() - before.keys())
    found: dict[str, str] = {}
    for path in come:
        same = next((each for each in gone if before[each] == after[path]), None)
        if same is not None:
            found[path] = same
            gone.remove(same)
    come = [each for each in come if each not in found]
    if len(gone) * len(come) <= _MOST_PAIRS:
        found |= _alike_files({each: before[each] for each in gone}, {each: after[each] for each in come})
    return found


def _alike_files(gone: Mapping[str, str], come: Mapping[str, str]) -> dict[str, str]:
    old = {path: Counter(filter(None, _normalised(text))) for path, text in gone.items()}
    new = {path: Counter(filter(None, _normalised(text))) for path, text in come.items()}
    pairs = sorted(
        (-2 * (mine & theirs).total() / max(1, mine.total() + theirs.total()), path, was)
        for path, mine in new.items()
        for was, theirs in old.items()
    )
    found: dict[str, str] = {}
    for alike, path, was in pairs:
        if -alike >= _SAME_FILE and path not in found and was not in found.values():
            found[path] = was
    return found
