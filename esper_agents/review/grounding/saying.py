"""Statements in words: the code as written, when it runs, and what its operations do."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.review.grounding.statements import CodeStatement

_LONGEST_CODE, _LONGEST_CONDITION, _MOST_CONDITIONS = 120, 70, 2
_LONGEST_WORDS = 220
# A comma before a bracket; that of a tuple of one element is part of the code.
_BRACKETS = re.compile(r"(?<=[(\[{]) | (?=[)\]}])|(?<=\]),(?=\s?[)\]])|(?<=[)\w'\"]),(?=\s?\])")
_LAST_COMMA = re.compile(r"(\([^()]*,[^()]*),\s?(?=\))")
_CONDITION = re.compile(r"^(?P<no>not )?(?:el)?if (?P<test>.*)$")
_CONTINUED = re.compile(r"\\ ")


def quoted(text: str, most: int = _LONGEST_CODE) -> str:
    """Return code of a project as it is shown: in one line, cut, in backticks."""
    line = _CONTINUED.sub("", " ".join(plain(text).split()))
    line = _LAST_COMMA.sub(r"\1", _BRACKETS.sub("", _BRACKETS.sub("", line))).replace("`", "'")
    return f"`{line if len(line) <= most else line[: most - 3].rstrip() + '...'}`"


def said(statement: CodeStatement, operations: Sequence[str] = ()) -> str:
    """Return a statement in one sentence without a full stop.

    Args:
        statement: The statement.
        operations: What the operations in it do.
    """
    scope = statement.scope
    if statement.documented:
        words = quoted(statement.documented, _LONGEST_WORDS).strip("`").replace('"', "'")
        return f'`{scope.name}` is documented: "{words}"'
    where = f"`{scope.name}`" if scope.name else f"`{scope.file.path.rpartition('/')[2]}`"
    text = f"{where} {_core(statement)}{conditions_of(statement)}"
    return ": ".join(filter(None, (text, "; ".join(operations))))


def conditions_of(statement: CodeStatement) -> str:
    """Return the conditions under which a statement runs, as the rest of a sentence; empty without any."""
    if_so: list[str] = []
    others: list[str] = []
    for head in reversed(statement.around):
        match = _CONDITION.match(head)
        if match and not match["no"]:
            if_so.append(quoted(match["test"], _LONGEST_CONDITION))
        elif match:
            others.append(f"unless {quoted(match['test'], _LONGEST_CONDITION)}")
        elif head.startswith("except"):
            others.append(
                f"after {quoted(head.removeprefix('except ').strip() or 'any exception', _LONGEST_CONDITION)}"
            )
        elif head.startswith("with ") and ("grad" in head or "inference" in head or "autocast" in head):
            others.append(f"under {quoted(head.removeprefix('with '), _LONGEST_CONDITION)}")
    together = [f"only if {' and '.join(reversed(if_so[:_MOST_CONDITIONS]))}"] if if_so else []
    return "".join(f", {part}" for part in (*together, *others)[:_MOST_CONDITIONS])


def _core(statement: CodeStatement) -> str:  # noqa: C901, PLR0911 - one case for each kind of statement
    node = statement.node
    match node:
        case ast.If(test=test, body=[*_, ast.Raise(exc=raised)]) if not node.orelse and len(node.body) <= 2:  # noqa: PLR2004
            return f"raises {_exception(raised)} if {quoted(ast.unparse(test))}"
        case ast.Raise(exc=raised):
            return f"raises {_exception(raised)}"
        case ast.Assert(test=test, msg=message):
            words = f" ({quoted(ast.unparse(message), _LONGEST_CONDITION)})" if message is not None else ""
            return f"stops with an AssertionError{words} unless {quoted(ast.unparse(test))}"
        case ast.If(test=test, body=body, orelse=other):
            return _branches(test, body, other)
        case ast.For() | ast.AsyncFor() | ast.While():
            return f"loops {quoted(statement.text.rstrip(':'))}"
        case ast.With() | ast.AsyncWith():
            return f"has the block {quoted(statement.text.rstrip(':'))}"
        case ast.Return(value=None):
            return "returns nothing"
        case ast.Return(value=ast.expr() as value):
            return f"returns {quoted(ast.unparse(value))}"
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_argument")) as call):
            return _option(call) or f"calls {quoted(statement.text)}"
        case ast.Expr(value=ast.Call()):
            return f"calls {quoted(statement.text)}"
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign():
            return f"sets {quoted(statement.text)}"
        case _:
            return f"has {quoted(statement.text)}"


def _option(call: ast.Call) -> str:
    """Return an option of a command line with its help and its default; empty without a help text."""
    given = {each.arg: each.value for each in call.keywords}
    names = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    match given.get("help"):
        case ast.Constant(value=str() as text) if names:
            words = quoted(text, _LONGEST_WORDS).strip("`").replace('"', "'")
            default = f", default {quoted(ast.unparse(given['default']))}" if "default" in given else ""
            return f'has the option {quoted(names[0])}: "{words}"{default}'
        case _:
            return ""


def _branches(test: ast.expr, body: Sequence[ast.stmt], other: Sequence[ast.stmt]) -> str:
    """Return what an `if` decides: the first statement of each branch."""
    then = f"decides by {quoted(ast.unparse(test), _LONGEST_CONDITION)}: if so, {_first(body)}"
    return f"{then}; else {_first(other)}" if other else then


def _first(body: Sequence[ast.stmt]) -> str:
    first = next((each for each in body if not isinstance(each, ast.Import | ast.ImportFrom | ast.Pass)), body[0])
    shown = ast.unparse(first).partition("\n")[0].rstrip(":")
    return quoted(shown, _LONGEST_CONDITION) + (" and more" if len(body) > 1 and first is body[0] else "")


def _exception(raised: ast.expr | None) -> str:
    match raised:
        case ast.Call(func=func, args=[message, *_]):
            return f"`{ast.unparse(func)}` ({quoted(ast.unparse(message), _LONGEST_CONDITION)})"
        case None:
            return "the exception again"
        case _:
            return quoted(ast.unparse(raised))
