"""ESP104: a tensor on the host meets one on the model's device."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.definitions import owner_of
from esper_agents.review.devices import moves, stays_on_host
from esper_agents.review.host_tensors import attributes_on_host, functions_with_host_tensors, mixing_nodes
from esper_agents.review.inputs import follows_inputs, sets_up, takes_inputs
from esper_agents.review.meetings import meeting
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.places import Effect
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.places import Meeting
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, FileTables, Function

_ASKS_FOR_DEVICE = pattern(
    r"""["']cuda(?::\d+)?["']|\.cuda\(|\.to\((?:self\.|args\.|cfg\.)?(?:device|dev|local_rank|rank)\b"""
    r"""|accelerator=["'](?:gpu|cuda|auto)|gpus=|device=\w+(?:\.\w+)*\.device\b"""
)
_DEFAULT_DEVICE = frozenset({"set_default_device", "set_default_tensor_type"})


class DeviceMismatch(Rule):
    """A tensor made or loaded on the CPU that meets one on the model's device.

    ## Why it costs
    `torch.zeros(n)` is on the CPU wherever the model is. On a GPU the first operation on both raises "Expected all
    tensors to be on the same device". On the CPU everything runs, so tests pass and the first real job fails.

    ## When it is right
    Numbers and tensors without dimensions mix freely, and a CPU tensor may index one on the device. Tensors made by
    `*_like`, `new_*` or with `device=x.device`, and those that `register_buffer` keeps, go where the module goes.
    Where no device is named in the same function it is a warning; a new tensor of an input's size that is only handed
    back, and an index that is copied to the device every time, are suggestions. Nothing is reported in projects that
    never ask for a GPU, or that set a default device.

    ## Sources
    PyTorch notes, "CUDA semantics", on operations across devices; documentation of `Module.register_buffer`.
    """

    code, name = "ESP104", "device-mismatch"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    bad = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Noisy(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(8, 8)\n"
        "\n"
        "    def forward(self, x):\n"
        "        noise = torch.randn(x.size(0), 8)\n"
        "        return self.layer(x) + noise\n"
        "\n"
        "\n"
        "model = Noisy().to('cuda')\n"
    )
    good = bad.replace("torch.randn(x.size(0), 8)", "torch.randn(x.size(0), 8, device=x.device)")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the tensors on the host that meet one on the device."""
        if not file.imports_torch and "to" not in file.by_tail:
            return
        found = functions_with_host_tensors(file, index)
        if not found or not _asks_for_device(index):
            return
        seen: set[ast.expr] = set()
        for function, seeds in found.items():
            if not _runs_on_device(function, index):
                continue
            for node in mixing_nodes(function, seeds):
                met = meeting(node, function, index)
                if met is not None and met.host.source is not None and met.host.source not in seen:
                    seen.add(met.host.source)
                    yield self._found(node, met, function, index)

    def _found(self, node: ast.AST, met: Meeting, function: Function, index: ProjectIndex) -> RuleMatch:
        source, made_in = met.host.source, met.host.function
        kept = _kept_in(node, function, index)
        if kept is not None and isinstance(source, ast.Call):
            return self.hit(
                kept.statement,
                f"{kept.target!r} is no buffer: it stays on the CPU when the module is moved, and meets one on the "
                f"device on line {getattr(node, 'lineno', 0)}",
                remedy=f'write `self.register_buffer("{kept.target.removeprefix("self.")}", ...)`',
                confidence=Confidence.MODERATE,
                basis=FOLLOWED,
                severity=_severity(met, is_seen=False),
            )
        at = source if source is not None and made_in is function and not isinstance(source, ast.Name) else node
        line = getattr(node, "lineno", 0)
        text = ast.unparse(source.func) if isinstance(source, ast.Call) else "this"
        remedy = "make it where the other is: `device=x.device`, or keep it with `register_buffer`"
        if isinstance(source, ast.Name):
            message = f"{dotted(source)!r} comes from the loader on the CPU and meets a tensor on the device here"
            remedy = f"move it first: `{dotted(source)} = {dotted(source)}.to(device)`"
        elif met.effect in {Effect.LEAVES, Effect.RETURNS}:
            message = f"`{text}(...)` gives a tensor on the CPU in the size of an input that may be on the device"
        elif met.effect is Effect.COPIES:
            message = f"`{text}(...)` gives an index on the CPU, which is copied to the device whenever it is used"
        elif at is source:
            message = f"`{text}(...)` gives a tensor on the CPU, which meets one on the device on line {line}"
        else:
            message = (
                f"`{text}(...)`{_where_made(met, function)} gives a tensor on the CPU, which meets one on the device"
            )
        is_seen = made_in is function and met.device.source is not None and met.device.function is function
        return self.hit(
            at,
            message,
            remedy=remedy,
            confidence=Confidence.HIGH if is_seen else Confidence.MODERATE,
            basis=SEEN if made_in is function else FOLLOWED,
            severity=_severity(met, is_seen=is_seen),
        )


def _kept_in(node: ast.AST, function: Function, index: ProjectIndex) -> Assignment | None:
    """Return the assignment of the one attribute of a module that keeps a tensor on the host and is used in a node."""
    owner = owner_of(function)
    if owner is None or not index.is_module(owner):
        return None
    paths = {dotted(each) for each in walk(node) if isinstance(each, ast.Attribute)} & attributes_on_host(owner, index)
    made = owner.attributes.get(next(iter(paths)), ()) if len(paths) == 1 else ()
    return made[0] if len(made) == 1 and made[0].block.function is not function else None


def _where_made(met: Meeting, function: Function) -> str:
    """Return where a tensor was made that meets another in a function, in words."""
    if met.host.source is None or met.host.function is None:
        return ""
    made_in = met.host.function.file
    return f" (line {met.host.source.lineno}{'' if made_in is function.file else f' of {made_in.path}'})"


def _severity(met: Meeting, *, is_seen: bool) -> Severity | None:
    match met.effect:
        case Effect.RETURNS | Effect.COPIES:
            return Severity.SUGGESTION
        case Effect.LEAVES:
            return Severity.WARNING
        case Effect.BREAKS:
            return None if is_seen else Severity.WARNING


def _asks_for_device(index: ProjectIndex) -> bool:
    """Return whether the reviewed files put something on a GPU, and leave the default device alone."""
    return index.once(
        "asks for a device",
        lambda: (
            any(
                file.purpose in {Purpose.CODE, Purpose.EXAMPLE} and _ASKS_FOR_DEVICE.search(file.text)
                for file in index.files.values()
            )
            and next(index.calls_ending(*_DEFAULT_DEVICE), None) is None
        ),
    )


def _runs_on_device(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function may work with tensors on the device."""
    owner = owner_of(function)
    is_module = owner is not None and index.is_module(owner)
    if "onnx" in function.name or any("device" in context for block in function.blocks for context in block.contexts):
        return False
    if owner is not None and is_module and (stays_on_host(owner, index) or (sets_up(function) and function.owner)):
        return bool(moves(function, index)) and not stays_on_host(owner, index)
    return (
        owner is not None
        or takes_inputs(function, index)
        or bool(moves(function, index))
        or follows_inputs(function, index)
        or any(takes_inputs(call.function, index) or moves(call.function, index) for call in index.callers(function))
    )
