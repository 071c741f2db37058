"""Findings in hot code, told once for each loop or function."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.review.blocks import LOOPS
from esper_agents.review.hot import hot_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.hot import Hot
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch


def one_each(found: Sequence[tuple[Hot, RuleMatch]], index: ProjectIndex) -> Iterator[RuleMatch]:
    """Yield for each loop, or function that a loop calls, one hit that says how many there are."""
    groups: dict[Block, list[RuleMatch]] = {}
    for hot, hit in found:
        groups.setdefault(_widest(hot.around, index), []).append(hit)
    yield from (_together(hits, around) for around, hits in groups.items() if not _polls(around))


def _widest(around: Block, index: ProjectIndex) -> Block:
    """Return the outermost hot code round hot code in the same function."""
    known = hot_blocks(index)
    return [each for each in around.chain() if each in known][-1]


def _polls(around: Block) -> bool:
    """Return whether a loop waits for something else to happen: it sleeps."""
    return any(call.tail == "sleep" and call.block.within(around) for call in around.function.calls)


def _together(hits: list[RuleMatch], around: Block) -> RuleMatch:
    """Return the first of the hits that matter most, with how many more there are."""
    loudest = [hit for hit in hits if hit.severity is None] or hits
    first = min(loudest, key=lambda each: (each.line, each.column))
    more = len({hit.line for hit in hits}) - 1
    if not more:
        return first
    where = "loop" if around.kind in LOOPS else "function"
    others = "one more line does" if more == 1 else f"{more} more lines do"
    return replace(first, message=f"{first.message}; {others} in this {where}")
