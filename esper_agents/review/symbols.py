"""Names of torch that are gone or deprecated, by version, and where a file uses them."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import tests_around
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Call, FileTables, Function, Import

_PACKAGES = ("torch", "functorch")
_VERSIONED = pattern(
    r"version|hasattr|getattr|\b(?:is|has|use|with)_\w*torch|torch_?\d|\b[A-Z_]*TORCH[A-Z_\d]*\b", re.IGNORECASE
)
# What is caught where a computation may fail; a name that is gone raises none of them, or is called for nothing.
_OF_NUMBERS = frozenset({"RuntimeError", "ValueError", "LinAlgError", "ArithmeticError", "ZeroDivisionError"})
_OF_NUMBERS |= {"OverflowError", "FloatingPointError", "OutOfMemoryError", "AssertionError", "KeyError", "IndexError"}


@dataclass(frozen=True, slots=True)
class TorchSymbol:
    """A name that is gone or deprecated.

    Attributes:
        names: What is used, as whole paths; one that ends in a dot stands for all that begins with it.
        instead: What to write instead, with `{tail}` for the last name.
        source: Where that is said.
        deprecated: The first version that warns of it; empty where none did.
        removed: The first version known to lack or refuse it; empty where it works.
        since: The first version that has what to write instead.
        keyword: The keyword it is about; empty where it is about the name.
        absent: The keyword that has to be there; empty where it is about the name.
        importable: Whether a removed name can still be imported.
        attribute: Whether it is also read without a call.
        method: Whether a method of this last name is meant, whatever it is called on.
    """

    names: tuple[str, ...]
    instead: str
    source: str
    deprecated: str = ""
    removed: str = ""
    since: str = ""
    keyword: str = ""
    absent: str = ""
    importable: bool = False
    attribute: bool = False
    method: bool = False

    def replacement(self, name: str) -> str:
        """Return what to do instead of using one of its names."""
        instead = self.instead.replace("{tail}", tail_of(name))
        return instead if instead.startswith("leave out") else f"write {instead}"

    @property
    def replaced_from(self) -> str:
        """The first version that has what to write instead."""
        return self.since or self.deprecated or self.removed


@dataclass(frozen=True, slots=True)
class SymbolUse:
    """A place where a file uses such a name.

    Attributes:
        symbol: The entry.
        name: The name, as a whole path.
        node: Where it stands.
        call: The call, where it is one.
    """

    symbol: TorchSymbol
    name: str
    node: ast.AST
    call: Call | None = None


@cache
def symbols() -> tuple[TorchSymbol, ...]:
    """Return all entries, read once."""
    data = tomllib.loads(Path(__file__).with_name("symbols.toml").read_text(encoding="utf-8"))
    return tuple(TorchSymbol(**{**entry, "names": tuple(entry["names"])}) for entry in data["symbol"])


@dataclass(frozen=True, slots=True)
class _Table:
    """The entries by how they are found."""

    exact: Mapping[str, tuple[TorchSymbol, ...]]
    beginning: tuple[tuple[str, TorchSymbol], ...]
    methods: Mapping[str, TorchSymbol]
    attributes: tuple[tuple[str, TorchSymbol], ...]
    beginnings: tuple[str, ...]


@cache
def _table() -> _Table:
    pairs = [(name, symbol) for symbol in symbols() for name in symbol.names]
    exact: dict[str, tuple[TorchSymbol, ...]] = {}
    for name, each in pairs:
        if not name.endswith("."):
            exact[name] = (*exact.get(name, ()), each)
    return _Table(
        exact,
        tuple((name, each) for name, each in pairs if name.endswith(".")),
        {tail_of(name): each for name, each in pairs if each.method},
        tuple((name, each) for name, each in pairs if each.attribute),
        tuple(name for name, _ in pairs if name.endswith(".")),
    )


def uses(file: FileTables, index: ProjectIndex) -> list[SymbolUse]:
    """Return where a file uses names that are gone or deprecated, where it does not choose by the version."""
    if not any(path.partition(".")[0].startswith(_PACKAGES) for path in file.imports.values()):
        return []
    table = _table()
    found = [*_calls(file, table), *_methods(file, table, index), *_decorators(file, table), *_attributes(file, table)]
    called = {each.name for each in found}
    found = [each for each in found if not _is_chosen_by_import(each, file)]
    found += _imports(file, table, called)
    return [each for each in found if not _is_asked_for(each, file)]


def _is_chosen_by_import(use: SymbolUse, file: FileTables) -> bool:
    """Return whether a name is used by an import that stands under a test of the version or in a `try`.

    A module that is only optional, `import torch` in a `try`, chooses no name: another import must bind the same.
    """
    node = use.node
    path = dotted(node.func) if isinstance(node, ast.Call) else dotted(node) if isinstance(node, ast.expr) else ""
    root = root_of(path)
    binding = [
        import_statement
        for import_statement in file.import_statements
        if root in file.imports and root in _bound_by(import_statement)
    ]
    guarded = [each for each in binding if is_guarded(each.block)]
    return any(isinstance(each.node, ast.ImportFrom) or len(binding) > 1 for each in guarded)


def _bound_by(statement: Import) -> set[str]:
    return {name.asname or name.name.partition(".")[0] for name in statement.node.names}


def _entries(name: str, table: _Table) -> Iterator[TorchSymbol]:
    yield from table.exact.get(name, ())
    if name.startswith(table.beginnings):
        yield from (each for start, each in table.beginning if name.startswith(start))


def _calls(file: FileTables, table: _Table) -> Iterator[SymbolUse]:
    for name, calls in file.by_name.items():
        # Nearly all names are none of these.
        if name not in table.exact and not name.startswith(table.beginnings):
            continue
        for symbol in _entries(name, table):
            if symbol.importable or not symbol.removed or not _is_import_of(name, file):
                yield from (SymbolUse(symbol, name, call.node, call) for call in calls if _is_meant(symbol, call))


def _is_import_of(name: str, file: FileTables) -> bool:
    """Return whether a path is imported by name, so that the import fails before anything is called."""
    return any(name in import_statement.names for import_statement in file.import_statements)


def _is_meant(symbol: TorchSymbol, call: Call) -> bool:
    said = {keyword.arg for keyword in call.node.keywords}
    if symbol.keyword and symbol.keyword not in said:
        return False
    if symbol.absent and (said & {symbol.absent, None} or call.has_splat() or not call.node.args):
        return False
    return not is_guarded(call.block) and not _is_chosen_in_place(call)


def _is_chosen_in_place(call: Call) -> bool:
    """Return whether a call stands in an expression that asks for the version: `new(x) if NEW_TORCH else old(x)`."""
    if isinstance(call.statement, ast.FunctionDef | ast.ClassDef | ast.If | ast.For | ast.While | ast.With | ast.Try):
        return False
    return any(isinstance(each, ast.IfExp) and _asks(each.test, call.block) for each in walk(call.statement))


def _methods(file: FileTables, table: _Table, index: ProjectIndex) -> Iterator[SymbolUse]:
    if not file.imports_torch:
        return
    for tail in table.methods.keys() & file.by_tail.keys():
        if any(each.owner is not None for each in index.functions.get(tail, ())):
            continue
        for call in file.by_tail[tail]:
            is_own = call.receiver in {"self", "super()", "cls"} or call.receiver in file.imports
            if call.receiver and not is_own and not is_guarded(call.block) and not _is_of_a_class(call):
                yield SymbolUse(table.methods[tail], tail, call.node, call)


def _is_of_a_class(call: Call) -> bool:
    """Return whether the receiver is an object of a class that is none of torch, and so has methods of its own."""
    made = call.function.last_assignment(call.receiver, call.line)
    if made is None or made.is_unpacked or not isinstance(made.value, ast.Call):
        return False
    path = dotted(made.value.func)
    return tail_of(path)[:1].isupper() and not resolve(path, call.function).startswith("torch.")


def _decorators(file: FileTables, table: _Table) -> Iterator[SymbolUse]:
    for function in file.functions:
        nodes = () if isinstance(function.node, ast.Module) else function.node.decorator_list
        for name, node in zip(function.decorators, nodes, strict=False):
            for symbol in _entries(name, table) if not isinstance(node, ast.Call) else ():
                if not symbol.keyword and not symbol.absent and not is_guarded(function.outer or function.block):
                    yield SymbolUse(symbol, name, node)


def _attributes(file: FileTables, table: _Table) -> Iterator[SymbolUse]:
    """Yield the names that are read without a call, in files whose text has them."""
    wanted = [(name, symbol) for name, symbol in table.attributes if tail_of(name.rstrip(".")) in file.text]
    if not wanted:
        return
    module = file.functions[0]
    guarded = guarded_nodes(file)
    for node in walk(file.tree):
        if isinstance(node, ast.Attribute) and node not in guarded:
            path = resolve(dotted(node), module)
            for name, symbol in wanted:
                is_module = name.endswith(".") and path.startswith(name) and path.count(".") == name.count(".")
                if is_module or path == name:
                    yield SymbolUse(symbol, path, node)


def guarded_nodes(file: FileTables) -> set[ast.AST]:
    """Return what stands in the blocks of a file that ask for the version or catch that a name is missing."""
    return _nodes_in(file, is_guarded)


def nodes_for_versions(file: FileTables) -> set[ast.AST]:
    """Return what stands in the blocks of a file that only some versions run."""
    return file.once("nodes for versions", lambda: _nodes_in(file, asks_for_version))


def _nodes_in(file: FileTables, is_meant: Callable[[Block], bool]) -> set[ast.AST]:
    blocks = [block for function in file.functions for block in function.blocks if is_meant(block)]
    return {node for block in blocks for each in _statements_of(block) for node in walk(each)}


def _statements_of(block: Block) -> list[ast.stmt]:
    node = block.node
    if block.kind is BlockKind.ELSE and isinstance(node, ast.If):
        return node.orelse
    body = getattr(node, "body", [])
    return body if isinstance(body, list) else []


def _imports(file: FileTables, table: _Table, called: set[str]) -> Iterator[SymbolUse]:
    for statement in file.import_statements:
        for name in statement.names:
            path = f"{name}." if isinstance(statement.node, ast.Import) else name
            for symbol in _entries(path if path.startswith(table.beginnings) else name, table):
                is_about_name = not symbol.keyword and not symbol.absent
                fails = bool(symbol.removed) and not symbol.importable
                is_meant = is_about_name and (fails or (name not in called and not symbol.removed))
                if is_meant and not is_guarded(statement.block):
                    yield SymbolUse(symbol, name, statement.node)
                    break


def is_guarded(block: Block) -> bool:
    """Return whether code stands where the version is asked, or where its failure is caught."""
    current: Block | None = block
    while current is not None:
        if any(_catches_a_missing_name(each.node) for each in current.chain()):
            return True
        if any("suppress" in context for each in current.chain() for context in each.contexts):
            return True
        around = [*tests_around(current, current.function.block), *_tests_before(current)]
        if any(_VERSIONED.search(ast.unparse(test)) or _reads_a_flag(test, current) for test in around):
            return True
        current = current.function.outer
    return False


def asks_for_version(block: Block) -> bool:
    """Return whether code stands under a test of a version or of what is installed, or of a name that holds one."""
    return any(_asks(test, block) for test in tests_around(block, block.function.block))


def _asks(test: ast.expr, block: Block) -> bool:
    """Return whether a test asks for a version, itself or by a name that holds one."""
    functions = (block.function.file.functions[0], block.function)
    held = [ast.unparse(found.value) for function in functions for found in _assigned_to(test, function)]
    return _VERSIONED.search(ast.unparse(test)) is not None or any("version" in each.lower() for each in held)


def is_for_some_versions(call: Call) -> bool:
    """Return whether only some versions make a call: under a test of the version, or in an expression that asks it."""
    return asks_for_version(call.block) or _is_chosen_in_place(call)


def _reads_a_flag(test: ast.expr, block: Block) -> bool:
    """Return whether a test reads a name that was set by the version, or by whether an import failed."""
    for found in _assigned_to(test, block.function.file.functions[0]):
        in_try = any(_catches_a_missing_name(one.node) for one in found.block.chain())
        if in_try or _VERSIONED.search(ast.unparse(found.value)):
            return True
    return False


def _assigned_to(test: ast.expr, function: Function) -> Iterator[Assignment]:
    """Yield what a function assigns to the names in a test."""
    for each in walk(test):
        if isinstance(each, ast.Name):
            yield from function.assignments.get(each.id, ())


def _catches_a_missing_name(node: ast.AST) -> bool:
    """Return whether a `try`, or one of its handlers, is for names that may not be there.

    One for `RuntimeError` is for numbers that do not work out.
    """
    handlers = node.handlers if isinstance(node, ast.Try) else [node] if isinstance(node, ast.ExceptHandler) else []
    for handler in handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        if any(kind is None or tail_of(dotted(kind)) not in _OF_NUMBERS for kind in kinds):
            return True
    return False


def _tests_before(block: Block) -> Iterator[ast.expr]:
    """Yield the tests of the `if`s in a function: one that returns early decides about what follows it."""
    if not block.function.is_module:
        yield from (each.node.test for each in block.function.blocks if isinstance(each.node, ast.If))


def _is_asked_for(use: SymbolUse, file: FileTables) -> bool:
    """Return whether the file asks whether the name is there: `hasattr(torch, "symeig")`."""
    tail = tail_of(use.name.rstrip("."))
    return f'"{tail}"' in file.text or f"'{tail}'" in file.text
