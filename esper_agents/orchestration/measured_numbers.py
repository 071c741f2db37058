"""Numbers in a model's words that claim a measurement, and their support by evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.domain.evidence import is_run_of_model
from esper_agents.orchestration.evidence_numbers import UNIT, Direction, Quantities, decimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from decimal import Decimal

    from esper_agents.domain.evidence import Evidence

# Tools that show the project's text: its numbers are those of the code, whatever a comment says of a measurement.
_READERS = frozenset(
    (
        *(
            "read-file",
            "search-code",
            "search-files",
            "find-files",
            "find-symbol",
            "related-code",
            "load-skill",
            "memory",
        ),
        *("git-state", "git-log", "git-show", "git-diff", "git-blame", "draft-patch"),
    )
)
# A hyphen is a minus sign unless a word precedes it; `3 x 3` is a shape.
_NUMBER = re.compile(
    rf"(?<![\w.,:/#^])(?<!\w-)(\d[\d,]*(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\d+)[ \u00a0]?({UNIT})(?!\w)(?!\s*\d)"
    r"|(?<![\w.,:/#^])(\d[\d,]*(?:\.\d+)?)[ \u00a0-](?=(?P<noun>(?:\w+ )?(?:graph[- ]breaks?|recompil\w+"
    r"|tests? (?:pass|fail)\w*|(?:passed|failed|failing|passing) tests?|test failures?|findings?|warnings?"
    r"|host sync\w*)))"
)
_RANGE = re.compile(rf"(?<![\w.,-])(\d[\d,.]*)\s?[-\u2013\u2014]\s?(\d[\d,.]*[ \u00a0]?)({UNIT})(?!\w)")
_RATE = re.compile(r"\s*/\s*s\b|\s*per (?:s|second)\b")
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n")
# Words of a sentence that is about what was, or could be, measured.
_MEASURED = re.compile(
    r"\b(?:fast(?:er)?|slow(?:er|s)?|quick(?:er)?|speed\w*|throughput|latency|takes?|took|costs?|spen[dt]s?"
    r"|saves?|saving\w*|peak\w*|memory|utili[sz]\w*|idle|bottleneck|runtime|wall[- ]clock|measur\w*|profil\w*"
    r"|benchmark\w*"
    r"|overhead|allocate[sd]?|allocating|allocations?"
    r"|wait(?:s|ing)?|per (?:step|batch|iteration|epoch|call|forward|pass)"
    r"|of (?:the|each|every) (?:time|epoch|step|total|loop)"
    r"|improv\w*|reduc\w*|gain\w*|usage|uses?|grow\w*|leak\w*)\b",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"\b(?:fast\w*|slow\w*|quick\w*|speed\w*|throughput|latency|saves?|saving\w*|reduc\w*|improv\w*|cheap\w*|cut\w*|less|more|higher|lower"
    r"|larger|smaller|bigger|gain\w*|overhead|increase\w*|decrease\w*|drop\w*)\b",
    re.IGNORECASE,
)
_FASTER = re.compile(r"\W*(?:\w+\W+){0,2}?(?:faster|quicker|speed[- ]?up|speeds? up|less time)", re.IGNORECASE)
_SLOWER = re.compile(r"\W*(?:\w+\W+){0,2}?(?:slower|slow[- ]?down|more time)", re.IGNORECASE)
# Product names precede version numbers.
_VERSIONED = re.compile(
    r"\b(?:(?:py)?torch|python|cuda|cudnn|triton|onnx|opset|driver|version|release|v)\W{0,3}$", re.IGNORECASE
)
_SHAPE = re.compile(r"\d[\d,]*(?:\s*[x\u00d7*]\s*\d[\d,]*)+")
_BYTES = re.compile(r"[KMGT]i?B|kB|bytes?")
_TINY_BYTES = 16
_ITEM_SIZES = (1, 2, 4, 8)
_BEFORE, _MOST_PAIRED = 40, 12
_KILO = 1024


@dataclass(frozen=True, slots=True)
class DoubtfulNumber:
    """Number of a text that no evidence supports.

    Attributes:
        text: The number as written.
        is_contradicted: Whether a measurement says the opposite.
        has_other_unit: Whether the session has the number with another unit or with none.
    """

    text: str
    is_contradicted: bool = False
    has_other_unit: bool = False


class _Sentence(NamedTuple):
    """Sentence with numbers: whether it is about a measurement, and whether it is a proposal."""

    text: str
    is_measurement: bool
    is_proposed: bool


class RecordedNumbers:
    """Numbers of a session: measured ones, and those of its code and its request."""

    def __init__(self, evidence: Sequence[Evidence], others: Sequence[object], counts: Sequence[int]) -> None:
        """Read the numbers.

        Args:
            evidence: Completed calls.
            others: Further statements of measurements: the request, the environment, findings of rules and runs.
            counts: Counts that may be stated, such as the number of findings.
        """
        self._evidence, self._others, self._counts = evidence, others, frozenset(counts)

    @cached_property
    def measured(self) -> Quantities:
        """Numbers of everything but text of the project."""
        parts = [part for each in self._evidence if each.tool not in _READERS for part in (each.summary, each.output)]
        printed = (each.output.get("printed") for each in self._evidence if is_run_of_model(each))
        lines = [text for text in printed if isinstance(text, str)]
        return Quantities(*self._others, *parts, *(each.arguments for each in self._evidence), printed=lines)

    @cached_property
    def code(self) -> Quantities:
        """Numbers of text of the project."""
        return Quantities(*(each.output for each in self._evidence if each.tool in _READERS), is_code=True)

    def doubtful(self, text: str, code: Sequence[str] = (), *, is_proposed: bool = False) -> Iterator[DoubtfulNumber]:
        """Yield the numbers of a text that claim a measurement and that no evidence supports.

        Args:
            text: Text of a model.
            code: Source that the text is about; its numbers may be repeated.
            is_proposed: Whether the text is a proposal, whose settings are not measurements.
        """
        known = Quantities(*code, is_code=True)
        stated: list[tuple[Decimal, str]] = []
        doubts: list[tuple[Decimal, str, Direction | None, str]] = []
        for part in _SENTENCE.split(_RANGE.sub(r"\1 \3, \2\3", text)):
            sentence = _Sentence(part, _MEASURED.search(part) is not None, is_proposed)
            for found in _NUMBER.finditer(part):
                value, unit = decimal(found[1] or found[3]), found[2] or ""
                if value is None or _is_exempt(found, value, sentence):
                    continue
                way = _direction(part[found.end() :]) if unit in {"x", "\u00d7", "%"} else None
                if found["noun"]:
                    is_known = value in self._counts or self.measured.has(value, "")
                else:
                    is_known = self.measured.has(value, unit, way) or _is_computed(value, unit, part)
                if not is_known and not sentence.is_measurement and not found["noun"]:
                    is_known = known.has(value, unit) or self.code.has(value, unit)
                if is_known:
                    stated.append((value, unit))
                else:
                    doubts.append((value, unit, way, found.group().strip()))
        for value, unit, way, shown in doubts:
            if not _is_derived(value, unit, stated):
                yield DoubtfulNumber(
                    shown,
                    is_contradicted=way is not None and self.measured.has(value, unit),
                    has_other_unit=self.measured.has(value, ""),
                )


def _is_exempt(found: re.Match[str], value: Decimal, sentence: _Sentence) -> bool:
    """Return whether a number is no measurement: a version, the size of an element, a factor of the code."""
    unit, text = found[2] or "", sentence.text
    if _VERSIONED.search(text[max(0, found.start() - _BEFORE) : found.start()]) and unit not in {"%", "x"}:
        return True
    if found["noun"]:
        return sentence.is_proposed
    if unit.casefold() in {"k", "m", "g"}:
        # A rounded count, such as 32k tokens, is a number of the code unless it is a rate.
        return not _RATE.match(text[found.end() :]) and not sentence.is_measurement
    if unit.startswith("byte") and value <= _TINY_BYTES:
        return True
    return unit in {"x", "\u00d7"} and not _COMPARED.search(text)


def _direction(after: str) -> Direction | None:
    if _FASTER.match(after):
        return Direction.FASTER
    return Direction.SLOWER if _SLOWER.match(after) else None


def _is_computed(value: Decimal, unit: str, sentence: str) -> bool:
    """Return whether a size follows from a shape in the same sentence, such as 64 MiB from 4096x4096 float32."""
    if not _BYTES.fullmatch(unit):
        return False
    shapes = (re.findall(r"\d[\d,]*", each[0]) for each in _SHAPE.finditer(sentence))
    counts = [prod(int(size.replace(",", "")) for size in sizes) for sizes in shapes]
    return bool(counts) and Quantities({"bytes": [count * size for count in counts for size in _ITEM_SIZES]}).has(
        value, unit
    )


def _is_derived(value: Decimal, unit: str, stated: Sequence[tuple[Decimal, str]]) -> bool:
    """Return whether a number follows from two measured ones of the same text: ratio, difference or percentage."""
    pairs = [(one, other) for one, other in permutations(stated[:_MOST_PAIRED], 2) if _is_same(one[1], other[1])]
    for (one, own), (other, _) in pairs:
        derived: list[object] = [{"difference": f"{abs(one - other)} {own}"}]
        if other:
            derived.append({"ratio": float(one / other), "share": float(one / other), "drop": float(1 - one / other)})
        if Quantities(*derived).has(value, unit):
            return True
    return False


def _is_same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() and one != ""
