"""Notebooks: code cells of an `.ipynb` file as one module, with the cell and line of each line.

Cells are read in order, as if run from top to bottom. IPython syntax that is not Python is blanked: magics (`%`, `!`),
help requests (`name?`), and whole cells in another language (`%%bash`). Cells count from 1, text cells included.
"""

from __future__ import annotations

import ast
import json
import warnings
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.review.located_json import LocatedString, read_located
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# Cell magics whose cell is still Python code.
_PYTHON_CELLS = frozenset({"capture", "debug", "prun", "time", "timeit"})
_CELL_MAGIC = pattern(r"%%(\w*)")
_MAGIC = pattern(r"(?P<indent>\s*)(?:[%!?]|[\w.]+\?{1,2}\s*$|(?P<kept>[\w., \t\[\]]+=)\s*[%!])")
_MOST_MAGICS = 500
_LONGEST_EXCERPT = 1000


class NotANotebookError(ValueError):
    """Error for a file that is not a readable notebook, with the reason as its message.

    Attributes:
        line: Line of the problem; None without one.
    """

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class CellLocation:
    """Location of a line of source in a notebook.

    Attributes:
        line: Line of the file, from 1.
        cell: Number of the cell, from 1.
        of_cell: Line within the cell, from 1.
    """

    line: int
    cell: int
    of_cell: int


@dataclass(frozen=True, slots=True)
class BrokenCell:
    """Code cell that does not parse and was skipped.

    Attributes:
        place: Location of the error.
        error: The syntax error.
        source: Source of the cell.
    """

    place: CellLocation
    error: Exception
    source: str


@dataclass(frozen=True, slots=True)
class NotebookSource:
    """Source of a notebook.

    Attributes:
        text: Code as one module. If the file has each line of source on its own line, as Jupyter writes
            it, line numbers equal those of the file.
        places: Locations of the lines of the text, by line number.
        raw: Lines of the file.
        broken: Cells that do not parse.
    """

    text: str
    places: dict[int, CellLocation]
    raw: Sequence[str]
    broken: tuple[BrokenCell, ...]

    def line(self, number: int) -> int:
        """Return the line of the file for a line of the text."""
        return self.places[number].line if number in self.places else min(number, len(self.raw))

    def excerpt(self, number: int) -> str:
        """Return the file's line for a line of the text; empty if that line holds much more than the text line."""
        raw = self.raw[self.line(number) - 1]
        return raw if len(raw) <= _LONGEST_EXCERPT else ""

    def column(self, number: int, before: str) -> int:
        """Return the file's column for the end of `before` in a line of the text."""
        raw = self.excerpt(number)
        for written in (json.dumps(before)[1:-1], json.dumps(before, ensure_ascii=False)[1:-1]):
            start = raw.find(f'"{written}')
            if start >= 0:
                return start + len(written) + 2
        return 1

    def where(self, number: int) -> str:
        """Return the cell and line of a line of the text, in words; empty if it belongs to no cell."""
        place = self.places.get(number)
        return "" if place is None else f"cell {place.cell}, line {place.of_cell}"


def read_notebook(content: str) -> NotebookSource:
    r"""Return the source of a notebook in format 3 or 4.

    Args:
        content: Text of the file, with `\n` at the end of every line.

    Raises:
        NotANotebookError: The file is not JSON, not a notebook, or a notebook in another language.
    """
    try:
        found = read_located(content)
    except json.JSONDecodeError as error:
        raise NotANotebookError(f"broken JSON: {error.msg.lower()}", error.lineno) from error
    except RecursionError:
        raise NotANotebookError("its JSON is nested too deeply") from None
    raw = content.split("\n")
    ends = [place for place, letter in enumerate(content) if letter == "\n"]
    return _joined([_Cell.read(number, cell, ends) for number, cell in _code_cells(found)], raw)


def _code_cells(notebook: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the code cells of a notebook with their numbers."""
    if not isinstance(notebook, dict):
        raise NotANotebookError("not a notebook: its JSON is not an object")
    sheets = [notebook, *_dicts(notebook.get("worksheets"))]
    if not any(isinstance(sheet.get("cells"), list) for sheet in sheets):
        raise NotANotebookError("not a notebook: it has no cells")
    if (language := _language(notebook.get("metadata"))) and "python" not in language.lower():
        raise NotANotebookError(f"a notebook in {language}, not Python")
    cells = (cell for sheet in sheets for cell in _listed(sheet.get("cells")))
    for number, cell in enumerate(cells, 1):
        if isinstance(cell, dict) and _said(cell.get("cell_type")) == "code" and _is_python(cell):
            yield number, cell


def _is_python(cell: dict[str, Any]) -> bool:
    editor = _dict(_dict(cell.get("metadata")).get("vscode"))
    language = _said(cell.get("language")) or _said(editor.get("languageId"))
    return not language or "python" in language.lower()


def _language(metadata: Any) -> str:
    about = _dict(metadata)
    return _said(_dict(about.get("kernelspec")).get("language")) or _said(_dict(about.get("language_info")).get("name"))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in _listed(value) if isinstance(each, dict)]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _said(value: Any) -> str:
    return value.text if isinstance(value, LocatedString) else ""


@dataclass(slots=True)
class _Cell:
    """Code cell: its lines, and the lines of the file that contain them."""

    number: int
    lines: list[str]
    places: list[int]

    @staticmethod
    def read(number: int, cell: dict[str, Any], ends: Sequence[int]) -> _Cell:
        source = cell.get("source", cell.get("input"))
        parts = [each for each in (source if isinstance(source, list) else [source]) if isinstance(each, LocatedString)]
        lines, places = [""], [0]
        for part in parts:
            here = bisect_left(ends, part.start) + 1
            first, *further = part.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            lines[-1] += first
            places[-1] = places[-1] or here
            lines += further
            places += [here] * len(further)
            if further and not further[-1]:
                # The line continues in the next string, if there is one.
                places[-1] = 0
        if len(lines) > 1 and not lines[-1]:
            lines, places = lines[:-1], places[:-1]
        return _Cell(number, lines, places)


def _joined(cells: Iterable[_Cell], raw: Sequence[str]) -> NotebookSource:
    text: list[str] = []
    places: dict[int, CellLocation] = {}
    broken: list[BrokenCell] = []
    for cell in cells:
        lines, error = _as_python(cell.lines)
        last = max(cell.places)
        where = [CellLocation(at or last or 1, cell.number, of_cell) for of_cell, at in enumerate(cell.places, 1)]
        if error is not None:
            row = min(max(getattr(error, "lineno", None) or 1, 1), len(where)) - 1
            broken.append(BrokenCell(where[row], error, "\n".join(cell.lines)))
        for place, line in zip(where, lines, strict=True):
            text.extend("" for _ in range(place.line - 1 - len(text)))
            text.append(line)
            places[len(text)] = place
    return NotebookSource("\n".join([*text, ""]), places, raw, tuple(broken))


def _as_python(lines: Sequence[str]) -> tuple[list[str], Exception | None]:
    """Return a cell's lines with non-Python lines blanked, and the error if the cell is skipped."""
    kept = list(lines)
    for row, line in enumerate(kept):
        if not line.strip():
            continue
        if (magic := _CELL_MAGIC.match(line)) is None:
            break
        if magic[1] not in _PYTHON_CELLS:
            return [""] * len(kept), None
        kept[row] = ""
    error = _without_magics(kept)
    if error is None:
        return kept, None
    first = next((line for line in lines if line.strip()), "")
    # After `%sql` or `%md`, some hosts treat the whole cell as another language.
    return [""] * len(kept), None if first.startswith("%") else error


def _without_magics(lines: list[str]) -> Exception | None:
    """Blank the magics of a cell, and return the error in the rest."""
    # The position of the syntax error distinguishes a magic from a line that continues with `% x`.
    for _ in range(_MOST_MAGICS):
        error = _error(lines)
        row = min((getattr(error, "lineno", None) or 1), len(lines)) - 1
        if error is None:
            return None
        if not _blank(lines, row):
            break
    for row, line in enumerate(lines):
        if line[:1] in {"%", "!"}:
            _blank(lines, row)
    return _error(lines)


def _error(lines: Sequence[str]) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse("\n".join([*lines, ""]))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error
    return None


def _blank(lines: list[str], row: int) -> bool:
    """Replace a magic and its continuation lines; return whether there was one."""
    found = _MAGIC.match(lines[row])
    if found is None:
        return False
    goes_on = lines[row].endswith("\\")
    lines[row] = found["indent"] + (f"{found['kept']} ..." if found["kept"] else "pass")
    while goes_on and row + 1 < len(lines):
        row += 1
        goes_on = lines[row].endswith("\\")
        lines[row] = ""
    return True
