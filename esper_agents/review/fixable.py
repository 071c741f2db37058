"""Which calls of a source are to be written anew, and how, by what their rules say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from esper_agents.review.parsing import tables_of
from esper_agents.review.rewriting import CallEdit, SourceSpan
from esper_agents.review.tables import FileTables

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Mapping

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.rule import Rewrite, Rule
    from esper_agents.review.source import ReviewSource
    from esper_agents.review.tables import Call


@dataclass(frozen=True, slots=True)
class FixRequest:
    """A call that is to be written anew.

    Attributes:
        claim: What that mends.
        order: How it is to be done.
        old_name: The first name of what is called, where another package is to be called.
    """

    claim: Diagnostic
    order: CallEdit
    old_name: str


def find_fix_requests(
    source: ReviewSource, claims: Iterable[Diagnostic], rules: Mapping[str, Rule]
) -> dict[SourceSpan, FixRequest]:
    """Return the calls of a source that mend claims, as their rules say.

    Args:
        source: The source.
        claims: What was found in it.
        rules: The rules by code.
    """
    file = tables_of(source)
    if not isinstance(file, FileTables):
        return {}
    found: dict[SourceSpan, FixRequest] = {}
    for claim in claims:
        for call in _calls_at(file, claim):
            asked = rules[claim.rule].fix(call, claim)
            if asked is None:
                continue
            wanted = _wanted(call, claim, asked)
            names = {wanted.old_name, wanted.order.package} if wanted.order.package else set[str]()
            span = _span(file, call.node)
            if span not in found and not _is_rebound(file, names):
                found[span] = wanted
            break
    return found


def _wanted(call: Call, claim: Diagnostic, asked: Rewrite) -> FixRequest:
    """Return how a call is to be done: from the module that it names already, where the new name is there as well."""
    module, _, tail = asked.callee.rpartition(".")
    if call.receiver and module == call.name.rpartition(".")[0]:
        return FixRequest(claim, CallEdit(replace(asked, callee=f"{call.receiver}.{tail}")), "")
    old_name = call.path.partition(".")[0] if asked.callee else ""
    return FixRequest(claim, CallEdit(asked, asked.callee.partition(".")[0]), old_name)


def _calls_at(file: FileTables, claim: Diagnostic) -> list[Call]:
    """Return the calls that start where a claim points, the longest first."""
    place = (claim.location.line, claim.location.column - 1)
    there = [
        call
        for call in file.calls
        if call.line == place[0] and _column(file, call.line, call.node.col_offset) == place[1]
    ]
    return sorted(there, key=lambda each: (-(each.node.end_lineno or 0), -(each.node.end_col_offset or 0)))


def _span(file: FileTables, node: ast.Call) -> SourceSpan:
    end_line = node.end_lineno or node.lineno
    return SourceSpan(
        node.lineno,
        _column(file, node.lineno, node.col_offset),
        end_line,
        _column(file, end_line, node.end_col_offset or 0),
    )


def _column(file: FileTables, line: int, offset: int) -> int:
    """Return a column in characters; the syntax tree counts bytes of UTF-8."""
    text = file.lines[line - 1]
    return offset if text.isascii() else len(text.encode()[:offset].decode(errors="replace"))


def _is_rebound(file: FileTables, names: set[str]) -> bool:
    """Return whether something but an import binds one of some names, so that it may stand for something else."""
    return any(
        name in function.assignments or name in function.parameters for function in file.functions for name in names
    )
