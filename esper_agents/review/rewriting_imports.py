"""Adds the imports that rewritten calls need, and takes away those that nothing uses any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst
from libcst.helpers import get_full_name_for_node

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

Statement: TypeAlias = cst.SimpleStatementLine | cst.BaseCompoundStatement
# Stands for a statement that went, until the block round it is put together: libcst drops empty lines by itself, and
# the blank lines above along with them.
GONE = cst.Expr(cst.Name("_"))


def bind(module: cst.Module, package: str) -> cst.Module:
    """Return a module that imports a package by its own name at the top, as it did or from here on."""
    if any(_binds(each, package) for each in _imports(module.body)):
        return module
    line = cst.parse_statement(f"import {package}", config=module.config_for_parsing)
    place = _first_place(module.body)
    body: list[Statement] = [*module.body]
    if place < len(body) and isinstance(body[place], cst.SimpleStatementLine | cst.BaseCompoundStatement):
        # What stood above the first statement goes on to stand above all imports.
        line = line.with_changes(leading_lines=body[place].leading_lines if _is_import(body[place]) else ())
        if _is_import(body[place]):
            body[place] = body[place].with_changes(leading_lines=())
    body.insert(place, line)
    return module.with_changes(body=body)


def _imports(body: Sequence[Statement]) -> list[cst.Import]:
    return [
        small
        for each in body
        if isinstance(each, cst.SimpleStatementLine)
        for small in each.body
        if isinstance(small, cst.Import)
    ]


def _binds(statement: cst.Import, package: str) -> bool:
    return any(
        name.asname is None and (get_full_name_for_node(name.name) or "").partition(".")[0] == package
        for name in statement.names
    )


def _first_place(body: Sequence[Statement]) -> int:
    """Return where a first import may stand: after the docstring and what must come before all else."""
    place = 0
    for number, each in enumerate(body):
        small = each.body[0] if isinstance(each, cst.SimpleStatementLine) and each.body else None
        is_docstring = number == 0 and isinstance(small, cst.Expr) and isinstance(small.value, cst.SimpleString)
        is_future = (
            isinstance(small, cst.ImportFrom)
            and isinstance(small.module, cst.Name)
            and small.module.value == "__future__"
        )
        if is_docstring or is_future:
            place = number + 1
    return place


def _is_import(statement: Statement) -> bool:
    return (
        isinstance(statement, cst.SimpleStatementLine)
        and bool(statement.body)
        and isinstance(statement.body[0], cst.Import | cst.ImportFrom)
    )


def drop(module: cst.Module, names: Collection[str]) -> cst.Module:
    """Return a module without the imports at its top of names that nothing in it uses."""
    uses = _Uses()
    module.visit(uses)
    unused = frozenset(names) - uses.names
    return module.with_changes(body=without_empty([_without(each, unused) for each in module.body]))


def without_empty(body: Sequence[Statement]) -> list[Statement]:
    """Return statements without those that are gone; comments and blank lines above them stay.

    A comment on the line of one goes with it: it was about what stood there.
    """
    kept: list[Statement] = []
    orphans: list[cst.EmptyLine] = []
    for each in body:
        left = without_gone(each.body) if isinstance(each, cst.SimpleStatementLine) else None
        if left == []:
            orphans += each.leading_lines
            continue
        whole = each if left is None else each.with_changes(body=left)
        kept.append(whole.with_changes(leading_lines=_above(orphans, each.leading_lines)) if orphans else whole)
        orphans = []
    return kept


def without_gone(body: Sequence[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
    """Return the statements of a line without those that are gone."""
    kept = [each for each in body if each is not GONE]
    if kept and len(kept) < len(body):
        kept[-1] = kept[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
    return kept


def _above(orphans: Sequence[cst.EmptyLine], own: Sequence[cst.EmptyLine]) -> list[cst.EmptyLine]:
    """Return the lines above a statement that moved up: those of what went, and no more blank ones than were there."""
    if any(orphan.comment for orphan in orphans):
        return [*orphans, *own]
    blank = next((number for number, each in enumerate(own) if each.comment), len(own))
    return [*orphans[: max(0, len(orphans) - blank)], *own]


def _without(statement: Statement, unused: Collection[str]) -> Statement:
    """Return a statement without the imports of some names."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return statement
    return statement.with_changes(body=[_small_without(each, unused) for each in statement.body])


def _small_without(small: cst.BaseSmallStatement, unused: Collection[str]) -> cst.BaseSmallStatement:
    if not isinstance(small, cst.Import | cst.ImportFrom) or isinstance(small.names, cst.ImportStar):
        return small
    kept = [name for name in small.names if _bound(name) not in unused]
    if len(kept) == len(small.names):
        return small
    if not kept:
        return GONE
    return small.with_changes(names=[*kept[:-1], kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def _bound(alias: cst.ImportAlias) -> str:
    """Return the name that an import binds; none for `import a.b`, which binds `a` as others do."""
    name = alias.asname.name if alias.asname is not None else alias.name
    return name.value if isinstance(name, cst.Name) else ""


class _Uses(cst.CSTVisitor):
    """Gathers names that are used outside imports, and all texts, because `__all__` names things in texts."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set[str]()

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: ARG002, N802 - libcst's names
        """Look into no import."""
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: ARG002, N802
        """Look into no import."""
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        """Note a name, be it that of an attribute: rather an import too many than one too few."""
        self.names.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        """Look at what an attribute is of, not at its own name."""
        node.value.visit(self)
        return False

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802
        """Note what a text says."""
        text = node.evaluated_value
        if isinstance(text, str) and text.isidentifier():
            self.names.add(text)
