"""ESP256: a training runs the module inside DDP, past the wrapper that averages gradients."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.models import gradients_off_around
from esper_agents.review.names import dotted, root_of
from esper_agents.review.ranks import is_for_one_process, leaves_it_to_engine, wraps
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.shared_graphs import forwards_of
from esper_agents.review.training import innermost_training_loops

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_MODULE = ".module"


class WrapperBypassed(Rule):
    """A loss of `model.module(x)`, where `model` is wrapped in `DistributedDataParallel`.

    ## Why it costs
    DDP prepares the averaging of gradients in its own `forward`. A loss that comes from the inner module alone leaves
    every rank with the gradients of its own batch: the weights of the ranks drift apart, and each trains a model of
    its own on a part of the data. Nothing raises.

    ## When it is right
    `model.module` in evaluation, for attributes and for saving. Reported only if the loss that is sent backward comes
    from the inner module and from no call of the wrapper.

    ## Sources
    PyTorch notes, "Distributed Data Parallel", section "Internal Design": `forward` prepares the reducer.
    """

    code, name = "ESP256", "wrapper-bypassed"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.nn.parallel import DistributedDataParallel\n"
        "\n"
        "\n"
        "def main(rank, model, loader, optimizer):\n"
        "    model = DistributedDataParallel(model.to(rank), device_ids=[rank])\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        loss = model.module(x, y)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
    )
    good = bad.replace("model.module(x, y)", "model(x, y)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the calls of inner modules that a loss comes from."""
        if not wraps(index) or leaves_it_to_engine(file):
            return
        for loop, sent in innermost_training_loops(file).items():
            for one in sent:
                found = list(forwards_of(one, loop).values())
                for call in found:
                    wrapper = _wrapper(call)
                    if not wrapper or any(each.path in {wrapper, f"{wrapper}.forward"} for each in found):
                        continue
                    wrap = _wrap(call, wrapper, index)
                    if wrap is None or gradients_off_around(call.block, index) or is_for_one_process(call):
                        continue
                    is_here = wrap.function is call.function
                    yield self.hit(
                        call.node,
                        f"this runs the module inside DDP (line {wrap.line}) past the wrapper: the gradients of the "
                        "ranks are not averaged",
                        remedy=f"call `{wrapper}(...)`, and move what this computes into its `forward`",
                        confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                        basis=SEEN if is_here else FOLLOWED,
                    )
                    break


def _wrapper(call: Call) -> str:
    """Return the wrapper whose inner module a call runs; empty if it runs none."""
    head, _, rest = f"{call.path}.".partition(f"{_MODULE}.")
    is_run = head != f"{call.path}." and "(" not in head and "[" not in head
    is_method = rest.rstrip(".") not in {"state_dict", "parameters", "named_parameters", "train", "eval", "zero_grad"}
    return head if is_run and is_method and root_of(head) else ""


def _wrap(call: Call, wrapper: str, index: ProjectIndex) -> Call | None:
    """Return what surely wraps a model in DDP."""
    held = call.node.func
    while isinstance(held, ast.Attribute) and dotted(held) != wrapper:
        held = held.value
    known = {
        each.node: each for each in wraps(index) if each.tail == "DistributedDataParallel" or "Distributed" in each.name
    }
    found = [
        known.get(each.value)
        for each in index.origins(held, call.function, call.line)
        if isinstance(each.value, ast.Call)
    ]
    return found[0] if found and None not in found else None
