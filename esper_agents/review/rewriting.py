"""Writes calls anew in a source that keeps all else: comments, line breaks, quotes. Imported only to mend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from esper_agents.extras import Extra, require_extra

require_extra(Extra.FIX)  # before the imports that fail without it

import libcst as cst  # noqa: E402
from libcst.metadata import MetadataWrapper, PositionProvider  # noqa: E402

from esper_agents.review.rewriting_imports import GONE, Statement, bind, drop, without_empty, without_gone  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from esper_agents.review.rule import Rewrite

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


@dataclass(frozen=True, slots=True)
class SourceSpan:
    """Where a call stands: lines from 1, columns in characters from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class CallEdit:
    """What is to be done with a call.

    Attributes:
        rewrite: How it is to be written; what is called then, as it is to stand there.
        package: The package that has to be imported for that; empty where none has to.
    """

    rewrite: Rewrite
    package: str = ""


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """A source with calls written anew.

    Attributes:
        text: The source.
        done: The calls that were.
    """

    text: str
    done: frozenset[SourceSpan]


def rewrite(text: str, wanted: Mapping[SourceSpan, CallEdit], *, kept_imports: Collection[str] = ()) -> RewriteResult:
    """Return a source with some of its calls written anew.

    Args:
        text: A source that parses.
        wanted: How to write which call.
        kept_imports: Names that are imported for others and stay, used here or not.

    Raises:
        ValueError: The syntax is newer than what can be rewritten, or it would not come out as it went in.
    """
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise ValueError("its syntax is newer than what can be mended") from error
    if module.code != text:
        raise ValueError("it cannot be written back as it is")
    wrapper = MetadataWrapper(module, unsafe_skip_copy=True)
    writer = _Writer(wanted)
    changed = wrapper.visit(writer)
    for package in sorted({each.package for span, each in wanted.items() if each.package and span in writer.done}):
        changed = bind(changed, package)
    if writer.old_names:
        changed = drop(changed, writer.old_names - set(kept_imports))
    return RewriteResult(changed.code, frozenset(writer.done))


class _Writer(cst.CSTTransformer):
    """Writes the wanted calls.

    Attributes:
        done: The calls that were written.
        old_names: What was called before, by the first of its names, where another package is called now.
    """

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, wanted: Mapping[SourceSpan, CallEdit]) -> None:
        super().__init__()
        self._wanted = wanted
        self._removed = set[cst.CSTNode]()
        self.done = set[SourceSpan]()
        self.old_names = set[str]()

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:  # noqa: N802 - libcst's name
        """Return the call as it is to be."""
        span = self._span(original_node)
        order = self._wanted.get(span)
        if order is None or order.rewrite.is_removed or not _can_be_written(updated_node, order.rewrite):
            return updated_node
        self.done.add(span)
        if order.package:
            self.old_names.add(_first_name(original_node.func))
        return _written(updated_node, order.rewrite)

    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.Expr:  # noqa: N802
        """Return the statement, or what stands for nothing where it goes."""
        span = self._span(original_node.value)
        order = self._wanted.get(span)
        if order is None or not order.rewrite.is_removed:
            return updated_node
        self.done.add(span)
        return GONE

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:  # noqa: ARG002, N802
        """Return the module without the lines that hold nothing any more."""
        return updated_node.with_changes(body=without_empty(updated_node.body))

    def leave_IndentedBlock(  # noqa: N802
        self,
        original_node: cst.IndentedBlock,
        updated_node: cst.IndentedBlock,
    ) -> cst.IndentedBlock:
        """Return the block, with a `pass` where all that stood in it is gone."""
        body: Sequence[cst.BaseStatement] = without_empty(cast("Sequence[Statement]", updated_node.body))
        if not body and original_node.body:
            body = [cst.SimpleStatementLine([cst.Pass()])]
        return updated_node.with_changes(body=body)

    def leave_SimpleStatementSuite(  # noqa: N802
        self,
        original_node: cst.SimpleStatementSuite,  # noqa: ARG002
        updated_node: cst.SimpleStatementSuite,
    ) -> cst.SimpleStatementSuite:
        """Return the statements after a colon, a `pass` where all of them are gone."""
        return updated_node.with_changes(body=without_gone(updated_node.body) or [cst.Pass()])

    def _span(self, node: cst.CSTNode) -> SourceSpan:
        place = self.get_metadata(PositionProvider, node)
        return SourceSpan(place.start.line, place.start.column, place.end.line, place.end.column)


def _can_be_written(call: cst.Call, asked: Rewrite) -> bool:
    is_bare_generator = len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp)
    has_splat = any(arg.star for arg in call.args)
    unnamed = [arg for arg in call.args if arg.keyword is None]
    # What a splat holds may stand in any place, or say what is to be said.
    is_hidden = has_splat and bool(asked.names or asked.first or asked.without)
    return not (is_bare_generator or is_hidden or (asked.names and len(unnamed) > len(asked.names)))


def _first_name(func: cst.BaseExpression) -> str:
    while isinstance(func, cst.Attribute):
        func = func.value
    return func.value if isinstance(func, cst.Name) else ""


def _written(call: cst.Call, asked: Rewrite) -> cst.Call:
    args = _named([*call.args], asked.names)
    args = _without(args, asked.without)
    if asked.first:
        args = _with_first(call, args, cst.Arg(cst.parse_expression(asked.first)))
    for keyword, source in asked.arguments.items():
        args = _with_argument(call, args, keyword, cst.parse_expression(source))
    func = cst.parse_expression(asked.callee) if asked.callee else call.func
    return call.with_changes(func=func, args=args)


def _named(args: list[cst.Arg], names: tuple[str, ...]) -> list[cst.Arg]:
    """Return the arguments with names for those that have none."""
    unnamed = iter(names)
    return [
        each.with_changes(keyword=cst.Name(name), equal=_TIGHT) if name else each
        for each, name in ((arg, "" if arg.keyword else next(unnamed, "")) for arg in args)
    ]


def _without(args: list[cst.Arg], unwanted: tuple[str | int, ...]) -> list[cst.Arg]:
    kept = [each for place, each in enumerate(args) if not _is_one_of(each, place, unwanted)]
    if kept and kept[-1] is not args[-1]:
        # The new last one ends as the old last one did: with or without a comma, and on a line of its own or not.
        kept[-1] = kept[-1].with_changes(comma=args[-1].comma, whitespace_after_arg=args[-1].whitespace_after_arg)
    return kept


def _is_one_of(arg: cst.Arg, place: int, unwanted: tuple[str | int, ...]) -> bool:
    return arg.keyword.value in unwanted if arg.keyword else place in unwanted


def _with_first(call: cst.Call, args: list[cst.Arg], first: cst.Arg) -> list[cst.Arg]:
    return [first.with_changes(comma=_comma(call, args)), *args] if args else [first]


def _with_argument(call: cst.Call, args: list[cst.Arg], keyword: str, value: cst.BaseExpression) -> list[cst.Arg]:
    for place, each in enumerate(args):
        if each.keyword and each.keyword.value == keyword:
            return [*args[:place], each.with_changes(value=value), *args[place + 1 :]]
    added = cst.Arg(value, keyword=cst.Name(keyword), equal=_TIGHT)
    if not args:
        return [added]
    last, comma = args[-1], _comma(call, args)
    has_comma = isinstance(last.comma, cst.Comma)
    end = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else last.whitespace_after_arg
    between = comma.whitespace_after
    if isinstance(end, cst.ParenthesizedWhitespace) and isinstance(between, cst.ParenthesizedWhitespace):
        # A comment after the last argument goes on to stand after that one.
        comma = cst.Comma(whitespace_after=end.with_changes(indent=between.indent, last_line=between.last_line))
        end = _bare(end)
    before = last.with_changes(comma=comma, whitespace_after_arg=cst.SimpleWhitespace(""))
    if has_comma:
        return [*args[:-1], before, added.with_changes(comma=cst.Comma(whitespace_after=end))]
    return [*args[:-1], before, added.with_changes(whitespace_after_arg=end)]


def _comma(call: cst.Call, args: list[cst.Arg]) -> cst.Comma:
    """Return what parts two arguments here: a line break where each has a line of its own."""
    space = call.whitespace_before_args
    if len(args) > 1 and isinstance(args[0].comma, cst.Comma):
        space = args[0].comma.whitespace_after
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return cst.Comma(whitespace_after=_bare(space))


def _bare(space: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    """Return a line break without the comments in it: they belong to what stands before."""
    return cst.ParenthesizedWhitespace(cst.TrailingWhitespace(), indent=space.indent, last_line=space.last_line)
