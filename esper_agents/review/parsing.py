"""From a source that was read to its tables, or why there are none."""

from __future__ import annotations

import ast
import warnings
from typing import TYPE_CHECKING

from esper_agents.review.builder import fill
from esper_agents.review.leniency import purpose_of
from esper_agents.review.source import Unreadable
from esper_agents.review.suppress import find_suppressions, with_functions
from esper_agents.review.tables import FileTables

if TYPE_CHECKING:
    from esper_agents.review.source import Source


def tables_of(source: Source) -> FileTables | Unreadable:
    """Return the tables of a source, or why it cannot be parsed."""
    path = source.record.path
    try:
        with warnings.catch_warnings():
            # Reviewed code may hold invalid escapes; they are not ours to warn about.
            warnings.simplefilter("ignore")
            tree = ast.parse(source.text)
        purpose = purpose_of(path, source.text)
        file = FileTables(path, _module_name(path), source.text, tree, purpose, find_suppressions(source.text))
        fill(file)
        file.suppressions = with_functions(file)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _unparsed(error, source)
    return file


def _unparsed(error: Exception, source: Source) -> Unreadable:
    from esper_agents.review.syntax import why_not_parsed

    path = source.record.path
    why = why_not_parsed(error, source.text)
    line: int | None = getattr(error, "lineno", None)
    if line is not None and source.notebook is not None:
        line = source.notebook.line(line)
    return Unreadable(path, why.problem, why.remedy or f"run `python -m py_compile {path}`", line)


def _module_name(path: str) -> str:
    parts = path.removesuffix(".ipynb").removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
