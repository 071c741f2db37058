"""Data loaders of torch: where they are made, and the loops that go over them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.frameworks import hands_out_training_batches
from esper_agents.review.index import Origin
from esper_agents.review.names import dotted, tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, Class, Function

LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_WORKERS = 5
_WORKER_START = 10
# How many of `enumerate(...)`, `tqdm(...)` and their like are looked through.
WRAPPINGS = 3
_COUNTING = frozenset({"range", "items", "keys", "values", "parameters", "named_parameters", "modules", "split"})
_BACKWARD = frozenset({"backward", "manual_backward"})


def has_no_workers(call: Call) -> bool:
    """Return whether a `DataLoader` call surely asks for no worker processes."""
    workers = call.argument(_WORKERS, "num_workers")
    if workers is None:
        return not call.has_splat()
    return isinstance(workers, ast.Constant) and workers.value == 0


def loaders_with_workers(index: ProjectIndex) -> dict[Class, tuple[Call, str]]:
    """Return the classes of datasets that a loader reads in worker processes, as nothing else in the call says so.

    Each comes with the first such loader and its number of workers as written. Classes that any loader reads with a
    `worker_init_fn` are not among them: it may give each worker its own part of the samples or its own seed, and the
    other loaders may need none.
    """
    return index.once("loaders with workers", lambda: _find_workers(index))


def _find_workers(index: ProjectIndex) -> dict[Class, tuple[Call, str]]:
    found: dict[Class, tuple[Call, str]] = {}
    started: set[Class] = set()
    for call in index.calls_ending("DataLoader"):
        data, workers = call.argument(0, "dataset"), call.argument(_WORKERS, "num_workers")
        owner = index.class_of(data, call.function, call.line) if data is not None else None
        if owner is None or workers is None or call.name not in LOADERS:
            continue
        if call.has_splat() or call.argument(_WORKER_START, "worker_init_fn") is not None:
            started.add(owner)
        elif _may_be_positive(workers, call, index):
            found.setdefault(owner, (call, ast.unparse(workers)))
    return {owner: loader for owner, loader in found.items() if owner not in started}


def _may_be_positive(workers: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether a number of workers is a positive constant, or a setting that is not known to be zero."""
    for origin in index.origins(workers, call.function, call.line):
        value = origin.value
        if isinstance(value, ast.Constant):
            if not value.value:
                return False
        elif isinstance(value, ast.Name) and value.id in origin.function.parameters:
            default = _default_of(value.id, origin.function)
            if not isinstance(default, ast.Constant) or not default.value:
                return False
    return True


def _default_of(parameter: str, function: Function) -> ast.expr | None:
    """Return the default of a parameter."""
    if isinstance(function.node, ast.Module):
        return None
    given = function.node.args
    plain = [*given.posonlyargs, *given.args]
    pairs = [
        *zip(reversed(plain), reversed(given.defaults), strict=False),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]
    return next((default for each, default in pairs if each.arg == parameter), None)


def loops_over_loaders(index: ProjectIndex) -> dict[ast.Call, tuple[Block, ...]]:
    """Return the loops that go over each loader of the reviewed files, by the call that makes it."""
    return index.once("loops over loaders", lambda: _find(index))


def _find(index: ProjectIndex) -> dict[ast.Call, tuple[Block, ...]]:
    found: dict[ast.Call, tuple[Block, ...]] = {}
    if not any(index.calls_ending("DataLoader")):
        return found
    for file in index.files.values():
        for function in file.functions:
            for block in function.blocks:
                for made in _gone_over(block, index) if block.kind in {BlockKind.FOR, BlockKind.COMPREHENSION} else ():
                    found[made] = (*found.get(made, ()), block)
    for call in index.calls_ending("next"):
        loop = call.block.loop
        if loop is not None and not call.receiver and call.node.args:
            for made in dict.fromkeys(_loaders(Origin(call.node.args[0], call.function, call.line), index, WRAPPINGS)):
                found[made] = (*found.get(made, ()), loop)
    return found


def _gone_over(loop: Block, index: ProjectIndex) -> Iterator[ast.Call]:
    """Yield the `DataLoader` calls that a loop goes over."""
    parts = [loop.node] if isinstance(loop.node, ast.For | ast.AsyncFor) else getattr(loop.node, "generators", ())
    for part in parts:
        if not _is_no_loader(part.iter):
            yield from dict.fromkeys(_loaders(Origin(part.iter, loop.function, part.iter.lineno), index, WRAPPINGS))


def _is_no_loader(rounds: ast.expr) -> bool:
    """Return whether a loop surely goes over something else: numbers, what is written out, the fields of a dict."""
    if isinstance(rounds, ast.Call):
        return tail_of(dotted(rounds.func)) in _COUNTING
    return isinstance(rounds, ast.List | ast.Tuple | ast.Constant)


def _loaders(source: Origin, index: ProjectIndex, wrappings: int) -> Iterator[ast.Call]:
    """Yield the `DataLoader` calls behind a value; `enumerate(...)`, `tqdm(...)` and helpers are looked through."""
    for origin in index.origins(source.value, source.function, source.line):
        value = origin.value
        if isinstance(value, ast.Name | ast.Attribute) and wrappings:
            yield from _unpacked(origin, index, wrappings)
        if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name | ast.Attribute) and wrappings:
            yield from _picked(value, origin, index, wrappings)
        if not isinstance(value, ast.Call):
            continue
        if tail_of(dotted(value.func)) == "DataLoader":
            yield value
        elif wrappings:
            inner = [Origin(value.args[0], origin.function, origin.line)] if value.args else []
            inner += [Origin(end, called, end.lineno + 1) for called, end in _returned(value, origin.function, index)]
            for each in inner:
                yield from _loaders(each, index, wrappings - 1)


def _picked(value: ast.Subscript, origin: Origin, index: ProjectIndex, wrappings: int) -> Iterator[ast.Call]:
    """Yield the loaders behind an entry of a dict of loaders: `loaders["train"]`, `loaders[phase]`."""
    key = value.slice.value if isinstance(value.slice, ast.Constant) else None
    for found in index.origins(value.value, origin.function, origin.line):
        held: list[ast.expr] = []
        if isinstance(found.value, ast.DictComp):
            held = [found.value.value]
        elif isinstance(found.value, ast.Dict):
            entries = zip(found.value.keys, found.value.values, strict=True)
            held = [
                each for name, each in entries if key is None or (isinstance(name, ast.Constant) and name.value == key)
            ]
        for each in held:
            yield from _loaders(Origin(each, found.function, found.line), index, wrappings - 1)


def _unpacked(origin: Origin, index: ProjectIndex, wrappings: int) -> Iterator[ast.Call]:
    """Yield the loaders behind a name that was unpacked from what a helper returns: `train, test = loaders(...)`."""
    path = dotted(origin.value)
    found = index.binding(path, origin.function, origin.line) if "(" not in path and "[" not in path else None
    statement = found.statement if found is not None else None
    if found is None or not isinstance(statement, ast.Assign) or not isinstance(found.value, ast.Call):
        return
    target = statement.targets[0]
    names = [dotted(elt) for elt in target.elts] if isinstance(target, ast.Tuple) else []
    for called, end in _returned(found.value, found.block.function, index):
        if path in names and isinstance(end, ast.Tuple) and len(end.elts) == len(names):
            yield from _loaders(Origin(end.elts[names.index(path)], called, end.lineno + 1), index, wrappings - 1)


def _returned(value: ast.Call, function: Function, index: ProjectIndex) -> Iterator[tuple[Function, ast.expr]]:
    """Yield what the functions that a call surely reaches return."""
    call = next((each for each in function.calls if each.node is value), None)
    for called in index.callees(call) if call is not None else ():
        for statement, _ in called.returns:
            if statement.value is not None:
                yield called, statement.value


def trains(loop: Block, index: ProjectIndex) -> bool:
    """Return whether a loop sends losses backward, itself or through what it calls."""
    return any(
        call.tail in _BACKWARD or any(_BACKWARD & index.reached(callee) for callee in index.callees(call))
        for call in loop.function.calls
        if call.block.within(loop)
    )


def feeding_a_training(index: ProjectIndex) -> frozenset[ast.Call]:
    """Return the calls that make the loaders over which some loop trains."""
    return index.once("loaders that feed a training", lambda: frozenset(_feeding(index)))


def _feeding(index: ProjectIndex) -> Iterator[ast.Call]:
    for made, loops in loops_over_loaders(index).items():
        if any(trains(loop, index) for loop in loops):
            yield made
    for call in index.calls_ending("DataLoader"):
        if hands_out_training_batches(call.function, index):
            yield call.node
