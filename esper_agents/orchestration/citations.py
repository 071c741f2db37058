"""Locate the code that a model cites: by its quote, its line numbers or the name of a function."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from esper_agents.domain.plain_text import plain
from esper_agents.domain.text_lines import text_lines
from esper_agents.errors import EvidenceError
from esper_agents.tools.file_access import readable_bytes
from esper_agents.tools.project_files import project_files
from esper_agents.tools.secret_stores import decoded
from esper_agents.tools.symbol_lines import symbol_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from esper_agents.domain.agent_action import ModelCitation
    from esper_agents.tools.tool import ToolContext

# As large as what `read-file` shows.
_LARGEST_BYTES = 5_000_000
# Files of the project that are searched for a quote that is not in the file named.
_MOST_SEARCHED = 400
# Characters without white space: a shorter quote stands everywhere, a quote in another file must be unmistakable.
_SHORTEST, _UNMISTAKABLE = 4, 24
_LIKE, _NEAR_LINES, _MOST_COMPARED = 0.8, 12, 20_000
_LONGEST_PATH, _LONGEST_EXCERPT, _MOST_PLACES = 200, 400, 4
_RANGE = re.compile(
    r"(?<![\w.])[lL]?(\d{1,7})(?:\s*(?:-|\u2013|\u2014|\.\.+|:|,?\s*(?:to|through|until|till|bis)\s)\s*[lL]?(\d{1,7}))?(?![\w.])"
)
_PATH_WITH_LINES = re.compile(
    r"^(?P<path>.+?\.\w{1,8})(?:::?|#L?|[, (]+(?:at |on |in )?(?:lines?|L)\s*)(?P<lines>L?\d.*?)\)?$"
)
_PATH_WITH_SYMBOL = re.compile(r"^(?P<path>[^:]+?\.\w{1,8})(?:::|:)(?P<symbol>[A-Za-z_][\w.:]*)$")
_FENCE = re.compile(r"^\s*```[\w-]*\s*\n(.*?)\n?\s*```\s*$", re.DOTALL)
_NOTEBOOK = ".ipynb"
# A line of a cell: a JSON string in a list of its own lines.
_CELL_LINE = re.compile(r'^\s*("(?:[^"\\]|\\.)*"),?\s*$')
_NUMBERED = re.compile(r"^\s*\d{1,7}\s?[:|\u2502\t]\s?")
_DIFFED = re.compile(r"^[+\-]")
_ELLIPSIS = re.compile(r"\.\.\.|\u2026|# ?\[?\.\.\.\]?")
_SIGNATURE = re.compile(r"\s*(?:async\s+)?(?:def|class)\s")
_CODE = re.compile(r"`([^`\n]{4,200})`")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")


class QuoteMatch(StrEnum):
    """How a quote was found."""

    EXACT = "exactly"
    SPACING = "up to white space"
    PARTS = "in parts"
    APPROXIMATE = "approximately"


class CitedLines(NamedTuple):
    """First and last line, from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class LocatedCitation:
    """A citation as the program located it.

    Attributes:
        path: The file; as the model named it if there is none.
        lines: The range; line 1 if none could be found.
        excerpt: The first line of the range.
        notes: What was found and corrected, as sentences.
        problem: Why it could not be located, as a sentence; empty if it was.
    """

    path: str
    lines: CitedLines
    excerpt: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""


@dataclass
class CitedSources:
    """Files of the project that a model may read, opened on demand.

    Attributes:
        context: The project.
    """

    context: ToolContext
    _texts: dict[str, CitedText | None] = field(default_factory=dict)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """All files, relative to the project."""
        try:
            return project_files(self.context)
        except EvidenceError:
            return ()

    def text(self, path: str) -> CitedText | None:
        """Return a file; None if it does not exist or is withheld from models."""
        if path not in self._texts:
            try:
                data = readable_bytes(self.context, path, largest=_LARGEST_BYTES)
            except (EvidenceError, OSError, ValueError):
                self._texts[path] = None
            else:
                text = decoded(data)
                digest = sha256(data).hexdigest()
                self._texts[path] = CitedText(_cells(text) if path.endswith(_NOTEBOOK) else text, digest)
        return self._texts[path]


class CitedText:
    """Text of a file, prepared for the search of quotes.

    Attributes:
        lines: Its lines.
        sha256: Digest of the bytes of the file.
    """

    def __init__(self, text: str, sha256: str) -> None:
        """Split the text into lines, as evidence counts them."""
        self.lines, self.sha256 = text_lines(text), sha256

    @cached_property
    def _squeezed(self) -> tuple[str, list[int]]:
        """All characters but white space, and the number of them before each line."""
        parts = ["".join(line.split()) for line in self.lines]
        starts, total = [], 0
        for part in parts:
            starts.append(total)
            total += len(part)
        return "".join(parts), starts

    @cached_property
    def symbols(self) -> dict[str, CitedLines]:
        """Lines of each function and class, by its qualified name."""
        found = symbol_lines("\n".join(self.lines))
        return {each.name: CitedLines(each.first, each.last) for each in found}

    def has(self, lines: CitedLines) -> bool:
        """Return whether the file has a range of lines."""
        return 1 <= lines.first <= lines.last <= len(self.lines)

    def exact(self, quote: str) -> list[CitedLines]:
        """Return the places of a quote, character by character."""
        joined, found, at = "\n".join(self.lines), [], -1
        while (at := joined.find(quote, at + 1)) >= 0:
            first = joined.count("\n", 0, at) + 1
            found.append(CitedLines(first, first + quote.count("\n")))
        return found

    def squeezed(self, quote: str) -> list[CitedLines]:
        """Return the places of a quote, white space ignored."""
        (text, starts), wanted = self._squeezed, "".join(quote.split())
        if len(wanted) < _SHORTEST:
            return []
        found, at = [], -1
        while (at := text.find(wanted, at + 1)) >= 0:
            found.append(CitedLines(bisect_right(starts, at), bisect_right(starts, at + len(wanted) - 1)))
        return found

    def in_parts(self, quote: str) -> list[CitedLines]:
        """Return the places of the parts of a quote between its ellipses, in their order and close together."""
        parts = [part for part in _ELLIPSIS.split(quote) if len("".join(part.split())) >= _SHORTEST]
        if not parts or not _ELLIPSIS.search(quote):
            return []
        found = []
        for start in self.squeezed(parts[0]):
            last = start
            for part in parts[1:]:
                later = [each for each in self.squeezed(part) if 0 <= each.first - last.last <= _NEAR_LINES * 4]
                if not later:
                    break
                last = later[0]
            else:
                found.append(CitedLines(start.first, last.last))
        return found

    def alike(self, quote: str) -> list[CitedLines]:
        """Return the place most like a quote; empty if none is, or if several are."""
        wanted = ["".join(line.split()) for line in quote.splitlines() if line.strip()]
        if not wanted or len("".join(wanted)) < _SHORTEST * 3 or len(self.lines) > _MOST_COMPARED:
            return []
        filled = [(number, "".join(line.split())) for number, line in enumerate(self.lines, 1) if line.strip()]
        matcher, found = SequenceMatcher(autojunk=False), []
        matcher.set_seq2("".join(wanted))
        for start in range(len(filled) - len(wanted) + 1):
            window = filled[start : start + len(wanted)]
            matcher.set_seq1("".join(text for _, text in window))
            if matcher.real_quick_ratio() >= _LIKE and matcher.quick_ratio() >= _LIKE and matcher.ratio() >= _LIKE:
                found.append((matcher.ratio(), CitedLines(window[0][0], window[-1][0])))
        best = max((ratio for ratio, _ in found), default=0.0)
        return [lines for ratio, lines in found if ratio == best]


@dataclass(frozen=True, slots=True)
class _Reading:
    """A citation, taken apart."""

    path: str
    symbol: str
    quote: str
    ranges: tuple[CitedLines, ...]
    hints: tuple[str, ...]


def line_ranges(text: str) -> tuple[CitedLines, ...]:
    """Return the lines that a text such as `41`, `41-48`, `L41`, `lines 41 to 48` or `41, 48` names."""
    found = []
    for each in _RANGE.finditer(text):
        first = int(each[1])
        last = int(each[2] or first)
        found.append(CitedLines(min(first, last), max(first, last)))
    return tuple(found)


def locate(cited: ModelCitation, message: str, sources: CitedSources, read: Collection[str]) -> LocatedCitation:
    """Return the place in the project that a model cites.

    A quote decides the lines; without a quote the cited lines do, and without lines the symbol. A file may be named by
    the end of its path, or as a module, if that is unambiguous.

    Args:
        cited: ModelCitation in the model's words.
        message: Text of the finding: code in it helps if nothing else names a line.
        sources: Files of the project.
        read: Files that were read in the session, preferred if a name is ambiguous.
    """
    reading = _taken_apart(cited, message, sources)
    candidates = _files(reading.path, sources, read)
    notes: list[str] = []
    if len(candidates) > 1:
        holding = [path for path in candidates if (text := sources.text(path)) and _places(reading.quote, text)[1]]
        candidates = holding if len(holding) == 1 else candidates
    path = candidates[0] if len(candidates) == 1 else ""
    text = sources.text(path) if path else None
    if reading.quote and (text is None or not _places(reading.quote, text)[1]):
        others = list(_elsewhere(reading.quote, sources, read, except_for=path))
        if len(others) == 1:
            notes.append(f"the quote stands in {others[0]}; the model named {_shown(cited.path) or 'no file'}")
            path, text = others[0], sources.text(others[0])
    if text is None:
        return _unlocated(reading, candidates, sources)
    if path != _shown(reading.path) and not notes:
        notes.append(f"{_shown(cited.path)} is {path}" if cited.path else f"the model named no file; it is {path}")
    return _within(path, text, reading, notes)


def _taken_apart(cited: ModelCitation, message: str, sources: CitedSources) -> _Reading:
    path, symbol = cited.path.strip().strip("`'\"").replace("\\", "/"), cited.symbol.strip().strip("`").rstrip("()")
    root = sources.context.root.resolve().as_posix()
    path = path.removeprefix(f"{root}/").removeprefix("file://")
    ranges: tuple[CitedLines, ...] = ()
    if found := _PATH_WITH_LINES.match(path):
        path, ranges = found["path"], line_ranges(found["lines"])
    elif found := _PATH_WITH_SYMBOL.match(path):
        path, symbol = found["path"], symbol or found["symbol"].replace("::", ".")
    given = tuple(each for each in line_ranges(cited.lines) if each.first > 0)
    # A range says more than its first line.
    is_in = ranges and given and all(any(one.first <= each.first <= one.last for one in ranges) for each in given)
    ranges = ranges if not given or is_in else given
    while path.startswith("./"):
        path = path[2:]
    hints = tuple(each for each in _CODE.findall(message) if not _NAME.fullmatch(each) or "." in each or "_" in each)
    quote = _clean(cited.quote)
    return _Reading(path, symbol, _cells(quote) if path.endswith(_NOTEBOOK) else quote, ranges, hints)


def _cells(text: str) -> str:
    """Return a notebook, or a quote of one, line by line with the code that its JSON stands for."""
    return "\n".join(_code_line(line) for line in text_lines(text))


def _code_line(line: str) -> str:
    if not (found := _CELL_LINE.match(line)):
        return line
    try:
        code: str = json.loads(found[1])
    except ValueError:
        return line
    return " ".join(code.rstrip("\n").splitlines())


def _clean(quote: str) -> str:
    """Return a quote without its fence, line numbers, marks of a diff and blank lines around it."""
    text = quote.replace("\r\n", "\n").replace("\r", "\n")
    if found := _FENCE.match(text):
        text = found[1]
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    for pattern in (_NUMBERED, _DIFFED):
        if filled and all(pattern.match(line) for line in filled):
            lines = [pattern.sub("", line, count=1) for line in lines]
            filled = [line for line in lines if line.strip()]
    text = "\n".join(lines).strip("\n").rstrip()
    is_code = text.startswith("`") and text.endswith("`") and text.count("`") == len(text[:1] + text[-1:])
    return text[1:-1] if is_code else text


def _files(named: str, sources: CitedSources, read: Collection[str]) -> list[str]:
    """Return the files that a name can mean: the path itself, else paths that end in it, else a module."""
    if not named:
        return []
    if named in sources.paths or sources.text(named) is not None:
        return [named]
    path = PurePosixPath(named.lstrip("/"))
    # An absolute path of another machine ends in a path of the project.
    for start in range(len(path.parts)):
        end = "/".join(path.parts[start:])
        if end in sources.paths:
            return [end]
    ending = [each for each in sources.paths if each.endswith(f"/{path}")]
    if not ending and _NAME.fullmatch(named):
        module = named.replace(".", "/")
        ending = [each for each in sources.paths if f"/{each}".endswith((f"/{module}.py", f"/{module}/__init__.py"))]
    known = [each for each in ending if each in read]
    return known if len(known) == 1 else ending


def _places(quote: str, text: CitedText) -> tuple[QuoteMatch | None, list[CitedLines]]:
    """Return the places where a quote is found without doubt."""
    if len("".join(quote.split())) < _SHORTEST:
        return None, []
    for match, search in (
        (QuoteMatch.EXACT, text.exact),
        (QuoteMatch.SPACING, text.squeezed),
        (QuoteMatch.PARTS, text.in_parts),
    ):
        if found := search(quote):
            return match, found
    return None, []


def _statements(places: list[CitedLines], quote: str, text: CitedText, notes: list[str]) -> list[CitedLines]:
    """Return the places that are no signature, unless the quote begins with one or nothing else is left."""
    if _SIGNATURE.match(quote):
        return places
    signatures = [place for place in places if _SIGNATURE.match(text.lines[place.first - 1])]
    others = [place for place in places if place not in signatures]
    if signatures and others:
        notes.append(f"the quote also stands in a signature (line {', '.join(map(str, signatures[:_MOST_PLACES]))})")
    return others or places


def _elsewhere(quote: str, sources: CitedSources, read: Collection[str], *, except_for: str) -> Iterator[str]:
    if len("".join(quote.split())) < _UNMISTAKABLE:
        return
    others = [*sorted(read), *(each for each in sources.paths if each.endswith(".py") and each not in read)]
    for path in others[:_MOST_SEARCHED]:
        if path != except_for and (text := sources.text(path)) is not None and text.squeezed(quote):
            yield path


def _within(path: str, text: CitedText, reading: _Reading, notes: list[str]) -> LocatedCitation:
    """Return the lines of a citation in its file."""
    symbol = _symbol(reading.symbol, text)
    cited = tuple(each for each in reading.ranges if text.has(each))
    match, places = _places(reading.quote, text)
    if not (cited or symbol):
        places = _statements(places, reading.quote, text, notes)
    problem = ""
    if reading.quote and not places:
        places = text.alike(reading.quote)
        match = QuoteMatch.APPROXIMATE if places else None
        is_checked = len("".join(reading.quote.split())) >= _SHORTEST
        problem = "its quote is not in the file, only a similar line" if places else "its quote is not in the file"
        problem = problem if is_checked else ""
    if places:
        inside = [place for place in places if symbol and symbol.first <= place.first <= symbol.last]
        lines = _chosen(inside or places, cited)
        notes += _told(match, places, lines, reading)
        if len(places) > 1 and not (cited or inside or problem):
            problem = f"its quote stands in {len(places)} places: name the line that is meant"
    elif cited:
        lines = _widened(cited, text, reading, notes)
    elif symbol is not None and not reading.ranges:
        lines = symbol
        notes.append(f"{reading.symbol} is {path}:{symbol}")
    elif (hinted := _hinted(reading.hints, text)) is not None:
        lines = hinted
        notes.append(f"the code in its text stands at line {hinted}")
    elif symbol is not None:
        lines, problem = symbol, f"{path} has {len(text.lines)} lines"
    else:
        has_none = f"{path} has {len(text.lines)} lines, and line {reading.ranges[0] if reading.ranges else 0} is cited"
        problem = problem or (has_none if reading.ranges else "it names no line of the file and quotes nothing")
        lines = CitedLines(1, 1)
    excerpt = text.lines[lines.first - 1] if text.has(lines) else ""
    return LocatedCitation(path, lines, excerpt[:_LONGEST_EXCERPT], tuple(notes), problem)


def _symbol(name: str, text: CitedText) -> CitedLines | None:
    if not name:
        return None
    found = [lines for known, lines in text.symbols.items() if known == name or known.endswith(f".{name}")]
    if not found and "." in name:
        # The name may begin with the module.
        ends = [".".join(name.split(".")[start:]) for start in range(1, name.count(".") + 1)]
        found = next(([text.symbols[end]] for end in ends if end in text.symbols), [])
    return found[0] if len(found) == 1 else None


def _chosen(places: Sequence[CitedLines], cited: Sequence[CitedLines]) -> CitedLines:
    """Return the place nearest to the cited lines, else the first one."""
    if cited:
        return min(places, key=lambda each: min(_distance(each, one) for one in cited))
    return places[0]


def _distance(one: CitedLines, other: CitedLines) -> int:
    return max(0, one.first - other.last, other.first - one.last)


def _told(
    match: QuoteMatch | None, places: Sequence[CitedLines], lines: CitedLines, reading: _Reading
) -> Iterator[str]:
    how = "" if match is QuoteMatch.EXACT else f", {match}"
    if len(places) > 1:
        shown = ", ".join(str(place) for place in places[:_MOST_PLACES])
        more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
        how += f"; it also stands elsewhere (lines {shown}{more})"
    said = reading.ranges[0] if reading.ranges else None
    is_corrected = said is not None and _distance(said, lines) > 0
    if match is not QuoteMatch.EXACT or is_corrected or len(places) > 1:
        named = f"; the model named line {said}" if is_corrected else ""
        yield f"the quote was found at line {lines}{how}{named}"


def _widened(cited: Sequence[CitedLines], text: CitedText, reading: _Reading, notes: list[str]) -> CitedLines:
    """Return the cited lines; a line near them, if only there stands the code that the text of the finding shows."""
    first = cited[0]
    if len(cited) > 1:
        notes.append(f"lines {', '.join(map(str, cited))} are cited")
    # A mere name is no quote: it may stand at each line around the one that is meant.
    shown = [
        hint for hint in reading.hints if len("".join(hint.split())) >= _SHORTEST * 2 and not _NAME.fullmatch(hint)
    ]
    places = [place for each in shown for place in text.squeezed(each)]
    if any(_distance(place, one) == 0 for place in places for one in cited):
        return first
    near = [place for place in places if _distance(place, first) <= _NEAR_LINES]
    if len(set(near)) == 1:
        notes.append(f"the code in its text stands at line {near[0]}; the model named line {first}")
        return near[0]
    return first


def _hinted(hints: Sequence[str], text: CitedText) -> CitedLines | None:
    """Return the one line that the code in a finding's text stands at, the longest code first."""
    for hint in sorted(hints, key=len, reverse=True):
        places = text.squeezed(hint)
        if len(places) == 1:
            return places[0]
    return None


def _unlocated(reading: _Reading, candidates: Sequence[str], sources: CitedSources) -> LocatedCitation:
    shown = _shown(reading.path)
    if len(candidates) > 1:
        named = ", ".join(candidates[:_MOST_PLACES])
        problem = f"{shown} can be {named}: name one of them"
    elif candidates or shown in sources.paths:
        problem = f"{shown} cannot be read"
    else:
        problem = f"the project has no file {shown}" if shown else "it names no file"
    line = max(1, reading.ranges[0].first) if reading.ranges else 1
    return LocatedCitation(shown or "(no file)", CitedLines(line, line), problem=problem)


def _shown(path: str) -> str:
    """Return a path as a model wrote it, harmless: it names no file of the project."""
    text = plain(path).replace("\n", " ").strip()[:_LONGEST_PATH]
    parts = [each for each in text.split("/") if each not in {"", ".", ".."}]
    return "/".join(parts)
