"""Which network a model most likely is that was handed in by nobody in sight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.models import is_model
from esper_agents.review.names import root_of
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, FileTables, Function

_NO_MODEL = pattern(r"Loss|Criterion|Metric")


def likely_forward(call: Call, index: ProjectIndex) -> Function | None:
    """Return the `forward` that a call of a model runs: that of the one network that its file defines as a whole.

    Only where the model is a parameter that no reviewed file hands over. What is a part of another network, or the
    base of one, is no network as a whole.
    """
    if root_of(call.path) != call.path or call.path not in call.function.parameters or index.callees(call):
        return None
    if not is_model(call.path, call, index) or index.callers(call.function):
        return None
    whole = call.function.file.once("networks as a whole", lambda: _whole(call.function.file, index))
    forward = index.method(whole[0], "forward") if len(whole) == 1 else None
    if forward is None or call.has_splat():
        return None
    return forward if len(call.node.args) < len(forward.parameters) else None


def _whole(file: FileTables, index: ProjectIndex) -> list[Class]:
    modules = [cls for cls in file.classes if index.is_module(cls) and not _NO_MODEL.search(cls.name)]
    parts = {
        call.tail
        for module in modules
        for method in module.methods.values()
        for call in method.calls
        if call.tail[:1].isupper()
    }
    bases = {base.rpartition(".")[2] for module in modules for base in module.bases}
    return [
        module for module in modules if module.name not in parts | bases and index.method(module, "forward") is not None
    ]
