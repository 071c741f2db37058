"""Descriptor of a measurement, from which its command, tool, report and reference are derived.

A measurement is one file in `torchlab/measurements/` with a `MEASUREMENT`, next to its job in
`torchlab/worker/<kind>/job.py`.
"""

from __future__ import annotations

import pkgutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from esper_agents.domain.codec import JsonObject, parsed, plain
from esper_agents.torchlab import measurements as _folder
from esper_agents.torchlab.effort import Effort
from esper_agents.torchlab.worker_failure import read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement_codes import LabRule
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.results import MissingPart


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementOption:
    """One option of a measurement.

    Attributes:
        name: Name of the field.
        type: Its type on the command line; `int`, `str`, `bool`, `float`, `list[str]` or a `StrEnum`.
        default: Default; `MISSING` for a required option.
        help: What it does, in at most 60 characters.
        metavar: Placeholder of the value in the help.
        least: Minimum of a number; None for none.
        is_target: Whether its text begins with a file of the project.
        flags: Names on the command line.
        parse: Converts a text; None if the text is the value.
        in_command: Whether users can set it by an option of its own.
        in_tool: Whether agents can set it.
        flag_of: Flag of the command for a value, if it is set by flags of other options.
        tool_type: Its type for agents, who give the values of an enumeration as texts.
        tool_default: Default for agents.
        tool_help: What it does, for agents.
    """

    name: str
    type: Any
    default: Any
    help: str
    metavar: str
    least: float | None
    is_target: bool
    flags: tuple[str, ...]
    parse: Callable[[str], Any] | None
    in_command: bool
    in_tool: bool
    flag_of: Mapping[str, str]
    tool_type: Any
    tool_default: Any
    tool_help: str

    @property
    def is_shared(self) -> bool:
        """Whether the command has it among the options of all measurements."""
        return self.name == "train"

    def value(self, given: Any, inside: Callable[[str], str]) -> Any:
        """Return the value of a given text or number.

        Args:
            given: As on the command line.
            inside: Returns a file name relative to the project.
        """
        if isinstance(given, list):
            return tuple(self.value(each, inside) for each in given)
        named = inside(given) if self.is_target and given else given
        if named == self.default:
            return self.default
        return named if self.parse is None else self.parse(named)


def option(  # noqa: PLR0913 - one for each attribute of an option
    default: Any,
    text: str,
    *,
    metavar: str = "",
    least: float | None = None,
    is_target: bool = False,
    flags: tuple[str, ...] = (),
    parse: Callable[[str], Any] | None = None,
    type_: Any = None,
    in_command: bool = True,
    in_tool: bool = True,
    flag_of: Mapping[str, str] | None = None,
    tool_type: Any = None,
    tool_default: Any = MISSING,
    tool_help: str = "",
) -> Any:
    """Return the field of a measurement's options class; the arguments are those of `MeasurementOption`."""
    about = {
        "help": text,
        "metavar": metavar,
        "least": least,
        "is_target": is_target,
        "flags": flags,
        "parse": parse,
        "type": type_,
        "in_command": in_command,
        "in_tool": in_tool,
        "flag_of": flag_of or {},
        "tool_type": tool_type,
        "tool_default": default if tool_default is MISSING else tool_default,
        "tool_help": tool_help or text,
    }
    return field(metadata=about) if default is MISSING else field(default=default, metadata=about)


def train_option(*, in_tool: bool = True) -> Any:
    """Return the field of the option that includes the backward pass."""
    return option(default=False, text="Include the backward pass", in_tool=in_tool, tool_help="Also run backward")


def effort_option(*, in_tool: bool = True) -> Any:
    """Return the field of the option of the measurement time; an agent never measures for long: its session waits."""
    return option(
        Effort.NORMAL, "Measurement time", parse=Effort, in_tool=in_tool, tool_type=Literal["quick", "normal"]
    )


@dataclass(frozen=True, slots=True)
class MeasuredClaim:
    """Diagnostic that a result supports.

    Attributes:
        rule: Kind of diagnostic.
        file: File of the line, relative to the project; empty if unknown.
        line: The line; 0 if unknown.
        message: The problem.
        remedy: The suggested change.
        witnesses: Independent observations.
        possible: Number of independent observations that are possible.
        is_about_target: Whether the line is that of the target's definition, which the source tells.
    """

    rule: LabRule
    file: str
    line: int
    message: str
    remedy: str
    witnesses: tuple[str, ...]
    possible: int = 3
    is_about_target: bool = False


@dataclass(frozen=True, slots=True)
class ReportSection:
    """Part of a printed report: a title, a source line, labelled texts and a table, each if there is one.

    Attributes:
        pairs: Labels and texts.
        style: Style of the labels.
        heads: Column heads of the table; empty for none.
        cells: Rows of the table.
        bars: Length of the bar of each row, as a share of 1; empty for none.
        bar_width: Characters of a bar of length 1.
        title: Heading; an empty line stands before it.
        facts: Texts behind the title.
        note: Text over the whole width, in the style.
        source: Line number and text of a source line.
        is_apart: Whether an empty line stands before the part.
        right: Numbers of the columns that are aligned to the right.
        is_indented: Whether a table without heads stands to the right of the labels.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    style: str = ""
    heads: tuple[str, ...] = ()
    cells: tuple[tuple[str, ...], ...] = ()
    bars: tuple[float, ...] = ()
    bar_width: int = 16
    title: str = ""
    facts: tuple[str, ...] = ()
    note: str = ""
    source: tuple[int, str] | None = None
    is_apart: bool = False
    right: frozenset[int] = frozenset()
    is_indented: bool = False


def missing_section(missing: Sequence[MissingPart], style: str = "yellow") -> ReportSection:
    """Return the section of the parts that were not measured."""
    return ReportSection(tuple(("missing", f"{each.what}: {each.why}") for each in missing), style)


@dataclass(frozen=True, slots=True)
class ReportSubject:
    """Target and request of a report.

    Attributes:
        name: Name of the target.
        file: File of its definition; empty outside the project.
        line: Line of the definition; 0 outside the project.
        inputs: Input specifications.
        inputs_from: Function that returns the inputs instead; empty for none.
        captured_from: Source of recorded calls; empty for none.
        device: Device of the target.
        train: Whether the backward pass is included.
        baseline: Name of the target that it is compared with; empty for none.
        revision: Commit of that target; empty for the work tree.
        sandbox: Sandbox of the measurement.
        torch: Version of torch.
    """

    name: str
    file: str
    line: int
    inputs: tuple[str, ...]
    inputs_from: str
    captured_from: str
    device: str
    train: bool
    baseline: str = ""
    revision: str = ""
    sandbox: str = ""
    torch: str = ""

    @property
    def title(self) -> str:
        """The target, and what it is compared with."""
        if not self.baseline:
            return self.name
        return f"{self.name} against {self.baseline}{f' at {self.revision[:12]}' if self.revision else ''}"


def subject_of(body: JsonObject) -> ReportSubject:
    """Return the target and the request of a report's body."""
    arms: JsonObject = body.get("arms") or {}
    target: JsonObject = body.get("target") or arms.get("candidate") or {}
    governance: JsonObject = (body.get("result") or {}).get("governance") or {}
    return ReportSubject(
        baseline=str((arms.get("baseline") or {}).get("name", "")),
        revision=str((governance.get("base") or {}).get("commit", "")),
        sandbox=str((body.get("sandbox") or {}).get("sandbox", "")),
        torch=str(((body.get("environment") or {}).get("torch") or {}).get("version", "")),
        name=str(target.get("name", "")),
        file=str(target.get("file") or ""),
        line=int(target.get("line") or 0),
        inputs=tuple(map(str, target.get("texts") or ())),
        inputs_from=str(target.get("inputs_from") or ""),
        captured_from=str((target.get("captured") or {}).get("source", "")),
        device=str(target.get("device", "cpu")),
        train=bool((body.get("request") or {}).get("train")),
    )


@dataclass(frozen=True, slots=True)
class MeasurementOutline:
    """Most important part of a result, as an agent gets it.

    Attributes:
        said: The result in one sentence.
        facts: Fields to put first.
        witnesses: Independent observations on which the result rests.
        parts: Members of the result to keep; None for all.
    """

    said: str
    facts: JsonObject
    witnesses: tuple[str, ...]
    parts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PreparedOptions:
    """Options of a measurement that is about to run.

    Attributes:
        options: The options.
        roots: Further folders that measurement processes can read.
        elsewhere: Names of options whose file is in one of these folders, not in the project.
    """

    options: Any
    roots: tuple[Path, ...] = ()
    elsewhere: frozenset[str] = frozenset()


def _as_they_are(_root: Path, _target: str, options: Any) -> AbstractContextManager[PreparedOptions]:
    return nullcontext(PreparedOptions(options))


def _no_remark(_result: Any, _body: JsonObject) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementDescriptor:
    """Descriptor of a measurement.

    Attributes:
        kind: Kind of its reports, and name of its module.
        summary: Imperative sentence of at most 45 characters.
        details: Text of the long help and of the tool.
        target: What the target is.
        examples: Command lines.
        options: Data class of the options, with fields made by `option`.
        run: Runs it; takes the lab, the target, the options and a progress callback.
        measured: Data class of the measured part of a result.
        result: Data class of the result with its conclusions.
        explained: Returns the result of a measured part; a pure function of it and the report's subject.
        sections: Yields what is printed for a result; takes the result and the report's subject.
        claims: Yields the diagnostics of a result; takes the result and the report's subject.
        outline: Returns the most important part of a result; takes the target and the result.
        compared: Members of the result that must be equal when the measurement is repeated; empty for all.
        is_against: Whether `--fail-on` exits with 3 for a result; None if it is not known.
        fail_on: Level of `--fail-on` with which the command exits with 3; empty without the option.
        fail_help: Help of `--fail-on`.
        has_inputs: Whether the target is called, so that options and arguments give its inputs.
        prepared: Prepares the options before the lab opens; takes the project's folder, the target and the options.
        remark: Checks a stored report beyond its conclusions, and returns what to add to them; takes the result and
            the report's body.
        is_pair: Whether the target is compared with another one, the option `baseline`.
        is_judged: Whether the exit code of the command always follows from `is_against`.
        draws_seed: Whether the command draws a seed if none is given.
        is_timed: Whether it reads clocks, so that it takes turns with the other timings of this user.
    """

    kind: str
    summary: str
    details: str
    target: str = "`FILE.py:NAME` or `package.module:Class.method`"
    examples: tuple[str, ...]
    options: type
    run: Callable[[Lab, TargetSpec, Any, Tell | None], MeasurementReport]
    measured: type
    result: type
    explained: Callable[[Any, ReportSubject], Any]
    sections: Callable[[Any, ReportSubject], Iterator[ReportSection]]
    claims: Callable[[Any, ReportSubject], Iterator[MeasuredClaim]]
    outline: Callable[[str, Any], MeasurementOutline]
    compared: tuple[str, ...] = ()
    is_against: Callable[[Any], bool | None] = bool
    fail_on: str = ""
    fail_help: str = ""
    has_inputs: bool = True
    prepared: Callable[[Path, str, Any], AbstractContextManager[PreparedOptions]] = _as_they_are
    remark: Callable[[Any, JsonObject], str] = _no_remark
    is_pair: bool = False
    is_judged: bool = False
    draws_seed: bool = False
    is_timed: bool = False

    @property
    def command(self) -> str:
        """Name of its command and, after `torch-`, of its tool."""
        return command_of(self.kind)

    def option_list(self) -> tuple[MeasurementOption, ...]:
        """Return the options, in the order of the fields."""
        types = get_type_hints(self.options)
        return tuple(
            MeasurementOption(
                **{
                    **each.metadata,
                    "name": each.name,
                    "type": (kind := each.metadata["type"] or types[each.name]),
                    "tool_type": each.metadata["tool_type"] or kind,
                    "default": each.default,
                    "flags": each.metadata["flags"] or (f"--{each.name.replace('_', '-')}",),
                }
            )
            for each in fields(self.options)
            if each.metadata
        )

    def option_table(self) -> str:
        """Return the options as a Markdown table."""
        listed = [each for each in self.option_list() if each.in_command]
        rows = [f"| `{each.flags[0]}` | {_shown_default(each)} | {each.help} |" for each in listed]
        rows += [f"| `--fail-on` | `never` | {self.fail_help}: `{self.fail_on}` or `never` |"] if self.fail_on else []
        return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])

    def parsed(self, report: MeasurementReport) -> Any:
        """Return the typed result of a report, with its conclusions.

        Raises:
            ValueError: The result is not valid.
        """
        return parsed(self.result, report.result)

    def measurements(self, body: JsonObject) -> Any:
        """Return the measured part of the result in a report's body.

        Raises:
            ValueError: It is not valid.
        """
        return parsed(self.measured, body["result"])

    def conclusions(self, body: JsonObject) -> JsonObject:
        """Return the result in a report's body with its conclusions recomputed.

        Raises:
            ValueError: The measured part is not valid.
        """
        return plain(self.explained(self.measurements(body), subject_of(body)))

    def read(self, report: MeasurementReport) -> Any:
        """Return the measured part of the result of a job's report.

        Raises:
            EvidenceError: The measurement process returned an invalid result.
        """
        return read_result(self.measured, report.result)

    def concluded(self, report: MeasurementReport, measured: Any = None) -> MeasurementReport:
        """Return the report of a job with its conclusions.

        Args:
            report: The report.
            measured: Measured part; None for the result of the report.

        Raises:
            EvidenceError: The measurement process returned an invalid result.
        """
        found = self.read(report) if measured is None else measured
        return replace(report, body={**report.body, "result": plain(self.explained(found, report.subject))})


def _shown_default(option: MeasurementOption) -> str:
    """Return the default in a table of options; empty for a switch, and where there is none."""
    if option.default is MISSING:
        return "required"
    return "" if option.type is bool or option.default in {None, "", ()} else f"`{option.default}`"


def command_of(kind: str) -> str:
    """Return the name of the command of a kind: modules have underscores, and commands have hyphens."""
    return kind.replace("_", "-")


def measurement_kinds() -> frozenset[str]:
    """Return the kinds that have a descriptor, without importing them."""
    return frozenset(module.name for module in pkgutil.iter_modules(_folder.__path__))


@cache
def measurement(kind: str) -> MeasurementDescriptor:
    """Return the descriptor of a kind."""
    made: MeasurementDescriptor = import_module(f"{_folder.__name__}.{kind}").MEASUREMENT
    return made


def measurements(command: str = "") -> tuple[MeasurementDescriptor, ...]:
    """Return all descriptors, sorted by kind, or that of a command alone.

    Args:
        command: Name of the command; all if empty or unknown.
    """
    kinds = sorted(measurement_kinds())
    named = [kind for kind in kinds if command_of(kind) == command]
    return tuple(measurement(kind) for kind in named or kinds)
