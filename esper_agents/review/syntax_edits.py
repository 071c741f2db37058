"""Differences of two versions of an expression, each as a clause that names what it lost, gained or exchanged."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from esper_agents.review.in_place_forms import in_place_consequence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_SHOWN = 4
_MOST_LAYERS = 3
_LONGEST = 60
# What follows if a call is lost, in one clause; the clause is true whatever the call is applied to.
_LOST = {
    "detach": "gradients flow through it",
    "no_grad": "it builds graphs",
    "clone": "writes in place reach the original",
    "copy": "writes in place reach the original",
    "deepcopy": "both share their parts",
    "contiguous": "a `view` of it can fail",
    "unsqueeze": "it has one dimension less, and broadcasting pairs others",
    "squeeze": "a dimension of size one stays, and broadcasting pairs others",
    "transpose": "its dimensions keep their order",
    "permute": "its dimensions keep their order",
    "flatten": "its dimensions stay apart",
    "clamp": "values outside the bounds pass",
    "clip": "values outside the bounds pass",
    "sqrt": "the square stays",
    "exp": "the logarithm stays",
    "log": "the value stays outside the logarithm",
    "sigmoid": "raw scores take the place of probabilities",
    "softmax": "raw scores take the place of probabilities",
    "log_softmax": "raw scores take the place of log-probabilities",
    "float": "the computation runs in the type of the input",
    "double": "the computation runs in the type of the input",
    "half": "the computation runs in the type of the input",
    "bfloat16": "the computation runs in the type of the input",
    "long": "the values keep their type",
    "int": "the values keep their type",
    "bool": "the values keep their type",
    "to": "it keeps its device and its type",
    "cuda": "it stays on its device",
    "cpu": "it stays on its device",
    "type_as": "it keeps its type",
    "item": "it stays a tensor",
    "tolist": "it stays a tensor",
    "mean": "nothing is averaged here",
    "sum": "nothing is added up here",
    "round": "values are not rounded",
    "nan_to_num": "NaN and Inf pass",
    "sorted": "the order is that of the container",
    "list": "it can be consumed only once, or change meanwhile",
    "set": "duplicates stay",
    "len": "the container takes the place of its size",
    "enumerate": "there is no number",
}
# What an argument decides; true of every function that has it.
_DECIDES = {
    "dim": "another dimension is reduced or joined",
    "axis": "another dimension is reduced or joined",
    "keepdim": "the result has another number of dimensions, and broadcasting pairs others",
    "keepdims": "the result has another number of dimensions, and broadcasting pairs others",
    "ignore_index": "other positions count in the loss",
    "reduction": "the loss has another scale or shape",
    "weight": "classes or samples weigh differently",
    "pos_weight": "positive samples weigh differently",
    "label_smoothing": "the target of the loss differs",
    "dtype": "the computation runs in another type",
    "copy": "whether writes in place reach the original differs",
    "device": "the result is on another device",
    "non_blocking": "the copy may still run when it is read",
    "shuffle": "the order of the samples differs",
    "drop_last": "the last batch is kept or dropped",
    "batch_first": "batch and time change places",
    "bias": "the layer has another set of parameters",
    "requires_grad": "gradients are computed or not",
    "retain_graph": "the graph is kept or freed",
    "create_graph": "the gradient itself can be differentiated or not",
    "weights_only": "loading can run code in the file or not",
    "map_location": "the tensors are loaded to another device",
    "strict": "missing or unexpected keys are an error or not",
    "eps": "small values are treated differently",
    "unbiased": "the divisor is n or n - 1",
    "correction": "the divisor differs",
    "align_corners": "the sampling grid differs",
    "training": "dropout or normalisation acts as in the other mode",
    "inplace": "the input is overwritten or not",
    "persistent": "the buffer is in the state dictionary or not",
    "set_to_none": "gradients are None or zero",
    "generator": "random numbers come from another generator",
    "indexing": "rows and columns change places",
}


@dataclass(frozen=True, slots=True)
class SyntaxEdit:
    """One difference of two versions of an expression.

    Attributes:
        text: The difference, in one clause.
        consequence: What follows from it, in one clause; empty if that depends on the code.
        is_message: Whether only a text differs.
        line: Line of the new version; 0 if it is that of the whole statement.
        base_line: Line of the old version; 0 likewise.
    """

    text: str
    consequence: str = ""
    is_message: bool = False
    line: int = 0
    base_line: int = 0

    def __str__(self) -> str:
        return f"{self.text}: {self.consequence}" if self.consequence else self.text


def compare_expressions(old: ast.expr, new: ast.expr, subject: str = "") -> Iterator[SyntaxEdit]:
    """Yield the smallest differences of two expressions.

    Args:
        old: Version before the change.
        new: Version after it.
        subject: The expression in words, such as `the divisor`; its source if empty.
    """
    for difference in _differences(old, new, subject):
        line, base_line = getattr(new, "lineno", 0), getattr(old, "lineno", 0)
        yield replace(difference, line=difference.line or line, base_line=difference.base_line or base_line)


def compare_values(target: ast.expr, old: ast.expr, new: ast.expr) -> Iterator[SyntaxEdit]:
    """Yield the differences of two values that are assigned to one target; a plain value is told as a whole."""
    name = target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")
    is_plain = isinstance(new, ast.Constant | ast.Tuple | ast.List | ast.UnaryOp) and bool(name)
    for difference in compare_expressions(old, new, _code(target) if is_plain else ""):
        consequence = difference.consequence or (_DECIDES.get(name.removesuffix("s"), "") if is_plain else "")
        yield replace(difference, consequence=consequence)


def _differences(  # noqa: C901, PLR0912 - one case for each kind of expression
    old: ast.expr, new: ast.expr, subject: str
) -> Iterator[SyntaxEdit]:
    if same(old, new):
        return
    if found := _wrapped(old, new, subject):
        yield found
        return
    match old, new:
        case ast.Call(), ast.Call():
            yield from _calls(old, new)
        case ast.BinOp(), ast.BinOp():
            yield from _binary(old, new, subject)
        case ast.BoolOp(), ast.BoolOp():
            yield from _bool(old, new, subject)
        case (ast.Compare(), ast.Compare()) if [type(each) for each in old.ops] == [type(each) for each in new.ops]:
            pairs = zip((old.left, *old.comparators), (new.left, *new.comparators), strict=True)
            for one, other in pairs:
                yield from compare_expressions(one, other)
        case (ast.Attribute(), ast.Attribute()) if old.attr == new.attr:
            yield from compare_expressions(old.value, new.value)
        case (ast.Attribute(), ast.Attribute()) if same(old.value, new.value):
            yield SyntaxEdit(f"uses {_code(new)} instead of {_code(old)}")
        case (ast.Subscript(), ast.Subscript()) if same(old.value, new.value):
            yield SyntaxEdit(f"takes {_code(new)} instead of {_code(old)}")
        case (ast.Subscript(), ast.Subscript()) if same(old.slice, new.slice):
            yield from compare_expressions(old.value, new.value)
        case (ast.UnaryOp(), ast.UnaryOp()) if type(old.op) is type(new.op):
            yield from compare_expressions(old.operand, new.operand, subject)
        case (ast.Tuple() | ast.List(), ast.Tuple() | ast.List()) if len(old.elts) == len(new.elts):
            is_short = len(new.elts) <= _MOST_SHOWN and all(isinstance(each, ast.Constant) for each in new.elts)
            if is_short or _is_reordered(old.elts, new.elts):
                yield _instead(old, new, subject)
                return
            for one, other in zip(old.elts, new.elts, strict=True):
                yield from compare_expressions(one, other)
        case ast.Dict(), ast.Dict():
            yield from _dicts(old, new)
        case (ast.JoinedStr() | ast.Constant(value=str()), ast.JoinedStr() | ast.Constant(value=str())):
            yield SyntaxEdit(_instead(old, new, subject).text, is_message=True)
        case (
            ast.ListComp() | ast.GeneratorExp() | ast.SetComp(),
            ast.ListComp() | ast.GeneratorExp() | ast.SetComp(),
        ) if type(old) is type(new) and list(map(ast.dump, old.generators)) == list(map(ast.dump, new.generators)):
            yield from compare_expressions(old.elt, new.elt)
        case (ast.IfExp(), ast.IfExp()):
            parts = ((old.test, new.test, "the condition"), (old.body, new.body, ""), (old.orelse, new.orelse, ""))
            for one, other, name in parts:
                yield from compare_expressions(one, other, name)
        case _:
            yield _instead(old, new, subject)


def same(old: ast.AST | None, new: ast.AST | None) -> bool:
    """Return whether two nodes are the same code, wherever they are."""
    if old is None or new is None:
        return old is new
    return type(old) is type(new) and ast.dump(old) == ast.dump(new)


def shown(node: ast.AST) -> str:
    """Return the source of a node in one short line, without backticks around it."""
    text = " ".join(ast.unparse(node).split()).replace("`", "'")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def _code(node: ast.AST) -> str:
    return f"`{shown(node)}`"


def _instead(old: ast.expr, new: ast.expr, subject: str) -> SyntaxEdit:
    text = f"{_code(new)} instead of {_code(old)}"
    return SyntaxEdit(f"{subject} is {text}" if subject else f"has {text}")


def _wrapped(old: ast.expr, new: ast.expr, subject: str) -> SyntaxEdit | None:
    """Return the edit that removes or adds what is around an expression; None if the two differ otherwise."""
    for outer, inner, is_lost in ((old, new, True), (new, old, False)):
        layers = _layers(outer, inner)
        if not layers:
            continue
        around = "".join(layers[::-1]) if all(layer.startswith(".") for layer in layers) else layers[0]
        what = subject or _code(inner)
        if len(layers) > 1 and not around.startswith("."):
            return SyntaxEdit(f"{what} is {_code(new)} instead of {_code(old)}")
        text = f"{what} lost its `{around}`" if is_lost else f"{what} gained `{around}`"
        return SyntaxEdit(text, _consequence(outer, subject) if is_lost else "")
    return None


def _layers(outer: ast.expr, inner: ast.expr) -> list[str]:
    """Return the layers around an expression, the outermost first; empty if it is not in them."""
    pending: list[tuple[ast.expr, list[str]]] = [(outer, [])]
    for _ in range(_MOST_LAYERS):
        following = []
        for node, names in pending:
            for name, within in _peeled(node):
                if same(within, inner):
                    return [*names, name]
                following.append((within, [*names, name]))
        pending = following
    return []


def _peeled(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:  # noqa: C901 - one case for each kind of expression
    """Yield the expressions directly within a node, with what is around each."""
    match node:
        case ast.Call(func=ast.Attribute(value=value, attr=attr)):
            arguments = ast.unparse(ast.Call(ast.Name("_"), node.args, node.keywords))[1:]
            # `torch.clamp(x)` is about its argument, `x.clamp()` about its receiver.
            if node.args:
                yield _bounded(f"{ast.unparse(node.func)}(...)"), node.args[0]
            yield _bounded(f".{attr}{arguments}"), value
        case ast.Call(func=ast.Name(id=name), args=[first, *_]):
            yield f"{name}(...)", first
        case ast.BinOp(left=left, op=op, right=right):
            sign = _sign(op)
            yield _bounded(f"{sign} {ast.unparse(right)}"), left
            yield _bounded(f"{ast.unparse(left)} {sign}"), right
        case ast.BoolOp(op=op, values=[first, second]):
            word = "and" if isinstance(op, ast.And) else "or"
            yield _bounded(f"{word} {ast.unparse(second)}"), first
            yield _bounded(f"{ast.unparse(first)} {word}"), second
        case ast.UnaryOp(op=op, operand=operand) if not isinstance(operand, ast.Constant):
            yield {ast.Not: "not", ast.USub: "-", ast.Invert: "~", ast.UAdd: "+"}[type(op)], operand
        case ast.Subscript(value=value, slice=index):
            yield _bounded(f"[{ast.unparse(index)}]"), value
        case ast.Attribute(value=value, attr=attr):
            yield f".{attr}", value
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield _bounded(f"if {ast.unparse(test)} else {ast.unparse(orelse)}"), body
            yield _bounded(f"{ast.unparse(body)} if {ast.unparse(test)} else"), orelse
        case ast.Starred(value=value):
            yield "*", value
        case _:
            return


def _bounded(text: str) -> str:
    line = " ".join(text.split()).replace("`", "'")
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 4]} ..."


def _sign(op: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("a"))).strip("a ")


def _consequence(outer: ast.expr, subject: str) -> str:
    match outer:
        case ast.BinOp(op=ast.Add()) if subject in {"the divisor", "the argument of `log`", "the argument of `sqrt`"}:
            return "it can be zero"
        case ast.UnaryOp(op=ast.Not()):
            return "it holds in the opposite case"
        case ast.UnaryOp(op=ast.USub()):
            return "its sign is the opposite"
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return _LOST.get(name.rstrip("_"), "")
        case _:
            return ""


def _calls(old: ast.Call, new: ast.Call) -> Iterator[SyntaxEdit]:
    name = _name(new.func)
    has_other_arguments = [ast.dump(arg) for arg in old.args] != [ast.dump(arg) for arg in new.args]
    if _name(old.func) != name and has_other_arguments:
        # Arguments of one function say nothing about those of another.
        yield _instead(old, new, "")
        return
    if not same(old.func, new.func):
        follow = in_place_consequence(old, new)
        yield from (replace(edit, consequence=edit.consequence or follow) for edit in _functions(old.func, new.func))
    yield from _arguments(old, new, name)
    before_keywords, after_keywords = ({each.arg: each for each in call.keywords} for call in (old, new))
    for key, keyword in before_keywords.items():
        if key not in after_keywords:
            consequence = _DECIDES.get(key or "", "")
            yield SyntaxEdit(f"`{name}` no longer gets {_code(keyword)}", consequence, base_line=keyword.lineno)
        elif not same(keyword.value, after_keywords[key].value):
            is_simple = isinstance(keyword.value, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp)
            subject = f"`{key}` of `{name}`"
            edits = compare_expressions(keyword.value, after_keywords[key].value, subject)
            for edit in edits:
                consequence = edit.consequence or (_DECIDES.get(key or "", "") if is_simple else "")
                yield replace(edit, consequence=consequence)
    for key, keyword in after_keywords.items():
        if key not in before_keywords:
            consequence = _DECIDES.get(key or "", "")
            yield SyntaxEdit(f"`{name}` now gets {_code(keyword)}", consequence, line=keyword.lineno)


def _functions(old: ast.expr, new: ast.expr) -> Iterator[SyntaxEdit]:
    """Yield the differences of what two calls call."""
    if isinstance(old, ast.Attribute) and isinstance(new, ast.Attribute):
        if old.attr == new.attr:
            yield from compare_expressions(old.value, new.value)
            return
        if same(old.value, new.value) and not isinstance(new.value, ast.Name):
            yield SyntaxEdit(f"calls `.{new.attr}` instead of `.{old.attr}` on {_code(new.value)}")
            return
    if all(isinstance(each, ast.Name | ast.Attribute) for each in (old, new)):
        yield SyntaxEdit(f"calls {_code(new)} instead of {_code(old)}")
    else:
        yield from compare_expressions(old, new)


def _arguments(old: ast.Call, new: ast.Call, name: str) -> Iterator[SyntaxEdit]:
    if _is_reordered(old.args, new.args):
        shown_args = (", ".join(shown(arg) for arg in call.args) for call in (new, old))
        now, before = (_bounded(shown_arg) for shown_arg in shown_args)
        yield SyntaxEdit(f"`{name}` gets its arguments in another order: `({now})` instead of `({before})`")
        return
    subject = f"the argument of `{name}`" if name in {"log", "sqrt", "log2", "log10"} else ""
    if len(old.args) == len(new.args):
        for one, other in zip(old.args, new.args, strict=True):
            yield from compare_expressions(one, other, subject)
        return
    before_args, after_args = ([ast.dump(arg) for arg in call.args] for call in (old, new))
    for tag, a, b, c, d in SequenceMatcher(None, before_args, after_args, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        both = min(b - a, d - c)
        for one, other in zip(old.args[a : a + both], new.args[c : c + both], strict=True):
            yield from compare_expressions(one, other, subject)
        for argument in old.args[a + both : b]:
            yield SyntaxEdit(f"`{name}` no longer gets {_code(argument)}")
        for argument in new.args[c + both : d]:
            yield SyntaxEdit(f"`{name}` now gets {_code(argument)}")


def _is_reordered(old: Sequence[ast.expr], new: Sequence[ast.expr]) -> bool:
    one, other = ([ast.dump(each) for each in side] for side in (old, new))
    return one != other and Counter(one) == Counter(other)


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else shown(function)


def _binary(old: ast.BinOp, new: ast.BinOp, subject: str) -> Iterator[SyntaxEdit]:
    if turned := _turned_terms(old, new):
        yield replace(_instead(old, new, subject), consequence=f"the sign of {turned} is the opposite")
        return
    if type(old.op) is not type(new.op) or (same(old.left, new.right) and same(old.right, new.left)):
        yield _instead(old, new, subject)
        return
    right = "the divisor" if isinstance(old.op, ast.Div | ast.FloorDiv) else ""
    yield from compare_expressions(old.left, new.left)
    yield from compare_expressions(old.right, new.right, right)


def _turned_terms(old: ast.BinOp, new: ast.BinOp) -> str:
    """Return the terms of two sums that differ in their sign alone; empty if the sums differ otherwise."""
    before, after = (list(_terms(each)) for each in (old, new))
    if sorted(text for text, _ in before) != sorted(text for text, _ in after):
        return ""
    if len({text for text, _ in before}) < len(before):
        return ""
    signs = dict(after)
    return " and of ".join(f"`{_bounded(text)}`" for text, sign in before if signs[text] != sign)


def _terms(node: ast.expr, sign: int = 1) -> Iterator[tuple[str, int]]:
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            yield from _terms(left, sign)
            yield from _terms(right, sign if isinstance(op, ast.Add) else -sign)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _terms(operand, -sign)
        case _:
            yield ast.unparse(node), sign


def _bool(old: ast.BoolOp, new: ast.BoolOp, subject: str) -> Iterator[SyntaxEdit]:
    word = "and" if isinstance(old.op, ast.And) else "or"
    if type(old.op) is not type(new.op):
        yield _instead(old, new, subject)
        return
    one, other = ([ast.dump(each) for each in side.values] for side in (old, new))
    for tag, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        both = min(b - a, d - c)
        for before, after in zip(old.values[a : a + both], new.values[c : c + both], strict=True):
            yield from compare_expressions(before, after, subject)
        what = subject or "the condition"
        for value in old.values[a + both : b]:
            yield SyntaxEdit(f"{what} lost its `{word} {shown(value)}`")
        for value in new.values[c + both : d]:
            yield SyntaxEdit(f"{what} gained `{word} {shown(value)}`")


def _dicts(old: ast.Dict, new: ast.Dict) -> Iterator[SyntaxEdit]:
    before, after = (
        {
            ast.dump(key) if key else f"** {ast.dump(value)}": (key, value)
            for key, value in zip(d.keys, d.values, strict=True)
        }
        for d in (old, new)
    )
    for name, (key, value) in before.items():
        label = _code(key) if key is not None else "`**`"
        if name not in after:
            yield SyntaxEdit(f"the key {label} is gone")
        else:
            yield from compare_expressions(value, after[name][1], f"the value of {label}")
    for name, (key, _) in after.items():
        if name not in before:
            yield SyntaxEdit(f"has the new key {_code(key) if key is not None else '`**`'}")
