"""ESP407: a project trains on a GPU and never tries `torch.compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.devices import uses_gpu
from esper_agents.review.frameworks import compiles, runs_the_loop
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, Rule
from esper_agents.review.tables import Purpose
from esper_agents.review.training import innermost_training_loops, is_optimizer_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

# Other ways to the same end count as well: the choice was made.
_COMPILES = pattern(r"\b(?:torch\.compile|torch_?compile|_?dynamo|torch\.jit|CUDAGraph|torch_xla|inductor)\b")
_METHOD = pattern(r"\.compile\(")


class NoCompile(Rule):
    """A project whose training loop runs on a GPU and in which nothing is compiled; said once for the whole project.

    ## Why it costs
    Run eagerly, every operation is a kernel of its own that is started from Python and reads and writes memory.
    `torch.compile` fuses what it can and starts fewer kernels.

    ## When it is right
    Shapes change from batch to batch, runs are too short to pay for the compilation, time goes into large matrix
    products that are fast already, or it was tried and did not help. What it would bring here was not measured:
    compare both before deciding. Projects that compile anything, or whose loop belongs to a framework, are not
    reported.

    ## Sources
    PyTorch documentation of `torch.compile`; PyTorch performance tuning guide, "Fuse operations".
    """

    code, name = "ESP407", "no-compile"
    severity, category = Severity.SUGGESTION, Category.PERFORMANCE
    bad = (
        "def fit(model, loader, optimizer):\n"
        "    model.cuda()\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        criterion(model(x.cuda()), y.cuda()).backward()\n"
        "        optimizer.step()\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader, optimizer):\n"
        "    model = torch.compile(model.cuda())\n"
        "    for x, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        criterion(model(x.cuda()), y.cuda()).backward()\n"
        "        optimizer.step()\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the project's first training loop, in the file that holds it."""
        loop = index.once("first loop that could be compiled", lambda: _first_loop(index))
        if loop is not None and loop.function.file is file:
            yield self.hit(
                loop.node,
                "this project trains on a GPU, and nothing in the reviewed files is compiled",
                remedy="try `model = torch.compile(model)` before the loop, and measure a step with and without",
                confidence=Confidence.LOW,
                basis=f"{INFERRED}: what it would bring was not measured",
            )


def _first_loop(index: ProjectIndex) -> Block | None:
    """Return the first training loop of a project that runs on a GPU and compiles nothing."""
    if not uses_gpu(index) or any(_is_settled(file) for file in index.files.values()):
        return None
    files = (file for file in index.files.values() if file.purpose in {Purpose.CODE, Purpose.EXAMPLE})
    return next((loop for file in files for loop in _training_loops(file, index)), None)


def _training_loops(file: FileTables, index: ProjectIndex) -> Iterator[Block]:
    for loop in innermost_training_loops(file):
        if any(is_optimizer_step(call, index) and call.block.within(loop) for call in loop.function.calls):
            yield loop


def _is_settled(file: FileTables) -> bool:
    """Return whether a file compiles something, or leaves that to a framework."""
    if runs_the_loop(file) or compiles(file):
        return True
    return _COMPILES.search(file.text) is not None or _compiles_a_model(file)


def _compiles_a_model(file: FileTables) -> bool:
    return _METHOD.search(file.text) is not None and any(
        call.receiver and not call.name.startswith("re.") for call in file.calls_ending("compile")
    )
