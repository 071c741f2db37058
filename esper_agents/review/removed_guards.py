"""Guards that a change removes: the same code before and after, without what protected it."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.domain.finding import Category, Confidence, Diagnostic, Location, Severity, fingerprint
from esper_agents.review.diff import line_after, renamed
from esper_agents.review.guards import GUARDS, guards_of, plain
from esper_agents.review.renamed_names import with_new_names
from esper_agents.review.rule_codes import GUARD, GUARD_NAME, TEST, TEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from esper_agents.review.guards import GuardUse
    from esper_agents.review.renamed_names import RenamedText

_TEST_FILE = re.compile(r"(?:^|/)(?:tests?/.*|test_[^/]*|[^/]*_test)\.py$")
_DISABLED = frozenset(("skip", "skipif", "xfail", "expectedFailure"))
# Minimum similarity for two functions to be one that was renamed, and for a statement to be one that was edited.
_SAME_BODY = 0.6
_SAME_STATEMENT = 0.5
_NAME = re.compile(r"[A-Za-z_]\w*")
_KEYWORDS = frozenset(("not", "is", "None", "and", "or", "in", "self", "len", "True", "False", "isinstance"))
_CONDITION = re.compile(r"\b(?:if|elif|while|assert|where|raise|max|min|clamp|try|except)\b")
# Adds one to its argument.
_LOG_OF_ONE_MORE = "log1p("
_BASIS = "compared with the code before the change"


def removed_guards(
    before: Mapping[str, str], after: Mapping[str, str], changed: Iterable[str]
) -> tuple[Diagnostic, ...]:
    """Return a diagnostic for each guard and each test that a change removes from code that stays.

    A guard that moved within the changed files, or that another of its family replaced, is not removed; nor is one
    whose function or guarded expression is gone as well.

    Args:
        before: Sources of the old tree, by path.
        after: Sources of the new tree, by path.
        changed: Every path that differs.
    """
    paths = frozenset(changed)
    was_called = renamed(before, after)
    pairs = {path: was_called.get(path, path) for path in sorted(paths) if path in after}
    # A guard that goes while the names around it change is gone as well.
    renamings = {path: with_new_names(before.get(was, ""), after[path]) for path, was in pairs.items()}
    old = {path: _File.read(each.text) for path, each in renamings.items()}
    new = {path: _File.read(after[path]) for path in pairs}
    come = [
        (use.key, name.rpartition(".")[2])
        for path, file in new.items()
        for name, scope in file.scopes.items()
        for use in _surplus(scope, old[path].scopes.get(name))
    ]
    added = Counter(key for key, _ in come)
    # Several functions may call the one that their guard moved into.
    holders: dict[tuple[str, str], set[str]] = defaultdict(set)
    for key, name in come:
        holders[key].add(name)
    changes = [_FileChange(path, old[path], new[path], renamings[path]) for path in pairs]
    lost = [(change, use, is_called) for change in changes for use, is_called in change.removed(holders)]
    for key in {use.key for _, use, is_called in lost if is_called}:
        # The function that they call is where the guard came to.
        added[key] = 0
    found = [
        change.diagnostic(use, change.place(use))
        for change, use, is_called in lost
        if not is_called and not _take(added, use.key)
    ]
    gone = {path: text for path, text in before.items() if path in paths and path not in after}
    found += _removed_tests(gone, old, new)
    return tuple(sorted(found, key=lambda each: (each.location.path, each.location.line, each.rule)))


class _Scope(NamedTuple):
    """Function, method, class body or module, without the functions in it."""

    node: ast.AST
    name: str
    uses: tuple[GuardUse, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _File:
    text: str
    scopes: Mapping[str, _Scope]

    @classmethod
    def read(cls, text: str) -> _File:
        """Return the scopes of a source; none if it does not parse, which the review reports itself."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return cls(text, {})
        lines = text.split("\n")
        return cls(text, {scope.name: scope for scope in _scopes(tree, "", lines)})


def _scopes(node: ast.AST, name: str, lines: list[str]) -> Iterator[_Scope]:
    inner = list(_inner(node))
    own = set(range(getattr(node, "lineno", 1), (getattr(node, "end_lineno", None) or len(lines)) + 1))
    for each in inner:
        own -= set(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    text = tuple(plain(lines[number - 1]) for number in sorted(own) if lines[number - 1].strip())
    yield _Scope(node, name, tuple(guards_of(node, lines)), text)
    for each in inner:
        yield from _scopes(each, f"{name}.{each.name}".lstrip("."), lines)


def _inner(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the outermost definitions within a scope."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child
        else:
            yield from _inner(child)


class _FileChange:
    """One file before and after a change."""

    def __init__(self, path: str, old: _File, new: _File, renaming: RenamedText) -> None:
        self.path, self.old, self.new, self.renaming = path, old, new, renaming
        self._named = dict(_same_scopes(old, new))

    def removed(self, holders: Mapping[tuple[str, str], set[str]]) -> Iterator[tuple[GuardUse, bool]]:
        """Yield the guards that a scope no longer has, and whether it newly calls a function that gained them.

        Args:
            holders: Functions that gained a guard, by its key.
        """
        for name, now in self._named.items():
            was, is_now = self.old.scopes[name], self.new.scopes[now]
            for use in _surplus(was, is_now):
                is_called = _newly_calls(holders.get(use.key, ()), was, is_now)
                if is_called or _is_still_needed(use, was, is_now):
                    yield use, is_called

    def place(self, use: GuardUse) -> int:
        """Return the line of the new file at which the guard is missing."""
        return min(line_after(self.old.text, self.new.text, use.line), max(1, self.new.text.count("\n")))

    def diagnostic(self, use: GuardUse, line: int) -> Diagnostic:
        """Return the diagnostic of a removed guard."""
        guard = GUARDS[use.guard]
        text = self.renaming.original(use.text, use.line)
        where = f" of `{use.scope}`" if use.scope else ""
        return Diagnostic(
            rule=GUARD,
            name=GUARD_NAME,
            severity=guard.severity,
            category=guard.category,
            location=Location(self.path, line, 1, line),
            message=f"the change removes {guard.title}{where}: `{text}` (line {use.line} before)",
            remedy=f"restore it, or show by a test that it is not needed: {guard.why}",
            confidence=Confidence.HIGH,
            basis=_BASIS,
            excerpt=_line(self.new.text, line),
            fingerprint=fingerprint(GUARD, self.path, f"{use.scope}\n{text}", use.number),
        )


def _same_scopes(old: _File, new: _File) -> Iterator[tuple[str, str]]:
    """Yield the scopes of both files that are one: of equal name, or renamed with a similar body."""
    left = [name for name in new.scopes if name not in old.scopes]
    for name, scope in old.scopes.items():
        if name in new.scopes:
            yield name, name
            continue
        if not scope.uses:
            continue
        alike = [(_similarity(scope.lines, new.scopes[each].lines), each) for each in left]
        best = max(alike, default=(0.0, ""))
        if best[0] >= _SAME_BODY:
            left.remove(best[1])
            yield name, best[1]


def _similarity(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    """Return the share of equal lines of two bodies, whatever their order."""
    return 2 * (Counter(one) & Counter(other)).total() / max(1, len(one) + len(other))


def _surplus(scope: _Scope, other: _Scope | None) -> list[GuardUse]:
    """Return the guards of a scope without a counterpart in the other, at most as many as it has more of a family."""
    theirs = other.uses if other is not None else ()
    left: dict[str, list[GuardUse]] = defaultdict(list)
    same = Counter(use.key for use in theirs)
    for use in scope.uses:
        if not _take(same, use.key):
            left[use.family].append(use)
    count = Counter(use.family for use in scope.uses)
    count.subtract(use.family for use in theirs)
    return [use for family, uses in left.items() for use in uses[: max(0, count[family])]]


def _take(counted: Counter[tuple[str, str]], key: tuple[str, str]) -> bool:
    if counted[key] <= 0:
        return False
    counted[key] -= 1
    return True


def _is_still_needed(use: GuardUse, was: _Scope, now: _Scope) -> bool:
    """Return whether the code that a guard protected is still there."""
    guard = GUARDS[use.guard]
    if guard.replaced_by & (Counter(each.guard for each in now.uses) - Counter(each.guard for each in was.uses)).keys():
        return False
    if use.body:
        return bool(set(use.body) & set(now.lines))
    if use.keyword:
        return any(_lacks(each, use) for each in ast.walk(now.node))
    come = set(now.lines) - set(was.lines)
    if use.subject:
        word = re.compile(rf"(?<![\w.]){re.escape(plain(use.subject))}(?!\w)")
        bare = use.statement.replace(plain(use.text), plain(use.subject))
        return any(
            word.search(line)
            and _LOG_OF_ONE_MORE not in line
            and (line == bare or SequenceMatcher(None, use.statement, line, autojunk=False).ratio() >= _SAME_STATEMENT)
            for line in come
        )
    if use.guard == "early-exit" and _is_decided_otherwise(use, come):
        return False
    # A statement of its own: the function stays what it was.
    kept = Counter(was.lines) & Counter(now.lines)
    return kept.total() * 2 >= len(was.lines) or _similarity(was.lines, now.lines) >= _SAME_STATEMENT


def _newly_calls(names: Iterable[str], was: _Scope, now: _Scope) -> bool:
    """Return whether a scope has a new line that calls one of these functions."""
    come = set(now.lines) - set(was.lines)
    return any(re.search(rf"(?<!\w){re.escape(name)}\(", line) for name in names for line in come)


def _lacks(node: ast.AST, use: GuardUse) -> bool:
    """Return whether a node is a call of the guarded function without the argument that was the guard."""
    if not isinstance(node, ast.Call) or ast.unparse(node.func) != use.subject:
        return False
    # The arguments in a dictionary can contain it.
    given = [keyword.value for keyword in node.keywords if keyword.arg in {use.keyword, None}]
    return all(isinstance(each, ast.Constant) and each.value in {None, False} for each in given)


def _is_decided_otherwise(use: GuardUse, come: set[str]) -> bool:
    """Return whether a new condition mentions what the condition of an early exit did."""
    names = set(_NAME.findall(use.statement)) - _KEYWORDS
    return any(_CONDITION.search(line) and names & set(_NAME.findall(line)) for line in come)


def _removed_tests(gone: Mapping[str, str], old: Mapping[str, _File], new: Mapping[str, _File]) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each test that is gone or disabled, and for each that lost an assertion."""
    tests_now = {
        name.rpartition(".")[2]: scope for file in new.values() for name, scope in file.scopes.items() if _is_test(name)
    }
    before = {**old, **{path: _File.read(text) for path, text in gone.items()}}
    for path, file in before.items():
        if not _TEST_FILE.search(path):
            continue
        for name, scope in file.scopes.items():
            if not _is_test(name):
                continue
            now = new[path].scopes.get(name) if path in new else None
            now = now or tests_now.get(name.rpartition(".")[2])
            what = _loss(scope, now)
            if what:
                is_here = path in new
                line = line_after(file.text, new[path].text, getattr(scope.node, "lineno", 1)) if is_here else 1
                yield Diagnostic(
                    rule=TEST,
                    name=TEST_NAME,
                    severity=Severity.WARNING,
                    category=Category.CORRECTNESS,
                    location=Location(path, line, 1, line),
                    message=f"the change {what.format(test=f'`{name}`')}",
                    remedy="restore it, or say which test covers what it checked",
                    confidence=Confidence.HIGH,
                    basis=_BASIS,
                    excerpt=_line(new[path].text, line) if is_here else "",
                    fingerprint=fingerprint(TEST, path, name, 0),
                )


def _is_test(name: str) -> bool:
    return name.rpartition(".")[2].startswith("test")


def _loss(was: _Scope, now: _Scope | None) -> str:
    if now is None:
        return "deletes the test {test}"
    if _disabling(now.node) > _disabling(was.node):
        return "disables the test {test}"
    lost = _assertions(was.node) - _assertions(now.node)
    if lost > 0:
        return f"removes {lost} assertion{'s' if lost > 1 else ''} from the test {{test}}"
    return ""


def _disabling(node: ast.AST) -> int:
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    names |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return len(names & _DISABLED)


def _assertions(node: ast.AST) -> int:
    """Return the number of assertions in a test: `assert`, `assertEqual(...)`, `assert_close(...)`, `raises(...)`."""
    found = 0
    for each in ast.walk(node):
        if isinstance(each, ast.Assert):
            found += 1
        elif isinstance(each, ast.Call):
            called = each.func.attr if isinstance(each.func, ast.Attribute) else getattr(each.func, "id", "")
            found += called.casefold().startswith("assert") or called == "raises"
    return found


def _line(text: str, number: int) -> str:
    lines = text.split("\n")
    return lines[number - 1] if number <= len(lines) else ""
