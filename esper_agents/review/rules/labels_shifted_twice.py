"""ESP267: labels that the caller has shifted are given to a language model that shifts them itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_CAUSAL = pattern(r"transformers\.(?:\w+\.)*\w*(?:CausalLM|LMHeadModel)(?:\.\w+)?")


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
        """Yield the calls of causal language models with shifted labels."""
        for call in file.calls if "labels=" in file.text else ():
            labels = next((each.value for each in call.node.keywords if each.arg == "labels"), None)
            if labels is None or "(" in call.path:
                continue
            shifted = [each for each in index.origins(labels, call.function, call.line) if _is_shifted(each)]
            if not shifted:
                continue
            origins = index.origins(call.node.func, call.function, call.line)
            is_known = any(_is_causal(each) for each in origins)
            if is_known or (call.path in call.function.parameters and _is_imported(index) and _is_pair(call, index)):
                yield self.hit(
                    labels,
                    "these labels are shifted, and the model shifts them again: it learns the token after the next",
                    remedy="pass the same ids as `input_ids` and as `labels`",
                    confidence=Confidence.HIGH if is_known else Confidence.MODERATE,
                    basis=SEEN
                    if is_known
                    else f"{INFERRED}: that the model is the causal one that the project imports",
                )


def _is_shifted(origin: Origin) -> bool:
    match _plain(origin.value):
        case ast.Subscript(slice=ast.Tuple(elts=[*_, ast.Slice(lower=ast.Constant(value=1), upper=None)])):
            return True
        case _:
            return False


def _plain(node: ast.expr) -> ast.expr:
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"contiguous", "clone", "to"}
    ):
        node = node.func.value
    return node


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
    return isinstance(value, ast.Call) and _CAUSAL.fullmatch(resolve(dotted(value.func), origin.function)) is not None


def _is_imported(index: ProjectIndex) -> bool:
    """Return whether the project makes causal language models and no other of transformers."""

    def look() -> bool:
        names = [name for file in index.files.values() for name in file.imports.values() if "transformers." in name]
        others = [name for name in names if "Seq2Seq" in name or "ConditionalGeneration" in name or "MaskedLM" in name]
        return any(_CAUSAL.fullmatch(name) for name in names) and not others

    return index.once("imports causal language models", look)
