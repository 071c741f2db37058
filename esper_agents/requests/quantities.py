"""Observations with numbers, and constraints, in the words of a request."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain, islice
from typing import TYPE_CHECKING

from esper_agents.domain.request import ConstraintKind, Observation, Quantity, RequestConstraint
from esper_agents.requests.vocabulary import PhraseTable, plain, request_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MOST_OBSERVATIONS = 12
_MOST_READ = 100
_LONGEST = 80
_NUMBER = r"(?<![\w.])[~≈]?(?P<number>\d{1,15}(?:[.,]\d{1,15}){0,5}(?:e[-+]?\d{1,2})?)(?![\d])(?P<factor>[kK](?![\w]))?"
# In `128x128`, the sign belongs to a size.
_UNIT = re.compile(_NUMBER + r"[\s-]?(?P<unit>%|[^\W\d_]+(?:'s)?)(?!\d)", re.IGNORECASE)
_SPACELESS_UNIT = re.compile(_NUMBER + r"(?:个|\s)*(?P<unit>[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{1,5})")
_VERSION = re.compile(r"\d+(?:\.\d+){1,3}")
_THOUSANDS = re.compile(r"\d{1,3}(?:[.,]\d{3})+")
_CLAUSE = re.compile(r"[^.,;:!?\n]*(?:\.\d[^.,;:!?\n]*)*")
_BEFORE = 24
# Words after "since".
_MOST_WORDS = 5
# A number beside the words for what is counted; a factor of thousands or millions belongs to it.
_SIZED = re.compile(
    r"(?:(?P<label>[^\W\d]\w*(?:[ _-][^\W\d]\w*){0,2}?)(?P<sign>\s*[=:]\s*|\s+(?:of\s+|is\s+)?))?"
    r"(?<![\w.])(?P<number>\d{1,12}(?:,\d{3}){0,3})(?P<factor>[kKM]\b)?(?!\w|\.\d|\s?%)"
    r"(?:(?=[ -](?P<unit>[^\W\d]\w*(?:[ -][^\W\d]\w*)?)))?"
)
_FACTORS = {"k": 1_000, "m": 1_000_000}
_MOST_SIZES, _LONGEST_SIZE = 8, 40
_COUNTS = frozenset((Quantity.STEPS, Quantity.EPOCHS, Quantity.BATCH_SIZE, Quantity.DEVICES))


def observations(text: str) -> tuple[Observation, ...]:
    """Return the observations of a text in the order of its words, at most twelve."""
    found: dict[int, tuple[int, Observation]] = {}
    for begin, end, seen in islice(chain(_labelled(text), _with_unit(text)), _MOST_READ):
        if not any(begin < other_end and other < end for other, (other_end, _) in found.items()):
            found[begin] = (end, seen)
    for begin, seen in _since(text, sorted(found)):
        found.setdefault(begin, (begin, seen))
    return tuple(found[begin][1] for begin in sorted(found))[:MOST_OBSERVATIONS]


def named_sizes(text: str) -> tuple[tuple[str, int], ...]:
    """Return the sizes that a text names with their words, such as `("emb dim", 200)` and `("entities", 200000)`.

    Steps, times, bytes and shares are no sizes; see `observations`.
    """
    labels = frozenset(request_words()["sizes"]["labels"])
    found: dict[str, int] = {}
    for match in islice(_SIZED.finditer(text), _MOST_READ):
        label, unit = match["label"] or "", match["unit"] or ""
        is_labelled = bool(label) and ("=" in match["sign"] or plain(re.split(r"[ _-]", label)[-1]) in labels)
        words = _size_words(label if is_labelled else unit, labels if is_labelled else frozenset())
        if words and not (unit and not is_labelled and _unit(unit.split()[0])):
            value = int(match["number"].replace(",", "")) * _FACTORS.get((match["factor"] or "").lower(), 1)
            found.setdefault(words, value)
    return tuple(found.items())[:_MOST_SIZES]


def _size_words(words: str, labels: frozenset[str]) -> str:
    """Return the words that say what a size is of: of a label those from its last ordinary word on."""
    table = request_words()["connectors"]
    known = (*table["stops"], *table["per"], *table["than"], *request_words()["languages"]["en"])
    stops = frozenset(known)
    parts = [plain(word) for word in re.split(r"[ -]", words)]
    begin = max((n + 1 for n, word in enumerate(parts) if word in stops), default=0) if labels else 0
    kept = parts[begin:] if labels else parts[: next((n for n, word in enumerate(parts) if word in stops), len(parts))]
    return " ".join(kept)[:_LONGEST_SIZE]


def constraints(text: str) -> tuple[RequestConstraint, ...]:
    """Return the constraints of a text, each up to the end of its clause, without repetitions of a kind."""
    found: dict[ConstraintKind, RequestConstraint] = {}
    for match in _constraint_phrases().matches(text):
        kind = ConstraintKind(match.group)
        clause = _clause(text, match.begin)
        if kind is ConstraintKind.VERSION and not re.search(r"\d", clause):
            continue
        found.setdefault(kind, RequestConstraint(clause, kind))
    return tuple(found.values())


@cache
def _constraint_phrases() -> PhraseTable:
    return PhraseTable(request_words()["constraints"])


@cache
def _units() -> tuple[Mapping[str, tuple[Quantity, float]], Mapping[str, tuple[Quantity, float]]]:
    """Return the units by whole word, and by beginning."""
    whole: dict[str, tuple[Quantity, float]] = {}
    stems: dict[str, tuple[Quantity, float]] = {}
    for name, units in request_words()["units"].items():
        for unit, factor in units.items():
            into = stems if unit.endswith("*") else whole
            into[plain(unit.removesuffix("*"))] = (Quantity(name), float(factor))
    return whole, stems


def _unit(word: str) -> tuple[Quantity, float] | None:
    whole, stems = _units()
    word = plain(word)
    return whole.get(word) or next((found for stem, found in stems.items() if word.startswith(stem)), None)


@cache
def _words_of(name: str) -> str:
    words = sorted(request_words()["connectors"][name], key=len, reverse=True)
    return "|".join(re.escape(word).replace(r"\ ", r"\s+") for word in words)


@cache
def _labels() -> tuple[tuple[Quantity, re.Pattern[str]], ...]:
    labels = {name: "|".join(map(re.escape, words)) for name, words in request_words()["labels"].items()}
    more = {name: "|version|to|auf|from|nach" if name == Quantity.VERSION else "" for name in labels}
    return tuple(
        (Quantity(name), re.compile(rf"\b(?:{words})\s*(?:=|:|of|von|de{more[name]})?\s*v?{_NUMBER}", re.IGNORECASE))
        for name, words in labels.items()
    )


def _labelled(text: str) -> Iterator[tuple[int, int, Observation]]:
    """Yield numbers after their label, such as `batch 64` and `torch 2.4`."""
    for quantity, pattern in _labels():
        for match in pattern.finditer(text):
            words = " ".join(match.group().split())
            if quantity is Quantity.VERSION:
                if _VERSION.fullmatch(match["number"]):
                    yield match.start(), match.end(), Observation(words, quantity)
                    yield from _next_version(text, match.end())
                continue
            yield match.start(), match.end(), Observation(words, quantity, _number(match, quantity))


def _next_version(text: str, begin: int) -> Iterator[tuple[int, int, Observation]]:
    """Yield the second version of `torch 2.1 to 2.6`."""
    match = re.compile(rf"\s*(?:{_words_of('to')})\s*v?(?P<number>{_VERSION.pattern})(?![\w])", re.IGNORECASE).match(
        text, begin
    )
    if match:
        yield match.start("number"), match.end(), Observation(match["number"], Quantity.VERSION)


def _with_unit(text: str) -> Iterator[tuple[int, int, Observation]]:
    """Yield numbers with a unit, such as `after 400 updates` and `40 MB every epoch`."""
    before = re.compile(rf"(?:[\w-]+\s+)?(?:{_words_of('before')})\s*\Z", re.IGNORECASE)
    per = re.compile(rf"\s*(?:/|(?:{_words_of('per')})\s)\s*(?P<unit>[^\W\d_]+)", re.IGNORECASE)
    for pattern in (_UNIT, _SPACELESS_UNIT):
        for match in pattern.finditer(text):
            known = _unit_of(match["unit"])
            if known is None:
                continue
            unit, (quantity, factor) = known
            begin, end = match.start(), match.start("unit") + len(unit)
            reference = per.match(text, end)
            referred = _unit(reference["unit"]) if reference else None
            if reference and referred and referred[0] in {Quantity.STEPS, Quantity.EPOCHS, Quantity.DURATION}:
                end = reference.end()
            else:
                referred = (Quantity.STEPS, 1.0) if _is_per_batch(reference) else None
                end = reference.end() if reference and referred else end
            if preposition := before.search(text, max(0, begin - _BEFORE), begin):
                begin = preposition.start()
            words = " ".join(text[begin:end].split())
            seen = Observation(words, quantity, _number(match, quantity) * factor, str(referred[0]) if referred else "")
            yield begin, end, seen


def _is_per_batch(reference: re.Match[str] | None) -> bool:
    return reference is not None and plain(reference["unit"]).startswith("batch")


def _unit_of(word: str) -> tuple[str, tuple[Quantity, float]] | None:
    """Return the unit at the beginning of a word; in a script without spaces other characters may follow."""
    if known := _unit(word):
        return word, known
    is_spaceless = _SPACELESS_UNIT.match(f"1{word}") is not None
    lengths = range(len(word) - 1, 0, -1) if is_spaceless else ()
    return next(((word[:length], known) for length in lengths if (known := _unit(word[:length]))), None)


def _since(text: str, others: Sequence[int]) -> Iterator[tuple[int, Observation]]:
    """Yield times that began, such as `since Friday's merge`, up to the next observation.

    Args:
        text: The text.
        others: Positions of the other observations, in order.
    """
    stops = frozenset(request_words()["connectors"]["stops"])
    for match in re.finditer(rf"\b(?:{_words_of('since')})\s+\w", text, re.IGNORECASE):
        first = text[match.start() : match.end() - 1].split()
        limit = next((other for other in others if other > match.start()), len(text))
        words = _clause(text[:limit], match.start()).split()[: len(first) + _MOST_WORDS]
        begun = len(first) + 1
        end = next((n for n, word in enumerate(words) if n >= begun and plain(word) in stops), len(words))
        yield match.start(), Observation(" ".join(words[:end]), Quantity.SINCE)


def _clause(text: str, begin: int) -> str:
    """Return the words from a position to the end of the clause, at most 80 characters."""
    found = _CLAUSE.match(text, begin)
    words = " ".join(found.group().split()) if found else ""
    return words if len(words) <= _LONGEST else words[:_LONGEST].rsplit(" ", 1)[0]


def _number(match: re.Match[str], quantity: Quantity) -> float:
    """Return a number written in English or German: `10,000`, `1.200` of a count, `0,3` and `4e-5`."""
    mantissa, _, exponent = match["number"].casefold().partition("e")
    is_grouped = _THOUSANDS.fullmatch(mantissa) and not mantissa.startswith("0")
    # A single point before three digits is a decimal point, unless the number is a count.
    if is_grouped and ("," in mantissa or mantissa.count(".") > 1 or quantity in _COUNTS):
        mantissa = re.sub(r"[.,]", "", mantissa)
    head, point, tail = mantissa.replace(",", ".").rpartition(".")
    number = float(f"{head.replace('.', '')}{point}{tail}e{exponent or 0}")
    return number * (1000 if match["factor"] else 1)
