"""Evaluation suites: tasks with the facts that a useful answer states, and scores of answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.answer import AnswerLine
from esper_agents.domain.usage import Expense

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from esper_agents.domain.answer import Answer

_PLACE = re.compile(r"(?P<path>[\w./-]+\.\w+):(?P<first>\d+)(?:-(?P<last>\d+))?")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`'\"(])|\n")
_OBJECTIONS = frozenset(("critical", "warning"))


@dataclass(frozen=True, slots=True)
class ExpectedStatement:
    """A statement that an answer makes or does not make.

    Attributes:
        text: The statement in words, for the report.
        patterns: Regular expressions, ignoring case; one of them occurs in the statement. Empty accepts any words.
        path: File that the statement is about; empty if it need not name one.
        first_line: First line that it may name; 0 accepts any line of the file.
        last_line: Last line that it may name.
    """

    text: str
    patterns: tuple[str, ...] = ()
    path: str = ""
    first_line: int = 0
    last_line: int = 0

    def is_made_by(self, statement: AnswerLine) -> bool:
        """Return whether a line of an answer makes the statement."""
        words = f"{statement.text} {statement.rule} {statement.remedy}"
        if self.patterns and not any(re.search(pattern, words, re.IGNORECASE) for pattern in self.patterns):
            return False
        return not self.path or any(map(self._is_there, (statement.place, *statement.more_places, statement.text)))

    def _is_there(self, text: str) -> bool:
        """Return whether a text names one of the accepted lines."""
        for found in _PLACE.finditer(text):
            first = int(found["first"])
            last = int(found["last"] or first)
            is_line = not self.first_line or (first <= self.last_line and last >= self.first_line)
            if found["path"] == self.path and is_line:
                return True
        return False


@dataclass(frozen=True, slots=True)
class EvalTask:
    """One task of a suite.

    Attributes:
        name: Its name.
        request: The user's request.
        files: Content of the project's files, by path.
        paths: Paths of the request; all files if empty.
        agent: The agent; empty lets the router select one.
        facts: Statements that a useful answer makes.
        false_statements: Statements that it must not make.
        is_clean: Whether the files have no fault: each critical finding or warning is then a false statement.
    """

    name: str
    request: str
    files: Mapping[str, str]
    paths: tuple[str, ...] = ()
    agent: str = ""
    facts: tuple[ExpectedStatement, ...] = ()
    false_statements: tuple[ExpectedStatement, ...] = ()
    is_clean: bool = False


@dataclass(frozen=True, slots=True)
class EvalSuite:
    """Tasks that are run and scored together.

    Attributes:
        name: Its name.
        tasks: The tasks.
        sha256: Digest of its text.
    """

    name: str
    tasks: tuple[EvalTask, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class TaskScore:
    """Score of the answer to one task.

    Attributes:
        task: Name of the task.
        status: Status of the certificate; empty if there is none.
        agent: The agent that concluded.
        stated: Facts that the answer states.
        missing: Facts that it does not state.
        false_statements: False statements that it makes.
        seconds: Duration.
        expense: Model usage.
        problem: Why there is no answer; empty if there is one.
    """

    task: str
    status: str
    agent: str
    stated: tuple[str, ...]
    missing: tuple[str, ...]
    false_statements: tuple[str, ...]
    seconds: float
    expense: Expense
    problem: str = ""


@dataclass(frozen=True, slots=True)
class EvalRun:
    """Result of a run of a suite.

    Attributes:
        suite: Name of the suite.
        suite_sha256: Digest of the suite.
        prompts_sha256: Digest of the prompts: agents, skills and instructions.
        reasoner: `playbook` or `claude`.
        model: Default model; empty without one.
        version: Version of esper-agents.
        scores: Scores in the order of the tasks.
    """

    suite: str
    suite_sha256: str
    prompts_sha256: str
    reasoner: str
    model: str
    version: str
    scores: tuple[TaskScore, ...]

    @property
    def facts(self) -> int:
        """Number of facts that useful answers state."""
        return sum(len(each.stated) + len(each.missing) for each in self.scores)

    @property
    def stated(self) -> int:
        """Number of facts that the answers state."""
        return sum(len(each.stated) for each in self.scores)

    @property
    def share(self) -> float:
        """Share of the facts that the answers state; 0 without facts."""
        return self.stated / self.facts if self.facts else 0.0

    @property
    def false_statements(self) -> int:
        """Number of false statements."""
        return sum(len(each.false_statements) for each in self.scores)

    @property
    def failed(self) -> int:
        """Number of tasks without an answer."""
        return sum(bool(each.problem) for each in self.scores)

    @property
    def seconds(self) -> float:
        """Total duration of the tasks."""
        return sum(each.seconds for each in self.scores)

    @property
    def expense(self) -> Expense:
        """Total model usage."""
        return sum((each.expense for each in self.scores), Expense())


@dataclass(frozen=True, slots=True)
class TaskDifference:
    """Difference between the scores of one task in two runs.

    Attributes:
        task: Name of the task.
        gained: Facts that only the second answer states.
        lost: Facts that only the first answer states.
        new_false: False statements that only the second answer makes.
        fewer_false: False statements that only the first answer makes.
    """

    task: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    new_false: tuple[str, ...]
    fewer_false: tuple[str, ...]

    @property
    def is_equal(self) -> bool:
        """Whether both answers have the same score."""
        return not (self.gained or self.lost or self.new_false or self.fewer_false)


def statements_of(answer: Answer) -> Iterator[AnswerLine]:
    """Yield what an answer states, one statement at a time."""
    for text in (answer.text, answer.model_text, *answer.ran, *answer.measured, *answer.changed):
        yield from (AnswerLine(each) for each in _SENTENCE_END.split(text) if each.strip())
    yield from answer.because
    yield from answer.also
    yield from (AnswerLine(fact.text, fact.place) for fact in answer.facts)


def score(task: EvalTask, answer: Answer, *, agent: str, expense: Expense) -> TaskScore:
    """Return the score of an answer; its duration is that of the run and is set there."""
    said = tuple(statements_of(answer))
    made = {fact.text: any(map(fact.is_made_by, said)) for fact in task.facts}
    wrong = [
        false_statement.text for false_statement in task.false_statements if any(map(false_statement.is_made_by, said))
    ]
    if task.is_clean:
        wrong += [f"{each.place}: {each.text}" for each in said if each.severity in _OBJECTIONS]
    return TaskScore(
        task=task.name,
        status=str(answer.status),
        agent=agent,
        stated=tuple(text for text, is_made in made.items() if is_made),
        missing=tuple(text for text, is_made in made.items() if not is_made),
        false_statements=tuple(dict.fromkeys(wrong)),
        seconds=0.0,
        expense=expense,
    )


def differences(before: EvalRun, after: EvalRun) -> tuple[TaskDifference, ...]:
    """Return the tasks of two runs whose scores differ, in the order of the first run."""
    later = {each.task: each for each in after.scores}
    found = (_difference(each, later[each.task]) for each in before.scores if each.task in later)
    return tuple(each for each in found if not each.is_equal)


def _difference(one: TaskScore, other: TaskScore) -> TaskDifference:
    return TaskDifference(
        one.task,
        gained=_only(other.stated, one.stated),
        lost=_only(one.stated, other.stated),
        new_false=_only(other.false_statements, one.false_statements),
        fewer_false=_only(one.false_statements, other.false_statements),
    )


def _only(some: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(each for each in some if each not in others)
