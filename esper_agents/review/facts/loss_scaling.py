"""Autocast regions and gradient scalers of training steps: types, order and refused losses."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.blocks import BlockKind
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.patterns import pattern
from esper_agents.review.training import backward_calls, makers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_AUTOCAST = (
    "torch.autocast",
    "torch.amp.autocast",
    "torch.cuda.amp.autocast",
    "torch.amp.autocast_mode.autocast",
)
_SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
_ENGINES = pattern(r"deepspeed|apex|\bFabric\b|MixedPrecision\b|accelerat")


class LossScaling(FactQuery):
    """Autocast regions with their type, the gradient scaler's calls in order, and losses that autocast refuses."""

    name = "loss-scaling"
    topics = ("mixed precision",)
    claim = "gradients in float16 vanish or are used while they are scaled"
    category = Category.CORRECTNESS
    rules = ("ESP503", "ESP502")
    unseen = "the range of the activations and which types the GPU supports"
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        "    for x in loader:\n"
        '        with torch.autocast("cuda", dtype=torch.float16):\n'
        "            loss = model(x)\n"
        "        loss.backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
    )
    good = bad.replace("torch.float16", "torch.bfloat16")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the facts about autocast, scalers, and training steps without either."""
        regions = [call for file in index.files.values() for call in file.calls_to(*_AUTOCAST)]
        scalers = [call for file in index.files.values() for call in file.calls_to(*_SCALERS)]
        is_lower = bool(regions) or any(".half()" in file.text or "bfloat16" in file.text for file in files)
        for file in files:
            for call in file.calls_to(*_AUTOCAST):
                yield from self._region(file, call, index)
            for sent in backward_calls(file):
                yield from self._backward(file, sent, scalers, index)
            for call in file.calls_to(*_SCALERS):
                yield from self._scaler(file, call, regions, index)
            yield from self._order(file)
            yield from self._losses(file, index, is_lower=is_lower)
            if not is_lower and not runs_the_loop(file) and not _ENGINES.search(file.text):
                yield from self._full(file)

    def _full(self, file: FileTables) -> Iterator[Fact]:
        for sent in [backward_call for backward_call in backward_calls(file) if backward_call.block.loop is not None][
            :1
        ]:
            text = "this step runs in float32 throughout: nothing here uses autocast"
            remedy = (
                'run forward and loss under `with torch.autocast("cuda", dtype=torch.bfloat16):`, which needs no scaler'
            )
            yield self.fact(file, sent.node, Assessment.SHOULD_CHECK, text, remedy)

    def _region(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        kind = _type_of(call, index)
        if kind:
            yield self.fact(file, call.node, Assessment.DESCRIPTION, f"autocast runs matrix products in {kind} here")
        inside = [
            each
            for each in call.function.calls
            if any(block.kind is BlockKind.WITH and _opens(block.node, call) for block in each.block.chain())
        ]
        for each in inside:
            if each.tail == "backward" and each in list(backward_calls(file)):
                text = "`backward` runs under autocast; each gradient already has the type that its forward had"
                yield self.fact(file, each.node, Assessment.SHOULD_CHECK, text, "end the `with` before the backward")

    def _backward(self, file: FileTables, sent: Call, scalers: Sequence[Call], index: ProjectIndex) -> Iterator[Fact]:
        """Yield a backward of float16 activations without a scaler."""
        if scalers or _ENGINES.search(file.text) or runs_the_loop(file):
            return
        calls = [call for call in sent.function.calls if call.name in _AUTOCAST and call.line < sent.line]
        if any(_type_of(call, index) == "float16" for call in calls):
            text = "the activations are float16 and nothing scales the loss: small gradients become 0"
            remedy = "use `dtype=torch.bfloat16`, or `scaler.scale(loss).backward()` with `scaler.step(optimizer)`"
            yield self.problem(file, sent.node, text, remedy)

    def _scaler(self, file: FileTables, call: Call, regions: Sequence[Call], index: ProjectIndex) -> Iterator[Fact]:
        kinds = {_type_of(region, index) for region in regions}
        enabled = call.argument(-1, "enabled")
        if kinds == {"bfloat16"} and enabled is None:
            text = "bfloat16 has the range of float32, so this scaler has nothing to do"
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "remove the scaler")

    def _order(self, file: FileTables) -> Iterator[Fact]:
        """Yield steps of a scaler without its update, and steps past a scaler."""
        for function in file.functions:
            scaled = [call for call in function.calls if call.receiver.endswith(".scale()") and call.tail == "backward"]
            for name in dict.fromkeys(each.receiver.removesuffix(".scale()") for each in scaled):
                yield from self._uses(file, function, name)

    def _uses(self, file: FileTables, function: Function, name: str) -> Iterator[Fact]:
        own = [call for call in function.calls if call.receiver == name]
        stepped = [each for each in own if each.tail == "step"]
        # Another method may update a scaler that the object holds, or unscale for it.
        everywhere = [call for call in file.calls if tail_of(call.receiver) == tail_of(name)]
        updated = [each for each in everywhere if each.tail == "update"]
        if stepped and not updated:
            text = f"`{name}.update()` is never called after this step, so the scale never adapts and never backs off"
            yield self.problem(file, stepped[0].node, text, f"call `{name}.update()` after it")
        elif stepped and updated:
            text = f"`{name}` scales, steps and updates"
            yield self.fact(file, stepped[0].node, Assessment.FINE, text)
        if stepped:
            return
        unscaled = [each for each in everywhere if each.tail in {"unscale_", "step"}]
        for call in function.calls:
            if (
                call.tail == "step"
                and "optim" in call.receiver.lower()
                and not unscaled
                and "sched" not in call.receiver
            ):
                text = f"`{call.receiver}` steps on gradients that are still multiplied by the scale of `{name}`"
                yield self.problem(file, call.node, text, f"write `{name}.step({call.receiver})`")

    def _losses(self, file: FileTables, index: ProjectIndex, *, is_lower: bool) -> Iterator[Fact]:
        """Yield losses of probabilities, which autocast on CUDA refuses."""
        for call in file.calls_to("torch.nn.functional.binary_cross_entropy"):
            inside = _is_in_autocast(call, index)
            if inside:
                text = "autocast on CUDA raises for `binary_cross_entropy`: it is not safe in half precision"
                remedy = "pass logits to `binary_cross_entropy_with_logits`"
                yield self.problem(file, call.node, text, remedy)
            elif not is_lower:
                text = "`binary_cross_entropy` raises once it runs under autocast on CUDA"
                remedy = "pass logits to `binary_cross_entropy_with_logits`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        for made in file.calls_to("torch.nn.BCELoss", "torch.nn.modules.loss.BCELoss"):
            targets = (
                [dotted(target) for target in made.statement.targets] if isinstance(made.statement, ast.Assign) else []
            )
            runs = [each for each in file.calls if each.path in targets and each.path]
            for run in runs:
                if _is_in_autocast(run, index):
                    text = f"`{run.path}` is a BCELoss, and autocast on CUDA raises for it"
                    remedy = "use `nn.BCEWithLogitsLoss()` and remove the sigmoid before it"
                    yield self.problem(file, run.node, text, remedy)
            if not is_lower and runs:
                text = "`BCELoss` raises once it runs under autocast on CUDA"
                remedy = "use `nn.BCEWithLogitsLoss()` and remove the sigmoid before it"
                yield self.fact(file, made.node, Assessment.SHOULD_CHECK, text, remedy)


def _opens(node: ast.AST, call: Call) -> bool:
    return isinstance(node, ast.With | ast.AsyncWith) and any(item.context_expr is call.node for item in node.items)


def _type_of(call: Call, index: ProjectIndex) -> str:
    """Return the type of an autocast region: `float16`, `bfloat16`, or empty if an option decides."""
    enabled = call.argument(-1, "enabled")
    if isinstance(enabled, ast.Constant) and enabled.value is False:
        return ""
    kind = call.argument(1 if "cuda.amp" not in call.name else -1, "dtype")
    device = call.argument(0, "device_type")
    if kind is None:
        is_cuda = "cuda.amp" in call.name or (isinstance(device, ast.Constant) and str(device.value).startswith("cuda"))
        return "float16" if is_cuda and not call.has_splat() else ""
    found = {tail_of(dotted(maker.value)) for maker in makers(kind, call.function, call.line, index)}
    names = {"half": "float16", "float16": "float16", "bfloat16": "bfloat16"}
    return names.get(found.pop(), "") if len(found) == 1 else ""


def _is_in_autocast(call: Call, index: ProjectIndex, hops: int = 1) -> bool:
    """Return whether a call surely runs under autocast on CUDA: in a region, or called from one."""
    for block in call.block.chain():
        for each in block.function.calls if block.kind is BlockKind.WITH else ():
            if each.name in _AUTOCAST and _opens(block.node, each) and not _is_cpu(each):
                return not (isinstance(each.argument(-1, "enabled"), ast.Constant))
    callers = index.callers(call.function) if hops and not call.function.is_module else ()
    return bool(callers) and all(_is_in_autocast(caller, index, hops - 1) for caller in callers)


def _is_cpu(call: Call) -> bool:
    device = call.argument(0, "device_type")
    return isinstance(device, ast.Constant) and device.value == "cpu"
