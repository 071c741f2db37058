"""Tensors gathered from all ranks: their gradients, their shapes, and switches that leave them out."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_GATHERS = pattern(r"torch\.distributed\.(?:all_gather|all_gather_into_tensor|gather|_all_gather_base)")
_LIKE = frozenset(("empty_like", "zeros_like", "ones_like", "rand_like"))
_SIZES = re.compile(r"\b(?:size|sizes|shape|shapes|length|lengths|numel|max_len\w*|pad\w*)\b")
_NO_GRADIENT = re.compile(r"(?:torch\.)?(?:no_grad|inference_mode)\b")
_SWITCH = re.compile(r"^(?:gather|sync)_(?:distributed|dist|ddp|ranks|all|grads?)$|^(?:cross_rank|gather_across\w*)$")
_MOST_CALLERS = 3


class GatheredTensors(FactQuery):
    """Every gathering of tensors: whether gradients reach the other ranks, and what shapes it assumes."""

    name = "gathered-tensors"
    topics = ("distributed training",)
    claim = "tensors of other ranks are gathered without gradients or with other shapes"
    refutes = False
    follows_names = True
    category = Category.CORRECTNESS
    unseen = "the sizes of the batches on each rank"
    bad = (
        "import torch\nimport torch.distributed as dist\n\n\ndef gather(x):\n"
        "    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]\n"
        "    dist.all_gather(parts, x)\n    return torch.cat(parts)\n"
    )
    good = "import torch.distributed as dist\n\n\ndef total(x):\n    dist.all_reduce(x)\n    return x\n"

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the gradients and shapes of each gathering, and switches that are off."""
        for file in files:
            for call in file.calls:
                if _GATHERS.fullmatch(call.name):
                    yield self._gradient(file, call, index)
                    yield from self._shapes(file, call, index)
                yield from self._switch(file, call, index)

    def _gradient(self, file: FileTables, call: Call, index: ProjectIndex) -> Fact:
        function, owner = call.function, call.function.owner
        by = _called(function, index)
        if (
            owner is not None
            and any(tail_of(base) == "Function" for base in owner.bases)
            and "backward" in owner.methods
        ):
            line = owner.methods["backward"].node.lineno  # type: ignore[union-attr]
            text = f"gradients pass `{call.path}` by the `backward` of `{owner.name}` (line {line}){by}"
            return self.fact(file, call.node, Assessment.FINE, text)
        text = (
            f"`{call.path}` has no gradient: what comes from other ranks is a constant in the loss{_own_part(function)}"
        )
        if any(_NO_GRADIENT.search(each) for each in function.decorators):
            return self.fact(
                file, call.node, Assessment.DESCRIPTION, f"{text}; `{function.name}` runs without gradients{by}"
            )
        remedy = "gather by `torch.distributed.nn.functional.all_gather`, which has a gradient"
        return self.problem(file, call.node, f"{text}{by}", remedy, assumption="gradients should reach the other ranks")

    def _shapes(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        """Yield a gathering whose buffers have the shape of this rank's tensor."""
        function = call.function
        likes = [each for each in function.calls if each.tail in _LIKE and each.line <= call.line]
        gatherings = [each for each in function.calls if _GATHERS.fullmatch(each.name)]
        if not likes or len(gatherings) > 1 or _SIZES.search(_source(function)):
            return
        given = ast.unparse(likes[-1].node.args[0]) if likes[-1].node.args else "it"
        text = (
            f"`{call.path}` takes buffers like `{given}` of this rank (line {likes[-1].line}): with batches of other "
            f"sizes, as the last one can be, it hangs or fails{_called(function, index)}"
        )
        remedy = "use `drop_last=True` in every loader, or gather the sizes first and pad"
        yield self.problem(file, call.node, text, remedy, assumption="a batch differs in size between ranks")

    def _switch(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        """Yield an object whose class can work over all ranks, and does not by default."""
        if not call.tail[:1].isupper():
            return
        made = index.class_called(call.node, call.function)
        init = index.method(made, "__init__") if made is not None else None
        if made is None or init is None:
            return
        for name in init.parameters:
            if not _SWITCH.search(name) or call.argument(init.parameters.index(name) - 1, name) is not None:
                continue
            if not _is_off(init, name):
                continue
            where = f"{init.file.path}:{init.node.lineno}"  # type: ignore[union-attr]
            off = f"`{name}` of `{made.name}` is False by default ({where}), so that each rank uses its own batch alone"
            if call.has_splat():
                text = f"{off}, unless the settings in `{ast.unparse(call.node)[:60]}` say otherwise"
                yield self.fact(file, call.node, Assessment.OPEN, text)
            else:
                text = f"{off}, and this call leaves it out"
                remedy = f"pass `{name}=True`"
                yield self.problem(
                    file, call.node, text, remedy, assumption="the loss should see the batches of all ranks"
                )


def _is_off(function: Function, parameter: str) -> bool:
    arguments = getattr(function.node, "args", None)
    if arguments is None:
        return False
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip([each.arg for each in plain][::-1], arguments.defaults[::-1], strict=False))
    defaults |= {
        each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value
    }
    default = defaults.get(parameter)
    return isinstance(default, ast.Constant) and default.value is False


def _source(function: Function) -> str:
    return ast.unparse(function.node)


def _own_part(function: Function) -> str:
    """Return what happens to the rank's own tensor, which keeps its gradient if it takes its place."""
    for node in walk(function.node):
        match node:
            case ast.Call(func=ast.Attribute(attr="pop"), args=[index]) if "rank" in ast.unparse(index):
                return f"; its own part is taken out (line {node.lineno}), for the caller to add with its gradient"
            case ast.Assign(targets=[ast.Subscript(slice=index)]) if "rank" in ast.unparse(index):
                return f"; its own part is put in with its gradient (line {node.lineno})"
            case _:
                continue
    return ""


def _called(function: Function, index: ProjectIndex) -> str:
    calls = [each for each in index.callers(function) if each.function is not function]
    places = list(dict.fromkeys(f"{each.function.file.path}:{each.line}" for each in calls))
    more = f" and {len(places) - _MOST_CALLERS} more" if len(places) > _MOST_CALLERS else ""
    return f"; `{function.name}` is called at {', '.join(places[:_MOST_CALLERS])}{more}" if places else ""
