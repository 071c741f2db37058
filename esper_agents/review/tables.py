"""What one pass over a file knows: functions, classes, blocks, calls and assignments, ready to be asked by rules."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from esper_agents.review.blocks import Block
    from esper_agents.review.suppress import Suppression


T = TypeVar("T")


class Purpose(StrEnum):
    """What a file is there for; tests, benchmarks and what a program wrote are judged more leniently."""

    CODE = "code"
    TEST = "test"
    BENCHMARK = "benchmark"
    EXAMPLE = "example"
    GENERATED = "generated"


@dataclass(slots=True, eq=False)
class Call:
    """A call.

    Attributes:
        node: The call itself.
        path: What is called, as written: `F.softmax`, `self.net`, `scaler.scale().backward`.
        name: The same through the file's imports: `torch.nn.functional.softmax`.
        tail: The last name of it: `softmax`.
        receiver: What stands before the tail, as written; empty for a plain name.
        block: Where it stands.
        statement: The statement it is part of.
        parent: The node around it.
    """

    node: ast.Call
    path: str
    name: str
    tail: str
    receiver: str
    block: Block
    statement: ast.stmt
    parent: ast.AST

    @property
    def function(self) -> Function:
        """The function it stands in."""
        return self.block.function

    @property
    def line(self) -> int:
        """The line it starts on."""
        return self.node.lineno

    def argument(self, position: int, keyword: str = "") -> ast.expr | None:
        """Return an argument by position or keyword; None where it is not given, or hidden in `*` or `**`."""
        arguments = self.node.args
        if 0 <= position < len(arguments) and not any(
            isinstance(each, ast.Starred) for each in arguments[: position + 1]
        ):
            return arguments[position]
        return next((each.value for each in self.node.keywords if keyword and each.arg == keyword), None)

    def has_splat(self) -> bool:
        """Return whether arguments are hidden in `*` or `**`."""
        return any(isinstance(arg, ast.Starred) for arg in self.node.args) or any(
            keyword.arg is None for keyword in self.node.keywords
        )


@dataclass(slots=True, eq=False)
class Assignment:
    """One binding of one name or attribute.

    Attributes:
        target: What is bound, as a path: `loss`, `self.net`, `history[]`.
        node: The target itself.
        value: What is assigned; for a tuple unpacked from something else than a tuple the whole right-hand side.
        block: Where it stands.
        statement: The statement it is part of.
        is_augmented: Whether it is `+=` or one of its kind.
        is_unpacked: Whether the target is one of several and takes a part of the value.
    """

    target: str
    node: ast.expr
    value: ast.expr
    block: Block
    statement: ast.stmt
    is_augmented: bool = False
    is_unpacked: bool = False

    @property
    def line(self) -> int:
        """The line it starts on."""
        return self.statement.lineno


@dataclass(slots=True, eq=False)
class Import:
    """An import statement.

    Attributes:
        node: The statement.
        names: What it imports, each as a whole path: `torch.nn.functional`.
        block: Where it stands.
    """

    node: ast.Import | ast.ImportFrom
    names: tuple[str, ...]
    block: Block


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module


@dataclass(slots=True, eq=False)
class Function:
    """A function, or the module's own code under the name `<module>`.

    Attributes:
        node: Its definition.
        name: Its name.
        file: The file it stands in.
        owner: The class whose method it is.
        outer: The block it is defined in; None for the module.
        parameters: Their names, `self` included.
        decorators: Their resolved paths: `torch.no_grad()`.
        calls: The calls in it, nested functions left out, in order.
        blocks: The blocks in it, its own first.
        assignments: What it binds, by path, in order.
        returns: Its return statements, each with its block.
        inner: The functions defined directly inside.
    """

    node: FunctionNode
    name: str
    file: FileTables
    owner: Class | None
    outer: Block | None
    parameters: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    calls: list[Call] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    assignments: dict[str, list[Assignment]] = field(default_factory=dict)
    returns: list[tuple[ast.Return, Block]] = field(default_factory=list)
    inner: list[Function] = field(default_factory=list)

    @property
    def is_module(self) -> bool:
        """Whether it is the module's own code."""
        return isinstance(self.node, ast.Module)

    @property
    def block(self) -> Block:
        """Its own block."""
        return self.blocks[0]

    @property
    def qualname(self) -> str:
        """Its name with those of the class and functions around it."""
        if self.owner is not None:
            return f"{self.owner.name}.{self.name}"
        if self.outer is not None and not self.outer.function.is_module:
            return f"{self.outer.function.qualname}.{self.name}"
        return self.name

    def last_assignment(self, target: str, before: int) -> Assignment | None:
        """Return the last binding of a path that starts above a line; None where there is none."""
        found = None
        for each in self.assignments.get(target, ()):
            if each.line < before:
                found = each
        return found


@dataclass(slots=True, eq=False)
class Class:
    """A class.

    Attributes:
        node: Its definition.
        name: Its name.
        file: The file it stands in.
        bases: Its bases, as resolved paths.
        methods: Its own methods, by name; the last definition wins.
        attributes: What its body and its methods assign, by path: `self.net`, or `x` for the body.
        decorators: Their resolved paths.
    """

    node: ast.ClassDef
    name: str
    file: FileTables
    bases: tuple[str, ...] = ()
    methods: dict[str, Function] = field(default_factory=dict)
    attributes: dict[str, list[Assignment]] = field(default_factory=dict)
    decorators: tuple[str, ...] = ()


@dataclass(eq=False)
class FileTables:
    """What one pass over a file knows.

    Attributes:
        path: Relative to the root, with forward slashes.
        module: Its dotted name, from the path.
        text: Its source.
        tree: Its syntax tree.
        purpose: What it is there for.
        suppressions: Its `# esper: ignore[...]` comments.
        imports: What its imports bind: `{"F": "torch.nn.functional"}`.
        import_statements: Its imports, in order.
        functions: Its functions in order; the module's own code is the first.
        classes: Its classes, in order.
        calls: Its calls, in order.
        by_tail: Calls by last name.
        by_name: Calls by resolved path.
        made: What `once` has made.
    """

    path: str
    module: str
    text: str
    tree: ast.Module
    purpose: Purpose
    suppressions: tuple[Suppression, ...] = ()
    imports: dict[str, str] = field(default_factory=dict)
    import_statements: list[Import] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    by_tail: dict[str, list[Call]] = field(default_factory=dict)
    by_name: dict[str, list[Call]] = field(default_factory=dict)
    made: dict[object, object] = field(default_factory=dict)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of its source, without line ends."""
        return self.text.split("\n")

    @cached_property
    def imports_torch(self) -> bool:
        """Whether it imports torch itself."""
        return any(each == "torch" or each.startswith("torch.") for each in self.imports.values())

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what `make` returns, made once for this file; it must follow from this file alone."""
        if key not in self.made:
            self.made[key] = make()
        return cast("T", self.made[key])

    def calls_to(self, *names: str) -> list[Call]:
        """Return the calls of what is named, by resolved path, in order of appearance for each name."""
        known = self.by_name
        return [call for name in names if name in known for call in known[name]]

    def calls_ending(self, *tails: str) -> list[Call]:
        """Return the calls whose last name is one of `tails`, whatever stands before it."""
        known = self.by_tail
        return [call for tail in tails if tail in known for call in known[tail]]
