"""ESP505: activation checkpointing that does not say which variant it wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted
from esper_agents.review.rule import FileRule, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_NAMES = ("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
_PLACE = 3
_SAID = frozenset({"use_reentrant", None})


class CheckpointVariantUnsaid(FileRule):
    """A call of `torch.utils.checkpoint` without `use_reentrant`.

    ## Why it costs
    torch warns, and takes the old variant: it loses gradients where no input requires one, cannot be combined with
    `torch.autograd.grad`, and takes no keyword arguments. Later versions refuse the call.

    ## When it is right
    Arguments come in a `**` that may hold it: not reported.

    ## Sources
    PyTorch documentation of `torch.utils.checkpoint`: the parameter `use_reentrant`, to be passed explicitly.
    """

    code, name = "ESP505", "checkpoint-variant-unsaid"
    severity, category = Severity.WARNING, Category.COMPILE
    bad = "from torch.utils.checkpoint import checkpoint\n\ny = checkpoint(block, x)\n"
    good = "from torch.utils.checkpoint import checkpoint\n\ny = checkpoint(block, x, use_reentrant=False)\n"

    def look(self, file: FileTables) -> Iterator[RuleMatch]:
        """Yield the calls that leave the variant open."""
        for call in file.calls_to(*_NAMES):
            if _is_open(call):
                yield self.hit(
                    call.node,
                    f"`{call.tail}` does not say which variant it wants, and gets the old one with a warning",
                    remedy="write `use_reentrant=False`",
                )

        for call in file.calls_to("functools.partial"):
            if _is_bound_open(call):
                yield self.hit(
                    call.node,
                    "`checkpoint` is bound without saying which variant it wants, and gets the old one with a warning",
                    remedy="write `use_reentrant=False`",
                    confidence=Confidence.MODERATE,
                )

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - whatever it says
        """Return the call with the variant that torch recommends."""
        is_open = (call.name in _NAMES and _is_open(call)) or (
            call.name == "functools.partial" and _is_bound_open(call)
        )
        return Rewrite(arguments={"use_reentrant": "False"}) if is_open else None


def _is_open(call: Call) -> bool:
    said = {keyword.arg for keyword in call.node.keywords}
    return bool(call.node.args) and not said & _SAID and not _is_said_in_place(call)


def _is_bound_open(call: Call) -> bool:
    """Return whether a `functools.partial` binds `checkpoint` and leaves the variant open."""
    first = call.argument(0)
    said = {keyword.arg for keyword in call.node.keywords}
    return first is not None and resolve(dotted(first), call.function) == _NAMES[0] and not said & _SAID


def _is_said_in_place(call: Call) -> bool:
    """Return whether `use_reentrant` stands in its place, as only `checkpoint_sequential` has one for it."""
    return call.tail == "checkpoint_sequential" and call.argument(_PLACE) is not None
