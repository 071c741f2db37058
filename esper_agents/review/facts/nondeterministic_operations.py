"""Operations of torch whose results differ from run to run on a GPU, and the settings that decide it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.pluralize import number_of
from esper_agents.review.definitions import owner_of
from esper_agents.review.devices import uses_gpu
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_files, training_functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_SETTING = "torch.use_deterministic_algorithms"
# From the documentation of `torch.use_deterministic_algorithms` in torch 2.13: those that then have another algorithm,
_WITH_ANOTHER = {
    **dict.fromkeys(
        ("scatter_add_", "scatter_add", "index_add_", "index_add"), "adds in an order that varies on a GPU"
    ),
    **dict.fromkeys(("scatter_reduce_", "scatter_reduce"), "reduces in an order that varies on a GPU"),
}
# and those that then raise.
_RAISING = {
    "torch.nn.AvgPool3d": "backward",
    "torch.nn.AdaptiveAvgPool2d": "backward",
    "torch.nn.AdaptiveAvgPool3d": "backward",
    "torch.nn.AdaptiveMaxPool2d": "backward",
    "torch.nn.FractionalMaxPool2d": "backward",
    "torch.nn.FractionalMaxPool3d": "backward",
    "torch.nn.MaxUnpool1d": "forward",
    "torch.nn.MaxUnpool2d": "forward",
    "torch.nn.MaxUnpool3d": "forward",
    "torch.nn.ReflectionPad1d": "backward",
    "torch.nn.ReflectionPad2d": "backward",
    "torch.nn.ReflectionPad3d": "backward",
    "torch.nn.CTCLoss": "backward",
    "torch.nn.functional.ctc_loss": "backward",
    "torch.nn.functional.adaptive_avg_pool2d": "backward",
    "torch.nn.functional.grid_sample": "backward",
    "torch.nn.functional.avg_pool3d": "backward",
    "torch.histc": "forward",
}
_MODES = frozenset({"linear", "bilinear", "bicubic", "trilinear"})
_RESIZING = ("torch.nn.functional.interpolate", "torch.nn.functional.upsample", "torch.nn.Upsample")
_FOREIGN = pattern(r"numpy(?:\.|$)|tensorflow|tf\.|jax|scipy|pandas|pd\.|np\.")


class NondeterministicOperations(FactQuery):
    """Settings of cuDNN and of deterministic algorithms, and the operations whose results vary without them."""

    name = "nondeterministic-operations"
    topics = ("reproducibility",)
    claim = "operations on the GPU give other results in each run"
    follows_names = True
    category = Category.SILENT_CORRECTNESS
    rules = ("ESP510",)
    bad = (
        "import torch\n"
        "\n"
        "torch.backends.cudnn.benchmark = True\n"
        "\n"
        "\n"
        "def collect(out, index, values):\n"
        '    return out.to("cuda").scatter_add_(0, index, values)\n'
    )
    good = bad.replace("torch.backends.cudnn.benchmark = True", "torch.use_deterministic_algorithms(True)")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the settings and, if the project uses a GPU, the operations."""
        if not uses_gpu(index):
            return
        setting = [call for file in index.files.values() for call in file.calls_to(_SETTING) if _is_on(call)]
        training = training_files(index) or frozenset(files)
        if not setting:
            yield from self._seed_alone(files)
        for file in files:
            yield from self._settings(file, index, is_on=bool(setting))
            if file in training:
                yield from self._operations(file, index, is_on=bool(setting), is_strict=any(map(_is_strict, setting)))

    def _settings(self, file: FileTables, index: ProjectIndex, *, is_on: bool) -> Iterator[Fact]:
        for call in file.calls_to(_SETTING):
            if _is_on(call):
                yield from self._on(file, call, index)
        for path, given in (
            (path, each) for one in file.functions for path, held in one.assignments.items() for each in held
        ):
            value = given.value.value if isinstance(given.value, ast.Constant) else None
            function = given.block.function
            is_sure = function.is_module or function in training_functions(index)
            if (
                path.endswith("cudnn.benchmark")
                and value is True
                and (given.block is not function.block or not is_sure)
            ):
                text = "`cudnn.benchmark = True` on this way: runs that come here may use different convolutions"
                yield self.fact(file, given.statement, Assessment.OPEN, text)
            elif path.endswith("cudnn.benchmark") and value is True:
                text = "`cudnn.benchmark = True` picks convolutions by measured time, so runs may use different ones"
                remedy = "write `torch.backends.cudnn.benchmark = False`"
                yield self.problem(file, given.statement, text, remedy)
            elif path.endswith("cudnn.benchmark") and value is False:
                yield self.fact(
                    file, given.statement, Assessment.DESCRIPTION, "cuDNN does not pick its algorithms by time"
                )
            elif path.endswith("cudnn.deterministic") and value is True:
                text = "cuDNN uses deterministic algorithms"
                rest = "" if is_on else "; other operations, such as scatter and resizing, are not covered"
                yield self.fact(file, given.statement, Assessment.DESCRIPTION, f"{text}{rest}")

    def _on(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        warns = call.argument(-1, "warn_only")
        if isinstance(warns, ast.Constant) and warns.value is True:
            text = "`warn_only=True` lets operations without a deterministic algorithm run with a warning"
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "remove `warn_only=True`")
        elif any("CUBLAS_WORKSPACE_CONFIG" in each.text for each in index.files.values()):
            yield self.fact(file, call.node, Assessment.FINE, "deterministic algorithms are on, cuBLAS too")
        else:
            text = "deterministic algorithms are on, and matrix products raise on CUDA unless cuBLAS has its setting"
            remedy = 'write `os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"` before the first use of CUDA'
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _seed_alone(self, files: Sequence[FileTables]) -> Iterator[Fact]:
        seeds = [call for file in files for call in file.calls_to("torch.manual_seed")]
        for call in sorted(seeds, key=lambda each: "seed" not in each.function.name.lower())[:1]:
            text = "the seed alone does not make a GPU repeat its results: deterministic algorithms are off"
            remedy = "add `torch.use_deterministic_algorithms(True)` and set `CUBLAS_WORKSPACE_CONFIG=:4096:8`"
            yield self.fact(call.function.file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _operations(self, file: FileTables, index: ProjectIndex, *, is_on: bool, is_strict: bool) -> Iterator[Fact]:
        """Yield one fact for each kind of operation in a file, at its first line."""
        found: dict[str, list[Call]] = {}
        for call in sorted(file.calls, key=lambda each: each.line):
            where = _raising_pass(call)
            is_own = _reorders(call) or (where and (where == "forward" or _is_in_module(call, index)))
            if is_own and not _FOREIGN.match(call.name):
                found.setdefault(call.tail, []).append(call)
        for tail, calls in found.items():
            first = calls[0]
            more = f" (and on {number_of(len(calls) - 1, 'further line')})" if len(calls) > 1 else ""
            where = _raising_pass(first)
            if not where:
                text = f"`{tail}`{more} {_WITH_ANOTHER[tail]}"
                assessment = Assessment.FINE if is_on else Assessment.SHOULD_CHECK
                text = f"{text}, but not in deterministic mode, which is on" if is_on else text
                remedy = (
                    "" if is_on else "call `torch.use_deterministic_algorithms(True)`: it then adds in a fixed order"
                )
            elif is_on and not is_strict:
                text = f"the {where} of `{tail}`{more} has no deterministic algorithm on CUDA: it raises or warns"
                assessment, remedy = Assessment.SHOULD_CHECK, "replace it if results must be equal bit by bit"
            elif is_strict:
                text = f"the {where} of `{tail}`{more} raises on CUDA, because deterministic mode is on"
                yield self.problem(file, first.node, text, "replace it, or pass `warn_only=True`")
                continue
            else:
                text = f"the {where} of `{tail}`{more} gives slightly other results in each run on CUDA"
                assessment, remedy = Assessment.SHOULD_CHECK, "replace it if results must be equal bit by bit"
            yield self.fact(file, first.node, assessment, text, remedy)


def _is_in_module(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call stands in a module, so that gradients may flow through it."""
    owner = owner_of(call.function)
    return owner is not None and index.is_module(owner)


def _reorders(call: Call) -> bool:
    return call.tail in _WITH_ANOTHER and bool(call.receiver)


def _raising_pass(call: Call) -> str:
    """Return which pass of an operation has no deterministic algorithm on CUDA; empty if both have."""
    if call.name in _RESIZING:
        return "backward" if _mode(call) in _MODES else ""
    if call.name == "torch.nn.functional.pad":
        return "backward" if _mode(call) == "reflect" else ""
    if "daptive" in call.tail and _is_global(call):
        return ""
    return _RAISING.get(call.name, "")


def _is_global(call: Call) -> bool:
    """Return whether an adaptive pooling has one output, which torch computes as a mean."""
    size = call.argument(1 if "functional" in call.name else 0, "output_size")
    numbers = [each.value for each in walk(size) if isinstance(each, ast.Constant)] if size is not None else []
    return bool(numbers) and set(numbers) == {1}


def _is_on(call: Call) -> bool:
    mode = call.argument(0, "mode")
    return not (isinstance(mode, ast.Constant) and mode.value is False)


def _is_strict(call: Call) -> bool:
    """Return whether deterministic mode is on without a condition and raises."""
    mode = call.argument(0, "mode")
    is_always = call.block is call.function.block and isinstance(mode, ast.Constant)
    return is_always and call.argument(-1, "warn_only") is None


def _mode(call: Call) -> str:
    """Return the mode of a resizing or padding call, as far as it is written there."""
    position = 2 if call.tail in {"Upsample", "pad"} else 3
    mode = call.argument(position, "mode")
    return str(mode.value) if isinstance(mode, ast.Constant) else dotted(mode) if mode is not None else ""
