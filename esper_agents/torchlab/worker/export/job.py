"""Job: export a target in several modes, locate failures, and compare the numbers."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from ..explain.call_variants import eagerly, leading, resized
from ..explain.compile_runs import uncompiled
from ..explain.dynamo_listener import listen, reset, warm
from ..results import MissingPart, WrittenFile
from ..target.user_lines import definition
from .failure_reports import failure_told, issues_told
from .numeric_check import as_module, check, copied
from .result import ExportAttempt, ExportRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..target.input_spec import Inputs
    from ..target.source_place import SourcePlace
    from ..target.target import LoadedTarget

__all__ = ["run", "warm"]

_ONNX = ("onnx", "onnxscript")


def run(target: LoadedTarget, request: dict[str, Any], tell: Callable[[str, float], None]) -> ExportRun:
    """Export a target in every supported mode.

    Args:
        target: A function or an nn.Module.
        request: `seed` (int): seed of the first inputs. `scratch`: folder for the ONNX file.
        tell: Called before each attempt.

    Raises:
        Exception: Any exception of the target on its first inputs without export.
    """
    # A draft export writes a trace into the temporary folder, and this process may write only to its scratch folder.
    tempfile.tempdir = str(request["scratch"])
    call, _ = uncompiled(target)
    exporter = _Exporter(target, call, int(request.get("seed", 0)))
    exporter.run_eagerly()
    attempts: dict[str, ExportAttempt] = {}
    for number, (name, attempt) in enumerate(exporter.attempts(Path(request["scratch"])).items()):
        tell(f"exporting, {name}", number / 5)
        reset()
        with listen():
            outcome = attempt()
        if outcome is not None:
            attempts[name] = outcome
    return ExportRun(attempts=attempts, missing=tuple(exporter.missing), artifacts=tuple(exporter.artifacts))


class _Exporter:
    def __init__(self, target: LoadedTarget, call: Callable[..., Any], seed: int) -> None:
        self.missing: list[MissingPart] = []
        self.artifacts: list[WrittenFile] = []
        self._target = target
        self._seed = seed
        self._module = as_module(call)

    def run_eagerly(self, size: int | None = None) -> None:
        inputs = self._inputs(size=size)
        with torch.no_grad(), eagerly():
            copied(self._module)(*inputs.args, **inputs.kwargs)

    def attempts(self, scratch: Path) -> dict[str, Callable[[], ExportAttempt | None]]:
        return {
            "strict": lambda: self._export(strict=True),
            "non-strict": lambda: self._export(strict=False),
            "draft": self._draft,
            "dynamic-batch": self._dynamic,
            "onnx": lambda: self._onnx(scratch),
        }

    def _inputs(self, step: int = 0, size: int | None = None) -> Inputs:
        inputs = self._target.inputs(self._seed + step)
        return inputs if size is None else resized(inputs, size)

    def _export(self, *, strict: bool, shapes: Any = None, sizes: tuple[int, ...] = ()) -> ExportAttempt:
        inputs = self._inputs()
        try:
            program = torch.export.export(
                copied(self._module), inputs.args, inputs.kwargs, strict=strict, dynamic_shapes=shapes
            )
        except Exception as error:  # noqa: BLE001 - exporting runs user code and raises any of its errors
            return failure_told(self._target, error)
        return self._checked(program, sizes)

    def _draft(self) -> ExportAttempt | None:
        if not hasattr(torch.export, "draft_export"):
            self._note("draft export", f"torch {torch.__version__} has none; 2.7 and newer do")
            return None
        inputs = self._inputs()
        try:
            program = torch.export.draft_export(copied(self._module), inputs.args, inputs.kwargs)
        except Exception as error:  # noqa: BLE001 - as above
            return failure_told(self._target, error)
        outcome = self._checked(program, ())
        issues = issues_told(self._target, program)
        if not issues:
            return outcome
        at = next((issue.place for issue in issues if issue.place is not None), outcome.place)
        worst = "issues" if outcome.outcome == "exports" else outcome.outcome
        return replace(outcome, outcome=worst, issues=issues, place=at)

    def _dynamic(self) -> ExportAttempt | None:
        size = leading(self._inputs())
        if size is None or size < 2:  # noqa: PLR2004 - export makes sizes 0 and 1 constants, whatever the specification
            why = "no input is a tensor with a first dimension" if size is None else "its size is 1: give 2 or more"
            self._note("dynamic batch", why)
            return None
        sizes = tuple(each for each in (size + 1, 2 * size + 3) if self._takes(each))
        if not sizes:
            self._note("dynamic batch", "eagerly it takes no other size of the first dimension")
            return None
        shapes = self._shapes(size)
        outcome = self._export(strict=False, shapes=shapes, sizes=sizes)
        if outcome.outcome == "fails" and "Constraints violated" in (outcome.message or ""):
            outcome = replace(outcome, place=self._line_that_fixes_the_size(shapes) or outcome.place)
        return replace(outcome, size=size)

    def _line_that_fixes_the_size(self, shapes: dict[str, Any]) -> SourcePlace | None:
        """Return the location of the first guard that a draft export had to add; the error itself names no line."""
        if not hasattr(torch.export, "draft_export"):
            return None
        inputs = self._inputs()
        try:
            program = torch.export.draft_export(copied(self._module), inputs.args, inputs.kwargs, dynamic_shapes=shapes)
        except Exception:  # noqa: BLE001 - as above; the line stays unknown
            return None
        return next((each.place for each in issues_told(self._target, program) if each.place is not None), None)

    def _takes(self, size: int) -> bool:
        try:
            self.run_eagerly(size)
        except Exception:  # noqa: BLE001 - as above
            return False
        return True

    def _shapes(self, size: int) -> dict[str, Any]:
        """Return the shape specification in which every first dimension of that size may change."""
        hint = getattr(torch.export.Dim, "DYNAMIC", None)
        dimension = hint if hint is not None else torch.export.Dim("batch", min=2)

        def spec(leaf: Any) -> Any:
            is_batch = isinstance(leaf, torch.Tensor) and leaf.dim() > 0 and leaf.shape[0] == size
            return {0: dimension} if is_batch else None

        inputs = self._inputs()
        bound = inspect.signature(self._module.forward).bind(*inputs.args, **inputs.kwargs)
        return {str(name): tree_map(spec, given) for name, given in bound.arguments.items()}

    def _checked(self, program: Any, sizes: tuple[int, ...]) -> ExportAttempt:
        found = check(program.module(), self._module, self._fresh(sizes))
        if not found.is_repeatable:
            self._note("comparison with eager", "the eager code returns something else each time")
        attempt = ExportAttempt(outcome=found.outcome)
        if found.error is not None:
            attempt = failure_told(self._target, found.error)
        return replace(
            attempt,
            outcome=found.outcome,
            op_count=sum(node.op == "call_function" for node in program.graph.nodes),
            compared=found.compared,
            inputs=found.inputs,
            difference=found.difference,
            place=definition(self._target) if found.outcome == "differs" else attempt.place,
        )

    def _fresh(self, sizes: tuple[int, ...]) -> dict[str, Callable[[], Inputs]]:
        made: dict[str, Callable[[], Inputs]] = {
            "the first inputs": self._inputs,
            "other values": lambda: self._inputs(1),
            "yet other values": lambda: self._inputs(2),
        }
        shape = _shape(self._inputs())
        if any(_shape(make()) != shape for make in made.values()):
            self._note("comparison on fresh inputs", "their shapes change with the seed")
            del made["other values"], made["yet other values"]
        more = {f"leading dimension {size}": functools.partial(self._inputs, 1, size) for size in sizes}
        return {**made, **more}

    def _onnx(self, scratch: Path) -> ExportAttempt | None:
        absent = [each for each in _ONNX if importlib.util.find_spec(each) is None]
        if absent:
            self._note("ONNX", f"not installed: {', '.join(absent)}")
            return None
        inputs = self._inputs()
        path = scratch / "model.onnx"
        try:
            program: Any = torch.onnx.export(copied(self._module), inputs.args, kwargs=inputs.kwargs, dynamo=True)
            program.save(str(path))
        except Exception as error:  # noqa: BLE001 - as above
            return failure_told(self._target, error)
        self.artifacts.append(WrittenFile(path.name, "application/onnx"))
        size_bytes = path.stat().st_size
        if importlib.util.find_spec("onnxruntime") is None:
            self._note("ONNX beside eager", "not installed: onnxruntime")
            return ExportAttempt(outcome="exports", compared=0, size_bytes=size_bytes)
        found = check(_unpacking(program), self._module, self._fresh(()))
        return ExportAttempt(
            outcome=found.outcome,
            compared=found.compared,
            size_bytes=size_bytes,
            difference=found.difference,
            is_training=(found.outcome == "differs" and self._module.training) or None,
        )

    def _note(self, what: str, why: str) -> None:
        if (part := MissingPart(what, why)) not in self.missing:
            self.missing.append(part)


def _shape(inputs: Inputs) -> Any:
    return tree_map(
        lambda leaf: tuple(leaf.shape) if isinstance(leaf, torch.Tensor) else leaf, (inputs.args, inputs.kwargs)
    )


def _unpacking(program: Any) -> Callable[..., Any]:
    """Return an ONNX program that returns a single tensor unwrapped, as the module does."""

    def run_program(*args: Any, **kwargs: Any) -> Any:
        given = program(*args, **kwargs)
        return given[0] if len(given) == 1 else tuple(given)

    return run_program
