"""Blocks of statements: where in a function something stands, and what is around it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from esper_agents.review.tables import Function


class BlockKind(StrEnum):
    """What opens a block of statements."""

    FUNCTION = "function"
    CLASS = "class"
    IF = "if"
    ELSE = "else"
    FOR = "for"
    WHILE = "while"
    COMPREHENSION = "comprehension"
    WITH = "with"
    TRY = "try"
    EXCEPT = "except"
    CASE = "case"


LOOPS = frozenset({BlockKind.FOR, BlockKind.WHILE, BlockKind.COMPREHENSION})


@dataclass(slots=True, eq=False)
class Block:
    """A block of statements; a chain of parents leads to the function's own block.

    Attributes:
        node: What opens it; both arms of an `if` share one node.
        kind: What opens it.
        parent: The block around it, None for the block of a function.
        function: The function it belongs to.
        loop: The innermost loop it stands in, itself included.
        contexts: For a `with`, what is entered, as resolved paths: `torch.no_grad()`.
        targets: For a loop or a `with`, the paths it binds.
    """

    node: ast.AST
    kind: BlockKind
    parent: Block | None
    function: Function
    loop: Block | None = None
    contexts: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def chain(self) -> Iterator[Block]:
        """Yield this block and those around it inside the function, innermost first."""
        block: Block | None = self
        while block is not None:
            yield block
            block = block.parent

    def within(self, other: Block) -> bool:
        """Return whether this block is `other` or stands in it, in the same function or one defined inside."""
        block: Block | None = self
        while block is not None:
            if block is other:
                return True
            block = block.parent or block.function.outer
        return False

    def loops(self) -> Iterator[Block]:
        """Yield the loops it stands in, innermost first."""
        loop = self.loop
        while loop is not None:
            yield loop
            loop = loop.parent.loop if loop.parent else None
