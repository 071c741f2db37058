"""ESP267: labels that the caller has shifted are given to a language model that shifts them itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import argument_for
from esper_agents.review.keyed_items import items_by_key
from esper_agents.review.names import dotted, walk
from esper_agents.review.objects import resolve, wrapped
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_CAUSAL = pattern(r"transformers\.(?:\w+\.)*\w*(?:CausalLM|LMHeadModel)(?:\.\w+)?")

# Calls that make a tensor of the ids they are given.
_MAKERS = frozenset({"torch.tensor", "torch.as_tensor", "torch.LongTensor", "torch.from_numpy"})


class LabelsShiftedTwice(Rule):
    """Shifted labels for a causal language model of transformers.

    ## Why it costs
    The model itself compares the scores of position t with the label of position t + 1. With labels that the caller has
    shifted by one it learns to predict the token after the next. The loss stays high, and nothing raises.

    ## When it is right
    Models that do not shift: encoder-decoder models, and losses that the caller computes from `logits`.

    ## Sources
    transformers documentation of `GPT2LMHeadModel.forward` (`labels`): "the labels are shifted inside the model".
    """

    code, name = "ESP267", "labels-shifted-twice"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from transformers import AutoModelForCausalLM\n"
        "\n"
        'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
        "\n"
        "\n"
        "def loss(ids):\n"
        "    return model(input_ids=ids[:, :-1], labels=ids[:, 1:]).loss\n"
    )
    good = bad.replace("input_ids=ids[:, :-1], labels=ids[:, 1:]", "input_ids=ids, labels=ids")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the calls of causal language models with shifted labels, and own models that shift them again."""
        yield from self._in_own_model(file, index)
        for call in file.calls if "labels" in file.text or "**" in file.text else ():
            labels = next((each.value for each in call.node.keywords if each.arg == "labels"), None)
            is_spread = labels is None and any(each.arg is None for each in call.node.keywords)
            if "(" in call.path or (labels is None and not is_spread):
                continue
            is_of_batch = _is_of_batch(labels, call, index)
            if not is_of_batch and (labels is None or not _is_shifted_here(labels, call, index)):
                continue
            origins = index.origins(call.node.func, call.function, call.line)
            is_known = any(_is_causal(each) for each in origins)
            is_pair = is_of_batch or _is_pair(call, index)
            if is_known or (call.path in call.function.parameters and _is_imported(index) and is_pair):
                is_sure = is_known and not is_of_batch
                yield self.hit(
                    labels or call.node,
                    "these labels are shifted, and the model shifts them again: it learns the token after the next",
                    remedy="pass the same ids as `input_ids` and as `labels`",
                    confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
                    basis=SEEN if is_sure else _why(is_known=is_known),
                )

    def _in_own_model(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the shift of labels in a model of the project that is given shifted ones."""
        for function in file.functions:
            for path, node in _shifts(function):
                calls = [(call, argument_for(call, function, path)) for call in index.callers(function)]
                given = [(call, value) for call, value in calls if value is not None and not _is_nothing(value)]
                if given and all(
                    _is_of_batch(each, call, index) or _is_shifted_here(each, call, index) for call, each in given
                ):
                    place = f"{given[0][0].function.file.path}:{given[0][0].line}"
                    yield self.hit(
                        node,
                        f"this shifts {path!r}, which is shifted already where it comes from ({place}): the model "
                        "learns the token after the next",
                        remedy="shift in one place: compare all scores with the labels as they are given",
                        confidence=Confidence.MODERATE,
                        basis=FOLLOWED,
                    )


def _shifts(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters that a function shifts by one against scores, each with the expression."""
    if not any(call.tail in {"cross_entropy", "nll_loss"} for call in function.calls):
        return
    parts = [node for node in walk(function.node) if isinstance(node, ast.Subscript)]
    if not any(_lacks_last(each) and dotted(each.value) not in function.parameters for each in parts):
        return
    for each in parts:
        if _cut(each) == "start" and dotted(each.value) in function.parameters:
            yield dotted(each.value), each


def _lacks_last(part: ast.Subscript) -> bool:
    """Return whether a part of scores lacks the last position along some axis: `logits[:, :-1]`, `x[..., :-1, :]`."""
    axes = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
    return any(isinstance(each, ast.Slice) and each.lower is None and _is_minus_one(each.upper) for each in axes)


def _is_minus_one(value: ast.expr | None) -> bool:
    return isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant) and value.operand.value == 1


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _why(*, is_known: bool) -> str:
    if is_known:
        return f"{INFERRED}: that the batch is what the data set of the project returns"
    return f"{INFERRED}: that the model is the causal one that the project imports"


def _is_shifted_here(labels: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether labels are ids from their second position on."""
    for origin in index.origins(labels, call.function, call.line):
        match _plain(origin.value):
            case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Slice(lower=ast.Constant(value=1), upper=None)])):
                return True
            case _:
                pass
    return False


def _is_of_batch(labels: ast.expr | None, call: Call, index: ProjectIndex) -> bool:
    """Return whether labels are a part of a batch whose samples are ids and the same ids shifted."""
    if labels is not None:
        labels = _plain(labels)
    if isinstance(labels, ast.Name):
        drawn = [each.targets for each in call.block.loops() if labels.id in each.targets[1:]]
        return any(each[-1] == labels.id for each in drawn) and _are_samples_shifted(index)
    is_item = isinstance(labels, ast.Subscript) and isinstance(labels.slice, ast.Constant)
    if labels is not None and not is_item:
        return False
    key = str(labels.slice.value) if isinstance(labels, ast.Subscript) and is_item else "labels"  # type: ignore[attr-defined]
    ids = call.argument(0, "input_ids")
    ids = _plain(ids) if ids is not None else None
    if labels is not None and not isinstance(ids, ast.Subscript):
        return False
    items = items_by_key(index)
    other = str(getattr(ids.slice, "value", "")) if isinstance(ids, ast.Subscript) else "input_ids"
    given, shifted = items.get(other, ()), items.get(key, ())
    return (
        bool(given and shifted)
        and all(_cut(each.value) == "end" for each in given)
        and all(_cut(each.value) == "start" for each in shifted)
    )


def _are_samples_shifted(index: ProjectIndex) -> bool:
    """Return whether all data sets of the project return ids without the last, and ids without the first."""

    def look() -> bool:
        functions = [each for file in index.files.values() for each in file.functions if each.name == "__getitem__"]
        values = [statement.value for each in functions for statement, _ in each.returns]
        return bool(values) and all(
            isinstance(each, ast.Tuple) and [_cut(part) for part in each.elts] == ["end", "start"] for each in values
        )

    return index.once("samples are ids and shifted ids", look)


def _cut(value: ast.expr) -> str:
    """Return at which end ids are one shorter than the rest: `start` for `ids[1:]`, `end` for `ids[:-1]`."""
    match _plain(value):
        case ast.Subscript(
            slice=ast.Slice(lower=ast.Constant(value=1), upper=None)
            | ast.Tuple(elts=[*_, ast.Slice(lower=ast.Constant(value=1), upper=None)])
        ):
            return "start"
        case ast.Subscript(
            slice=ast.Slice(lower=None, upper=ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=1)))
            | ast.Tuple(elts=[*_, ast.Slice(lower=None, upper=ast.UnaryOp(op=ast.USub()))])
        ):
            return "end"
        case _:
            return ""


def _plain(node: ast.expr) -> ast.expr:
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"contiguous", "clone", "to", "cuda", "long"}
    ):
        node = node.func.value
    is_made = isinstance(node, ast.Call) and dotted(node.func) in _MAKERS and len(node.args) > 0
    return node.args[0] if is_made and isinstance(node, ast.Call) else node


def _is_pair(call: Call, index: ProjectIndex) -> bool:
    """Return whether the inputs lack their last position, as those of shifted labels do."""
    given = call.argument(0, "input_ids")
    for origin in index.origins(given, call.function, call.line) if given is not None else ():
        match _plain(origin.value):
            case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Slice(lower=None, upper=ast.UnaryOp())])):
                return True
            case _:
                pass
    return False


def _is_causal(origin: Origin) -> bool:
    value = origin.value
    while (inner := wrapped(value)) is not None:
        value = inner
    return isinstance(value, ast.Call) and _CAUSAL.fullmatch(resolve(dotted(value.func), origin.function)) is not None


def _is_imported(index: ProjectIndex) -> bool:
    """Return whether the project makes causal language models and no other of transformers."""

    def look() -> bool:
        names = [name for file in index.files.values() for name in file.imports.values() if "transformers." in name]
        others = [name for name in names if "Seq2Seq" in name or "ConditionalGeneration" in name or "MaskedLM" in name]
        return any(_CAUSAL.fullmatch(name) for name in names) and not others

    return index.once("imports causal language models", look)
