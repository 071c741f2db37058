"""Harness files: a factory and its inputs, written from arguments that a search found."""

from __future__ import annotations

import ast
import hashlib
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.atomic_file import atomic_file
from esper_agents.errors import EvidenceError, UsageError
from esper_agents.paths import HARNESS_FOLDER
from esper_agents.torchlab.worker.scaffold.result import HarnessArgument

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_DIGEST = re.compile(r"^# made-by-esper: sha256=([0-9a-f]{64})\n", re.MULTILINE)
_MOST_BYTES = 1_000_000
_LONGEST_LINE = 100
SETTINGS_CLASS = '''class Settings:
    """Configuration object."""

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def __getitem__(self, name):
        return getattr(self, name)


'''
# Names of torch that a search uses; no other one is written into a file.
_TORCH = frozenset(
    (
        *("randn", "rand", "randint", "ones", "zeros", "tensor", "bool", "complex64", "float32", "float64", "int64"),
        *("eye", "distributions", "distributions.Normal"),
        *("float16", "bfloat16", "uint8", "int8", "int16", "int32"),
        *("long", "device", "Generator", "relu", "optim", "optim.SGD", "Size"),
    )
)
_CAPTURED = '''def captured(name):
    """Return a tensor of the captured call."""
    return torch.load(Path(__file__).with_suffix(".tensors"), weights_only=True)[name]


'''
_OPTIMIZER = '''def make():
    """Return a function that makes a step with given gradients and returns the parameters."""
    optimizer = None
    parameters = [each for group in optimizer.param_groups for each in group["params"]]

    def step(*gradients):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient
        optimizer.step()
        return [each.detach().clone() for each in parameters]

    return step


'''
_DIGITS = 8
_NAMED = re.compile(r'^"""Harness of (?P<target>.+), with (?:the inputs|captured|synthetic) ', re.MULTILINE)
_INPUTS = re.compile(r"^# inputs: captured$", re.MULTILINE)
_NODES = (
    ast.Expression,
    ast.Call,
    ast.keyword,
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.UnaryOp,
    ast.USub,
    ast.Load,
)


@dataclass(frozen=True, slots=True)
class HarnessPlan:
    """Target of a harness and its arguments.

    Attributes:
        target: `FILE.py:NAME`, as given by the user.
        kind: `class`, `method`, `function`, or `optimizer` for a function that takes gradients and makes a step.
        module: Name under which its module is imported.
        qualname: Name of the target in its module.
        folder: Folder for the import path, relative to the project; empty if it is outside.
        make: Arguments of the constructor.
        call: Arguments of the call.
        source: Source of captured arguments; empty if a search chose them.
        guessed: Arguments that a search chose although others were captured.
        is_captured: Whether every argument is one of the captured call, tensors included.
    """

    target: str
    kind: str
    module: str
    qualname: str
    folder: str
    make: tuple[HarnessArgument, ...]
    call: tuple[HarnessArgument, ...]
    source: str = ""
    guessed: tuple[str, ...] = ()
    is_captured: bool = False


def harness_file(target: str) -> str:
    """Return the file of a target's harness, relative to the project."""
    where, _, name = target.rpartition(":")
    stem = re.sub(r"[^A-Za-z0-9]+", "_", f"{where.removesuffix('.py')}_{name}").strip("_")
    return f"{HARNESS_FOLDER}/{stem}.py"


def own_harness_file(root: Path, target: str) -> str:
    """Return the file of a target's harness; with a digest in its name if the plain file is that of another target.

    `a/b.py:Net` and `a_b.py:Net` have one plain name.

    Args:
        root: The project.
        target: `FILE.py:NAME`.

    Raises:
        UsageError: The file with the digest is that of another target, too.
    """
    plain = harness_file(target)
    digested = f"{plain.removesuffix('.py')}_{_digest(target)[:_DIGITS]}.py"
    for file in (plain, digested):
        named = _NAMED.search(_read(root, file) or "")
        if named is None or named["target"] == target:
            return file
    raise UsageError(f"{digested} is not a harness of {target}", remedy=f"delete {digested}")


def harness_text(plan: HarnessPlan, root: Path | None = None) -> str:
    """Return the source of a harness.

    Args:
        plan: The plan.
        root: The project, for a harness outside of it; None for one in the project's harness folder.

    Raises:
        EvidenceError: The plan contains code that no search writes.
    """
    arguments = (*plan.make, *plan.call)
    imports = sorted(
        {pair for argument in arguments for pair in argument.imports} | {(plan.module, _first(plan.qualname))}
    )
    _refuse_code(plan, arguments, imports)
    made = construction(plan)
    is_saved = any("captured(" in argument.text for argument in arguments)
    lines = [
        *_header(plan),
        "",
        *(["import sys"] if plan.folder else []),
        *(["from pathlib import Path"] if (plan.folder and root is None) or is_saved else []),
        *([""] if plan.folder or is_saved else []),
        *(torch_imports(arguments)),
    ]
    if plan.folder:
        inner = "" if plan.folder == "." else f' / "{plan.folder}"'
        folder = f"str(Path(__file__).resolve().parents[2]{inner})" if root is None else repr(str(root / plan.folder))
        lines += [f"sys.path.insert(0, {folder})", ""]
    lines += [f"from {module} import {name}{'  # noqa: E402' if plan.folder else ''}" for module, name in imports]
    text = "\n".join([*lines, "", "", ""])
    if any("Settings(" in argument.text for argument in arguments):
        text += SETTINGS_CLASS
    if is_saved:
        text += _CAPTURED
    if plan.kind == "optimizer":
        text += _OPTIMIZER.replace("    optimizer = None", made.replace("    return ", "    optimizer = ", 1), 1)
    else:
        text += f'def make():\n    """Return the code to run."""\n{made}\n\n\n'
    text += 'def get_inputs():\n    """Return the positional and the named arguments of one call."""\n'
    text += "".join(f"    {each.name} = {each.text}\n" for each in plan.call)
    by_position = [each.name for each in plan.call if each.is_positional]
    row = f"({', '.join(by_position)}{',' if len(by_position) == 1 else ''})"
    named = ", ".join(f'"{each.name}": {each.name}' for each in plan.call if not each.is_positional)
    text += f"    return {row}, {{{named}}}\n"
    return f"{digest_line(text)}{text}"


def _header(plan: HarnessPlan) -> list[str]:
    if plan.is_captured:
        about = ["# inputs: captured", f'"""Harness of {plan.target}, with the inputs of a captured call.', ""]
        about += [f"{plan.source} made the call; its tensors are in the .tensors file of the same name."]
    elif plan.source and any("captured(" in each.text for each in (*plan.make, *plan.call)):
        about = [f'"""Harness of {plan.target}, with captured tensors and guessed arguments.', ""]
        about += [f"{plan.source} made the call; its tensors are in the .tensors file of the same name."]
        about += [f"A search chose {', '.join(plan.guessed)}."]
    elif plan.source:
        about = [f'"""Harness of {plan.target}, with captured shapes and synthetic values.', ""]
        about += [f"{plan.source} made a call with these shapes and constants; the values of tensors are not its own."]
    else:
        about = [f'"""Harness of {plan.target}, with synthetic inputs.', ""]
        about += [
            "A search chose the arguments so that the code runs: sizes, values and labels are not those of real data."
        ]
    return [*about, "Edit them as needed; a file that was edited is not overwritten.", '"""']


def _first(qualname: str) -> str:
    return qualname.partition(".")[0]


def torch_imports(arguments: Iterable[HarnessArgument]) -> list[str]:
    """Return the lines that import what arguments use of torch, and an empty line."""
    text = " ".join(argument.text for argument in arguments)
    found = ["import torch"] if re.search(r"\btorch\.|\bcaptured\(", text) else []
    found += ["from torch import nn"] if re.search(r"\bnn\.", text) else []
    return [*found, ""] if found else []


def optimizer_plan(plan: HarnessPlan, further: Iterable[HarnessArgument] = ()) -> HarnessPlan | None:
    """Return the plan of a harness that makes steps of an optimizer with gradients of its parameters as inputs.

    Args:
        plan: Plan of its method `step`.
        further: Arguments of the constructor that are not required.

    Returns:
        None if the parameters are no list of tensors.
    """
    owner = plan.qualname.rpartition(".")[0]
    given = next((each for each in plan.make if each.text.startswith("[")), None)
    tensors = ast.parse(given.text, mode="eval").body if given is not None else None
    if not isinstance(tensors, ast.List) or not owner:
        return None
    gradients = tuple(
        HarnessArgument(f"gradient_{number}", ast.unparse(each)) for number, each in enumerate(tensors.elts, 1)
    )
    known = {each.name for each in plan.make}
    make = (*plan.make, *(each for each in further if each.name not in known))
    return replace(plan, kind="optimizer", qualname=owner, make=make, call=gradients)


def construction(plan: HarnessPlan) -> str:
    """Return the statement that returns the target of a plan, indented."""
    if plan.kind == "function":
        return f"    return {plan.qualname}"
    owner, _, method = plan.qualname.rpartition(".") if plan.kind == "method" else (plan.qualname, "", "")
    given = [f"{each.name}={each.text}" for each in plan.make]
    made = f"{owner}({', '.join(given)})"
    if len(made) > _LONGEST_LINE:
        made = f"{owner}(\n" + "".join(f"        {each},\n" for each in given) + "    )"
    return f"    return {made}{f'.{method}' if method else ''}"


def _refuse_code(plan: HarnessPlan, arguments: Sequence[HarnessArgument], imports: Sequence[tuple[str, str]]) -> None:
    """Raise an error unless the plan consists of names, constants and constructor calls.

    Raises:
        EvidenceError: It contains anything else.
    """
    names = [*(argument.name for argument in arguments), *(name for _, name in imports)]
    dotted = [plan.qualname, *(module for module, _ in imports)]
    parts = [*names, *(part for each in dotted for part in each.split("."))]
    is_plain = all(each.isidentifier() for each in parts) and re.fullmatch(r"[\w./ -]*", plan.folder) is not None
    for shown in (plan.target, plan.source):
        is_plain = is_plain and '"' not in shown and "\\" not in shown and (not shown or shown.isprintable())
    if (
        not is_plain
        or ".." in plan.folder
        or not all(_is_plain(argument.text, {n for _, n in imports}) for argument in arguments)
    ):
        raise EvidenceError(
            f"the arguments found for {plan.target} are not plain values", remedy="write the harness yourself"
        )


def _is_plain(text: str, imported: set[str]) -> bool:
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            return False
        if isinstance(node, ast.Name) and node.id not in {"torch", "nn", "Settings", "captured", *imported}:
            return False
        if isinstance(node, ast.Attribute):
            shown = ast.unparse(node)
            if shown.startswith("torch.") and shown.removeprefix("torch.") not in _TORCH:
                return False
            if node.attr.startswith("_"):
                return False
    return True


def digest_line(text: str) -> str:
    """Return the line with a text's digest, to be put in front of it."""
    return f"# made-by-esper: sha256={_digest(text)}\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _read(root: Path, file: str) -> str | None:
    """Return the text of a harness; None if there is no such file in the project's harness folder."""
    path = (root / file).resolve()
    if path.parent != root.resolve() / HARNESS_FOLDER or not path.is_file():
        return None
    with path.open("rb") as stream:
        return stream.read(_MOST_BYTES).decode("utf-8", "replace")


def is_generated(root: Path, target: str) -> bool:
    """Return whether a target is a harness of this project as the program wrote it.

    Args:
        root: The project.
        target: `FILE.py:NAME`.
    """
    text = _read(root, target.rpartition(":")[0])
    return text is not None and is_unchanged(text)


def has_synthetic_inputs(root: Path, target: str) -> bool:
    """Return whether a target is a harness whose inputs the program chose; captured ones and edited ones are not."""
    text = _read(root, target.rpartition(":")[0])
    return text is not None and is_unchanged(text) and _INPUTS.search(text) is None


def has_captured_inputs(root: Path, file: str) -> bool:
    """Return whether a harness exists that uses the inputs of a captured call."""
    text = _read(root, file)
    return text is not None and is_unchanged(text) and _INPUTS.search(text) is not None


def is_edited(root: Path, file: str) -> bool:
    """Return whether a harness exists whose text is not the one that a search wrote."""
    text = _read(root, file)
    return text is not None and not is_unchanged(text)


def is_unchanged(text: str) -> bool:
    """Return whether a text is as the program wrote it, by the digest in its first line."""
    found = _DIGEST.match(text)
    return found is not None and _digest(text[found.end() :]) == found.group(1)


def write_harness(root: Path, file: str, text: str, tensors: Path | None = None) -> None:
    """Write a harness into the project in one step, and the tensors of a captured call before it.

    Args:
        root: The project.
        file: As returned by `own_harness_file`.
        text: As returned by `harness_text`.
        tensors: File of saved tensors; None without any.

    Raises:
        UsageError: The folder is outside the project or cannot be written.
    """
    folder = root.resolve() / HARNESS_FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.resolve() != folder:
            raise UsageError(
                f"{HARNESS_FOLDER} is a link to another folder", remedy=f"replace {HARNESS_FOLDER} by a real folder"
            )
        if tensors is not None:
            # A suffix that projects do not ignore: the sandbox shows no ignored data.
            saved = (root.resolve() / file).with_suffix(".tensors")
            with atomic_file(saved, mode=0o644, is_synced=False) as written, tensors.open("rb") as stream:
                shutil.copyfileobj(stream, written.stream)
        with atomic_file(root.resolve() / file, mode=0o644, is_synced=False) as written:
            written.stream.write(text.encode())
    except OSError as error:
        raise UsageError(
            f"{file} cannot be written: {error.strerror}", remedy=f"make {HARNESS_FOLDER} writable"
        ) from error


def copy_harness(root: Path, into: Path, file: str) -> None:
    """Copy a harness and its tensors to another revision of the project that lacks it.

    Args:
        root: The project.
        into: The project at another revision.
        file: File of a target; one that is no harness is not copied.

    Raises:
        UsageError: The harness cannot be copied.
    """
    source, folder = root.resolve() / file, into / HARNESS_FOLDER
    if PurePosixPath(file).parent != PurePosixPath(HARNESS_FOLDER) or not source.is_file() or (into / file).exists():
        return
    # A link of the revision may point outside of it.
    if any(each.is_symlink() for each in (source, folder, folder.parent)):
        raise UsageError(f"{file} or {HARNESS_FOLDER} is a link", remedy=f"replace {HARNESS_FOLDER} by a real folder")
    tensors = source.with_suffix(".tensors")
    text = source.read_text(encoding="utf-8")
    write_harness(into, file, text, tensors if tensors.is_file() else None)


def remove_harness(root: Path, file: str) -> None:
    """Delete a harness that the program wrote, and its tensors; one that the user edited stays."""
    if is_generated(root, f"{file}:make"):
        path = root.resolve() / file
        path.unlink()
        path.with_suffix(".tensors").unlink(missing_ok=True)
