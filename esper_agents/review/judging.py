"""Runs the rules over the tables of files that belong together, and makes claims of what they find."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Diagnostic, Location, fingerprint
from esper_agents.review.closing import FinalRule
from esper_agents.review.index import ProjectIndex
from esper_agents.review.leniency import applies, severity_in
from esper_agents.review.model.program import close_program
from esper_agents.review.report import SuppressedDiagnostic
from esper_agents.review.source import Unreadable
from esper_agents.review.suppress import SuppressionUsage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from esper_agents.review.model.query import ModelMatch
    from esper_agents.review.notebook import NotebookSource
    from esper_agents.review.rule import Rule, RuleMatch
    from esper_agents.review.suppress import Suppression
    from esper_agents.review.tables import FileTables
    from esper_agents.review.versions import TorchSettings


@dataclass(slots=True)
class RuleResults:
    """What the rules said of files.

    Attributes:
        claims: What they found, by path, line, column and rule.
        failures: Which of them could not be asked about which file, and why.
        suppressed: How many claims were silenced.
        silenced: Those claims, each with why.
    """

    claims: list[Diagnostic] = field(default_factory=list)
    failures: list[Unreadable] = field(default_factory=list)
    suppressed: int = 0
    silenced: list[SuppressedDiagnostic] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReviewedFile:
    """A file to judge.

    Attributes:
        tables: Its tables.
        notebook: Where its lines stand, if it is a notebook.
    """

    tables: FileTables
    notebook: NotebookSource | None = None


def judge(
    files: Sequence[ReviewedFile],
    rules: Sequence[Rule],
    *,
    known: Collection[str],
    settings: TorchSettings | None,
    on_file: Callable[[str], None],
) -> RuleResults:
    """Return what rules find in files that belong together.

    Args:
        files: The files, by path.
        rules: The rules, by code.
        known: The codes of all rules there are, these or others.
        settings: The project's settings, where there is a project.
        on_file: Called with each path before its file is judged.
    """
    index = ProjectIndex([each.tables for each in files], settings)
    judged = RuleResults()
    for file in files:
        on_file(file.tables.path)
        _FileJudge(file, index, judged).judge(rules, frozenset(known))
    judged.failures += [
        Unreadable(files[0].tables.path, f"the model broke off at {name}: {problem}", "report it as a bug", None)
        for name, problem in close_program(index)
    ]
    # What it has worked out refers back to it; emptied, it goes at once and not when the collector finds it.
    vars(index).clear()
    return judged


class _FileJudge:
    """Where the rules stand in one file: what they found, what was silenced, who has run."""

    def __init__(self, file: ReviewedFile, index: ProjectIndex, judged: RuleResults) -> None:
        self.file = file.tables
        self.notebook = file.notebook
        self.index = index
        self.judged = judged
        self.used: set[tuple[Suppression, str]] = set()
        self.ran: set[str] = set()
        self.silenced: list[tuple[Rule, RuleMatch, str]] = []

    def judge(self, rules: Sequence[Rule], known: frozenset[str]) -> None:
        found = [(rule, hit) for rule in rules for hit in self._hits(rule)]
        kept = [each for each in found if not self._is_silenced(*each)]
        for rule in rules if self.file.suppressions else ():
            if isinstance(rule, FinalRule):
                silence = SuppressionUsage(frozenset(self.used), frozenset(self.ran), known)
                closing = [(rule, hit) for hit in _one_each(rule.close(self.file, silence))]
                kept += [each for each in closing if not self._is_silenced(*each)]
        seen: dict[tuple[str, str], int] = {}
        for rule, hit in sorted(kept, key=lambda each: (each[1].line, each[1].column, each[0].code)):
            self.judged.claims.append(self._claim(rule, hit, seen))
        for rule, hit, reason in sorted(self.silenced, key=lambda each: (each[1].line, each[1].column, each[0].code)):
            self.judged.silenced.append(SuppressedDiagnostic(self._claim(rule, hit, seen), reason))

    def _hits(self, rule: Rule) -> Iterable[RuleMatch]:
        """Return what a rule finds in the file, each place once; what it cannot follow is noted."""
        if not applies(rule.category, self.file.purpose):
            return ()
        hits: list[RuleMatch] = []
        try:
            hits.extend(_checked(rule, self.file, self.index))
            if rule.asks_model:
                hits += self._asked(rule)
            self.ran.add(rule.code)
        except RecursionError:
            problem = f"nests too deeply for {rule.code}"
            self.judged.failures.append(Unreadable(self.file.path, problem, "split the expression", None))
        except Exception as error:  # noqa: BLE001 - one rule's mistake must not cost what all others found
            problem = f"{rule.code} broke off: {type(error).__name__}: {error}"
            self.judged.failures.append(Unreadable(self.file.path, problem, "report it as a bug", None))
        return _one_each(hits) if hits else ()

    def _asked(self, rule: Rule) -> list[RuleMatch]:
        """Return what the semantic model shows in the file and the rule itself has not found."""
        by_path: dict[str, list[ModelMatch]] = self.index.once(("asked", rule.code), lambda: _by_path(rule, self.index))
        found = by_path.get(self.file.path, ())
        return [each.match for each in found if not _is_reported(rule, each, self.index)]

    def _is_silenced(self, rule: Rule, hit: RuleMatch) -> bool:
        by = [
            suppression
            for suppression in self.file.suppressions
            if suppression.counts and rule.code in suppression.codes and suppression.covers(hit.line, hit.end_line)
        ]
        self.used.update((each, rule.code) for each in by)
        self.judged.suppressed += bool(by)
        self.silenced += [(rule, hit, by[0].reason)] if by else []
        return bool(by)

    def _claim(self, rule: Rule, hit: RuleMatch, seen: dict[tuple[str, str], int]) -> Diagnostic:
        file, notebook = self.file, self.notebook
        code = file.lines[hit.line - 1] if hit.line <= len(file.lines) else ""
        key = (rule.code, " ".join(code.split()))
        occurrence = seen[key] = seen.get(key, -1) + 1
        location = Location(file.path, hit.line, _characters(code, hit.column), hit.end_line)
        message, excerpt = hit.message, code
        if notebook is not None:
            location = _in_notebook(notebook, location, code)
            message, excerpt = _with_cell(notebook, hit), notebook.excerpt(hit.line)
        return Diagnostic(
            rule=rule.code,
            name=rule.name,
            severity=severity_in(file.purpose, hit.severity or rule.severity),
            category=rule.category,
            location=location,
            message=message,
            remedy=hit.remedy,
            confidence=hit.confidence,
            basis=hit.basis,
            excerpt=excerpt,
            fingerprint=fingerprint(rule.code, file.path, code, occurrence),
        )


def _checked(rule: Rule, file: FileTables, index: ProjectIndex) -> list[RuleMatch]:
    """Return what a rule finds in a file without the model, worked out once for a rule that asks the model, too."""
    if not rule.asks_model:
        return list(rule.check(file, index))
    return index.once(("checked", rule.code, file.path), lambda: list(rule.check(file, index)))


def _is_reported(rule: Rule, found: ModelMatch, index: ProjectIndex) -> bool:
    """Return whether the rule reports the cause of a match of the model elsewhere."""
    for path, first, last in found.regions:
        hits = _checked(rule, index.files[path], index)
        if any(first <= hit.line <= last for hit in hits):
            return True
    return False


def _by_path(rule: Rule, index: ProjectIndex) -> dict[str, list[ModelMatch]]:
    found: dict[str, list[ModelMatch]] = {}
    for each in rule.ask(index):
        found.setdefault(each.path, []).append(each)
    return found


def _one_each(hits: Iterable[RuleMatch]) -> Iterator[RuleMatch]:
    """Yield the first hit at each place."""
    places: dict[tuple[int, int], RuleMatch] = {}
    for hit in hits:
        places.setdefault((hit.line, hit.column), hit)
    yield from places.values()


def _in_notebook(notebook: NotebookSource, location: Location, code: str) -> Location:
    column = notebook.column(location.line, code[: location.column - 1])
    return Location(location.path, notebook.line(location.line), column, notebook.line(location.end_line))


def _with_cell(notebook: NotebookSource, hit: RuleMatch) -> str:
    where = notebook.where(hit.line)
    return f"{hit.message} ({where})" if where else hit.message


def _characters(line: str, column: int) -> int:
    """Return a column in characters; the syntax tree counts bytes of UTF-8."""
    return column if line.isascii() else len(line.encode()[: column - 1].decode(errors="replace")) + 1
