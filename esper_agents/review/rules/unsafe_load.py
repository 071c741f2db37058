"""ESP901: a checkpoint is unpickled, so whoever wrote it may run code here."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.blocks import BlockKind
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.pickles import PICKLES, reads_a_model
from esper_agents.review.rule import INFERRED, SEEN, Rewrite, Rule
from esper_agents.review.symbols import is_for_some_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.domain.finding import Diagnostic
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables
    from esper_agents.review.versions import TorchRange

_FROM_URL = ("torch.hub.load_state_dict_from_url", "torch.utils.model_zoo.load_url")


class UnsafeLoad(Rule):
    """A checkpoint that is unpickled: by `weights_only=False`, by `pickle.load`, or as the installed torch chooses.

    ## Why it costs
    Without `weights_only` a checkpoint is a pickle, and a pickle runs whatever code its author put into it. Since torch
    2.6 the default is safe; on older versions the same line runs code.

    ## When it is right
    The file was written by the same program on the same machine, or its digest is checked first. With torch 2.6 or
    later a plain `torch.load(path)` is safe: where the project's settings require that, it is not reported; where they
    allow no newer one it is a warning, and otherwise a suggestion.

    ## Sources
    PyTorch documentation of `torch.load`, its warning; PyTorch 2.6 release notes on the default of `weights_only`.
    """

    code, name = "ESP901", "unsafe-load"
    severity, category = Severity.WARNING, Category.SECURITY
    bad = 'import torch\n\nstate = torch.load("model.pt", weights_only=False)\n'
    good = 'import torch\n\nstate = torch.load("model.pt", weights_only=True)\n'

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loads that may run code."""
        yield from self._fetched(file)
        yield from self._unpickled(file)
        loads = [
            each
            for each in file.calls_to("torch.load", "torch.serialization.load")
            if not _is_for_old_versions(each) and not _reads_own_bytes(each)
        ]
        asked = index.torch_asked_by(file) if loads else None
        for call in loads:
            said = _said_of_weights(call)
            if isinstance(said, ast.Constant) and said.value is False:
                yield self.hit(
                    call.node,
                    "this load runs whatever code the file holds",
                    remedy="write `weights_only=True`, and allow what else is needed by `add_safe_globals`",
                )
            elif said is None and _names_a_pickle_module(call):
                yield self.hit(
                    call.node,
                    "this load runs whatever code the file holds: `pickle_module` turns `weights_only` off by default",
                    remedy="write `weights_only=True`, and leave out `pickle_module`",
                )
            elif (said is None or (isinstance(said, ast.Constant) and said.value is None)) and not call.has_splat():
                yield from self._left_open(call, asked)

    def _left_open(self, call: Call, asked: TorchRange | None) -> Iterator[RuleMatch]:
        """Yield a load that leaves it to the installed torch, where that may be one before 2.6."""
        if (asked is not None and asked.starts_at("2.6")) or is_for_some_versions(call):
            return
        is_old = asked is not None and not asked.reaches("2.6")
        yield self.hit(
            call.node,
            "with torch before 2.6 this load runs whatever code the file holds; since 2.6 the default is safe",
            remedy="write `weights_only=True` (torch 1.13 and later), or require torch 2.6",
            severity=None if is_old else Severity.SUGGESTION,
            confidence=Confidence.HIGH if is_old else Confidence.LOW,
            basis=SEEN if is_old else f"{INFERRED}: the installed version decides",
        )

    def _fetched(self, file: FileTables) -> Iterator[RuleMatch]:
        for call in file.calls_to(*_FROM_URL):
            said = _said_of_weights(call)
            is_off = isinstance(said, ast.Constant) and said.value is False
            is_open = said is None and not call.has_splat()
            if (is_off or is_open) and (call.node.args or call.node.keywords) and not _is_second_try(call):
                yield self.hit(
                    call.node,
                    "this runs whatever code the downloaded file holds"
                    + ("" if is_off else ": here `weights_only` is off by default"),
                    remedy="write `weights_only=True`, and `check_hash=True` where the name carries one",
                )

    def _unpickled(self, file: FileTables) -> Iterator[RuleMatch]:
        for call in file.calls_to(*PICKLES) if file.imports_torch else ():
            if reads_a_model(call):
                yield self.hit(
                    call.node,
                    "this runs whatever code the model file holds",
                    remedy="save a `state_dict` by `torch.save` and read it by `torch.load(..., weights_only=True)`",
                    confidence=Confidence.MODERATE,
                    basis=f"{INFERRED}: that it is a model is said by the name of the file",
                )

    def fix(self, call: Call, claim: Diagnostic) -> Rewrite | None:  # noqa: ARG002 - whatever it says
        """Return the load with `weights_only=True`, unless somebody asked for more than a state can hold."""
        asked = next((keyword.value for keyword in call.node.keywords if keyword.arg == "weights_only"), None)
        if call.name not in {"torch.load", *_FROM_URL} or call.has_splat() or not call.node.args:
            return None
        if asked is None and _is_chosen(call):
            return None
        # Whoever wrote False may need it, except for what goes straight into a model: weights are all it can be.
        return Rewrite(arguments={"weights_only": "True"}) if asked is None or _is_state(call) else None


def _names_a_pickle_module(call: Call) -> bool:
    given = call.argument(2, "pickle_module")
    return given is not None and not (isinstance(given, ast.Constant) and given.value is None)


def _said_of_weights(call: Call) -> ast.expr | None:
    """Return what a call says of `weights_only`, itself or by a `**` of a dict that the code writes out."""
    for keyword in call.node.keywords:
        if keyword.arg == "weights_only":
            return keyword.value
        path = dotted(keyword.value) if keyword.arg is None else ""
        made = (*call.function.assignments.get(path, ()), *call.function.file.functions[0].assignments.get(path, ()))
        held = made[0].value if made and all(one is made[0] for one in made) else None
        for key, value in zip(held.keys, held.values, strict=True) if isinstance(held, ast.Dict) else ():
            if isinstance(key, ast.Constant) and key.value == "weights_only":
                return value
    return None


def _is_second_try(call: Call) -> bool:
    """Return whether a load comes after one with `weights_only` that the installed torch refused."""
    return any(each.kind is BlockKind.EXCEPT for each in call.block.chain()) and any(
        each.tail == call.tail and any(keyword.arg == "weights_only" for keyword in each.node.keywords)
        for each in call.function.calls
    )


def _is_for_old_versions(call: Call) -> bool:
    """Return whether a load stands where a torch without the argument `weights_only` refused the safe one."""
    caught = [each.node for each in call.block.chain() if isinstance(each.node, ast.ExceptHandler)]
    is_refused = any(each.type is not None and dotted(each.type) == "TypeError" for each in caught)
    return is_refused and _is_second_try(call)


def _reads_own_bytes(call: Call) -> bool:
    """Return whether a load takes bytes in memory that a method of the same class made by `torch.save`."""
    source, owner = call.argument(0, "f"), call.function.owner
    if owner is None or source is None or not _is_buffer(source, call):
        return False
    written = [each for method in owner.methods.values() for each in method.calls if each.name == "torch.save"]
    targets = [(each.argument(1, "f"), each) for each in written]
    return any(target is not None and _is_buffer(target, each) for target, each in targets)


def _is_buffer(value: ast.expr, call: Call) -> bool:
    made = call.function.last_assignment(value.id, call.line) if isinstance(value, ast.Name) else None
    value = made.value if made is not None else value
    return isinstance(value, ast.Call) and tail_of(dotted(value.func)) == "BytesIO"


def _is_chosen(call: Call) -> bool:
    """Return whether the function says `weights_only` in another load, so that this one is what is left on purpose."""
    others = [each for each in call.function.calls if each.name == call.name and each is not call]
    return any(each.has_splat() or any(one.arg == "weights_only" for one in each.node.keywords) for each in others)


def _is_state(call: Call) -> bool:
    return isinstance(call.parent, ast.Call) and (
        isinstance(call.parent.func, ast.Attribute) and call.parent.func.attr == "load_state_dict"
    )
