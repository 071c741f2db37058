"""ESP285: labels are padded with the number of a class, and the loss ignores another number."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import walk
from esper_agents.review.rule import INFERRED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_PAD = "torch.nn.utils.rnn.pad_sequence"
_LAYERS = ("torch.nn.CrossEntropyLoss", "torch.nn.NLLLoss")
_FUNCTIONS = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_MASKING = frozenset({"masked_fill", "masked_fill_", "where", "masked_select", "pack_padded_sequence"})


class PaddedLabelsCounted(Rule):
    """`pad_sequence(labels)` pads with 0, and the loss has another `ignore_index`.

    ## Why it costs
    The padded positions count as class 0. The model is rewarded for class 0 wherever a sequence has ended, and the loss
    of short sequences is mostly padding.

    ## When it is right
    A loss that is masked, labels that are set to `ignore_index` later, and `ignore_index=0` where 0 is no class.

    ## Sources
    PyTorch documentation of `torch.nn.utils.rnn.pad_sequence` (`padding_value`) and `CrossEntropyLoss`
    (`ignore_index`).
    """

    code, name = "ESP285", "padded-labels-counted"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "from torch.nn.utils.rnn import pad_sequence\n"
        "\n"
        "\n"
        "def collate(batch):\n"
        "    ids, tags = zip(*batch)\n"
        "    return pad_sequence(ids), pad_sequence(tags)\n"
        "\n"
        "\n"
        "def train(model, loader, optimizer):\n"
        "    loss = nn.CrossEntropyLoss(ignore_index=-100)\n"
        "    for ids, tags in loader:\n"
        "        optimizer.zero_grad()\n"
        "        loss(model(ids).flatten(0, 1), tags.flatten()).backward()\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("pad_sequence(tags)", "pad_sequence(tags, padding_value=-100)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the losses that count padding."""
        for made in file.calls_to(*_LAYERS, *_FUNCTIONS):
            ignored = _number(_keyword(made.node, "ignore_index"), made.function, made.line, index)
            padded = _padded(index) if ignored is not None else None
            if padded is None or ignored is None or padded[1] == ignored:
                continue
            count, value, where = padded
            for used in _uses(made):
                target = used.argument(1, "target")
                loop = _loop_of(target, used, count) if target is not None else None
                if loop is not None and not _is_masked(used):
                    yield self.hit(
                        made.node,
                        f"labels are padded with {value:g} ({where}), and this ignores {ignored:g}: padding counts",
                        remedy=f"pad the labels with `padding_value={ignored:g}`",
                        confidence=Confidence.MODERATE,
                        basis=f"{INFERRED}: that the loader uses the only padding function of the project",
                    )
                    break


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((each.value for each in call.keywords if each.arg == name), None)


def _number(node: ast.expr | None, function: Function, line: int, index: ProjectIndex) -> float | None:
    """Return the number that a value is on all ways."""
    origins = index.origins(node, function, line) if node is not None else ()
    found = set[float]()
    for each in origins:
        try:
            value = ast.literal_eval(each.value)
        except ValueError:
            return None
        if not isinstance(value, int | float):
            return None
        found.add(float(value))
    return found.pop() if len(found) == 1 else None


def _padded(index: ProjectIndex) -> tuple[int, float, str] | None:
    """Return how many parts the padded batches of a project have, what the last is padded with, and where."""

    def look() -> tuple[int, float, str] | None:
        found = [each for file in index.files.values() for each in file.calls_to(_PAD)]
        last = [each for each in found if _place(each) is not None]
        if not last or len({each.function for each in found}) != 1:
            return None
        call = max(last, key=lambda each: _place(each) or (0, 0))
        at, count = _place(call) or (0, 0)
        given = call.argument(2, "padding_value")
        value = 0.0 if given is None else _number(given, call.function, call.line, index)
        if at != count - 1 or count < 2 or value is None or value < 0:  # noqa: PLR2004 - inputs and labels
            return None
        return count, value, f"{call.function.file.path}:{call.line}"

    return index.once("how labels are padded", look)


def _place(call: Call) -> tuple[int, int] | None:
    """Return which of how many returned parts a call makes."""
    for statement, _ in call.function.returns:
        parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else []
        for at, part in enumerate(parts):
            made = part
            if isinstance(part, ast.Name):
                found = call.function.last_assignment(part.id, statement.lineno)
                made = found.value if found is not None else part
            if made is call.node:
                return at, len(parts)
    return None


def _uses(made: Call) -> Iterator[Call]:
    """Yield the calls of a loss that was made, in its file."""
    if made.name in _FUNCTIONS:
        yield made
        return
    file = made.function.file
    names = {
        path
        for function in file.functions
        for path, known in function.assignments.items()
        for each in known
        if each.value is made.node
    }
    for call in file.calls:
        is_reachable = call.path.startswith("self.") or made.function in {call.function, file.functions[0]}
        if call.path in names and is_reachable:
            yield call


def _loop_of(target: ast.expr, used: Call, count: int) -> Block | None:
    """Return the loop that draws a target as the last part of its batches."""
    names = {each.id for each in walk(target) if isinstance(each, ast.Name)}
    for loop in used.block.loops():
        if len(loop.targets) >= count and loop.targets[-1] in names:
            return loop
    return None


def _is_masked(used: Call) -> bool:
    """Return whether the function changes targets, or masks a loss."""
    function = used.function
    if any(call.tail in _MASKING for call in function.calls) or _keyword(used.node, "reduction") is not None:
        return True
    target = used.argument(1, "target")
    names = {each.id for each in walk(target) if isinstance(each, ast.Name)} if target is not None else set()
    if any(f"{name}[]" in function.assignments for name in names):
        return True
    parts = list(walk(target)) if target is not None else []
    return any(isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Name | ast.Compare) for each in parts)
