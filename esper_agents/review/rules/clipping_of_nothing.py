"""ESP217: gradients are clipped when there are none to use: before the backward, or after the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.rule import SEEN, Rule
from esper_agents.review.training import backward_calls, clears_gradients, is_backward, may_send_backward, steps

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_CLIPPING = frozenset({"clip_grad_norm_", "clip_grad_value_"})


class ClippingOfNothing(Rule):
    """Gradient clipping that stands before the backward which makes the gradients, or after the step which uses them.

    ## Why it costs
    Before the backward the gradients are None, zero or those of the last step; after the step they have been used.
    Either way nothing is clipped that counts: a loss that explodes does so as if the line were not there.

    ## When it is right
    Clipping stands between `loss.backward()` and `optimizer.step()`. It is not reported where some way leads from a
    backward to it, where a step of another optimizer follows, or where a helper may send the loss backward. With a
    gradient scaler, ESP503 looks at the order.

    ## Sources
    PyTorch documentation of `torch.nn.utils.clip_grad_norm_`, which modifies gradients in place, and of
    `torch.optim.Optimizer.step`.
    """

    code, name = "ESP217", "clipping-of-nothing"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "from torch.nn.utils import clip_grad_norm_\n"
        "\n"
        "for x, y in loader:\n"
        "    optimizer.zero_grad()\n"
        "    loss = criterion(model(x), y)\n"
        "    clip_grad_norm_(model.parameters(), 1.0)\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    good = bad.replace("    clip_grad_norm_(model.parameters(), 1.0)\n", "").replace(
        "    optimizer.step()\n", "    clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the clippings that no gradients reach, and that no step follows."""
        for function in dict.fromkeys(call.function for call in backward_calls(file)):
            clippings = [call for call in function.calls if call.tail in _CLIPPING]
            if not clippings:
                continue
            made = [call for call in function.calls if is_backward(call) or may_send_backward(call, index)]
            stepping = [step.call for step in steps(function, index) if step.call is not None]
            clears = [call for call in function.calls if clears_gradients(call)]
            if any("scaler" in call.receiver for call in stepping):
                continue
            for call in clippings:
                before = index.flow(function).last_before(call, [*made, *stepping, *clears])
                after = index.flow(function).first_after(call, [*made, *stepping])
                is_used = before.is_open or any(event in made for event in before.events)
                if before.events and not is_used and not any(event in stepping for event in after.events):
                    yield self._found(call, stepping, before.events)

    def _found(self, call: Call, stepping: list[Call], before: tuple[object, ...]) -> RuleMatch:
        is_late = any(each in stepping for each in before)
        where = "after the step that uses them" if is_late else "before the backward that makes them"
        return self.hit(
            call.node,
            f"gradients are clipped {where}, which changes nothing",
            remedy="clip between `loss.backward()` and `optimizer.step()`",
            basis=SEEN,
        )
