"""Run a target step by step until a NaN or Inf reaches a relevant tensor, and report it."""

from __future__ import annotations

import re
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..results import MissingPart
from .backward_graph import Roots
from .call_sites import Modules, Sites
from .operation_monitor import OperationMonitor
from .origin import described
from .result import AffectedBatch, HarmlessOperation, NanRun, NonfiniteCause
from .root_cause import AffectedTensor, cause, first_of, inspect, is_harmless, roots_of
from .taint import identity
from .target_io import eager, is_raised_on_purpose, is_scalar, leaves, named
from .tensor_statistics import is_numeric
from .training_history import TrainingHistory

if TYPE_CHECKING:
    from ..target.input_spec import Inputs
    from ..target.target import LoadedTarget
    from .origin import NonfiniteOrigin
    from .result import NonfiniteKind

# Number of consecutive skipped steps after which a scaler that starts at 2 ** 16 has come down to 1.
_MOST_SKIPPED = 16
_MOST_NOTICED = 10
_OF_NAN = re.compile(r"\b(nan|inf|infinite|infinity|overflow\w*|diverged?)\b|non-?finite", re.IGNORECASE)
_MOST_REACHED = 20


class NonfiniteSearch:
    """Search for the origin of NaN or Inf in a run."""

    def __init__(self, target: LoadedTarget, *, train: bool, lr: float | None) -> None:
        """Prepare the search.

        Args:
            target: The target.
            train: Also run backward, unless the target is a step of its own.
            lr: Learning rate of updates between the calls of a module; None for none.
        """
        self._target = target
        self._train = train and target.kind != "step"
        self._modules = Modules(target.module)
        self._sites = Sites(target.in_project, self._modules)
        self._history = TrainingHistory(self._modules)
        self._roots = Roots()
        self._watch = OperationMonitor(self._sites, self._name_of, self._roots)
        self._inputs: dict[str, Any] = {}
        self._losses: list[AffectedTensor] = []
        self._steps = 0
        self._skipped: list[int] = []
        self._in_a_row = 0
        self._fault = NanRun(status="clean", steps_run=0, skipped_steps=())
        # Operations without effect, with the first step and the number of times.
        self._noticed: dict[HarmlessOperation, tuple[int, int]] = {}
        self._missing: list[MissingPart] = []
        parameters = list(target.module.parameters()) if target.module is not None and self._train else []
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        self._optimizer = torch.optim.SGD(trained, lr=lr) if lr is not None and trained else None
        if lr is not None and not trained:
            self._missing.append(MissingPart("updates", "only the parameters of a module can be updated from here"))

    def watched(self) -> ExitStack:
        """Return a context in which modules, optimizers and backward passes are tracked."""
        stack = ExitStack()
        stack.enter_context(eager())
        for each in (self._modules.watched(), self._history.watched(), self._roots.watched(self._backward_starts)):
            stack.enter_context(each)
        return stack

    def step(self, step: int) -> bool:
        """Run one step; return whether the search is over: the step was at fault, or there are no more batches."""
        inputs = self._target.inputs(step)
        self._inputs = named(self._target.call, inputs)
        if self._train and self._target.kind == "function":
            for each in self._inputs.values():
                if isinstance(each, torch.Tensor) and is_numeric(each) and each.is_leaf:
                    each.requires_grad_(True)
        if step == 0:
            self._history.find_optimizers(self._target.call)
        self._watch.begin(step)
        self._history.begin()
        self._losses = []
        self._steps = step + 1
        error: Exception | None = None
        given: Any = None
        with self._watch:
            try:
                given = self._once(inputs)
            except Exception as raised:  # noqa: BLE001 - user code may raise any error, possibly because of NaN
                error = raised
        if step > 0 and isinstance(error, StopIteration):
            self._steps = step
            self._missing.append(MissingPart(f"steps from {step + 1} on", "the step has no more batches"))
            return True
        is_at_fault = self._judge(step, given, error)
        self._clear()
        if error is not None and not is_at_fault:
            raise error
        return is_at_fault

    def _once(self, inputs: Inputs) -> Any:
        given = self._target.call(*inputs.args, **inputs.kwargs)
        if self._train:
            roots = [leaf for leaf in leaves(given).values() if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            if roots:
                torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
            elif not self._missing:
                self._missing.append(MissingPart("backward pass", "no output requires a gradient"))
            if self._optimizer is not None:
                self._optimizer.step()
        return given

    def _backward_starts(self, tensors: list[torch.Tensor]) -> None:
        losses = {"loss" if len(tensors) == 1 else f"loss[{number}]": each for number, each in enumerate(tensors)}
        if not self._train and not self._losses:
            self._losses = inspect(self._watch, losses, "loss")

    def _judge(self, step: int, given: Any, error: Exception | None) -> bool:
        outputs = leaves(given)
        losses = [output for output in outputs.values() if is_scalar(output)]
        self._history.end(step, float(losses[0]) if len(losses) == 1 else None)
        reached = [
            *self._losses,
            *inspect(self._watch, {name: each for name, each in outputs.items() if is_scalar(each)}, "loss"),
            *inspect(self._watch, {name: each for name, each in outputs.items() if not is_scalar(each)}, "output"),
            *self._kept(),
            *self._raised(error),
        ]
        if self._is_skipped(reached):
            self._skipped.append(step)
            self._in_a_row += 1
            if self._in_a_row <= _MOST_SKIPPED:
                return False
        else:
            self._in_a_row = 0
        if not reached or is_harmless(reached):
            self._notice()
            return False
        self._blame(step, reached)
        return True

    def _raised(self, error: Exception | None) -> list[AffectedTensor]:
        """Return the exception that ended a step if NaN or Inf can cause it."""
        if error is None or not self._watch.born:
            return []
        if not is_raised_on_purpose(error, self._target) and not _OF_NAN.search(str(error)):
            return []
        origins = [each for each in self._watch.born if each.what == "nan"] or self._watch.born
        return [AffectedTensor("exception", f"{type(error).__name__}: {error}"[:300], origins[0].what, (origins[0],))]

    def _kept(self) -> list[AffectedTensor]:
        """Return the non-finite tensors that outlive a step: gradients, parameters, buffers, optimizer state."""
        if not self._watch.has_seen and self._steps > 1:
            return []
        parameters = self._history.parameters()
        gradients = {name: each.grad for name, each in parameters.items() if each.grad is not None}
        inputs = {
            name: each.grad
            for name, each in self._inputs.items()
            if isinstance(each, torch.Tensor) and each.is_leaf and each.grad is not None
        }
        # A mask stored as a buffer holds Inf permanently; a new Inf in a buffer is different.
        buffers = inspect(self._watch, dict(self._history.buffers()), "buffer")
        return [
            *(buffer for buffer in buffers if any(one.kind in {"made", "turned"} for one in buffer.origins)),
            *inspect(self._watch, {**gradients, **inputs}, "gradient"),
            *inspect(self._watch, dict(parameters), "parameter"),
            *inspect(self._watch, dict(self._history.states()), "optimizer state"),
        ]

    def _is_skipped(self, reached: list[AffectedTensor]) -> bool:
        """Return whether a step's gradients overflowed in the backward pass and its update was skipped for that."""
        if not reached or self._train or any(each.what not in {"gradient", "loss"} for each in reached):
            return False
        if self._history.has_stepped:
            return False
        origins = [root for each in reached for one in each.origins for root in roots_of(one)]
        is_from_scale = bool(origins) and all(
            one.found.phase == "backward" or one.operation.startswith("aten.mul") for one in origins
        )
        if not is_from_scale:
            return False
        return self._watch.has_unscaled or self._history.has_optimizer

    def _blame(self, step: int, reached: list[AffectedTensor]) -> None:
        first, through = first_of(reached, self._watch)
        worst: NonfiniteKind = "nan" if any(each.holds == "nan" for each in reached) else "inf"
        self._fault = replace(
            self._fault,
            status=worst,
            reached=tuple(each.described() for each in reached[:_MOST_REACHED]),
            batch=AffectedBatch(step, step, None if first is None else self._sample(first)),
        )
        if first is None:
            self._missing.append(MissingPart("first operation", "no operation that was watched has made it"))
            why = NonfiniteCause(class_="unclassified", because="it came about outside the operations of torch")
            self._fault = replace(self._fault, cause=why)
            return
        why = cause(first, through, reached, self._history)
        if self._in_a_row > _MOST_SKIPPED:
            because = f"{self._in_a_row} steps in a row were skipped because gradients overflowed"
            why = replace(why, class_="loss-scale-never-fits", because=because)
        operation = described(first, self._sites)
        became_nan = None if through is None else described(through, self._sites)
        self._fault = replace(self._fault, first=operation, became_nan=became_nan, cause=why)
        if operation.file is None:
            self._missing.append(MissingPart("line", "no line of the project was running when it was called"))
        if operation.overwritten:
            self._missing.append(MissingPart("inputs before the operation", "it works in place on more than 64 MiB"))

    def _sample(self, origin: NonfiniteOrigin) -> int | None:
        """Return the batch index of the first non-finite element, if the shapes determine it."""
        details, carrier = origin.details, origin.carrier
        if details is None:
            return None
        is_joined = origin.operation.startswith(("aten.stack", "aten.cat"))
        if is_joined and origin.kind == "outside" and details.member is not None:
            return details.member
        if (
            carrier is not None
            and carrier.kind in {"input", "tensor"}
            and carrier.first_index
            and (carrier.shape or ())[1:]
        ):
            return carrier.first_index[0]
        shape = details.output.shape or ()
        rows = {each.shape[0] for each in self._inputs.values() if isinstance(each, torch.Tensor) and each.ndim > 1}
        if details.at is None or not details.at.index or len(shape) <= 1:
            return None
        return details.at.index[0] if {shape[0]} == rows and shape[0] > 1 else None

    def _notice(self) -> None:
        """Record non-finite numbers without effect, once for each line."""
        for each in self._watch.born:
            found = self._sites.described(
                each.found.site,
                HarmlessOperation,
                operation=each.operation,
                phase=each.found.phase,
                holds=each.what,
                how=each.kind,
                first_step=0,
                times=0,
            )
            found = replace(found, function=None, source=None)
            first_step, times = self._noticed.get(found, (each.step, 0))
            if times or len(self._noticed) < _MOST_NOTICED:
                self._noticed[found] = first_step, times + 1

    def _clear(self) -> None:
        """Delete the state of the step that the next one would add to."""
        self._losses = []
        if self._target.module is not None and self._target.kind != "step":
            self._target.module.zero_grad(set_to_none=True)
        self._inputs = {}

    def _name_of(self, tensor: torch.Tensor) -> tuple[str, str | None]:
        """Return the kind of a tensor that no operation made, and its name if it has one."""
        memory = identity(tensor)
        known = (
            ("input", self._inputs),
            ("parameter", self._history.parameters()),
            ("buffer", self._history.buffers()),
            ("optimizer state", self._history.states()),
        )
        for carrier, tensors in known:
            for name, each in tensors.items():
                if isinstance(each, torch.Tensor) and identity(each) == memory:
                    return carrier, name
        return ("constant" if tensor.ndim == 0 else "tensor"), None

    def result(self) -> NanRun:
        """Return the result of the search."""
        missing = list(self._missing)
        if names := ", ".join(sorted(self._watch.unchecked)):
            missing.append(
                MissingPart("check of some operations", f"torch cannot look into what these put out: {names}")
            )
        return replace(
            self._fault,
            steps_run=self._steps,
            operations=self._watch.operations,
            skipped_steps=tuple(self._skipped),
            noticed=tuple(
                replace(found, first_step=first_step, times=times)
                for found, (first_step, times) in self._noticed.items()
            ),
            history=tuple(self._history.entries),
            missing=tuple(missing),
        )
