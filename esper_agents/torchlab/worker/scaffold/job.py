"""Job: search for arguments with which a target runs, or run a harness once."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from ..process.devices import bound
from ..results import WrittenFile
from ..target.capture_job import run_source, uncalled
from ..target.input_spec import TargetError
from ..target.lookup import imported
from ..target.target import definition_of, load, put_on_path, seed_all
from .captured_arguments import ArgumentRecorder, CapturedCall
from .guesses import documentation_of, guess, is_abstract, parameters
from .plan import Expression, source
from .plan_runs import PlanRunner, describe, positional_names
from .result import HarnessArgument, HarnessRun, ScaffoldCapture, ScaffoldRun, ScaffoldSearch
from .search import Search
from .usage import uses_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .plan import Argument, Arguments, CallPlan
    from .plan_runs import SearchRun

# File of the tensors of a captured call, in the scratch folder.
SAVED_FILE = "captured.pt"
_MOST_SAVED_BYTES = 8 << 20
_MOST_RUNS = 40
_MOST_TEXT = 400


def run(_target: object, request: dict[str, Any], tell: Callable[[str, float], None]) -> ScaffoldSearch | HarnessRun:
    """Search for arguments of a target.

    Args:
        _target: Not used: the target cannot be called without arguments.
        request: `root`; `name` of the target; `harness`, a file to run once instead, or empty; `runs` and `seconds`,
            the limits of the search; `batch`, a larger first size of the found tensors, or 0; `capture`, a source as
            of `run_source` or empty, and `values`, whether its tensors are saved; `shape` of the first tensor, or
            empty; `make` and `call`, stated arguments as pairs of name and text; `memory_bytes`, `seed`, `scratch`.
        tell: Progress callback.

    Raises:
        TargetError: The target cannot be called with any arguments.
        Exception: Any exception of the import of the target.
    """
    root, name = str(request["root"]), str(request["name"])
    bound("cpu", int(request["memory_bytes"]))
    put_on_path(root)
    seed_all(int(request["seed"]))
    if request["harness"]:
        return _run_harness(root, str(request["harness"]), int(request["seed"]))
    module, owner, thing = _located(root, name)
    _refuse(name, owner, thing)
    kind = "method" if owner is not None else "class" if inspect.isclass(thing) else "function"
    most = int(request["runs"])
    recorded = _captured(root, owner, thing, request, tell) if request["capture"] else None
    stated, literal = _stated(owner, thing, request)
    known, captured, artifacts = recorded or (stated, None, ())
    shape = tuple(request.get("shape", ()))
    runner = PlanRunner(thing, owner=owner, shape=shape, first=known.plan, saved=known.tensors)
    batch = int(request.get("batch", 0)) if recorded is None else 0
    found = Search(runner, batch=batch).run(
        most=most,
        seconds=float(request["seconds"]),
        tell=lambda number: tell(f"run {number} of at most {most}", number / max(most, 1)),
    )
    if captured is None and found.plan is not None and _guessed(found.plan, literal):
        # The search changed an argument of the user.
        found.ended, found.plan = "arguments", None
    if captured is not None and found.plan is not None:
        captured = replace(captured, guessed=_guessed(known.plan, found.plan))
    if found.plan is not None and not (found.plan.make or found.plan.call):
        found.ended = "direct"
    file, line = definition_of(root, thing, module)
    return ScaffoldSearch(
        target=name,
        harness="",
        kind=kind,
        module=module.__name__,
        qualname=name.rpartition(":")[2],
        folder=_folder(root, module),
        file=file or "",
        line=line or 0,
        make=_arguments(found.plan.make, positional_names(runner.made_from)) if found.plan else (),
        call=_arguments(found.plan.call, _taken(runner)) if found.plan else (),
        runs=tuple(_described(each) for each in found.runs[:_MOST_RUNS]),
        number=len(found.runs),
        ended=found.ended,
        output=found.output,
        trains=found.trains,
        backward=found.backward,
        captured=captured,
        artifacts=artifacts,
    )


def _stated(owner: Any, thing: Any, request: dict[str, Any]) -> tuple[CapturedCall, CallPlan]:
    """Return the arguments that the user stated for the constructor and the call, and the literals among them.

    Raises:
        TargetError: The target has no such parameter.
    """
    known, literals = CapturedCall(), CapturedCall()
    made_from = owner if owner is not None else thing if inspect.isclass(thing) else None
    callee: Any = thing if made_from is not thing else getattr(thing, "forward", None) or vars(thing).get("__call__")
    for name, part in (("make", made_from), ("call", callee)):
        given: list[list[str]] = list(request.get(name, ())) if part is not None else []
        for parameter, argument, is_literal in _named(part, given, has_self=name == "call" and made_from is not None):
            getattr(known, name)[parameter] = argument
            if is_literal:
                getattr(literals, name)[parameter] = argument
    return known, literals.plan


def _named(callee: Any, given: list[list[str]], *, has_self: bool) -> Iterator[tuple[str, Argument, bool]]:
    """Yield stated arguments by the names of their parameters, and whether each is a literal; others are guessed."""
    known = {each.name: (each, hint) for each, hint in parameters(callee, has_self=has_self)} if given else {}
    positional = iter(known)
    for stated, text in given:
        name = stated or next(positional, "")
        if name not in known:
            problem = f"it has no parameter {stated!r}" if stated else f"it takes {len(known)} arguments"
            raise TargetError(problem, f"its parameters are {', '.join(known) or 'none'}")
        parameter, hint = known[name]
        if text != "...":
            yield name, Expression(text), True
        elif parameter.default is not parameter.empty:
            # Arguments without a default are guessed in any case.
            use = uses_of(callee).get(name)
            yield name, guess(name, parameter, hint, documentation_of(callee), 0 if has_self else 1, use=use), False


def _captured(
    root: str, owner: Any, thing: Any, request: dict[str, Any], tell: Callable[[str, float], None]
) -> tuple[CapturedCall, ScaffoldCapture, tuple[WrittenFile, ...]]:
    """Return the first call of a target by a script or test, the facts of the capture, and the file of its tensors.

    Raises:
        TargetError: The source did not call the target.
        Exception: Any exception of the source before its first call.
    """
    source, scratch = str(request["capture"]), str(request["scratch"])
    tell(f"running {source} for the arguments", 0.0)
    made_from = owner if owner is not None else thing if inspect.isclass(thing) else None
    is_module = inspect.isclass(thing) and issubclass(thing, nn.Module)
    callee = thing.forward if is_module else thing.__call__ if inspect.isclass(thing) else thing
    watch = ArgumentRecorder(made_from, callee)
    ended = run_source(root, source, scratch, watch)
    if watch.first is None:
        raise uncalled(str(request["name"]), source, ended or "")
    first = watch.first
    has_values = bool(request["values"]) and 0 < first.nbytes <= _MOST_SAVED_BYTES
    captured = ScaffoldCapture(
        source=source,
        calls=watch.seen,
        shapes=tuple(watch.shapes),
        has_values=has_values,
        nbytes=first.nbytes,
        unwritten=tuple(f"{name} ({kind})" for name, kind in first.unwritten.items()),
        guessed=(),
        ended=ended or "",
    )
    if not has_values:
        return first.with_shapes(), captured, ()
    torch.save(first.tensors, os.path.join(scratch, SAVED_FILE))  # noqa: PTH118 - text in, text out
    return first, captured, (WrittenFile(SAVED_FILE, "application/octet-stream"),)


def _described(run: SearchRun) -> ScaffoldRun:
    make, call = (source(each)[:_MOST_TEXT] for each in (run.plan.make, run.plan.call))
    return ScaffoldRun(run.stage, run.error, make, call)


def _guessed(known: CallPlan, used: CallPlan) -> tuple[str, ...]:
    """Return the names of arguments that are not those of the captured call."""
    before = {*known.make, *known.call}
    return tuple(name for name, each in (*used.make, *used.call) if (name, each) not in before)


def _run_harness(root: str, harness: str, seed: int) -> HarnessRun:
    target = load(root, f"{harness}:make", texts=[], inputs_from=None, seed=seed)
    inputs = target.inputs(seed)
    return HarnessRun(describe(target.call(*inputs.args, **inputs.kwargs)))


def _located(root: str, name: str) -> tuple[Any, Any, Any]:
    """Return the module of a target, the class of a method or None, and the target.

    Raises:
        TargetError: There is no such target.
    """
    where, colon, path = name.rpartition(":")
    if not colon or not where or not path:
        raise TargetError(f"invalid target name {name!r}", "write FILE.py:NAME or PACKAGE.MODULE:CLASS.METHOD")
    module = imported(root, where)
    owner, found = None, module
    for part in path.split("."):
        owner = found
        try:
            found = getattr(owner, part)
        except AttributeError as error:
            known = sorted(each for each, thing in vars(module).items() if callable(thing) and not each.startswith("_"))
            near = ", ".join(known[:8]) or "nothing that can be called"
            raise TargetError(f"{where!r} has no {path!r}", f"it has {near}") from error
    is_method = inspect.isclass(owner) and inspect.isfunction(found)
    is_method = is_method and not isinstance(inspect.getattr_static(owner, path.rpartition(".")[2]), staticmethod)
    return module, owner if is_method else None, found


def _refuse(name: str, owner: Any, thing: Any) -> None:
    """Raise an error for a target that no arguments make callable.

    Raises:
        TargetError: It is an object, abstract, or a module without `forward`.
    """
    if isinstance(thing, nn.Module):
        raise TargetError(f"{name!r} is a module that exists already", f"name its class {type(thing).__name__}")
    if not callable(thing):
        raise TargetError(
            f"{name!r} is of type {type(thing).__name__}, which cannot be called", "name a class or a function"
        )
    made_from = owner if owner is not None else thing
    if inspect.isabstract(made_from):
        missing = ", ".join(sorted(made_from.__abstractmethods__))
        raise TargetError(f"{name!r} is abstract: it lacks {missing}", "name a class that implements it")
    if inspect.isclass(thing):
        is_module = issubclass(thing, nn.Module)
        if is_module and getattr(thing, "forward", None) is nn.Module.forward:
            raise TargetError(f"{name!r} has no forward method", "name a class that has one, or one of its methods")
        if is_module and is_abstract(thing):
            raise TargetError(
                f"{name!r} is abstract: forward raises NotImplementedError", "name a class derived from it"
            )
        if not is_module and "__call__" not in dir(thing):
            raise TargetError(f"objects of {name!r} cannot be called", f"name a method, such as {name}.METHOD")


def _taken(runner: PlanRunner) -> list[str]:
    if runner.made_from is None:
        return positional_names(runner.target)
    taken = runner.target if runner.target is not runner.made_from else getattr(runner.target, "forward", None)
    return positional_names(taken if taken is not None else runner.target.__call__)[1:]


def _arguments(arguments: Arguments, positional: list[str]) -> tuple[HarnessArgument, ...]:
    known = dict(arguments)
    leading = []
    for each in positional:
        if each not in known:
            break
        leading.append(each)
    ordered = [*leading, *(each for each in known if each not in leading)]
    return tuple(
        HarnessArgument(each, known[each].text, known[each].imports, is_positional=each in leading) for each in ordered
    )


def _folder(root: str, module: Any) -> str:
    """Return the folder to put on the import path, relative to the project; `.` for the project, empty if outside."""
    file = getattr(module, "__file__", None) or ""
    folder = os.path.dirname(os.path.realpath(file))  # noqa: PTH120 - text in, text out
    for _ in range(module.__name__.count(".") + (os.path.basename(file) == "__init__.py")):  # noqa: PTH119 - as above
        folder = os.path.dirname(folder)  # noqa: PTH120 - as above
    inside = os.path.relpath(folder, os.path.realpath(root))
    return "" if not file or inside.startswith("..") else inside.replace(os.sep, "/")
