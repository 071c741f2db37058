"""Find functions and modules of a Python file that run without user-supplied arguments."""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from esper_agents.tools.definitions import (
    FunctionNode,
    aliases,
    most_arguments,
    names_in,
    own_nodes,
    required,
    returned_count,
    root_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

# The lab's default name for the function that makes inputs.
INPUT_NAMES = ("get_inputs", "make_inputs", "example_inputs")
_STEP = re.compile(r"(?:\w+_)?step")
_NEVER = re.compile(r"_|test|main$|setup$|cli$")
_HARMLESS_DECORATORS = frozenset(("torch", "functools", "compile", "no_grad", "inference_mode", "enable_grad", "jit"))
_MODULE_NAMES = frozenset(("torch.nn.Module", "torch.nn.modules.module.Module"))
# Parameter names that model inputs never have.
_NO_INPUTS = frozenset(
    (
        *("args", "cfg", "config", "criterion", "dataloader", "dataset", "device", "filename", "loader", "logger"),
        *("model", "module", "net", "opt", "optimizer", "path", "scheduler", "writer"),
    )
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NOT_PRODUCT = re.compile(r"(?:^|/)(?:tests?|examples?|benchmarks?|docs|scripts)/|(?:^|/)(?:test_|conftest)")
_ARRAYS = frozenset(("torch", "numpy", "jax", "einops"))
_CALLABLE = re.compile(r"\b(?:Callable|Step)\b")


class RunKind(StrEnum):
    """Kind of runnable."""

    MODULE = "module"
    FUNCTION = "function"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class Runnable:
    """Function or module that can be called once its needs are met.

    Attributes:
        path: File, relative to the project.
        name: Name in the file.
        line: First line of the definition.
        kind: A module, a function, or a step (makes its own inputs, or is a factory of such).
        needs: Missing prerequisites; empty if it can run.
        uses: Names used in the definition.
        computes: Whether it may compute: not a helper that only tests or selects its arguments.
    """

    path: str
    name: str
    line: int
    kind: RunKind
    needs: tuple[str, ...]
    uses: frozenset[str]
    computes: bool = True

    @property
    def target(self) -> str:
        """Target name for the lab."""
        return f"{self.path}:{self.name}"


def find_runnables(
    text: str, path: str, *, inputs: int | None = None, modules: Iterable[str] = ()
) -> tuple[Runnable, ...]:
    """Return the callables that a file defines at its top level, in order.

    Args:
        text: Source of the file.
        path: Path to report.
        inputs: Number of available inputs; None without any.
        modules: Names of the classes of other files that derive from `nn.Module`; see `module_classes`.

    Raises:
        SyntaxError: The text is not Python.
    """
    return tuple(_File(ast.parse(text), path, inputs, frozenset(modules)).found())


def module_classes(texts: Iterable[str]) -> frozenset[str]:
    """Return the names of the classes that derive from `nn.Module`, also by classes of other files.

    Args:
        texts: Sources of the files; one that is not Python is skipped.
    """
    bases: dict[str, set[str]] = {}
    for text in texts:
        for name, own in _bases(text):
            bases.setdefault(name, set()).update(own)
    known = {"Module"}
    while more := {name for name, each in bases.items() if each & known} - known:
        known |= more
    return frozenset(known - {"Module"})


def base_names(text: str) -> Iterator[str]:
    """Yield the last parts of the base classes' names in a file; nothing if it is not Python."""
    for _, names in _bases(text):
        yield from names


def _bases(text: str) -> Iterator[tuple[str, list[str]]]:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield node.name, [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def relevance(runnables: Sequence[Runnable], about: Sequence[str]) -> dict[str, float]:
    """Return how much each target has to do with a request; a name that few targets have counts more.

    Args:
        runnables: The targets.
        about: Words of the request, files that it names as `FILE.py`, and definitions as `FILE.py:NAME`.
    """
    named = {each for each in about if each.endswith(".py") or ":" in each}
    words = {_stem(each) for each in about} - named
    parts = {runnable.target: _parts(runnable.name) | _parts(runnable.path) for runnable in runnables}
    counts = Counter(word for part in parts.values() for word in part & words)
    found = {}
    for runnable in runnables:
        score = sum(1 / counts[word] for word in parts[runnable.target] & words)
        score += sum(1 / counts[word] for word in _parts(runnable.name) & words)
        score += 100 * (runnable.target in named) + 10 * (runnable.path in named)
        found[runnable.target] = score / (10 if _NOT_PRODUCT.search(runnable.path) else 1)
    return found


def _parts(name: str) -> set[str]:
    """Return the words of a name, in lower case: those of `CrossBatchMemory` and `cross_batch_memory` are the same."""
    return {_stem(word) for word in _WORD.findall(name.removesuffix(".py"))}


def _stem(word: str) -> str:
    """Return a word in lower case and in the singular, as far as its ending shows it."""
    low = word.lower()
    if low.endswith("sses"):
        return low[:-2]
    return low[:-1] if low.endswith("s") and not low.endswith("ss") else low


class _File:
    def __init__(self, tree: ast.Module, path: str, inputs: int | None, known_modules: frozenset[str]) -> None:
        self.known_modules = known_modules
        self.path = path
        self.tree = tree
        self.aliases = aliases(tree)
        self.classes = {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}
        self.functions = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)}
        self.modules = self._module_classes()
        beside = next((self.functions[input_name] for input_name in INPUT_NAMES if input_name in self.functions), None)
        self.has_inputs = inputs is not None or (beside is not None and not required(beside, skip=0))
        self.inputs = inputs if inputs is not None else (returned_count(beside) if beside else None)

    def found(self) -> Iterator[Runnable]:
        for node in self.tree.body:
            match node:
                case ast.ClassDef(name=name) if name in self.modules and not name.startswith("_"):
                    yield self._runnable(node, name, RunKind.MODULE, self._needs_of_class(node))
                case ast.FunctionDef(name=name) if self._may_be_run(node):
                    if (kind := self._kind(node)) is not None:
                        yield self._runnable(node, name, kind, self._needs_of_function(node, kind))
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id=made))) if (
                    made in self.modules and not name.startswith("_")
                ):
                    yield self._runnable(node, name, RunKind.MODULE, self._needs_of_call(self._forward(made), skip=1))
                case _:
                    continue

    def _runnable(self, node: ast.stmt, name: str, kind: RunKind, needs: tuple[str, ...]) -> Runnable:
        mentioned = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
        local = {each.id for each in mentioned if isinstance(each.ctx, ast.Store)}
        uses = frozenset(each.id for each in mentioned) - local - {name}
        computes = kind is not RunKind.FUNCTION or self._computes(node, frozenset())
        return Runnable(self.path, name, node.lineno, kind, needs, uses, computes)

    def _computes(self, node: ast.stmt, seen: frozenset[str]) -> bool:
        """Return whether a function contains arithmetic, or calls what may compute with arrays."""
        arguments = node.args if isinstance(node, ast.FunctionDef) else None
        given = {each.arg for each in (*arguments.posonlyargs, *arguments.args)} if arguments else set()
        for each in ast.walk(node):
            if isinstance(each, ast.BinOp | ast.AugAssign):
                return True
            if isinstance(each, ast.Call):
                name = each.func.id if isinstance(each.func, ast.Name) else ""
                own = self.functions.get(name)
                if name in seen or (own is None and hasattr(builtins, name)):
                    continue
                is_of_arrays = self._is_of_arrays(root_name(each.func), given)
                if is_of_arrays if own is None else self._computes(own, seen | {name}):
                    return True
        return False

    def _is_of_arrays(self, name: str, given: set[str]) -> bool:
        """Return whether a call may compute: of a library of arrays, another file, or a method of an argument."""
        if name in self.aliases:
            return self.aliases[name].split(".")[0] not in sys.stdlib_module_names
        return name in given and any(each.split(".")[0] in _ARRAYS for each in self.aliases.values())

    def _may_be_run(self, node: ast.FunctionDef) -> bool:
        decorators = {root_name(each) for each in node.decorator_list}
        is_plain = not any(isinstance(each, ast.Yield | ast.YieldFrom) for each in own_nodes(node))
        return (
            is_plain
            and node.name not in INPUT_NAMES
            and not _NEVER.match(node.name)
            and all(
                self.aliases.get(decorator, decorator).split(".")[0] in _HARMLESS_DECORATORS for decorator in decorators
            )
        )

    def _kind(self, node: ast.FunctionDef) -> RunKind | None:
        """Return the kind of a function; None if it takes no arguments and its effect is unknown."""
        if required(node, skip=0):
            return RunKind.FUNCTION
        if made := self._made_by(node):
            return made
        if _STEP.fullmatch(node.name):
            return RunKind.STEP
        return RunKind.FUNCTION if self.has_inputs and most_arguments(node) != 0 else None

    def _made_by(self, node: ast.FunctionDef) -> RunKind | None:
        """Return the type that a factory makes, by its return statements or annotation."""
        said = ast.unparse(node.returns) if node.returns is not None else ""
        if said in self.modules or said.rpartition(".")[2] == "Module":
            return RunKind.MODULE
        if _CALLABLE.search(said):
            return RunKind.STEP
        inner = {each.name for each in node.body if isinstance(each, FunctionNode)}
        bound = {
            target.id: each.value
            for each in own_nodes(node)
            if isinstance(each, ast.Assign)
            for target in each.targets
            if isinstance(target, ast.Name)
        }
        kinds = [self._made(each.value, inner, bound) for each in own_nodes(node) if isinstance(each, ast.Return)]
        return kinds[0] if kinds and all(kind is not None and kind is kinds[0] for kind in kinds) else None

    def _made(  # noqa: PLR0911 - one for each form
        self, value: ast.expr | None, inner: set[str], bound: Mapping[str, ast.expr]
    ) -> RunKind | None:
        match value:
            case ast.Lambda():
                return RunKind.STEP
            case ast.Name(id=name) if name in inner:
                return RunKind.STEP
            case ast.Name(id=name) if name in bound:
                return self._made(bound[name], inner, {each: bound[each] for each in bound if each != name})
            case ast.Call(func=ast.Attribute(value=ast.Call() as chained, attr="eval" | "train" | "to")):
                return self._made(chained, inner, bound)
            case ast.Call(func=func, args=args):
                called = self._dotted(func)
                if called in self.modules or called.startswith("torch.nn."):
                    return RunKind.MODULE
                if called in {"torch.compile", "functools.partial"} and args:
                    return self._made(args[0], inner, bound) or RunKind.STEP
                return None
            case _:
                return None

    def _needs_of_class(self, node: ast.ClassDef) -> tuple[str, ...]:
        made = self._method(node.name, "__init__")
        if made is not None and (missing := required(made, skip=1)):
            return (f"arguments to be made: {', '.join(missing)}",)
        return self._needs_of_call(self._forward(node.name), skip=1)

    def _needs_of_function(self, node: ast.FunctionDef, kind: RunKind) -> tuple[str, ...]:
        match kind:
            case RunKind.FUNCTION:
                return self._needs_of_call(node, skip=0)
            case RunKind.STEP:
                inner = [each for each in node.body if isinstance(each, ast.FunctionDef)]
                returned = {
                    root_name(each.value) for each in own_nodes(node) if isinstance(each, ast.Return) and each.value
                }
                made = next((each for each in inner if each.name in returned), None)
                return self._needs_of_call(made, skip=0) if made is not None and required(made, skip=0) else ()
            case RunKind.MODULE:
                named = next((module for module in self.modules if module in names_in(node)), None)
                return self._needs_of_call(self._forward(named) if named else None, skip=1)

    def _needs_of_call(self, node: ast.FunctionDef | None, *, skip: int) -> tuple[str, ...]:
        missing = required(node, skip=skip) if node is not None else ["x"]
        if strange := sorted(_NO_INPUTS.intersection(missing)):
            return (f"arguments that are not inputs: {', '.join(strange)}",)
        if not self.has_inputs:
            return (f"inputs: {', '.join(missing)}",) if missing else ()
        most = most_arguments(node) if node is not None else None
        if self.inputs is not None and (
            self.inputs < len(missing) - (node is None) or (most is not None and self.inputs > most - skip)
        ):
            return (f"inputs: {', '.join(missing) or 'none'}, but {self.inputs} given",)
        return ()

    def _forward(self, name: str) -> ast.FunctionDef | None:
        return self._method(name, "forward")

    def _method(self, name: str, method: str) -> ast.FunctionDef | None:
        """Return a method of a class of this file, its own or inherited from a class in this file."""
        seen: list[str] = []
        waiting = [name]
        while waiting:
            each = waiting.pop(0)
            if each in seen or each not in self.classes:
                continue
            seen.append(each)
            for node in self.classes[each].body:
                if isinstance(node, ast.FunctionDef) and node.name == method:
                    return node
            waiting += [base.id for base in self.classes[each].bases if isinstance(base, ast.Name)]
        return None

    def _module_classes(self) -> frozenset[str]:
        known: set[str] = set()
        while True:
            more = {
                name for name, node in self.classes.items() if any(self._is_module(base, known) for base in node.bases)
            }
            if more <= known:
                return frozenset(known)
            known |= more

    def _is_module(self, base: ast.expr, known: set[str]) -> bool:
        dotted = self._dotted(base)
        last = dotted.rpartition(".")[2]
        is_others = last in self.known_modules and last not in self.classes
        return dotted in _MODULE_NAMES or root_name(base) in known or is_others

    def _dotted(self, node: ast.expr) -> str:
        first, _, rest = ast.unparse(node).partition(".")
        whole = self.aliases.get(first, first)
        return f"{whole}.{rest}" if rest else whole
