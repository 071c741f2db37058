"""Descriptor of a measurement, from which its command, tool, report kind and reference are derived.

A measurement is one file in `torchlab/measurements/` with a `MEASUREMENT`, next to its job in `torchlab/worker/jobs/`.
"""

from __future__ import annotations

import pkgutil
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

from esper_agents.torchlab import measurements as _folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from esper_agents.domain.codec import JsonObject
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement_codes import LabRule
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell


@dataclass(frozen=True, slots=True)
class MeasurementOption:
    """One option of a measurement.

    Attributes:
        name: Name of the field; the option of the command is `--name`.
        type: Its type: `int`, `str`, `bool` or `float`.
        default: Default.
        help: What it does, in at most 60 characters.
        metavar: Placeholder of the value in the help.
        least: Minimum of a number; None for none.
        is_target: Whether it names a `FILE.py:NAME` of the project.
    """

    name: str
    type: type
    default: Any
    help: str
    metavar: str
    least: float | None
    is_target: bool


def option(default: Any, text: str, *, metavar: str = "", least: float | None = None, is_target: bool = False) -> Any:
    """Return the field of a measurement's options class; the arguments are those of `MeasurementOption`."""
    return field(default=default, metadata={"help": text, "metavar": metavar, "least": least, "is_target": is_target})


@dataclass(frozen=True, slots=True)
class MeasuredClaim:
    """Diagnostic that a result supports.

    Attributes:
        rule: Kind of diagnostic.
        place: Mapping with `file` and `line`.
        message: The problem.
        remedy: The suggested change.
        witnesses: Independent observations.
    """

    rule: LabRule
    place: JsonObject
    message: str
    remedy: str
    witnesses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Part of a printed report: labelled texts, or a table whose rows may have a bar.

    Attributes:
        pairs: Labels and texts.
        style: Style of the labels.
        heads: Column heads of the table; empty without a table.
        cells: Rows of the table.
        bars: Length of the bar of each row, as a share of 1; empty for none.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    style: str = ""
    heads: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    bars: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementDescriptor:
    """Descriptor of a measurement.

    Attributes:
        kind: Kind of its reports, name of its command and, after `torch-`, of its tool.
        summary: Imperative sentence of at most 45 characters.
        details: Text of the long help and of the tool.
        target: What the target is.
        examples: Command lines.
        options: Data class of the options, with fields made by `option`.
        run: Runs it; takes the lab, the target, the options and a progress callback.
        explained: Returns a result with its conclusions; a pure function of the measured part.
        result: Data class of the result with its conclusions.
        sections: Yields what is printed for a result.
        claims: Yields the diagnostics of a result.
        witnesses: Independent observations on which a result rests.
        compared: Members of the result that must be equal when the measurement is repeated.
        failing: Values of `status` for which `--fail` exits with 3.
        fail_help: Help of `--fail`.
    """

    kind: str
    summary: str
    details: str
    target: str
    examples: tuple[str, ...]
    options: type
    run: Callable[[Lab, TargetSpec, Any, Tell | None], MeasurementReport]
    explained: Callable[[JsonObject], JsonObject]
    result: type
    sections: Callable[[JsonObject], Iterator[ReportSection]]
    claims: Callable[[JsonObject], Iterator[MeasuredClaim]]
    witnesses: tuple[str, ...]
    compared: tuple[str, ...]
    failing: frozenset[str]
    fail_help: str

    def option_list(self) -> tuple[MeasurementOption, ...]:
        """Return the options, in the order of the fields."""
        types = get_type_hints(self.options)
        return tuple(
            MeasurementOption(each.name, types[each.name], _default(each.default), **each.metadata)
            for each in fields(self.options)
        )

    def option_table(self) -> str:
        """Return the options as a Markdown table."""
        rows = [
            f"| `--{each.name.replace('_', '-')}` | {'' if each.type is bool else f'`{each.default}`'} | {each.help} |"
            for each in self.option_list()
        ]
        failing = f"| `--fail` |  | {self.fail_help} |"
        return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows, failing])


def _default(default: Any) -> Any:
    if default is MISSING:
        raise TypeError("an option of a measurement has a default")
    return default


def measurement_kinds() -> frozenset[str]:
    """Return the kinds that have a descriptor, without importing them."""
    return frozenset(each.name for each in pkgutil.iter_modules(_folder.__path__))


@cache
def measurement(kind: str) -> MeasurementDescriptor:
    """Return the descriptor of a kind."""
    made: MeasurementDescriptor = import_module(f"{_folder.__name__}.{kind}").MEASUREMENT
    return made


def measurements() -> tuple[MeasurementDescriptor, ...]:
    """Return all descriptors, sorted by kind."""
    return tuple(measurement(kind) for kind in sorted(measurement_kinds()))
