"""Drafted test files: assertions that a target met in its first calls, written as test functions."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.atomic_file import atomic_file
from esper_agents.domain.pluralize import number_of
from esper_agents.errors import UsageError
from esper_agents.torchlab.harness import (
    SETTINGS_CLASS,
    construction,
    digest_line,
    harness_text,
    is_unchanged,
    torch_imports,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from esper_agents.torchlab.harness import HarnessPlan
    from esper_agents.torchlab.worker.scaffold.result import HarnessArgument
    from esper_agents.torchlab.worker.test.result import ObservedBehaviour, ObservedValue

DRAFT_FOLDER = ".esper/tests"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DTYPE = re.compile(r"[a-z]+\d*(?:_\w+)?")
# As a search writes an optimizer: over a parameter of its own.
_OPTIMIZER = re.compile(r"(torch\.optim\.\w+\()\[nn\.Parameter\([^\[\]]*\)\](.*)")
_MOST_BYTES = 1_000_000
_MOST_UNREACHED = 6
_RUN = '''def run():
    """Return the result of one call."""
    call, args, kwargs = make()
    return call(*args, **kwargs)


'''


@dataclass(frozen=True, slots=True)
class Assertion:
    """Assertion of a drafted test.

    Attributes:
        words: What it asserts, in a few words.
        name: Name of its test function, without `test_`.
        lines: Lines of the function.
    """

    words: str
    name: str
    lines: tuple[str, ...]


def draft_file(target: str) -> str:
    """Return the file of a target's drafted test, relative to the project."""
    return f"{DRAFT_FOLDER}/test_{_words(target.rpartition(':')[2])}.py"


def _words(name: str) -> str:
    return re.sub(r"\W+", "_", _CAMEL.sub("_", name)).lower().strip("_")


def preamble(plan: HarnessPlan, harness: str) -> str:
    """Return the beginning of a test file: imports, and `make`, which returns the target and the arguments of a call.

    Args:
        plan: The target and its arguments.
        harness: Harness file whose inputs are used; empty for those of the plan.

    Raises:
        EvidenceError: The plan contains code that no search writes.
    """
    if harness:
        return _of_harness(plan.target, harness)
    # Refuses everything but names, constants and constructor calls.
    harness_text(plan)
    arguments = (*plan.make, *plan.call)
    imports = sorted(
        {pair for argument in arguments for pair in argument.imports} | {(plan.module, plan.qualname.split(".")[0])}
    )
    folder = plan.folder if plan.folder not in {"", ".", "src"} else ""
    lines = [f'"""First test of {plan.target}, on synthetic inputs."""', ""]
    if folder:
        lines += ["import sys", "from pathlib import Path", ""]
    used = torch_imports(arguments)
    lines += used or ["import torch", ""]
    if used and "import torch" not in used:
        lines[-len(used) : -len(used)] = ["import torch"]
    if folder:
        lines += [
            f'FOLDER = "{folder}"',
            "PROJECT = next(each for each in Path(__file__).resolve().parents if (each / FOLDER).is_dir())",
            "sys.path.insert(0, str(PROJECT / FOLDER))",
            "",
        ]
    lines += [f"from {module} import {name}{'  # noqa: E402' if folder else ''}" for module, name in imports]
    text = "\n".join([*lines, "", "", ""])
    if any("Settings(" in argument.text for argument in arguments):
        text += SETTINGS_CLASS
    text += 'def make():\n    """Return the target, and the arguments of one call."""\n    torch.manual_seed(0)\n'
    if (joined := _joined(plan)) is not None:
        module, plan = joined
        text += f"    {module.name} = {module.text}\n"
    made = construction(plan).removeprefix("    return ")
    text += f"    call = {made}\n"
    text += "".join(f"    {each.name} = {each.text}\n" for each in plan.call)
    by_position = [each.name for each in plan.call if each.is_positional]
    row = f"({', '.join(by_position)}{',' if len(by_position) == 1 else ''})"
    named = ", ".join(f'"{each.name}": {each.name}' for each in plan.call if not each.is_positional)
    return f"{text}    return call, {row}, {{{named}}}\n\n\n"


def _joined(plan: HarnessPlan) -> tuple[HarnessArgument, HarnessPlan] | None:
    """Return the module of a plan, and the plan with its optimizer over that module; None if it has not one of each."""
    modules = [each for each in plan.make if each.text.startswith("nn.")]
    alone = [each for each in plan.make if _OPTIMIZER.fullmatch(each.text)]
    if len(modules) != 1 or len(alone) != 1:
        return None
    module, name = modules[0], modules[0].name
    texts = {name: name, alone[0].name: _OPTIMIZER.sub(rf"\1{name}.parameters()\2", alone[0].text)}
    return module, replace(plan, make=tuple(replace(each, text=texts.get(each.name, each.text)) for each in plan.make))


def _of_harness(target: str, harness: str) -> str:
    lines = [
        f'"""First test of {target}, on the inputs of {harness}."""',
        "",
        "import runpy",
        "from pathlib import Path",
        "",
        "import torch",
        "",
        f'FILE = "{harness}"',
        "PROJECT = next(each for each in Path(__file__).resolve().parents if (each / FILE).is_file())",
        "HARNESS = runpy.run_path(str(PROJECT / FILE))",
        "",
        "",
        "def make():",
        '    """Return the target, and the arguments of one call."""',
        "    torch.manual_seed(0)",
        '    call, inputs = HARNESS["make"](), HARNESS["get_inputs"]()',
        "    args, kwargs = inputs if isinstance(inputs[-1], dict) and len(inputs) == 2 else (inputs, {})",
        "    return call, args, kwargs",
        "",
        "",
        "",
    ]
    return "\n".join(lines)


def assertions(target: str, seen: ObservedBehaviour) -> tuple[Assertion, ...]:
    """Return the assertions that hold for the observed behaviour of a target."""
    name = _words(target.rpartition(":")[2])
    found = [_values(name, seen)]
    if seen.is_repeatable and (known := [value for value in seen.values if value.kind in {"tensor", "number"}]):
        found.append(_repeatable(name, known))
    found += _gradients(name, seen)
    if seen.is_moded and (first := next((value for value in seen.values if value.kind == "tensor"), None)):
        found.append(_modes(name, first))
    if seen.updated and seen.updated.isidentifier():
        found.append(_updates(name, seen.updated))
    if seen.tensors and not seen.changed:
        found.append(_unchanged(name))
    return tuple(found)


def draft_text(beginning: str, found: Sequence[Assertion]) -> str:
    """Return the text of a test file with its first line, which tells whether it was edited."""
    text = beginning
    if any(line.startswith("import math") for each in found for line in each.lines):
        text = text.replace('"""\n\n', '"""\n\nimport math\n', 1)
    functions = [
        f"def test_{each.name}():\n" + "".join(f"    {line}\n" for line in each.lines if line != "import math")
        for each in found
    ]
    text += _RUN + "\n\n".join(functions)
    return f"{digest_line(text)}{text}"


def _place(value: ObservedValue, of: str = "output") -> str:
    return of + "".join(f"[{step!r}]" for step in value.steps)


def _values(name: str, seen: ObservedBehaviour) -> Assertion:
    lines, words = ["output = run()"], []
    for value in seen.values:
        place = _place(value)
        if value.kind == "tensor" and _DTYPE.fullmatch(value.dtype):
            lines += [f"assert {place}.shape == {value.shape!r}", f"assert {place}.dtype == torch.{value.dtype}"]
            lines += [f"assert {place}.isfinite().all()"] if value.is_finite else []
            is_real = value.dtype.startswith(("float", "bfloat", "complex"))
            finite = "finite " if value.is_finite and is_real else ""
            words.append(
                f"{finite}{value.dtype} of shape {list(value.shape)}" if value.shape else f"a {finite}{value.dtype}"
            )
        elif value.kind == "number" and value.is_finite:
            lines += ["import math", f"assert math.isfinite({place})"]
            words.append("a finite number")
        elif value.kind == "none":
            lines.append(f"assert {place} is None")
            words.append("None")
        else:
            lines.append(f"assert type({place}).__name__ == {value.type!r}")
            words.append(f"an object of {value.type}")
    if not seen.values:
        lines.append("assert len(output) == 0")
        words.append("nothing")
    summary = words[0] if len(words) == 1 else f"{number_of(len(words), 'part')}, the first of {words[0]}"
    return Assertion(summary, f"{name}_returns_what_is_expected", tuple(dict.fromkeys(lines)))


def _repeatable(name: str, known: Sequence[ObservedValue]) -> Assertion:
    lines = ["first, second = run(), run()"]
    for each in known:
        one, other = _place(each, "first"), _place(each, "second")
        is_tensor = each.kind == "tensor"
        lines.append(f"assert torch.equal({one}, {other})" if is_tensor else f"assert {one} == {other}")
    return Assertion("the same result for the same seed", f"{name}_is_repeatable_from_a_seed", tuple(lines))


def _gradients(name: str, seen: ObservedBehaviour) -> Iterator[Assertion]:
    """Yield the assertion that gradients arrive where they did."""
    graded = [seen.values[number] for number in seen.graded if number < len(seen.values)]
    parts = " + ".join(f"{_place(each)}.sum()" for each in graded if each.dtype.startswith(("float", "bfloat")))
    is_of_module = seen.is_module or seen.is_method_of_module
    if seen.backward or not parts or seen.left_out:
        return
    if is_of_module and seen.parameters > len(seen.unreached):
        module = "call" if seen.is_module else "call.__self__"
        named = ", ".join(json.dumps(each) for each in sorted(seen.unreached))
        end = f"assert without <= {{{named}}}  # is it intended that these get none?" if named else "assert not without"
        if len(seen.unreached) > _MOST_UNREACHED:
            return
        reached = seen.parameters - len(seen.unreached)
        yield Assertion(
            f"a gradient for {reached} of {number_of(seen.parameters, 'parameter')}",
            f"a_gradient_reaches_the_parameters_of_{name}",
            (
                "call, args, kwargs = make()",
                "output = call(*args, **kwargs)",
                _backward(parts),
                f"parameters = {module}.named_parameters()",
                "without = {name for name, each in parameters if each.requires_grad and each.grad is None}",
                end,
            ),
        )
    elif seen.inputs_reached:
        numbers = ", ".join(map(str, seen.inputs_reached))
        yield Assertion(
            f"a finite gradient for {number_of(len(seen.inputs_reached), 'float argument')}",
            f"a_gradient_reaches_the_arguments_of_{name}",
            (
                "call, args, kwargs = make()",
                f"inputs = [args[number] for number in ({numbers},)]",
                "for each in inputs:",
                "    each.requires_grad_()",
                "output = call(*args, **kwargs)",
                _backward(parts),
                "assert all(each.grad.isfinite().all() for each in inputs)",
            ),
        )


def _backward(parts: str) -> str:
    return f"({parts}).backward()" if " + " in parts else f"{parts}.backward()"


def _modes(name: str, value: ObservedValue) -> Assertion:
    place = _place(value, "call(*args, **kwargs)")
    return Assertion(
        "dropout in training and none in evaluation",
        f"{name}_is_random_in_training_and_not_in_evaluation",
        (
            "call, args, kwargs = make()",
            "call.eval()",
            f"assert torch.equal({place}, {place})",
            "call.train()",
            f"assert not torch.equal({place}, {place})",
        ),
    )


def _updates(name: str, attribute: str) -> Assertion:
    return Assertion(
        f"a call changes the parameters of `{attribute}`",
        f"{name}_changes_the_parameters",
        (
            "call, args, kwargs = make()",
            f"parameters = list(call.__self__.{attribute}.parameters())",
            "before = [each.detach().clone() for each in parameters]",
            "call(*args, **kwargs)",
            "assert any(not torch.equal(one, other) for one, other in zip(before, parameters, strict=True))",
        ),
    )


def _unchanged(name: str) -> Assertion:
    return Assertion(
        "arguments are not changed",
        f"{name}_does_not_change_its_arguments",
        (
            "call, args, kwargs = make()",
            "before = [each.clone() for each in args if isinstance(each, torch.Tensor)]",
            "call(*args, **kwargs)",
            "after = [each for each in args if isinstance(each, torch.Tensor)]",
            "assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))",
        ),
    )


def destination(root: Path, file: str) -> str:
    """Return where a drafted test belongs: in the folder of the project's tests, else in that of the project."""
    folder = next((each for each in ("tests", "test") if (root / each).is_dir()), "")
    if not folder:
        beside = next(iter(sorted(root.glob("[!.]*/test_*.py"))), None)
        folder = beside.parent.name if beside is not None else "."
    wanted = PurePosixPath(folder, PurePosixPath(file).name)
    # Tests of the user are not overwritten.
    is_taken = (root / wanted).exists()
    return str(wanted.with_stem(f"{wanted.stem}_draft") if is_taken else wanted)


def edited_draft(root: Path, file: str) -> str:
    """Return the text of a drafted test that the user edited; empty if there is none."""
    path = (root / file).resolve()
    if path.parent != root.resolve() / DRAFT_FOLDER or not path.is_file():
        return ""
    with path.open("rb") as stream:
        text = stream.read(_MOST_BYTES).decode("utf-8", "replace")
    return "" if is_unchanged(text) else text


def write_draft(root: Path, file: str, text: str) -> None:
    """Write a drafted test into the project, in one step.

    Args:
        root: The project.
        file: As returned by `draft_file`.
        text: As returned by `draft_text`.

    Raises:
        UsageError: The folder is outside the project or cannot be written.
    """
    folder = root.resolve() / DRAFT_FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.resolve() != folder:
            raise UsageError(
                f"{DRAFT_FOLDER} is a link to another folder", remedy=f"replace {DRAFT_FOLDER} by a real folder"
            )
        with atomic_file(root.resolve() / file, mode=0o644, is_synced=False) as written:
            written.stream.write(text.encode())
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}", remedy=f"make {DRAFT_FOLDER} writable"
        ) from error
