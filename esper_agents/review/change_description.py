"""Description of a change from the syntax trees before and after it: its edits of meaning, and what is only form."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.review.changed_definitions import paired_scopes
from esper_agents.review.changed_line_counts import EditedLines, changed_line_counts
from esper_agents.review.diff import line_after, renamed
from esper_agents.review.extracted_statements import extracted_statements
from esper_agents.review.leniency import purpose_of
from esper_agents.review.renamed_names import rename, renames
from esper_agents.review.syntax_units import Unit, scopes_of
from esper_agents.review.tables import Purpose
from esper_agents.review.visible_renames import visible_renames

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from esper_agents.review.syntax_units import SyntaxScope
    from esper_agents.review.visible_renames import VisibleRename

_SIMILAR = 0.45
# Above these sizes a comparison takes too long: larger scopes count as rewritten, larger files are only counted.
_MOST_PAIRS = 250_000
_MOST_CELLS = 2_500
_LARGEST = 400_000
# Nobody reads more; the files after it are listed.
_MOST_EDITS = 300
_MOST_SHOWN_RENAMES = 3
_REWRITTEN = 0.35
_LOCAL_NAMES = "values with or without a name of their own"
_LEAST_REWRITTEN = 12


@dataclass(frozen=True, slots=True)
class DescribedEdit:
    """One edit of meaning in a change.

    Attributes:
        path: The file, relative to the project.
        line: Line in the new file: of the edit, or where it is missing.
        text: What changed and what follows from it, in one clause.
        base: The line before the change, with its number; empty if nothing was there.
        base_line: Its number; 0 if nothing was there.
    """

    path: str
    line: int
    text: str
    base: str = ""
    base_line: int = 0

    def __str__(self) -> str:
        before = f" (line {self.base_line} before: `{self.base}`)" if self.base else ""
        return f"{self.text}{before}"


@dataclass(frozen=True, slots=True)
class ChangeDescription:
    """Description of a change.

    Attributes:
        edits: Edits of meaning: those of tests last, and before these the additions.
        form: Kinds of changes that leave the behaviour as it is, in words, such as `3 renames (x to y)`.
        unread: Changed sources that were not compared: they were not given, do not parse or are too large, or too many
            others differ.
        named: Number of further edits that findings name.
        lines: Number of changed lines of the compared sources.
        form_lines: Number of those that no edit of meaning touches.
    """

    edits: tuple[DescribedEdit, ...] = ()
    form: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    named: int = 0
    lines: int = 0
    form_lines: int = 0

    @property
    def is_form_only(self) -> bool:
        """Whether every difference of the compared sources is form."""
        return bool(self.form) and not (self.edits or self.named or self.unread)


def describe_change(before: Mapping[str, str], after: Mapping[str, str], changed: Collection[str]) -> ChangeDescription:
    """Return what a change does to the meaning of Python sources, edit by edit.

    Comments, formatting, docstrings, annotations, the order of imports, moved functions and renamed local names are
    recognised as form. What an edit means for the program, as far as its syntax says it, is named with it.

    Args:
        before: Sources of the old tree, by path.
        after: Sources of the new tree, by path.
        changed: Every path that differs.
    """
    was_called = renamed(before, after)
    found = _Description(after)
    paths = sorted(path for path in changed if path in after and path.endswith(".py"))
    for path in paths:
        was = was_called.get(path, path)
        if was != path:
            found.form[f"`{was}` moved to `{path}`"] += 1
        if was not in before:
            found.lines += after[path].count("\n")
            found.edits.append(DescribedEdit(path, 1, f"new file with {number_of(after[path].count(chr(10)), 'line')}"))
        elif before[was] != after[path]:
            found.compare(path, before[was], after[path])
    moved = set(was_called.values())
    gone = sorted(path for path in changed if path in before and path not in after and path.endswith(".py"))
    found.lines += sum(before[path].count("\n") for path in gone if path not in moved)
    found.edits += [DescribedEdit(path, 1, "the file is deleted") for path in gone if path not in moved]
    found.unread += sorted(path for path in changed if path.endswith(".py") and not (path in before or path in after))
    # What was there before decides more than what is new.
    found.edits.sort(key=lambda each: (purpose_of(each.path) is Purpose.TEST, not each.base, each.path, each.line))
    counts = {"lines": found.lines, "form_lines": found.form_lines}
    return ChangeDescription(tuple(found.edits), tuple(found.counted()), tuple(found.unread), **counts)


@dataclass(slots=True)
class _Description:
    sources: Mapping[str, str]
    edits: list[DescribedEdit] = field(default_factory=list)
    form: Counter[str] = field(default_factory=Counter)
    renames: dict[str, str] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    lines: int = 0
    form_lines: int = 0

    def compare(self, path: str, before: str, after: str) -> None:
        """Add the differences of one file."""
        if len(before) + len(after) > _LARGEST or len(self.edits) > _MOST_EDITS:
            self.unread.append(path)
            return
        try:
            old, new = ast.parse(before), ast.parse(after)
            kinds = list(_form(old, new))
            throughout = self._names(old, new)
            file = _FileEdits(path, before, after, scopes_of(old), scopes_of(new))
            edits, names, more = file.found()
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            self.unread.append(path)
            return
        edits = file.with_renames(edits, visible_renames(path, before, after, throughout | names, self.sources))
        self.edits += edits
        counts = changed_line_counts(before, after, *file.edited_lines(edits))
        self.lines, self.form_lines = self.lines + counts.all, self.form_lines + counts.form
        self.renames |= names
        self.form.update((*kinds, *more))
        if not (edits or names or kinds or more or throughout):
            self.form["comments or formatting"] += 1

    def _names(self, old: ast.Module, new: ast.Module) -> dict[str, str]:
        """Give the old tree the new names of what is renamed throughout a file, and return them."""
        found = renames(old, new)
        rename(old, found)
        self.renames |= found
        return found

    def counted(self) -> Iterator[str]:
        if self.renames:
            pairs = [f"`{old}` to `{new}`" for old, new in self.renames.items()]
            more = f" and {len(pairs) - _MOST_SHOWN_RENAMES} more" if len(pairs) > _MOST_SHOWN_RENAMES else ""
            yield f"{number_of(len(pairs), 'rename')} ({', '.join(pairs[:_MOST_SHOWN_RENAMES])}{more})"
        yield from self.form


def _form(old: ast.Module, new: ast.Module) -> Iterator[str]:
    """Yield the kinds of parts that differ without a meaning at run time."""
    for name, parts in (("docstrings", _docstrings), ("annotations", _annotations)):
        if Counter(parts(old)) != Counter(parts(new)):
            yield name


def _docstrings(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value


def _annotations(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if isinstance(part := getattr(node, name, None), ast.expr):
                yield ast.dump(part)


class _FileEdits:
    """Edits of one file."""

    def __init__(
        self, path: str, before: str, after: str, old: Mapping[str, SyntaxScope], new: Mapping[str, SyntaxScope]
    ) -> None:
        self.path, self.before, self.after, self.old, self.new = path, before, after, dict(old), new
        self.old_lines = before.split("\n")
        self.last = max(1, after.count("\n"))
        self.extracted: set[str] = set()

    def found(self) -> tuple[list[DescribedEdit], dict[str, str], list[str]]:
        """Return the edits, the renamed local names, and the kinds of other changes."""
        edits: list[DescribedEdit] = []
        names: dict[str, str] = {}
        kinds: list[str] = []
        pairs = dict(paired_scopes(self.old, self.new))
        for name, now in pairs.items():
            was, scope = self.old[name], self.new[now]
            if was.keys == scope.keys:
                continue
            if local := renames(was.node, scope.node) if name else {}:
                names |= local
                was = was.renamed(local)
                # Functions within it use its names.
                inside = [each for each in self.old if each.startswith(f"{name}.")]
                self.old |= {each: self.old[each].renamed(local) for each in inside}
            edits += self._fewest(was, scope, kinds)
        edits += self._added_and_removed(pairs)
        order = [each for each in self.new if each in self.old]
        if order != [each for each in self.old if each in self.new]:
            kinds.append("moved functions")
        return edits, names, kinds

    def _fewest(self, was: SyntaxScope, now: SyntaxScope, kinds: list[str]) -> list[DescribedEdit]:
        """Return the edits of a scope, without values that only got a name or lost it, if that leaves fewer."""
        if was.keys == now.keys:
            return []
        plain, inlined = was.with_values_inlined(), now.with_values_inlined()
        if plain.keys == inlined.keys:
            kinds.append(_LOCAL_NAMES)
            return []
        own: list[str] = []
        edits = list(self._of_scope(was, now, own))
        if (plain.keys, inlined.keys) != (was.keys, now.keys):
            extracted, others = set(self.extracted), [_LOCAL_NAMES]
            fewer = list(self._of_scope(plain, inlined, others))
            if len(fewer) < len(edits):
                edits, own = fewer, others
            else:
                self.extracted = extracted
        kinds += own
        return edits

    def _added_and_removed(self, pairs: Mapping[str, str]) -> Iterator[DescribedEdit]:
        come = [name for name in self.new if name not in pairs.values()]
        for name in (each for each in come if each not in self.extracted):
            # The methods of a new class are part of it.
            if name.rpartition(".")[0] not in come:
                scope = self.new[name]
                yield DescribedEdit(self.path, scope.line, f"adds `{name}` ({number_of(scope.lines, 'line')})")
        gone = [name for name in self.old if name not in pairs]
        for name in gone:
            if name.rpartition(".")[0] not in gone:
                line = self.old[name].line
                yield self._edit(line_after(self.before, self.after, line), f"`{name}` is gone", line)
        for name, now in pairs.items():
            if name.rpartition(".")[2] != now.rpartition(".")[2]:
                yield self._edit(self.new[now].line, f"`{name}` is now called `{now}`", self.old[name].line)

    def with_renames(self, edits: Sequence[DescribedEdit], found: Iterable[VisibleRename]) -> list[DescribedEdit]:
        """Return edits with the renames that other code or saved files can see in the place of their parts."""
        visible = list(found)
        said = {(each.line, each.base_line) for each in visible}
        uses = tuple(each.use for each in visible if each.use)
        others = [each for each in edits if (each.line, each.base_line) not in said and not each.text.endswith(uses)]
        return [*(self._edit(each.line, each.text, each.base_line) for each in visible), *others]

    def edited_lines(self, edits: Iterable[DescribedEdit]) -> tuple[EditedLines, EditedLines]:
        """Return the lines of edits in the new and in the old source."""
        new, old = EditedLines(), EditedLines()
        for edit in edits:
            is_rewritten = "` is rewritten" in edit.text
            (new.whole if is_rewritten or edit.text.startswith("adds `") else new.edited).add(edit.line)
            (old.whole if is_rewritten or "` is gone" in edit.text else old.edited).add(edit.base_line)
        return new, old

    def _edit(self, line: int, text: str, base_line: int) -> DescribedEdit:
        number = max(1, min(base_line, len(self.old_lines)))
        base = " ".join(self.old_lines[number - 1].split()).replace("`", "'")
        base = base if len(base) <= 100 else f"{base[:96]} ..."  # noqa: PLR2004 - one line of a screen
        return DescribedEdit(self.path, max(1, min(line, self.last)), text, base, number)

    def _of_scope(self, was: SyntaxScope, now: SyntaxScope, kinds: list[str]) -> Iterator[DescribedEdit]:
        """Yield the edits of one function, class body or module."""
        if len(was.units) * len(now.units) > _MOST_PAIRS:
            yield self._edit(now.line, f"`{now.name or 'the module'}` is rewritten", was.line)
            return
        aligned = _Alignment.of(was.units, now.units)
        kept = len(aligned.pairs)
        if kept < _REWRITTEN * max(len(was.units), len(now.units)) and len(was.units) >= _LEAST_REWRITTEN:
            told = f"`{now.name or 'the module'}` is rewritten ({kept} of {len(was.units)} statements are still in it)"
            yield self._edit(now.line, told, was.line)
            return
        yield from self._imports(was, now, kinds)
        for one, other in aligned.pairs.items():
            old, new = was.units[one], now.units[other]
            if old.key != new.key and not (old.is_import or new.is_import):
                for each in old.compare(new):
                    if each.is_message:
                        kinds.append("texts of messages")
                    else:
                        yield self._edit(each.line, str(each), each.base_line)
        yield from self._extracted(was, now, aligned)
        yield from self._gone(was, now, aligned)
        yield from self._come(now, aligned)
        yield from self._moved(was, now, aligned)

    def _extracted(self, was: SyntaxScope, now: SyntaxScope, aligned: _Alignment) -> Iterator[DescribedEdit]:
        """Yield the statements that moved into a new function; neither they nor its call are reported again."""
        gone = {number: was.units[number] for number in aligned.gone}
        for found in extracted_statements(gone, [now.units[each] for each in aligned.come], self.new, self.old):
            first = was.units[found.moved[0]]
            inside = [number for number in found.moved if was.units[number].parent not in found.moved]
            more = f" and {number_of(len(inside) - 1, 'more statement')}" if len(inside) > 1 else ""
            text = f"`{first.shown}`{more} moved into `{found.function}` (line {found.line}), which is called here"
            yield self._edit(found.call.line, text, first.line)
            aligned.gone = [number for number in aligned.gone if number not in found.moved]
            if found.is_whole:
                aligned.come = [number for number in aligned.come if now.units[number] is not found.call]
                self.extracted.add(found.function)

    def _imports(self, was: SyntaxScope, now: SyntaxScope, kinds: list[str]) -> Iterator[DescribedEdit]:
        """Yield the names that are now imported from elsewhere; other imports matter only where they are used."""
        before, after = was.imported, now.imported
        for name, (origin, line) in after.items():
            if name in before and before[name][0] != origin:
                told = f"`{name}` is `{origin}` instead of `{before[name][0]}`"
                yield self._edit(line, told, before[name][1])
        if before.keys() != after.keys():
            kinds.append("imports")

    def _gone(self, was: SyntaxScope, now: SyntaxScope, aligned: _Alignment) -> Iterator[DescribedEdit]:
        for number in aligned.gone:
            unit = was.units[number]
            is_within = unit.parent in aligned.gone and not _has_kept(was.units, unit.parent, aligned.pairs)
            if unit.is_import or is_within:
                continue
            line = line_after(self.before, self.after, unit.line)
            inside = [child for child in _children(was.units, number) if child in aligned.pairs]
            if inside:
                first = now.units[aligned.pairs[inside[0]]]
                more = f" and {number_of(len(inside) - 1, 'more statement')}" if len(inside) > 1 else ""
                yield self._edit(first.line, f"`{first.shown}`{more} {unit.released}", unit.line)
            else:
                follow = unit.consequence_of_loss(_body(was.units, number))
                yield self._edit(line, f"`{_whole(was.units, number)}` is gone{follow}", unit.line)

    def _come(self, now: SyntaxScope, aligned: _Alignment) -> Iterator[DescribedEdit]:
        matched = {other: one for one, other in aligned.pairs.items()}
        for number in aligned.come:
            unit = now.units[number]
            is_within = unit.parent in aligned.come and not _has_kept(now.units, unit.parent, matched)
            if unit.is_import or is_within:
                continue
            inside = [child for child in _children(now.units, number) if child in matched]
            if inside:
                first = now.units[inside[0]]
                more = f" and {number_of(len(inside) - 1, 'more statement')}" if len(inside) > 1 else ""
                yield DescribedEdit(self.path, unit.line, f"`{first.shown}`{more} {unit.bound}")
            else:
                yield DescribedEdit(self.path, unit.line, f"adds `{_whole(now.units, number)}`")

    def _moved(self, was: SyntaxScope, now: SyntaxScope, aligned: _Alignment) -> Iterator[DescribedEdit]:
        for one, other in aligned.moves.items():
            old, new = was.units[one], now.units[other]
            if not new.is_import:
                way = "later" if new.line - now.line > old.line - was.line else "earlier"
                yield self._edit(new.line, f"`{new.shown}` now runs {way}", old.line)
        for one, other in aligned.pairs.items():
            around, now_around = was.units[one].parent, now.units[other].parent
            if around in aligned.gone or now_around in aligned.come:
                continue
            if aligned.all_pairs.get(around, around if around < 0 else None) == now_around:
                continue
            # Said of the first of the statements that moved together.
            before = (was.units[one - 1].parent, now.units[other - 1].parent)
            if one - 1 in aligned.pairs and before == (around, now_around):
                continue
            top = "the top of the function"
            out = f"out of `{was.units[around].shown}`" if around >= 0 else f"from {top}"
            into = f"into `{now.units[now_around].shown}`" if now_around >= 0 else f"to {top}"
            line, base_line = now.units[other].line, was.units[one].line
            yield self._edit(line, f"`{now.units[other].shown}` moved {out} {into}", base_line)


def _children(units: Sequence[Unit], number: int) -> list[int]:
    return [each for each, unit in enumerate(units) if unit.parent == number]


def _has_kept(units: Sequence[Unit], number: int, kept: Mapping[int, int]) -> bool:
    return any(child in kept for child in _children(units, number))


def _body(units: Sequence[Unit], number: int) -> list[Unit]:
    return [units[child] for child in _children(units, number)]


def _whole(units: Sequence[Unit], number: int) -> str:
    """Return a statement with the first one of its block."""
    inside = _body(units, number)
    if not inside:
        return units[number].shown
    more = " ..." if len(inside) > 1 or any(unit.parent == units.index(inside[0]) for unit in units) else ""
    return f"{units[number].shown}: {inside[0].shown}{more}"


@dataclass(slots=True)
class _Alignment:
    """Statements of two versions of a scope that are one.

    Attributes:
        pairs: Numbers of the new statements by those of the old ones, in order.
        moves: Likewise, of statements that are the same at another place.
        gone: Numbers of the other old statements.
        come: Numbers of the other new statements.
    """

    pairs: dict[int, int]
    moves: dict[int, int]
    gone: list[int]
    come: list[int]

    @property
    def all_pairs(self) -> dict[int, int]:
        return self.pairs | self.moves

    @classmethod
    def of(cls, old: Sequence[Unit], new: Sequence[Unit]) -> _Alignment:
        keys = [each.key for each in old], [each.key for each in new]
        pairs: dict[int, int] = {}
        gone: list[int] = []
        come: list[int] = []
        for tag, a, b, c, d in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
            if tag == "equal":
                pairs |= dict(zip(range(a, b), range(c, d), strict=True))
                continue
            edited = dict(_edited(old, new, range(a, b), range(c, d)))
            pairs |= edited
            gone += [each for each in range(a, b) if each not in edited]
            come += [each for each in range(c, d) if each not in edited.values()]
        moves: dict[int, int] = {}
        for one in list(gone):
            other = next((each for each in come if new[each].key == old[one].key), None)
            if other is not None:
                moves[one] = other
                gone.remove(one)
                come.remove(other)
        return cls(dict(sorted(pairs.items())), moves, gone, come)


def _edited(
    old: Sequence[Unit], new: Sequence[Unit], left: Iterable[int], right: Iterable[int]
) -> Iterator[tuple[int, int]]:
    """Yield the statements of two runs that are versions of one, in order: the pairing with the largest similarity."""
    rows, columns = list(left), list(right)
    if not rows or not columns or len(rows) * len(columns) > _MOST_CELLS:
        return
    alike = [[old[one].similarity(new[other]) for other in columns] for one in rows]
    best = [[0.0] * (len(columns) + 1) for _ in range(len(rows) + 1)]
    for i in reversed(range(len(rows))):
        for j in reversed(range(len(columns))):
            here = alike[i][j] + best[i + 1][j + 1] if alike[i][j] >= _SIMILAR else 0.0
            best[i][j] = max(here, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(rows) and j < len(columns):
        if alike[i][j] >= _SIMILAR and best[i][j] == alike[i][j] + best[i + 1][j + 1]:
            yield rows[i], columns[j]
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
