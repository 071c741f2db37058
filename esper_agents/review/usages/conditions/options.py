"""Conditions about the options of a call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted
from esper_agents.review.usages.registry import ConditionResult, condition

if TYPE_CHECKING:
    from esper_agents.review.tables import Call
    from esper_agents.review.usages.registry import UsageContext

_UNKNOWN = "?"


def written_value(context: UsageContext, value: ast.expr | None, default: str, call: Call | None) -> str:
    """Return the source text of the value that an option surely has; `?` if it is not known."""
    if value is None:
        return _UNKNOWN if call is not None and call.has_splat() else default
    origins = context.index.origins(value, context.site.function, context.site.line)
    texts = {_text(origin.value) for origin in origins}
    return texts.pop() if len(texts) == 1 else _UNKNOWN


def _text(value: ast.expr) -> str:
    if isinstance(value, ast.Constant) or (isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant)):
        return ast.unparse(value)
    # A qualified name, such as `torch.bfloat16`, is a value as well.
    path = dotted(value)
    return path if path.startswith("torch.") else _UNKNOWN


def _of_site(context: UsageContext) -> str:
    return written_value(context, context.site.option, context.entry.sites.default, context.site.call)


@condition
def option_is(context: UsageContext, *values: str) -> ConditionResult:
    """Whether the option in question has one of these values."""
    written = _of_site(context)
    return ConditionResult(None if written == _UNKNOWN else written in values, {"value": written})


@condition
def option_is_path(context: UsageContext, *paths: str) -> ConditionResult:
    """Whether the option in question is written as one of these paths, such as `self.training`."""
    option = context.site.option
    return ConditionResult(option is not None and dotted(option) in paths)


@condition
def option_given(context: UsageContext) -> ConditionResult:
    """Whether the option in question is given."""
    is_hidden = context.site.option is None and context.site.call is not None and context.site.call.has_splat()
    return ConditionResult(None if is_hidden else context.site.option is not None)


@condition
def option_above(context: UsageContext, number: str) -> ConditionResult:
    """Whether the option in question is a number above another."""
    return _above(_of_site(context), number)


@condition
def other_option_is(context: UsageContext, name: str, position: str, default: str, *values: str) -> ConditionResult:
    """Whether another option of the call, with its position and default, has one of these values."""
    written = _other(context, name, position, default)
    return ConditionResult(None if written == _UNKNOWN else written in values, {name: written})


@condition
def other_option_above(context: UsageContext, name: str, position: str, default: str, number: str) -> ConditionResult:
    """Whether another option of the call, with its position and default, is a number above another."""
    return _above(_other(context, name, position, default), number, name)


@condition
def other_option_given(context: UsageContext, name: str, position: str) -> ConditionResult:
    """Whether another option of the call is given."""
    call = context.site.call
    if call is None or call.has_splat():
        return ConditionResult(None)
    given = call.argument(int(position), name)
    if isinstance(given, ast.Constant) and given.value is None:
        given = None
    return ConditionResult(
        given is not None, {name: ast.unparse(given).replace("`", "'")[:40] if given is not None else ""}
    )


def _other(context: UsageContext, name: str, position: str, default: str) -> str:
    call = context.site.call
    return written_value(context, call.argument(int(position), name), default, call) if call is not None else _UNKNOWN


def _above(written: str, number: str, name: str = "value") -> ConditionResult:
    try:
        return ConditionResult(float(written) > float(number), {name: written})
    except ValueError:
        return ConditionResult(None)


@condition
def call_is(context: UsageContext, *names: str) -> ConditionResult:
    """Whether the last name of what is called is one of these."""
    return ConditionResult(context.site.call is not None and context.site.call.tail in names)


@condition
def has_no_arguments(context: UsageContext) -> ConditionResult:
    """Whether a call has no arguments."""
    call = context.site.call
    return ConditionResult(call is not None and not call.node.args and not call.node.keywords)


@condition
def call_on_torch(context: UsageContext) -> ConditionResult:
    """Whether the call is a function of torch, whose first argument is the tensor: `torch.squeeze(x)`."""
    call = context.site.call
    return ConditionResult(call is not None and call.receiver in {"torch", "F"})


@condition
def autocast_dtype(context: UsageContext, dtype: str) -> ConditionResult:
    """Whether all uses of `autocast` in the project have this type; the default of `cuda` is float16."""
    found = []
    for path, file in sorted(context.index.files.items()):
        for call in file.calls_ending("autocast"):
            given = call.argument(1, "dtype") if call.name.endswith(("torch.autocast", "amp.autocast")) else None
            keyword = call.argument(-1, "dtype")
            value = keyword or given
            is_cuda = "cuda" in ast.unparse(call.node)
            written = dotted(value) if value is not None else ("torch.float16" if is_cuda else _UNKNOWN)
            found.append((written, f"{path}:{call.line}"))
    kinds = {written for written, _ in found}
    if len(kinds) != 1 or not next(iter(kinds)).startswith("torch."):
        return ConditionResult(None)
    return ConditionResult(kinds == {dtype}, {"autocast_at": found[0][1]})
