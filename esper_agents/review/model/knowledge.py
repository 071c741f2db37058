"""Interface between the interpreter and the facts about libraries.

The interpreter never compares names of libraries itself. It asks a `Knowledge` about a qualified name (already resolved
through imports: `torch.nn.functional.relu`, `timm.create_model`), a method of a kind of value, or the hooks of a
framework's base class. A missing row means *unknown callee*: the result is unknown and holds the sources of all
arguments, and what the interpreter knew about mutable arguments is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class ResultKind(StrEnum):
    """Kind of the value that a call returns."""

    UNKNOWN = "unknown"
    NONE = "none"
    TENSOR = "tensor"
    ARRAY = "array"
    NUMBER = "number"
    TEXT = "text"
    MODULE = "module"
    OPTIMIZER = "optimizer"
    SCHEDULER = "scheduler"
    SCALER = "scaler"
    LOADER = "loader"
    DATASET = "dataset"
    METRIC = "metric"
    # A list of modules that a loop unrolls: `ModuleList`, `children()`.
    LAYERS = "layers"
    # Tensors by name or in a sequence: `state_dict()`, `parameters()`, `split()`.
    TENSORS = "tensors"
    # An iterable with the elements of its first argument: `enumerate`, `tqdm`.
    ITERATOR = "iterator"
    # Context manager; see `CallFacts.grad_mode`.
    CONTEXT = "context"
    # The first argument (for a method, the receiver) itself: `model.to(...)`, `torch.compile(model)`.
    SAME = "same"
    # The arguments themselves, as a tuple if there are several: `accelerator.prepare(model, optimizer)`.
    ARGUMENTS = "arguments"
    # A new module that holds the first argument as its field `module`: `DistributedDataParallel(model)`.
    WRAPPER = "wrapper"
    FUNCTION = "function"


class GraphEffect(StrEnum):
    """What a call does with the autograd graph of its arguments."""

    KEEPS = "keeps"
    CUTS = "cuts"
    # The result is a new leaf that asks for gradients: `nn.Parameter`.
    LEAF = "leaf"


class DeviceEffect(StrEnum):
    """Device of the result."""

    SAME = "same"
    CPU = "cpu"
    ACCELERATOR = "accelerator"
    # Named by an argument (`.to(device)`, `device=`), else the same.
    ARGUMENT = "argument"
    UNKNOWN = "unknown"


class Effect(StrEnum):
    """Named effect of a call that rules ask about; one call may have several."""

    # The host waits for the device: `item`, `tolist`, `cpu`, `numpy`, `float(tensor)`, `bool(tensor)`.
    FETCH = "fetch"
    BACKWARD = "backward"
    # Gradients of given inputs without accumulation: `torch.autograd.grad`.
    GRADIENT = "gradient"
    STEP = "step"
    CLEAR_GRADIENTS = "clear gradients"
    UNSCALE = "unscale"
    UPDATE = "update"
    CLIP = "clip"
    # Runs the receiver (a module) on its arguments: `forward`, `generate`, `predict`.
    FORWARD = "forward"
    TO_TRAINING = "to training"
    TO_EVALUATION = "to evaluation"
    # `module.train(mode)`: by its first argument, training without one.
    SET_MODE = "set mode"
    LOAD_STATE = "load state"
    MOVE = "move"
    LOSS = "loss"
    SOFTMAX = "softmax"
    LOG_PROBABILITY = "log probability"
    COMPILE = "compile"
    EXPORT = "export"
    SEED = "seed"
    # Stores an argument in the receiver: `append`, `add`, `insert`; `extend` stores the elements.
    STORE = "store"
    STORE_ALL = "store all"
    # Empties the receiver: `clear`.
    EMPTY = "empty"
    # Runs its first argument on the elements of the others; of the receiver without others: `pool.map(f, values)`.
    APPLY = "apply"
    FREEZE = "freeze"
    UNFREEZE = "unfreeze"
    COLLECTIVE = "collective"


class InitialMode(StrEnum):
    """Mode of a module when its constructor or factory returns it."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    UNKNOWN = "unknown"


class GradEffect(StrEnum):
    """Grad mode inside a context manager, or in a function with it as decorator."""

    OFF = "off"
    ON = "on"
    # By the first argument: `set_grad_enabled(flag)`.
    ARGUMENT = "argument"


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What a call of one library function, constructor or method does.

    Attributes:
        result: Kind of the value returned.
        graph: Effect on the autograd graph; only for results that are tensors or unknown.
        device: Device of the result.
        shape: Shape rule of the operator table (`same`, `broadcast`, `reduce`, `matmul`, `cat`, ...); empty is unknown.
        effects: Named effects.
        writes: Arguments that are written in place, by position; -1 is the receiver.
        alias: Whether the result shares memory with the first tensor: `always`, `sometimes`; empty is never.
        holds: Arguments whose values the result holds (children of `Sequential`, dataset of a loader), by name or
            position as text; the interpreter makes them readable fields of the result.
        mode: Mode of a constructed module.
        acts_by_mode: Whether the constructed module acts differently in the two modes, None if unknown.
        has_parameters: Whether the constructed module has trainable parameters, None if unknown.
        grad_mode: Grad mode inside, for a context manager or decorator.
        keeps_arguments: Whether mutable arguments stay as they are: no row without this forgets nothing.
        parameters: Names of the positional arguments, in order, where known.
        since, before: Version range of the library, empty is open.
        source: Link to documentation or source, or what checked the row (`checked = "torch 2.13.0"`).
    """

    result: ResultKind = ResultKind.UNKNOWN
    graph: GraphEffect = GraphEffect.KEEPS
    device: DeviceEffect = DeviceEffect.SAME
    shape: str = ""
    effects: frozenset[Effect] = frozenset()
    writes: tuple[int, ...] = ()
    alias: str = ""
    holds: tuple[str, ...] = ()
    mode: InitialMode = InitialMode.UNKNOWN
    acts_by_mode: bool | None = None
    has_parameters: bool | None = None
    grad_mode: GradEffect | None = None
    keeps_arguments: bool = True
    parameters: tuple[str, ...] = ()
    since: str = ""
    before: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Hook:
    """A method that a framework calls on subclasses of a base class.

    Attributes:
        method: Its name: `training_step`.
        is_repeated: Whether it runs once per batch, in a loop of the framework.
        grad: Grad mode when it runs; None if unknown.
        mode: Mode of the module when it runs; None if unknown.
        result_goes_backward: Whether the framework sends its result backward.
    """

    method: str
    is_repeated: bool = False
    grad: GradEffect | None = None
    mode: InitialMode | None = None
    result_goes_backward: bool = False


class Knowledge(Protocol):
    """Facts about libraries. Implementations are pure: same question, same answer."""

    def call(self, name: str) -> CallFacts | None:
        """Return what a call of a function or class does, by qualified name: `torch.no_grad`, `timm.create_model`."""

    def method(self, kind: ResultKind, name: str, class_name: str = "") -> CallFacts | None:
        """Return what a method does, by kind of its receiver and, if known, qualified class of the receiver.

        Kinds TENSOR, ARRAY, MODULE, OPTIMIZER, SCALER, ... name a typed receiver. UNKNOWN asks for methods whose name
        alone decides (`backward`, `zero_grad`, `state_dict`): the evidence of REVIEW_MODEL.md.
        """

    def attribute(self, kind: ResultKind, name: str, class_name: str = "") -> CallFacts | None:
        """Return what reading an attribute gives: `tensor.data` cuts the graph, `loader.dataset` is a dataset."""

    def hooks(self, base: str) -> tuple[Hook, ...]:
        """Return the hooks of a framework's base class by qualified name: `lightning.LightningModule`."""
