"""Changes of a plan that an exception suggests, the most promising first."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from . import tensor_changes, value_changes
from .guesses import BATCH, by_name
from .plan import CallPlan, Expression

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plan import Argument


def repairs(plan: CallPlan, error: BaseException, blamed: str, line: str = "") -> Iterator[CallPlan]:
    """Yield changed plans for an exception.

    Args:
        plan: The plan that failed.
        error: The exception.
        blamed: `make` if the constructor raised it, `call` if the call did.
        line: Source line of the target that raised it.
    """
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, AssertionError):
        text += f" {line}"
    for pattern, change in _RULES:
        if found := pattern.search(text):
            yield from change(plan, found, blamed)
    yield from _others(plan, blamed)


def _unpack(plan: CallPlan, found: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    yield from tensor_changes.of_rank(plan, int(found.group(1)))
    yield from value_changes.pairs(plan, found, blamed)


def _negative(plan: CallPlan, _: re.Match[str], blamed: str) -> Iterator[CallPlan]:
    yield from value_changes.divisible(plan, _, blamed)
    yield from tensor_changes.larger(plan, _, blamed)


def _others(plan: CallPlan, blamed: str) -> Iterator[CallPlan]:
    """Yield what is worth trying after any exception: other ranks, equal shapes, tokens, a text or a pair."""
    if blamed == "call":
        yield from tensor_changes.same_shape(plan)
        for rank in (4, 3, 2, 5, 1):
            yield from tensor_changes.of_rank(plan, rank)
        square = [tensor for tensor in plan.tensors() if tensor[2].shape and len(tensor[2].shape) > 1]
        for where, name, each in square:
            for width in (3, 4, 2, 6):
                yield plan.with_argument(where, name, each.sized(-1, width))
            yield plan.with_argument(where, name, replace(each, shape=(BATCH, 3, 3)))
            yield plan.with_argument(where, name, replace(each, shape=(BATCH, 4, 4)))
    for name, value in getattr(plan, blamed):
        if isinstance(value, Expression):
            for text in ("64", "4", "None", "(4, 4)", '"mean"', "0.5", "nn.Linear(64, 64)"):
                if text != value.text:
                    yield plan.with_argument(blamed, name, Expression(text))


def _compiled(
    *rules: tuple[str, Callable[[CallPlan, re.Match[str], str], Iterator[CallPlan]]],
) -> tuple[tuple[re.Pattern[str], Callable[[CallPlan, re.Match[str], str], Iterator[CallPlan]]], ...]:
    return tuple((re.compile(pattern, re.DOTALL), change) for pattern, change in rules)


_RULES = _compiled(
    (r"missing \d+ required (?:positional|keyword-only) arguments?:.*", value_changes.missing),
    (r"unexpected keyword argument '(\w+)'", value_changes.unexpected),
    (r"shapes cannot be multiplied \((\d+)x(\d+) and (\d+)x\d+\)", tensor_changes.matrix_product),
    (r"to have (\d+) channels, but got (\d+) channels", tensor_changes.channel_count),
    (r"[Ee]xpected (?:input )?(\d+)(?:-D)? channels?,? (?:but )?got (\d+)", tensor_changes.channel_count),
    (r"[Ee]xpected ((?:\dD[^.]*?(?:or )?)+) input", tensor_changes.rank),
    (r"[Ss]hape|[Dd]imension|expect", tensor_changes.symbolic_shape),
    (r"[Ee]xpected (\d)[- ]?D", tensor_changes.rank),
    (r"expected to have (\d) dim|expects? (?:a )?(\d)-?(?:d|dim)", tensor_changes.stated_rank),
    (r"(?i:\b(one|two|three|four|five)[- ]dimension)", tensor_changes.worded_rank),
    (
        r"(?:ndim|dim\(\)|len\(\w+\.(?:shape|size\(\))\)) == (\d)",
        lambda plan, found, _: tensor_changes.of_rank(plan, int(found.group(1))),
    ),
    (
        r"[Mm]ust be (?:a )?(\d)D|(?:rank|dim(?:ension)?s?) (?:of|==|must be) (\d)",
        lambda plan, found, _: tensor_changes.of_rank(plan, int(found.group(1) or found.group(2))),
    ),
    (
        r"expected (\d), got \d|expected (?:at least )?(\d+)\)",
        lambda plan, found, blamed: _unpack(
            plan, re.match(r"(\d+)", found.group(1) or found.group(2)) or found, blamed
        ),
    ),
    (r"shape of the mask \[(\d+).*?indexed tensor \[(\d+)", tensor_changes.equal_sizes),
    (r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)", tensor_changes.equal_sizes),
    (r"Expected size (\d+) but got size (\d+)", tensor_changes.equal_sizes),
    (r"Sizes of tensors must match.*?[Ee]xpected (?:size )?(\d+).*?got (?:size )?(\d+)", tensor_changes.equal_sizes),
    (r"input\.size\(-1\) must be equal to input_size\. Expected (\d+), got (\d+)", tensor_changes.equal_sizes),
    (r"normalized_shape=\[(\d+)\]", tensor_changes.last_size),
    (r"last dim(?:ension)?\D{0,40}(\d+)", tensor_changes.last_size),
    (
        r"running_mean should contain (\d+) elements not (\d+)",
        lambda plan, found, blamed: tensor_changes.channel_count(
            plan, re.match(r"(\d+) (\d+)", f"{found.group(2)} {found.group(1)}") or found, blamed
        ),
    ),
    (
        (
            r"(?:type|types): Long|'indices' to have|used as ind|expected scalar type (?:Long|Int)|"
            r"must be (?:long|int)|one_hot is only|[Ee]xpected dtype int"
        ),
        tensor_changes.integers,
    ),
    (
        (
            r"expected scalar type (?:Float|Half|Double)|must be (?:a )?float|floating point dtype|"
            r"bool tensor is not supported|not implemented for 'Long'|Found dtype Long"
        ),
        tensor_changes.floats,
    ),
    (r"type:? Bool|expected.*[Bb]ool|must be bool", tensor_changes.booleans),
    (
        (
            r"IndexError: (?:index|Target).*(?:out of range|out of bounds)|"
            r"out of range in self|[Ii]ndices .{0,60}larger than"
        ),
        tensor_changes.smaller_integers,
    ),
    (
        r"Detected the following values|(?:values|labels|target\w*)`? .{0,40}(?:0 (?:and|or) 1|\[0, ?1\]|binary)",
        tensor_changes.smaller_integers,
    ),
    (r"same (?:data type|dtype)", tensor_changes.floats),
    (
        r"number of (?:labels|classes)\D{0,60}got (\d+) and expected (\d+)|labels but got (\d+) and expected (\d+)",
        tensor_changes.label_count,
    ),
    (r"got (\d+) and (\d+)", tensor_changes.equal_sizes),
    (r"same (?:shape|size|length|dimension)", lambda plan, _found, _stage: tensor_changes.same_shape(plan)),
    (r"same shape.*?\[([\d, ]+)\].*?\[([\d, ]+)\]", tensor_changes.equal_shapes),
    (r"non-negative|must be positive|greater than (?:or equal to )?(?:0|zero)", tensor_changes.unit_interval),
    (r"^KeyError: '([a-z_]\w*)'", value_changes.missing_key),
    (r"invalid combination of arguments - got \((?:int|float|str)", value_changes.tensor_wanted),
    (r"ambiguous|invalid combination of arguments", value_changes.number_wanted),
    (r"between 0 and 1|in the range|\[0, ?1\]", tensor_changes.unit_interval),
    (
        (
            r"[Kk]ernel size can't be greater|(?i:output) size is too small|too small|non-empty|"
            r"Padding size should be less"
        ),
        tensor_changes.larger,
    ),
    (r"divisible by num_groups, but got input of shape \[(\d+), (\d+).*?num_groups=(\d+)", tensor_changes.groups),
    (r"divisible|multiple of|must divide", value_changes.divisible),
    (r"negative dimension|Trying to create tensor with negative", _negative),
    (
        (
            r"'int' object is not (?:subscriptable|iterable)|object of type 'int' has no len|"
            r"'float' object is not (?:subscriptable|iterable)"
        ),
        value_changes.pairs,
    ),
    (r"(?:'tuple'|'list') (?:and|object)|must be int|must be an integer", value_changes.single),
    (
        r"tuple of ints,? ?but got float|'float' object cannot be interpreted|must be int.{0,20}not float",
        value_changes.whole,
    ),
    (r"elements cannot be converted to Scalar|only one element tensors", tensor_changes.scalar),
    (r"square matri|must be square|be square matrices", tensor_changes.square),
    (r"(?:must|should) (?:be|equal)(?: equal to| exactly)? (\d+)\b", value_changes.stated),
    (r"has no attribute '(?:log_prob|rsample|stddev|variance|entropy|cdf|icdf)'", value_changes.distribution),
    (
        r"has no attribute '(?:items|keys|values|get|update)'|argument of type '(?:int|float)' is not iter",
        value_changes.mapping,
    ),
    (r"'(?:int|float|str|bool|NoneType)' object has no attribute", value_changes.tensor_wanted),
    (r"unknown to einops|'(?:int|float)' object is not subscriptable", value_changes.tensor_wanted),
    (r"'(?:int|float|str|bool|NoneType)' object has no attribute", value_changes.module_wanted),
    (
        r"is not a Module subclass|not callable|has no attribute '(?:parameters|forward|weight|children|modules)'",
        value_changes.module_wanted,
    ),
    (
        (
            r"'(?:int|str|float|NoneType|bool)' object has no attribute '(?:shape|size|dim|device|dtype|view|"
            r"unsqueeze|to|ndim|reshape|float|clone|new_zeros|permute)'|must be (?:a )?Tensor|"
            r"[Tt]ensor.*(?:but )?(?i:got)|not (?:a )?.{0,12}Tensor"
        ),
        value_changes.tensor_wanted,
    ),
    (
        (
            r"unsupported operand|must be real number|only integer tensors|"
            r"cannot be interpreted as an integer|must be (?:a )?number"
        ),
        value_changes.number_wanted,
    ),
    (r"(?:KeyError|ValueError|AssertionError|NotImplementedError|RuntimeError).*", value_changes.options),
)


def named_setting(error: BaseException) -> str:
    """Return the attribute that a configuration object lacks; empty for another exception."""
    found = re.search(r"'Settings' object has no attribute '(\w+)'", str(error))
    return found.group(1) if found else ""


def setting(name: str) -> Argument:
    """Return the guess for an attribute of a configuration object."""
    return by_name(name)
