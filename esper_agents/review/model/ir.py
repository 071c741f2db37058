"""Intermediate representation of a function: instructions over numbered temporaries, in nested blocks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from esper_agents.review.tables import FileTables


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Source position of an instruction: line and column from 1, and the last line."""

    line: int
    column: int
    end_line: int


@dataclass(slots=True, eq=False)
class Const:
    """Put a constant into a temporary."""

    dst: int
    value: object


@dataclass(slots=True, eq=False)
class Load:
    """Read a name."""

    dst: int
    name: str


@dataclass(slots=True, eq=False)
class StoreName:
    """Bind a name; `reads_itself` says that the value is computed from the old one."""

    name: str
    src: int
    at: SourcePosition
    reads_itself: bool = False


@dataclass(slots=True, eq=False)
class Attr:
    """Read an attribute."""

    dst: int
    obj: int
    name: str
    at: SourcePosition


@dataclass(slots=True, eq=False)
class SetAttr:
    """Write an attribute."""

    obj: int
    name: str
    src: int
    at: SourcePosition
    text: str
    reads_itself: bool = False


@dataclass(slots=True, eq=False)
class Item:
    """Read a subscript."""

    dst: int
    obj: int
    index: int
    at: SourcePosition


@dataclass(slots=True, eq=False)
class SetItem:
    """Write a subscript."""

    obj: int
    index: int
    src: int
    at: SourcePosition
    text: str
    reads_itself: bool = False


@dataclass(slots=True, eq=False)
class Call:
    """Call a value; `text` is the callee as written."""

    dst: int
    func: int
    args: tuple[int, ...]
    stars: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    at: SourcePosition
    text: str


@dataclass(slots=True, eq=False)
class Op:
    """Apply an operator: `binary`, `compare`, `unary`, `not`, `and`, `or`, `text`, `slice`."""

    dst: int
    kind: str
    name: str
    operands: tuple[int, ...]
    at: SourcePosition


@dataclass(slots=True, eq=False)
class Build:
    """Build a list, tuple, set or dict; for a dict, `keys` are temporaries, -1 for `**`."""

    dst: int
    kind: str
    items: tuple[int, ...]
    keys: tuple[int, ...]
    stars: tuple[int, ...]
    at: SourcePosition


@dataclass(slots=True, eq=False)
class Unpack:
    """Unpack a value into temporaries; `star` is the position of the starred one, or -1."""

    dsts: tuple[int, ...]
    src: int
    star: int


@dataclass(slots=True, eq=False)
class Branch:
    """Run one of two blocks; `none_name` is a name that the test compares with None."""

    test: int
    then: Block
    other: Block
    at: SourcePosition
    none_name: str = ""
    is_none_then: bool = True


@dataclass(slots=True, eq=False)
class Loop:
    """Repeat a block; `iterable` is -1 for `while`, whose test stands in `head`."""

    iterable: int
    element: int
    head: Block
    test: int
    body: Block
    orelse: Block
    at: SourcePosition
    last_line: int
    is_comprehension: bool = False
    key: str = ""


@dataclass(slots=True, eq=False)
class With:
    """Enter a context manager, run a block."""

    context: int
    entered: int
    body: Block
    at: SourcePosition


@dataclass(slots=True, eq=False)
class Try:
    """Run a block with handlers."""

    body: Block
    handlers: tuple[Block, ...]
    orelse: Block
    final: Block


@dataclass(slots=True, eq=False)
class Return:
    """Return a value; -1 is None."""

    src: int
    at: SourcePosition


@dataclass(slots=True, eq=False)
class Yield:
    """Yield a value; `is_many` for `yield from`."""

    dst: int
    src: int
    at: SourcePosition
    is_many: bool = False


@dataclass(slots=True, eq=False)
class Leave:
    """Leave a block: `break`, `continue` or `raise`."""

    kind: str


@dataclass(slots=True, eq=False)
class MakeFunction:
    """Make a function value from its code, default values and decorators."""

    dst: int
    code: Code
    defaults: tuple[tuple[str, int], ...]
    decorators: tuple[int, ...]
    at: SourcePosition


@dataclass(slots=True, eq=False)
class MakeClass:
    """Make a class from its bases and body."""

    dst: int
    name: str
    bases: tuple[int, ...]
    code: Code
    at: SourcePosition


Instruction: TypeAlias = (
    Const
    | Load
    | StoreName
    | Attr
    | SetAttr
    | Item
    | SetItem
    | Call
    | Op
    | Build
    | Unpack
    | Branch
    | Loop
    | With
    | Try
    | Return
    | Yield
    | Leave
    | MakeFunction
    | MakeClass
)
Block: TypeAlias = list[Instruction]


@dataclass(slots=True, eq=False)
class Code:
    """Lowered code of a function, lambda, class body or module.

    Attributes:
        name: Its name; `<module>`, `<lambda>`.
        qualname: Name with the classes and functions around it.
        file: Tables of its file.
        line, last_line: Its lines.
        parameters: Names of positional parameters, in order.
        keyword_only: Names of keyword-only parameters.
        rest, extra: Names of `*args` and `**kwargs`, or empty.
        body: Its instructions.
        temporaries: Number of temporaries.
        local_names: Names it binds.
        outer_names: Names declared global or nonlocal.
        owner: Name of the class whose method it is, or empty.
        is_generator: Whether it yields.
        lower: Lowers the body; None if that is done.
        inner: Codes of the functions and classes defined in it.
        main: Blocks under `if __name__ == "__main__"`, for module code.
        declared: Names that a class body annotates, in order.
        lower: Lowers the body; None if that is done.
    """

    name: str
    qualname: str
    file: FileTables
    line: int
    last_line: int
    node: ast.AST
    parameters: tuple[str, ...] = ()
    keyword_only: tuple[str, ...] = ()
    rest: str = ""
    extra: str = ""
    body: Block = field(default_factory=list)
    temporaries: int = 0
    local_names: set[str] = field(default_factory=set)
    outer_names: set[str] = field(default_factory=set)
    owner: str = ""
    is_generator: bool = False
    main: list[Block] = field(default_factory=list)
    lower: Callable[[], None] | None = None
    inner: list[Code] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)

    @property
    def start(self) -> SourcePosition:
        """Position of its first line."""
        return SourcePosition(self.line, 1, self.line)

    def close(self) -> None:
        """Drop the instructions, and with them all references in a circle."""
        self.lower = None
        self.body.clear()
        self.main.clear()
        for code in self.inner:
            code.close()
        self.inner.clear()

    def ready(self) -> Code:
        """Lower the body if that has not been done; return the code."""
        if self.lower is not None:
            lower, self.lower = self.lower, None
            lower()
        return self
