"""ESP510: TF32 is set both in the old way and in the new one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.index import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.symbols import is_guarded
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

# Those of oneDNN are for the CPU, and apart.
_NEW = pattern(r"torch\.backends\.(?:cuda\.matmul\.|cudnn\.(?:conv\.|rnn\.)?)?fp32_precision")
_OLD = pattern(r"torch\.backends\.(?:cuda\.matmul|cudnn)\.allow_tf32")
_OLD_CALLS = ("torch.set_float32_matmul_precision", "torch.get_float32_matmul_precision")


class Tf32SettingsMixed(Rule):
    """A setting `fp32_precision` of torch 2.9 beside the older `allow_tf32` or `set_float32_matmul_precision`.

    ## Why it costs
    Both write the same state. Where they disagree, whatever reads the old one afterwards raises a RuntimeError:
    `torch.backends.cuda.matmul.allow_tf32`, `torch.get_float32_matmul_precision()`, `torch.backends.cudnn.flags(...)`,
    in this code or in a library. Where nothing reads it, the later line wins, and the earlier one misleads.

    ## When it is right
    The version of torch decides which of them runs: under a test of it, under `hasattr` and in a `try` neither is
    reported.

    ## Sources
    PyTorch notes, "CUDA semantics": TensorFloat-32, on not mixing the old settings with the new; tried with torch 2.13.
    """

    code, name = "ESP510", "tf32-settings-mixed"
    severity, category = Severity.WARNING, Category.COMPILE
    bad = 'import torch\n\ntorch.backends.cuda.matmul.fp32_precision = "ieee"\ntorch.backends.cudnn.allow_tf32 = True\n'
    good = (
        "import torch\n"
        "\n"
        'torch.backends.cuda.matmul.fp32_precision = "ieee"\n'
        'torch.backends.cudnn.conv.fp32_precision = "tf32"\n'
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the old settings of a project that uses the new ones."""
        if not any(word in file.text for word in ("allow_tf32", "float32_matmul_precision")):
            return
        new = index.once("new settings of tf32", lambda: list(_new(index)))
        for node, block, name in _old(file) if new else ():
            others = [
                (other, line)
                for other, line in new
                if other.function.file.purpose in {Purpose.CODE, file.purpose} and not are_alternatives(block, other)
            ]
            # One in the same file says more than one somewhere in the project.
            others.sort(key=lambda each: each[0].function.file is not file)
            if others and not is_guarded(block):
                other, line = others[0]
                is_here = other.function.file is file
                yield self.hit(
                    node,
                    f"`{name}` is mixed with `fp32_precision`, set at {other.function.file.path}:{line}: reading "
                    "the old setting may raise a RuntimeError",
                    remedy='set `fp32_precision = "tf32"` or `"ieee"` alone (torch 2.9 and later), on '
                    "`torch.backends.cuda.matmul` and `torch.backends.cudnn.conv`",
                    confidence=Confidence.HIGH if is_here else Confidence.MODERATE,
                    basis=SEEN if is_here else FOLLOWED,
                )


def _new(index: ProjectIndex) -> Iterator[tuple[Block, int]]:
    for file in index.files.values():
        if "fp32_precision" in file.text:
            for name, node, block in _settings(file):
                if _NEW.fullmatch(name) and not is_guarded(block):
                    yield block, getattr(node, "lineno", 1)


def _old(file: FileTables) -> Iterator[tuple[ast.AST, Block, str]]:
    for name, node, block in _settings(file):
        if _OLD.fullmatch(name):
            yield node, block, name
    for call in file.calls_to(*_OLD_CALLS):
        yield call.node, call.block, call.name


def _settings(file: FileTables) -> Iterator[tuple[str, ast.AST, Block]]:
    """Yield the assignments to attributes in a file, by their whole paths."""
    for function in file.functions:
        for path, assignments in function.assignments.items():
            if "." in path:
                yield from (
                    (resolve(path, function), assignment.statement, assignment.block) for assignment in assignments
                )
