"""Results of the job `test`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedValue:
    """Part of what a call returned.

    Attributes:
        steps: Indices and keys that lead to it; empty for the whole result.
        kind: `tensor`, `number`, `none` or `other`.
        type: Name of its class.
        shape: Sizes of a tensor.
        dtype: Type of its elements, such as `float32`.
        is_finite: Whether every number in it is finite.
    """

    steps: tuple[int | str, ...] = ()
    kind: str
    type: str
    shape: tuple[int, ...] = ()
    dtype: str = ""
    is_finite: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedBehaviour:
    """Behaviour of a target in a few calls from one seed.

    Attributes:
        values: Parts of the result, at most six.
        left_out: Number of further parts.
        is_repeatable: Whether two calls from one seed return the same.
        is_module: Whether the target is a module.
        is_method_of_module: Whether it is a method of a module.
        graded: Numbers of the parts from which a gradient flows.
        parameters: Number of trainable parameters of that module.
        unreached: Names of its parameters without a gradient.
        inputs_reached: Positions of float arguments with a finite gradient, for a function.
        inputs_unreached: Positions of float arguments without one.
        backward: Exception of backward; empty if it raised none.
        has_dropout: Whether the module contains dropout.
        is_moded: Whether calls differ in training and are equal in evaluation.
        updated: Attribute of the method's object that is a module whose parameters a call changes; empty for none.
        kept: Its modules, if a call changes the parameters of none.
        changed: Positions of tensor arguments that a call changes.
        tensors: Number of tensors among the positional arguments.
    """

    values: tuple[ObservedValue, ...]
    left_out: int = 0
    is_repeatable: bool = False
    is_module: bool = False
    is_method_of_module: bool = False
    graded: tuple[int, ...] = ()
    parameters: int = 0
    unreached: tuple[str, ...] = ()
    inputs_reached: tuple[int, ...] = ()
    inputs_unreached: tuple[int, ...] = ()
    backward: str = ""
    has_dropout: bool = False
    is_moded: bool = False
    updated: str = ""
    kept: tuple[str, ...] = ()
    changed: tuple[int, ...] = ()
    tensors: int = 0


@dataclass(frozen=True, slots=True)
class DraftedTestRun:
    """Run of one test function: its name, and its exception; empty if it passed."""

    name: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class DraftedTestRuns:
    """Runs of all functions of a test file, in order."""

    runs: tuple[DraftedTestRun, ...]
