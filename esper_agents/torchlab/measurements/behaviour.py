"""Say what calls of a target do: shapes, state, gradients, and the effect of changed inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.torchlab.measurement import (
    MeasurementDescriptor,
    MeasurementOutline,
    ReportSection,
    missing_section,
)
from esper_agents.torchlab.worker.behaviour.result import BehaviourRun
from esper_agents.torchlab.worker.results import shallow
from esper_agents.torchlab.worker.target.source_place import SourcePlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.measurement import MeasuredClaim, ReportSubject
    from esper_agents.torchlab.report import MeasurementReport
    from esper_agents.torchlab.target import TargetSpec, Tell
    from esper_agents.torchlab.worker.behaviour.result import PositionEffect, TensorSummary, TriedCall

# What statements are about.
STATEMENT_TOPICS = (
    *(
        "shapes",
        "parts",
        "values",
        "state",
        "saved state",
        "gradients",
        "random numbers",
        "inputs",
        "positions",
        "mask",
    ),
    *("sizes", "precision", "device", "batch"),
)
_MOST_LISTED, _MOST_PARTS_SHOWN, _LONGEST_PATH = 6, 16, 60
_IN_MODE = {"training": "in training mode", "evaluation": "in evaluation mode", "": ""}
_NUMBERED = re.compile(r"\.\d+\b")
_NO_STATE = "no parameter, buffer or attribute"
_EFFECTS = {
    "same": "returns the same as before",
    "differs": "returns other values",
    "returns": "returns",
    "not finite": "returns NaN or infinity",
    "raises": "raises",
}


@dataclass(frozen=True, slots=True)
class BehaviourOptions:
    """Options of `esper torch behaviour`: none of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourStatement:
    """Observed behaviour in one sentence.

    Attributes:
        topic: What it is about, one of `STATEMENT_TOPICS`.
        said: The sentence, without a full stop.
        place: Line of the project that raised; None without one.
        is_problem: Whether a call raised or returned NaN or infinity.
    """

    topic: str
    said: str
    place: SourcePlace | None = None
    is_problem: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BehaviourResult(BehaviourRun):
    """Result with its statements and the most important of them in one sentence."""

    statements: tuple[BehaviourStatement, ...] = ()
    headline: str = ""


def run(lab: Lab, target: TargetSpec, _options: BehaviourOptions, tell: Tell | None) -> MeasurementReport:
    """Call a target and record what it does.

    Each call of a module runs on a copy of it, with the same inputs and random numbers unless one of them is changed.

    Args:
        lab: Lab that runs the target in a measurement process; never in this one.
        target: A function or an nn.Module.
        tell: Progress callback.

    Returns:
        A report whose `result` is an `BehaviourResult` as JSON.

    Raises:
        UsageError: The target cannot be used.
        WorkerError: The target raised on its first inputs, hung or crashed.
    """
    return MEASUREMENT.concluded(lab.job("behaviour", target, {"seed": target.seed}, tell=tell))


def explained(run: BehaviourRun, _subject: ReportSubject) -> BehaviourResult:
    """Return what was observed, in statements."""
    statements = tuple(_statements(run))
    shapes = next((each.said for each in statements if each.topic == "shapes"), "it returns no tensor")
    return BehaviourResult(**shallow(run), statements=statements, headline=shapes)


def _statements(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    yield BehaviourStatement(topic="shapes", said=_shapes(run))
    yield from _parts(run)
    yield from _values(run)
    yield from _state(run)
    yield from _gradients(run)
    yield from _random(run)
    changed = f"a call changes {_listed(run.changed_inputs)} in place" if run.changed_inputs else ""
    yield BehaviourStatement(topic="inputs", said=changed or "a call leaves its inputs unchanged")
    yield from map(_position, sorted(run.positions, key=lambda each: each.is_seen_earlier))
    for mask in run.masks:
        yield BehaviourStatement(topic="mask", said=_MASKS[mask.hides].format(mask=mask.mask, input=mask.input))
    yield from map(_tried, run.tried)
    yield from _rows(run)


def _position(each: PositionEffect) -> BehaviourStatement:
    along = f"along dimension {each.axis} of `{each.input}`"
    if not (each.is_seen_earlier or each.is_seen_later):
        said = f"{along}, positions do not affect one another in `{each.output}`"
    elif each.is_seen_earlier:
        said = f"{along}, the last position changes `{each.output}` at earlier ones"
    else:
        said = f"{along}, a later position does not change `{each.output}` at earlier ones: causal"
    return BehaviourStatement(topic="positions", said=said)


_MASKS = {
    "True": "`{mask}` hides where it is True: values of `{input}` there change no output where it is False",
    "False": "`{mask}` hides where it is False: values of `{input}` there change no output where it is True",
    "both": "`{mask}` separates: values of `{input}` change no output where `{mask}` has the other value",
    "neither": "`{mask}` hides nothing: values of `{input}` change other outputs, where it is True and where not",
}


def _shapes(run: BehaviourRun) -> str:
    given = ", ".join(f"`{each.name}` {_type(each)}" for each in run.inputs[:_MOST_LISTED]) or "no tensor"
    returned = ", ".join(_type(each) for each in run.outputs[:_MOST_LISTED]) or "no tensor"
    return f"for {given} it returns {returned}"


def _type(tensor: TensorSummary) -> str:
    return f"{tensor.dtype}{list(tensor.shape)}"


def _parts(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    ran = [each for each in run.parts if each.calls and each.shape]
    if ran:
        steps = [f"`{each.name}` ({each.kind}) {list(each.shape)}" for each in ran if "." not in each.name]
        steps = steps or [f"`{each.name}` ({each.kind}) {list(each.shape)}" for each in ran]
        more = len(steps) - _MOST_PARTS_SHOWN
        said = ", ".join(steps[:_MOST_PARTS_SHOWN]) + (f" and {more} more" if more > 0 else "")
        yield BehaviourStatement(topic="parts", said=f"its parts return {said}")
    idle = [each.name for each in run.parts if not each.calls]
    # The parts of an idle part are idle, too.
    top = [name for name in idle if not any(name.startswith(f"{other}.") for other in idle)]
    if top and ran:
        yield BehaviourStatement(topic="parts", said=f"the call does not run {_listed(top)}")


def _values(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    trained = {each.name: each for each in run.training_outputs}
    plain = []
    for each in run.outputs[:_MOST_LISTED]:
        other = trained.get(each.name)
        said, in_training = _value(each), _value(other) if other is not None else ""
        is_telling = said != in_training and _is_telling(each, other)
        if said and in_training and is_telling:
            said = f"{said} in evaluation mode and {in_training.removeprefix('is ')} in training mode"
        is_problem = not (each.is_finite and (other is None or other.is_finite))
        if said and (is_telling or is_problem or each.sums_to_one):
            yield BehaviourStatement(topic="values", said=f"`{each.name}` {said}", is_problem=is_problem)
        elif said:
            plain.append(f"`{each.name}` {said}")
    if plain:
        yield BehaviourStatement(topic="values", said=", ".join(plain))


def _is_telling(one: TensorSummary, other: TensorSummary | None) -> bool:
    """Return whether the modes differ by more than other numbers: in the sign, in NaN, or because one is 0."""
    if other is None or one.is_finite != other.is_finite or one.sums_to_one != other.sums_to_one:
        return other is not None
    signs = [(each.low or 0) < 0 for each in (one, other)]
    return signs[0] != signs[1] or (one.low == one.high) != (other.low == other.high)


def _value(output: TensorSummary) -> str:
    if not output.is_finite:
        return "contains NaN or infinity"
    if output.low is None or output.high is None:
        return ""
    low, high = (_number(each, output) for each in (output.low, output.high))
    if output.low == output.high:
        return f"is {low}{' everywhere' if output.shape else ''}"
    between = f"is between {low} and {high}"
    return (
        f"{between} and sums to 1 along dimension {output.sums_to_one}: probabilities"
        if output.sums_to_one
        else between
    )


def _number(value: float, output: TensorSummary) -> str:
    return f"{value:.3g}" if output.dtype.startswith(("float", "bfloat")) else f"{int(value):,}"


def _state(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    changed = {each.mode: [*each.tensors, *(f"{name} (attribute)" for name in each.attributes)] for each in run.changes}
    if run.parts or run.state:
        training, evaluation = changed.get("training", []), changed.get("evaluation", [])
        if training == evaluation:
            does = f"changes {_listed(training)} in both modes" if training else f"changes {_NO_STATE} in either mode"
        elif not evaluation:
            does = f"changes {_listed(training)} in training mode only; in evaluation mode it changes {_NO_STATE}"
        else:
            does = f"changes {_listed(evaluation)} in evaluation mode, and {_listed(training)} in training mode"
        yield BehaviourStatement(topic="state", said=f"a forward pass {does}")
    unsaved = [name for name, is_saved in run.state.items() if not is_saved]
    lost = list(dict.fromkeys(name for each in run.changes for name in each.attributes))
    if lost:
        said = f"calls change {_listed(lost)}, which `state_dict` lacks"
        after = {
            True: "; a new object that loads it returns something else than the saved one",
            False: "; a new object that loads it returns the same as the saved one",
            None: "",
        }[run.is_lost]
        yield BehaviourStatement(topic="saved state", said=f"{said}{after}")
    if run.state:
        saved = [name for name in run.state if name not in unsaved]
        without = f"{'; it' if saved else '`state_dict`'} lacks {_listed(unsaved)}" if unsaved else ""
        has = f"`state_dict` has the buffers {_listed(saved)}" if saved else ""
        yield BehaviourStatement(topic="saved state", said=f"{has}{without}")


def _random(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    differing = [mode for mode, differs in run.random.items() if differs]
    if not differing:
        does = "return the same"
    elif len(differing) == len(run.random):
        does = "return different values"
    else:
        does = f"return different values {_IN_MODE[differing[0]]} only"
    yield BehaviourStatement(topic="random numbers", said=f"two calls that differ in random numbers alone {does}")


def _gradients(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    flow = run.gradients
    if flow is None:
        yield BehaviourStatement(topic="gradients", said="no output has a gradient")
        return
    if flow.error:
        said = f"the backward pass raises {flow.error}"
        yield BehaviourStatement(topic="gradients", said=said, place=flow.place, is_problem=True)
        return
    if flow.parameters:
        got = flow.parameters - len(flow.without)
        said = f"backward reaches {got} of {number_of(flow.parameters, 'parameter')}"
        said += f"; {_listed(flow.without)} got no gradient" if flow.without else ""
        said += f"; the gradient of {_listed(flow.zero)} is exactly zero" if flow.zero else ""
        yield BehaviourStatement(topic="gradients", said=said)
    if flow.frozen:
        yield BehaviourStatement(topic="gradients", said=f"{_listed(flow.frozen)} require no gradient")
    if flow.inputs:
        yield BehaviourStatement(topic="gradients", said=f"backward reaches the input {_listed(flow.inputs)}")
    if flow.inputs_without:
        said = f"backward does not reach the input {_listed(flow.inputs_without)}"
        yield BehaviourStatement(topic="gradients", said=said)


def _rows(run: BehaviourRun) -> Iterator[BehaviourStatement]:
    for mode, depends in run.rows.items():
        does = "depends" if depends else "does not depend"
        about = f" {_IN_MODE[mode]}" if mode else ""
        yield BehaviourStatement(
            topic="batch", said=f"a row of the output{about} {does} on the other rows of the batch"
        )


def _tried(call: TriedCall) -> BehaviourStatement:
    topic = (
        "batch"
        if "batch" in call.what
        else "device"
        if call.what == "another device"
        else "sizes"
        if "dimension" in call.what
        else "precision"
    )
    about = f"{call.what} {_IN_MODE[call.mode]}".rstrip() if topic == "batch" else call.what
    detail = f" {call.detail}" if call.detail and call.effect in {"raises", "returns"} else ""
    where = f" at {call.place.file}:{call.place.line}" if call.place else ""
    said = f"{about}: it {_EFFECTS[call.effect]}{detail}{where}"
    if topic == "device" and call.effect == "returns":
        said = "moved to another device, weights and inputs together, it runs: no tensor stays behind"
    return BehaviourStatement(
        topic=topic, said=said, place=call.place, is_problem=call.effect in {"raises", "not finite"}
    )


def _listed(names: Sequence[str]) -> str:
    # Parts with numbers, such as `layers.0.weight` and `layers.1.weight`, are one name.
    names = list(dict.fromkeys(_NUMBERED.sub(".*", name) for name in names)) if len(names) > _MOST_LISTED else names
    shown = ", ".join(f"`{name[:_LONGEST_PATH]}`" for name in names[:_MOST_LISTED])
    more = len(names) - _MOST_LISTED
    return (shown + (f" and {more} more" if more > 0 else "")) or "none"


def sections(result: BehaviourResult, _subject: ReportSubject) -> Iterator[ReportSection]:
    """Yield what the terminal shows."""
    topics: dict[str, list[BehaviourStatement]] = {}
    for each in result.statements:
        topics.setdefault(each.topic, []).append(each)
    pairs = [
        ("" if number else topic, each.said)
        for topic, statements in topics.items()
        for number, each in enumerate(statements)
    ]
    yield ReportSection(tuple(pairs))
    yield missing_section(result.missing)


def claims(_result: BehaviourResult, _subject: ReportSubject) -> Iterator[MeasuredClaim]:
    """Yield no diagnostic: what a call does is a problem only for a question or a caller."""
    yield from ()


def outline(target: str, result: BehaviourResult) -> MeasurementOutline:
    """Return the most important part of a result."""
    raised = [each for each in result.statements if each.is_problem]
    status = "raises" if raised else "runs"
    return MeasurementOutline(f"{target}: {result.headline}", {"status": status}, ("calls of the target",))


MEASUREMENT = MeasurementDescriptor(
    kind="behaviour",
    summary="Show what calls of a target do",
    details=(
        "Calls the target in both modes and with one input changed at a time: shapes, state, gradients, batches, "
        "masks, sizes, precision, device."
    ),
    examples=(
        'esper torch behaviour model.py:make_model --input "randn(32,128)"',
        "esper torch behaviour .esper/harness/model_Encoder.py:make",
    ),
    options=BehaviourOptions,
    run=run,
    measured=BehaviourRun,
    result=BehaviourResult,
    explained=explained,
    sections=sections,
    claims=claims,
    outline=outline,
    is_against=lambda result: any(each.is_problem for each in result.statements),
    fail_on="error",
    fail_help="Exit 3 if a call raises",
)
