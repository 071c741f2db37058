"""Costs of each training step: input, host synchronisation, transfers, precision and compilation."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.hot import hot_around, hot_blocks, is_rare
from esper_agents.review.loaders import LOADERS, has_no_workers, loops_over_loaders
from esper_agents.review.names import dotted, tail_of
from esper_agents.review.tensor_tests import asked_unless, asks_a_buffer, asks_a_tensor, tests_of
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

_SIZED_BY_DATA = ("nonzero", "unique", "masked_select", "argwhere", "unique_consecutive")
_FETCHES = ("item", "tolist", "cpu")
_PRECISION = ("autocast", "set_float32_matmul_precision", "GradScaler", "bfloat16", "half")
_PLUGINS = ("Trainer", "Accelerator", "Fabric", "initialize")
_MOST, _LONGEST = 6, 50
_SIZES = (".shape", ".size(", "len(")
# A device that waits is not slow itself: arithmetic in full precision is not why.
_WAITING = "idle device"


class StepCosts(FactQuery):
    """What costs time in every training step: loader settings, host synchronisation, transfers, precision, compile."""

    name = "step-costs"
    topics = ("speed", _WAITING)
    claim = "the step waits for the host or does work that it need not do"
    refutes = False
    category = Category.PERFORMANCE
    rules = (
        *("ESP305", "ESP401", "ESP402", "ESP403", "ESP404", "ESP405", "ESP406", "ESP408", "ESP409", "ESP410"),
        *("ESP411", "ESP412", "ESP413", "ESP504", "ESP506"),
    )
    unseen = "how long each part takes: only a profile of a run tells which of these lines matters most"
    bad = (
        "import torch\n\nfor x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n"
        "    loss.backward()\n    optimizer.step()\n    torch.cuda.synchronize()\n    total += loss.item()\n"
    )
    good = (
        "import torch\n\nmodel = torch.compile(model)\nfor x, y in loader:\n    optimizer.zero_grad()\n"
        "    with torch.autocast('cuda', torch.bfloat16):\n        loss = criterion(model(x), y)\n"
        "    loss.backward()\n    optimizer.step()\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield what costs time, and what is done well; of a device that waits only what keeps it waiting."""
        is_waiting = _WAITING in subject.topics
        for file in files:
            yield from self._loaders(file, index)
            yield from self._waits(file, index)
            yield from self._forward(file, index)
            yield from self._transfers(file, index)
            if not is_waiting:
                yield from self._settings(file)
            yield from self._compiled(file)
            if subject.symbols:
                yield from self._one_after_another(file, index)
        yield from self._precision(files, index, is_waiting=is_waiting)

    def _loaders(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield the settings of the data loaders."""
        for call in file.calls_to(*LOADERS):
            if _takes_rows_of_tensors(call, index):
                text = "the loader takes its rows from a `TensorDataset` one by one in Python and stacks them again"
                remedy = "slice the tensors by batch: a `BatchSampler` as `sampler=` with `batch_size=None`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
                continue
            if call.has_splat() or has_no_workers(call):
                continue
            said = {keyword.arg: keyword.value for keyword in call.node.keywords}
            workers = call.argument(5, "num_workers")
            shown = ast.unparse(workers) if workers is not None else ""
            loops = loops_over_loaders(index).get(call.node, ())
            is_repeated = any(loop.parent is not None and loop.parent.loop is not None for loop in loops)
            if is_repeated and "persistent_workers" not in said:
                text = f"the loader starts its workers (`num_workers={shown}`) again at every epoch"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "add `persistent_workers=True`")
            elif _says(call, "pin_memory") and workers is not None:
                text = f"the loader has workers (`num_workers={shown}`) and says `pin_memory`"
                yield self.fact(file, call.node, Assessment.FINE, text)

    def _waits(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield where the host waits for the device."""
        for call in file.calls_to("gc.collect"):
            if _is_hot(call, index):
                text = "`gc.collect()` at every step searches all Python objects, which takes tens of milliseconds"
                remedy = f"leave out `{call.path}()`, or call it every few hundred steps"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        for call in file.calls_ending(*_SIZED_BY_DATA):
            is_tensor = call.receiver and not call.name.startswith(("numpy.", "np.", "pandas.", "pd."))
            is_masked = call.tail == "nonzero" and _says(call, "as_tuple")
            if is_tensor and not is_masked and _is_hot(call, index) and file.imports_torch:
                text = f"`{call.path}(...)` at every step: the host waits for the device, which decides the size"
                remedy = "use a mask with `torch.where`, or move it out of the step"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        for call in file.calls_ending(*_FETCHES):
            loop = call.block.loop
            over = ast.unparse(loop.node.iter) if loop is not None and isinstance(loop.node, ast.For) else ""
            if "parameters(" in over and _is_hot(call, index):
                text = f"`{call.path}()` once for each parameter: hundreds of waits a step"
                remedy = "`torch.nn.utils.get_total_norm(...)` or `torch._foreach_norm(...)`, and one `.item()`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        fetched = [each for each in file.calls_ending("item") if _is_seldom(each, index)]
        for call in fetched[:_MOST]:
            text = f"`{call.path}()` runs only in some steps"
            yield self.fact(file, call.node, Assessment.FINE, text)

    def _forward(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield where the host waits for the device in the `forward` of a module."""
        for function in file.functions:
            if function.name != "forward" or function.owner is None or not index.is_module(function.owner):
                continue
            for call in function.calls:
                if call.tail == "item" and call.receiver and not call.node.args:
                    text = f"`{call.path}()` in `{function.qualname}`: the host waits for the device at every call"
                    remedy = "take the number from a shape or from the caller, or keep it a tensor"
                    yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
            for reached in index.closure(function):
                if reached.owner is function.owner and reached.file is file:
                    yield from self._branches(file, reached)

    def _branches(self, file: FileTables, function: Function) -> Iterator[Fact]:
        """Yield branches on the value of a tensor."""
        for test, _ in tests_of(function):
            if asks_a_tensor(test, function) or asks_a_buffer(test, function):
                shown = ast.unparse(test)[:_LONGEST]
                first = asked_unless(test, function)
                when = f"unless `{first[:_LONGEST]}` decides first" if first else "at every call"
                text = f"`{shown}` in `{function.qualname}` asks a tensor: the host waits for the device {when}"
                remedy = "keep the flag in Python as well, or choose by `torch.where`"
                yield self.fact(file, test, Assessment.SHOULD_CHECK, text, remedy)

    def _transfers(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield copies to the device that block, where a loader pins its memory."""
        is_pinned = index.once("a loader pins its memory", lambda: _is_pinned(index))
        for call in file.calls_ending("to", "cuda") if is_pinned else ():
            hot = hot_around(call.block, index)
            drawn = hot.around.targets if hot is not None else ()
            if hot is None or call.receiver.partition("[")[0] not in drawn or _is_of_kind(call):
                continue
            if _says(call, "non_blocking"):
                text = f"`{call.path}(..., non_blocking=True)` overlaps with the kernels"
                yield self.fact(file, call.node, Assessment.FINE, text)
            elif not any(keyword.arg == "non_blocking" for keyword in call.node.keywords):
                text = f"`{call.path}(...)` waits for the copy, although a loader pins its memory"
                remedy = f"`{call.path}({', '.join([*map(ast.unparse, call.node.args), 'non_blocking=True'])})`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _settings(self, file: FileTables) -> Iterator[Fact]:
        for function in file.functions:
            for path, assignments in function.assignments.items():
                value = assignments[-1].value
                if not isinstance(value, ast.Constant):
                    continue
                if path.endswith("cudnn.deterministic") and value.value is True:
                    text = "`cudnn.deterministic = True` forbids the fastest convolutions; repeatable runs cost time"
                    yield self.fact(
                        file, assignments[-1].statement, Assessment.SHOULD_CHECK, text, "turn it off for speed"
                    )
                elif path.endswith("cudnn.benchmark"):
                    is_on = value.value is True
                    text = "convolutions are timed once for each shape" if is_on else "convolutions are not timed"
                    text = f"`cudnn.benchmark = {is_on}`: {text}"
                    yield self.fact(file, assignments[-1].statement, Assessment.DESCRIPTION, text)
        for call in file.calls_to("torch.use_deterministic_algorithms"):
            if isinstance(call.argument(0, "mode"), ast.Constant) and call.argument(0, "mode").value is True:  # type: ignore[union-attr]
                text = "`use_deterministic_algorithms(True)` replaces fast kernels by slower ones"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "turn it off where speed counts")

    def _compiled(self, file: FileTables) -> Iterator[Fact]:
        for call in file.calls_to("torch.compile")[:_MOST]:
            given = ast.unparse(call.node.args[0]) if call.node.args else "the function below"
            yield self.fact(file, call.node, Assessment.FINE, f"`{given[:60]}` is compiled")

    def _one_after_another(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield loops over a size of a tensor in which each round runs a network: rounds that wait for one another."""
        for function in file.functions:
            for block in function.blocks:
                loop = block.node
                if not isinstance(loop, ast.For) or dotted(loop.iter) != "range()" or hot_around(block, index):
                    continue
                limits = [
                    ast.unparse(origin.value)
                    for given in getattr(loop.iter, "args", ())
                    for origin in index.origins(given, function, loop.lineno)
                ]
                run = next(
                    (each for each in function.calls if each.block is block and _runs_network(each, index)), None
                )
                if run is not None and any(size in limit for limit in limits for size in _SIZES):
                    shown = ast.unparse(loop.iter)
                    text = (
                        f"`{run.path}(...)` runs once in each round of `{shown}`: as many passes as the size, in turn"
                    )
                    remedy = "compute all rounds in one pass if they do not depend on each other, else expect this time"
                    yield self.fact(file, loop, Assessment.SHOULD_CHECK, text, remedy)

    def _precision(self, files: Sequence[FileTables], index: ProjectIndex, *, is_waiting: bool) -> Iterator[Fact]:
        """Yield one line about matrix products in full precision and models that run without `torch.compile`."""
        if any(index.calls_ending(*_PLUGINS)):
            return
        calls = [
            backward_call
            for file in files
            for backward_call in backward_calls(file)
            if hot_around(backward_call.block, index)
        ]
        if not calls:
            return
        call = calls[0]
        flags = any("allow_tf32" in each.text or "fp32_precision" in each.text for each in index.files.values())
        if not is_waiting and not flags and not any(index.calls_ending(*_PRECISION)):
            text = "no autocast and no TF32 setting in these files: the step computes in full float32"
            remedy = "`torch.set_float32_matmul_precision('high')`, or `with torch.autocast('cuda', torch.bfloat16):`"
            yield self.fact(call.function.file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        is_compiled = any("torch.compile" in each.text for each in index.files.values())
        if not is_compiled:
            text = "nothing in these files is compiled: each operation of the step is launched alone"
            yield self.fact(call.function.file, call.node, Assessment.OPEN, text, "try `model = torch.compile(model)`")


def _takes_rows_of_tensors(call: Call, index: ProjectIndex) -> bool:
    """Return whether a loader makes its batches row by row from tensors that are in memory whole."""
    data = call.argument(0, "dataset")
    said = {keyword.arg for keyword in call.node.keywords}
    if data is None or said & {"sampler", "batch_sampler", "collate_fn"} or call.has_splat():
        return False
    made = [each.value for each in index.origins(data, call.function, call.line)]
    return bool(made) and all(
        isinstance(each, ast.Call) and tail_of(dotted(each.func)) == "TensorDataset" for each in made
    )


def _runs_network(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call runs a part of its object that is no method of it, or a module."""
    owner = call.function.owner
    if owner is None or not index.is_module(owner) or not call.path.startswith("self.") or call.path.count(".") > 1:
        return False
    return index.method(owner, call.tail) is None


def _is_hot(call: Call, index: ProjectIndex) -> bool:
    hot = hot_around(call.block, index)
    return hot is not None and not hot.is_epoch and not is_rare(call.block, hot.around, call.line)


def _is_seldom(call: Call, index: ProjectIndex) -> bool:
    hot = hot_around(call.block, index)
    return hot is not None and is_rare(call.block, hot.around, call.line)


def _is_pinned(index: ProjectIndex) -> bool:
    calls = [each for each in index.calls_ending("DataLoader") if tail_of(each.name) == "DataLoader"]
    return any(_says(call, "pin_memory") for call in calls) and bool(hot_blocks(index))


def _says(call: Call, keyword: str) -> bool:
    value = next((each.value for each in call.node.keywords if each.arg == keyword), None)
    return isinstance(value, ast.Constant) and value.value is True


def _is_of_kind(call: Call) -> bool:
    """Return whether a `.to(...)` only changes the dtype."""
    first = call.argument(0)
    return call.tail == "to" and (first is None or dotted(first).startswith("torch."))
