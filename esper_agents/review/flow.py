"""The order of events in one function: what may come last before a point, and first after it, on the ways through it.

Branches join, loops go round, and `return`, `raise`, `break` and `continue` end a way where they stand. Two things are
taken for granted: a loop runs at least once, and any statement of a `try` may be the one that raises.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.review.names import dotted
from esper_agents.review.tables import Assignment, Call

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from esper_agents.review.tables import Function

Event: TypeAlias = Call | Assignment

_LAST = (1 << 30, 0)
_COMPOUND = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match),
    *(ast.With, ast.AsyncWith, ast.ClassDef),
)
_ENDING = frozenset({"sys.exit", "exit", "quit", "os._exit", "os.abort"})


@dataclass(frozen=True, slots=True)
class Reach:
    """Which events stand nearest to a point.

    Attributes:
        events: Those that are the nearest on some way, in no particular order.
        is_open: Whether some way has none: it comes from the start of the function, or goes to its end.
    """

    events: tuple[Event, ...]
    is_open: bool


class Flow:
    """The ways through one function, as a graph of its statements."""

    def __init__(self, function: Function) -> None:
        self._before: list[list[int]] = []
        self._after: list[list[int]] = []
        self._reading: dict[ast.stmt, int] = {}
        self._binding: dict[ast.stmt, int] = {}
        self._lines: list[tuple[int, int]] = []
        self._loops: list[_Loop] = []
        self._handlers: list[list[int]] = []
        self._last_line = max((each.end_lineno or 0 for each in function.node.body), default=0)
        self._start = self._node([])
        self._end = self._node([])
        for each in self._body(function.node.body, [self._start]):
            self._join(each, self._end)
        self._lines.sort()

    def last_before(self, point: Event, events: Iterable[Event]) -> Reach:
        """Return which of the events may be the last before a point; the point itself may be one, a round earlier."""
        return self._nearest(point, events, self._before, self._start, is_forward=False)

    def first_after(self, point: Event, events: Iterable[Event]) -> Reach:
        """Return which of the events may be the first after a point; the point itself may be one, a round later."""
        return self._nearest(point, events, self._after, self._end, is_forward=True)

    def last_above(self, line: int, events: Iterable[Event]) -> Reach:
        """Return which of the events may be the last before the statement that stands at a line."""
        place = bisect_right(self._lines, (line, 1 << 30)) - 1
        node = self._end if line > self._last_line else self._lines[place][1] if place >= 0 else self._start
        return self._search(self._before[node], self._placed(events), self._before, self._start, is_forward=False)

    def last_at_end(self, events: Iterable[Event]) -> Reach:
        """Return which of the events may be the last before the function ends."""
        return self._search(self._before[self._end], self._placed(events), self._before, self._start, is_forward=False)

    def _nearest(
        self, point: Event, events: Iterable[Event], edges: Sequence[Sequence[int]], limit: int, *, is_forward: bool
    ) -> Reach:
        standing = self._placed(events)
        origin, order = self._place(point), _order(point)
        here = standing.get(origin, [])
        beyond = [each for each in here if (_order(each) > order if is_forward else _order(each) < order)]
        if beyond:
            return Reach((beyond[0 if is_forward else -1],), is_open=False)
        return self._search(edges[origin], standing, edges, limit, is_forward=is_forward)

    def _search(
        self,
        queue: Iterable[int],
        standing: Mapping[int, Sequence[Event]],
        edges: Sequence[Sequence[int]],
        limit: int,
        *,
        is_forward: bool,
    ) -> Reach:
        """Return the nearest events on the ways from some places on."""
        found: dict[Event, None] = {}
        seen, ahead, is_open = set[int](), list(queue), False
        while ahead:
            node = ahead.pop()
            if node in seen:
                continue
            seen.add(node)
            is_open |= node == limit
            if node in standing:
                found[standing[node][0 if is_forward else -1]] = None
            else:
                ahead += edges[node]
        return Reach(tuple(found), is_open)

    def _placed(self, events: Iterable[Event]) -> dict[int, list[Event]]:
        """Return events by their place, in the order in which they happen there."""
        found: dict[int, list[Event]] = {}
        for event in events:
            found.setdefault(self._place(event), []).append(event)
        for group in found.values():
            group.sort(key=_order)
        return found

    def _place(self, event: Event) -> int:
        is_call = isinstance(event, Call)
        place = (self._reading if is_call else self._binding).get(event.statement)
        return self._start if place is None else place

    def _node(self, before: Iterable[int], statement: ast.stmt | None = None) -> int:
        node = len(self._after)
        self._after.append([])
        self._before.append([])
        if statement is not None:
            self._reading[statement] = self._binding[statement] = node
            self._lines.append((statement.lineno, node))
        for each in before:
            self._join(each, node)
        for handlers in self._handlers[-1:]:
            handlers.append(node)
        return node

    def _join(self, one: int, other: int) -> None:
        self._after[one].append(other)
        self._before[other].append(one)

    def _body(self, statements: Iterable[ast.stmt], ends: list[int]) -> list[int]:
        """Add statements after the open ends of what stands before, and return the ends they leave open.

        Where none is open, nothing runs that follows.
        """
        for statement in statements:
            ends = (
                self._compound(statement, ends) if isinstance(statement, _COMPOUND) else self._simple(statement, ends)
            )
        return ends

    def _compound(self, statement: ast.stmt, ends: list[int]) -> list[int]:
        match statement:
            case ast.If():
                ends = self._if(statement, ends)
            case ast.For() | ast.AsyncFor():
                ends = self._for(statement, ends)
            case ast.While():
                ends = self._while(statement, ends)
            case ast.Try() | ast.TryStar():
                ends = self._try(statement, ends)
            case ast.Match():
                ends = self._match(statement, ends)
            case ast.With() | ast.AsyncWith() | ast.ClassDef():
                ends = self._body(statement.body, [self._node(ends, statement)])
            case _:
                pass
        return ends

    def _simple(self, statement: ast.stmt, ends: list[int]) -> list[int]:
        node = self._node(ends, statement)
        if not ends:
            return []
        match statement:
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
                return [node]
            case ast.Return():
                self._join(node, self._end)
            case ast.Raise():
                if not self._handlers:
                    self._join(node, self._end)
            case ast.Break() if self._loops:
                self._loops[-1].broken.append(node)
            case ast.Continue() if self._loops:
                self._join(node, self._loops[-1].again)
            case ast.Expr(value=ast.Call(func=called)) if dotted(called) in _ENDING:
                pass
            case _:
                return [node]
        return []

    def _if(self, statement: ast.If, ends: list[int]) -> list[int]:
        node = self._node(ends, statement)
        known = _constant(statement.test)
        yes = [] if known is False else self._body(statement.body, [node])
        no = [] if known is True else self._body(statement.orelse, [node])
        return [*yes, *no]

    def _for(self, statement: ast.For | ast.AsyncFor, ends: list[int]) -> list[int]:
        entered = self._node(ends, statement)
        bound = self._node([entered])
        self._binding[statement] = bound
        again = self._node([])
        self._join(again, bound)
        return self._round(statement, bound, again, [again])

    def _while(self, statement: ast.While, ends: list[int]) -> list[int]:
        tested = self._node(ends, statement)
        again = self._node([])
        self._join(again, tested)
        is_endless = _constant(statement.test) is True
        return self._round(statement, tested, again, [] if is_endless else [again])

    def _round(
        self, statement: ast.For | ast.AsyncFor | ast.While, first: int, again: int, out: list[int]
    ) -> list[int]:
        loop = _Loop(again, [])
        self._loops.append(loop)
        for each in self._body(statement.body, [first]):
            self._join(each, again)
        self._loops.pop()
        return [*self._body(statement.orelse, out), *loop.broken]

    def _try(self, statement: ast.Try | ast.TryStar, ends: list[int]) -> list[int]:
        self._handlers.append([self._node(ends, statement)])
        ends = self._body(statement.body, list(self._handlers[-1]))
        interrupted = self._handlers.pop()
        ends = self._body(statement.orelse, ends)
        for handler in statement.handlers:
            ends += self._body(handler.body, [self._node(interrupted)])
        if not ends and statement.finalbody:
            self._body(statement.finalbody, interrupted)
            return []
        return self._body(statement.finalbody, ends)

    def _match(self, statement: ast.Match, ends: list[int]) -> list[int]:
        node = self._node(ends, statement)
        left = [end for case in statement.cases for end in self._body(case.body, [node])]
        takes_all = any(
            case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            for case in statement.cases
        )
        return left if takes_all else [*left, node]


@dataclass(slots=True)
class _Loop:
    """A loop that is being read: where it goes round, and the ends that `break` leaves open."""

    again: int
    broken: list[int]


def _order(event: Event) -> tuple[int, int]:
    """Return when an event happens within its statement: a call once its arguments are there, a binding at the end."""
    if isinstance(event, Assignment):
        return _LAST
    return event.node.end_lineno or event.line, event.node.end_col_offset or 0


def _constant(test: ast.expr) -> bool | None:
    """Return what a test always is; None where that depends."""
    return bool(test.value) if isinstance(test, ast.Constant) else None
