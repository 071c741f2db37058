"""Parsed requests: what a user wants, about what, with which observations and constraints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Wish(StrEnum):
    """Result that a request asks for."""

    JUDGE = "judge"
    FIND_CAUSE = "find-cause"
    COMPARE = "compare"
    EXPLAIN = "explain"
    PLAN = "plan"
    MEASURE = "measure"
    WRITE = "write"


class Material(StrEnum):
    """Kind of material that a request contains besides its words."""

    CODE = "code"
    TRACE = "stack-trace"
    ERROR = "error-message"
    LOG = "log"


class Quantity(StrEnum):
    """Quantity of an observation."""

    STEPS = "steps"
    EPOCHS = "epochs"
    BATCH_SIZE = "batch-size"
    BYTES = "bytes"
    SHARE = "share"
    RATIO = "ratio"
    DURATION = "duration"
    DEVICES = "devices"
    LEARNING_RATE = "learning-rate"
    VERSION = "version"
    SINCE = "since"


class ConstraintKind(StrEnum):
    """Kind of a constraint."""

    NO_GPU = "no-gpu"
    NO_RETRAINING = "no-retraining"
    NO_RUN = "no-run"
    VERSION = "version"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Observation:
    """Observation of the user, usually with a number.

    Attributes:
        text: Words of the request.
        quantity: Observed quantity.
        value: Number in the base unit (bytes, seconds, fraction of 1); None if there is none.
        per: Quantity that it refers to, such as `epochs` for "40 MB every epoch"; else empty.
    """

    text: str
    quantity: Quantity
    value: float | None = None
    per: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """Fact that the user states about the code, the data or the machine.

    Attributes:
        text: Words of the request.
        kind: What it is about, such as `labels`, `torch`, `device` or `batch`.
        value: The value, such as `0..9`, `2.4`, `cpu` or `64`.
    """

    text: str
    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class UsageReference:
    """API or option that the request asks about.

    Attributes:
        words: Words of the request that name it.
        name: Name of its entry in `review/usages/entries/`.
        line: Line that the request names, else 0.
    """

    words: str
    name: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class GroundedName:
    """Name of the project, or concept, that words of the request mean.

    Attributes:
        words: Words of the request.
        name: The name, such as `virtual_batch_size`; of a concept its name in words.
        kind: `class`, `function`, `attribute`, `parameter`, `option`, `name` or `concept`.
        path: File with its first definition, relative to the project; empty for a concept.
        line: Line of it, else 0.
    """

    words: str
    name: str
    kind: str
    path: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class RequestConstraint:
    """Condition that an answer must respect.

    Attributes:
        text: Words of the request.
        kind: Kind of the constraint.
    """

    text: str
    kind: ConstraintKind


@dataclass(frozen=True, slots=True)
class RequestTopic:
    """Subject of a request.

    Attributes:
        name: Name of the topic, such as `memory growth`.
        words: Words of the request that name it.
        rules: Codes, or beginnings of codes, of the review rules that concern it.
        searches: Strings in source code that concern it.
    """

    name: str
    words: tuple[str, ...]
    rules: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileReference:
    """File of the project that a request refers to.

    Attributes:
        words: Words of the request, such as `/home/lee/proj/net.py` or `the trainer`.
        path: Path of the file, relative to the project.
        line: Line that the request names, else 0.
    """

    words: str
    path: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class SymbolReference:
    """Definition in the project of a name in the request.

    Attributes:
        words: The name in the request.
        name: Qualified name of the definition, such as `Trainer.step`.
        path: Path of its file, relative to the project.
        line: First line of the definition.
        last_line: Last line of the definition.
    """

    words: str
    name: str
    path: str
    line: int
    last_line: int

    def __str__(self) -> str:
        return f"{self.name} ({self.path}:{self.line})"


@dataclass(frozen=True, slots=True)
class ReportedError:
    """Error message in a request.

    Attributes:
        type: Type of the exception, or empty.
        message: First line of the message.
    """

    type: str
    message: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.type, self.message)))


# More definitions of one name say nothing about which is meant.
_MOST_POSSIBLE = 3
# Wishes for which the code that a definition uses is read as well.
_FOLLOWED = (Wish.FIND_CAUSE, Wish.MEASURE)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """Content of a request, as far as the program understands it.

    Attributes:
        wish: Result that the user wants.
        wish_because: Words that determined the wish, else the reason for it.
        language: ISO 639 code of the language; empty if unknown.
        topics: Subjects, in the order of the words.
        observations: Observations, in the order of the words.
        constraints: Constraints, in the order of the words.
        materials: Kinds of material that the request contains.
        errors: Error messages that it contains.
        files: Files of the project that it refers to.
        symbols: Definitions in the project whose names are unique.
        ambiguous: Definitions of names that the project defines more than once.
        related: Base classes of the symbols, and definitions that the symbols and these use.
        unread: Number of characters in the middle of a long request that were not read.
        usages: APIs and options that it asks a direct question about.
        statements: Facts that the user states.
        grounded: Names of the project that the words of a question mean.
    """

    wish: Wish = Wish.JUDGE
    wish_because: str = ""
    language: str = ""
    topics: tuple[RequestTopic, ...] = ()
    observations: tuple[Observation, ...] = ()
    constraints: tuple[RequestConstraint, ...] = ()
    materials: tuple[Material, ...] = ()
    errors: tuple[ReportedError, ...] = ()
    files: tuple[FileReference, ...] = ()
    symbols: tuple[SymbolReference, ...] = ()
    ambiguous: tuple[SymbolReference, ...] = ()
    related: tuple[SymbolReference, ...] = ()
    unread: int = 0
    usages: tuple[UsageReference, ...] = ()
    statements: tuple[Statement, ...] = ()
    grounded: tuple[GroundedName, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """Files of the project that the request is about: named files, else the files of unique symbols.

        Files that it names by words only, such as `my encoder`, are given with the files of its symbols. Without any,
        those of the few functions and classes that one name may mean. A cause may be in what the symbols use.
        """
        named = dict.fromkeys(reference.path for reference in self.files)
        defining = dict.fromkeys(symbol.path for symbol in self.symbols)
        is_written = any("." in reference.words or "/" in reference.words for reference in self.files)
        found = tuple(named) if is_written else (*named, *(path for path in defining if path not in named))
        if self.wish in _FOLLOWED:
            found += tuple(each.path for each in self.related if not is_written and each.path not in found)
        found = tuple(dict.fromkeys(found))
        possible = dict.fromkeys(symbol.path for symbol in self.ambiguous if "." not in symbol.name)
        return found or (tuple(possible) if len(possible) <= _MOST_POSSIBLE else ())

    def observed(self, quantity: Quantity) -> Observation | None:
        """Return the first observation of a quantity with a number, or None."""
        return next((seen for seen in self.observations if seen.quantity is quantity and seen.value is not None), None)

    def restricts(self, kind: ConstraintKind) -> RequestConstraint | None:
        """Return the first constraint of a kind, or None."""
        return next((constraint for constraint in self.constraints if constraint.kind is kind), None)
