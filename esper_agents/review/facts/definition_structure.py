"""Structure of definitions: parts, parameters, data flow, results, side effects and callers."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.request import Wish
from esper_agents.review.data_flow_text import condensed, flow_steps
from esper_agents.review.definition_text import (
    LONGEST,
    alternatives_of,
    attributes_of,
    default_settings,
    described,
    flow_of,
    inherited_entry,
    is_layer,
    length_of,
    listed,
    main_method,
    named_definition,
    purpose_of_node,
    shortened,
    signature_of,
)
from esper_agents.review.definition_uses import inherited_work, used_elsewhere
from esper_agents.review.fact_query import FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.tables import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, FileTables

_MOST_LINES, _MOST_DEFINITIONS, _FEW, _MOST_PARTS = 12, 3, 4, 3
_LONGEST_VALUE = 60
_MODED = ("Dropout", "AlphaDropout", "BatchNorm", "SyncBatchNorm")
_RANDOM = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli", "multinomial", "normal_"}
    | {"uniform_", "rsample"}
)
_BOOKKEEPING = frozenset({"requires_grad_", "__init__"})


_FORWARD = "forward"


class DefinitionStructure(FactQuery):
    """What a class or function is made of, its data flow step by step, what it returns, changes, and who calls it."""

    name = "definition-structure"
    wishes = (Wish.EXPLAIN,)
    is_ordered = True
    category = Category.CORRECTNESS
    bad = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.fc = nn.Linear(8, 2)\n\n    def forward(self, x):\n"
        "        return self.fc(torch.relu(x))\n"
    )
    good = "import torch\n\nLIMIT = torch.tensor(3)\n"

    def answers(self, subject: InspectionSubject) -> bool:
        """Return whether a definition is to be explained; without its name a topic says what is asked."""
        return super().answers(subject) and bool(subject.symbols or not subject.topics)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the structure of the named definitions, or of the main ones of the files."""
        named = [found for symbol in subject.symbols if (found := named_definition(symbol, index)) is not None]
        named += _forwards(named)
        owners = {each.owner for each in named if isinstance(each, Function)}
        whole = [each for each in named if each not in owners][:_MOST_DEFINITIONS]
        for each in named:
            if isinstance(each, Class) and each in owners:
                # The named methods are described below.
                yield described(each.file, each.node.lineno, _class_head(each, index, has_entry=False))
                yield from list(_parts(each, index))[:1]
                yield from (
                    fact for one in whole[:1] if isinstance(one, Function) for fact in default_settings(each, one)
                )
            elif each in whole:
                most = max((_MOST_LINES - len(owners)) // len(whole), _FEW)
                yield from _with_uses(each, index, most) if len(whole) == 1 else _structure(each, index, most)
        for file in files[:_MOST_DEFINITIONS] if not named else ():
            yield from _of_file(file, index, _MOST_LINES // min(len(files), _MOST_DEFINITIONS))


def _forwards(named: Sequence[Class | Function]) -> list[Class | Function]:
    """Return the `forward` of each autograd function whose `backward` alone is named: the one explains the other."""
    backward = [each for each in named if isinstance(each, Function) and each.name == "backward" and each.owner]
    owners = [each.owner for each in backward if each.owner is not None]
    forwards = [owner.methods[_FORWARD] for owner in owners if _FORWARD in owner.methods]
    return [each for each in forwards if each not in named]


def _with_uses(found: Class | Function, index: ProjectIndex, most: int) -> Iterator[Fact]:
    """Yield the structure of a definition with what other files contribute to it."""
    inherited = list(inherited_work(found, index)) if isinstance(found, Class) else []
    used = list(used_elsewhere(found, index))
    first, *others = _structure(found, index, max(most - len(inherited) - len(used), _FEW))
    yield from (first, *inherited, *others, *used)


def _of_file(file: FileTables, index: ProjectIndex, most: int) -> Iterator[Fact]:
    main = _main(file, index)
    shown = main[: max(1, min(_MOST_DEFINITIONS, most // _FEW))]
    if len(file.classes) + len(file.functions[0].inner) > 1:
        yield described(file, 1, _overview(file, shown))
        most -= 1
    for each in sorted(shown, key=lambda one: getattr(one.node, "lineno", 1)):
        yield from _structure(each, index, max(most // len(shown), 2))


def _overview(file: FileTables, main: Sequence[Class | Function]) -> str:
    """Return what a file defines."""
    classes = [cls.name for cls in file.classes]
    functions = [each.name for each in file.functions[0].inner if each.owner is None]
    parts = [f"{number_of(len(classes), 'class', 'classes')} ({listed(classes)})"] if classes else []
    parts += [f"{number_of(len(functions), 'function')} ({listed(functions)})"] if functions else []
    told = f"; mainly {listed([each.name for each in main])}" if len(main) < len(classes) + len(functions) else ""
    return f"the file defines {' and '.join(parts)}{told}"


def _main(file: FileTables, index: ProjectIndex) -> list[Class | Function]:
    """Return the main definitions of a file: the longest ones, those that others in it are made of counted less."""
    functions = [each for each in file.functions[0].inner if each.owner is None]
    found: list[Class | Function] = [*file.classes, *functions]
    names = {each.name for each in found}
    parts = {call.tail for call in file.calls if call.function.name not in {"main", "<module>", call.tail}} & names
    parts |= {tail_of(base) for cls in file.classes for base in cls.bases}
    weights = {each: _weight(each, parts, index) for each in found}
    most = max(weights.values(), default=0)
    main = [each for each in found if weights[each] * _FEW >= most]
    return sorted(main, key=lambda each: -weights[each]) or [file.functions[0]]


def _weight(found: Class | Function, parts: set[str], index: ProjectIndex) -> float:
    length = length_of(found) * (2 if _is_module(found, index) else 1)
    return length / _FEW if found.name in parts else length


def _is_module(found: Class | Function, index: ProjectIndex) -> bool:
    return isinstance(found, Class) and index.is_module(found)


def _structure(found: Class | Function, index: ProjectIndex, most: int) -> Iterator[Fact]:
    if isinstance(found, Function):
        effects = list(_effects(found))[:_FEW] if most > _FEW else []
        yield described(found.file, getattr(found.node, "lineno", 1), _function_head(found, index))
        yield from flow_of(found, index, max(most - 1 - len(effects), 1))
        yield from effects
        return
    yield described(found.file, found.node.lineno, _class_head(found, index))
    main = main_method(found, index)
    told = [*_created(found, index), *_modes(found), *(_effects(main) if main is not None else ())]
    effects = told[:_FEW] if most > _FEW else []
    parts = list(_parts(found, index))
    parts += list(default_settings(found, main)) if main is not None and not parts else []
    room = most - 1 - len(effects)
    kept = min(_MOST_PARTS, max(1, room // 2))
    if len(parts) > kept:
        parts[kept - 1 :] = [
            replace(parts[kept - 1], text=f"{parts[kept - 1].text}; more to line {parts[-1].end_line}")
        ]
    yield from parts
    if main is not None:
        yield from flow_of(main, index, max(room - len(parts), 1))
    else:
        yield from list(_methods(found))[: room - len(parts)]
    yield from effects


def _class_head(owner: Class, index: ProjectIndex, *, has_entry: bool = True) -> str:
    """Return what a class is, in one line, with the method by which it is used unless others are asked about."""
    bases = listed([ast.unparse(base) for base in owner.node.bases], most=3)
    layers = [path for path, each in attributes_of(owner) if is_layer(each, index)]
    weights = [path for path, each in attributes_of(owner) if _is_parameter(each)]
    kind = f"`{owner.name}` is a module ({bases})" if index.is_module(owner) else f"`{owner.name}` is a class"
    if not index.is_module(owner) and bases:
        kind = f"`{owner.name}` derives from {bases}"
    # Others may come from arguments or calls.
    has = [f"at least {number_of(len(layers), 'submodule')}"] if layers else []
    has += [f"{number_of(len(weights), 'parameter')} of its own"] if weights else []
    if not has:
        public = [method for method in owner.methods if not method.startswith("_")]
        has = [f"methods {listed(public)}"] if len(public) > 1 else []
    called = inherited_entry(owner, index) or main_method(owner, index)
    entry = f"; used by `{signature_of(called)}`" if called is not None and has_entry else ""
    if entry and called is not None and called.owner is not None and called.owner is not owner:
        entry += f" of `{called.owner.name}`"
    if purpose := purpose_of_node(owner.node):
        return f"{kind}: {purpose}{entry}"
    return f"{kind}{' with ' + ' and '.join(has) if has else ''}{entry}"


def _created(owner: Class, index: ProjectIndex) -> Iterator[Fact]:
    init = index.method(owner, "__init__")
    calls = [caller for caller in index.callers(init) if caller.tail == owner.name] if init is not None else []
    if calls:
        places = _places([(call.function.file.path, call.line) for call in calls])
        yield described(owner.file, owner.node.lineno, f"`{owner.name}` is created at {places}")


def _function_head(function: Function, index: ProjectIndex) -> str:
    """Return what a function takes and who calls it, in one line."""
    if function.is_module:
        return f"`{function.file.path.rpartition('/')[2]}` is a script"
    decorated = f", decorated by {listed(list(function.decorators), most=2)}" if function.decorators else ""
    calls = [(caller.function.file.path, caller.line) for caller in index.callers(function)]
    called = f"; called at {_places(calls)}" if calls else "; no call of it is in these files"
    returned = [each for each, _ in function.returns if each.value is not None]
    yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in walk(function.node))
    result = "yields values" if yields else f"returns at {_listed_lines(returned)}" if returned else "returns nothing"
    purpose = purpose_of_node(function.node)
    return f"`{signature_of(function)}`{f': {purpose}' if purpose else ''}{decorated} {result}{called}"


def _listed_lines(returns: Sequence[ast.Return]) -> str:
    lines = [str(each.lineno) for each in returns]
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(lines[:_FEW])}{' ...' if len(lines) > _FEW else ''}"


def _places(places: Sequence[tuple[str, int]]) -> str:
    shown = [f"{path}:{line}" for path, line in dict.fromkeys(places)]
    return ", ".join(shown[:2]) + (f" and {len(shown) - 2} more" if len(shown) > 2 else "")  # noqa: PLR2004 - two fit


def _parts(owner: Class, index: ProjectIndex) -> Iterator[Fact]:
    """Yield submodules, parameters and buffers, with their sizes as written; several in a line."""
    found = [
        (each.line, f"`{path.removeprefix('self.')}` = `{shortened(ast.unparse(each.value), _LONGEST_VALUE)}`")
        for path, each in attributes_of(owner)
        if is_layer(each, index) or _is_parameter(each)
    ]
    for method in owner.methods.values():
        for call in method.calls:
            name = call.argument(0, "name") if call.path == "self.register_buffer" else None
            value = call.argument(1, "tensor")
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and value is not None:
                found.append((call.line, f"buffer `{name.value}` = `{shortened(ast.unparse(value), _LONGEST_VALUE)}`"))
    row: list[tuple[int, str]] = []
    for each in sorted(dict.fromkeys(found)):
        if row and sum(len(text) + 2 for _, text in (*row, each)) > LONGEST - 28:
            yield _row(owner, row)
            row = []
        row.append(each)
    if row:
        yield _row(owner, row)


def _row(owner: Class, row: Sequence[tuple[int, str]]) -> Fact:
    fact = described(owner.file, row[0][0], f"parts: {', '.join(text for _, text in row)}")
    return replace(fact, end_line=row[-1][0])


def _methods(owner: Class) -> Iterator[Fact]:
    for name, method in owner.methods.items():
        if not name.startswith("_") and not isinstance(method.node, ast.Module):
            steps = condensed(flow_steps(method.node, lambda _: ""), 1)
            told = f": {steps[-1].text}" if steps else ""
            yield described(method.file, method.node.lineno, f"`{signature_of(method)}`{told}")


def _modes(owner: Class) -> Iterator[Fact]:
    """Yield the layers that differ in training and in evaluation."""
    found = [(each.line, path) for path, each in attributes_of(owner) if _has_mode(each.value)]
    if found:
        names = listed([path.removeprefix("self.") for _, path in found])
        verb = "works" if len(found) == 1 else "work"
        yield described(owner.file, found[0][0], f"{names} {verb} differently in training and after `.eval()`")


def _effects(function: Function) -> Iterator[Fact]:
    """Yield what a function does besides computing its result."""
    given = {parameter for parameter in function.parameters if parameter not in {"self", "cls"}}
    file = function.file
    for each in walk(function.node):
        if isinstance(each, ast.Attribute) and dotted(each) == "self.training":
            yield described(file, each.lineno, "`self.training` decides here: training and evaluation differ")
            break
    for path, assignments in function.assignments.items():
        is_own = path.startswith("self.") and function.name not in _BOOKKEEPING
        if is_own:
            yield described(file, assignments[0].line, f"each call changes `{path.replace('[]', '[...]')}`")
        elif path.endswith("[]") and path.removesuffix("[]") in given:
            yield described(file, assignments[0].line, f"writes into its argument `{path.removesuffix('[]')}`")
    for call in function.calls:
        is_in_place = call.tail.endswith("_") and not call.tail.endswith("__") and call.tail not in _BOOKKEEPING
        if is_in_place and call.receiver in given:
            yield described(file, call.line, f"changes its argument `{call.receiver}` in place by `.{call.tail}`")
    random = next((each for each in function.calls if each.tail in _RANDOM and each.receiver), None)
    if random is not None:
        yield described(file, random.line, f"draws random numbers by `{random.path}`")


def _is_parameter(found: Assignment) -> bool:
    value = found.value
    name = resolve(dotted(value.func), found.block.function) if isinstance(value, ast.Call) else ""
    return name in {"torch.nn.Parameter", "torch.nn.parameter.Parameter"} and bool(getattr(value, "args", ()))


def _has_mode(value: ast.expr) -> bool:
    names = (tail_of(dotted(each.func)) for each in alternatives_of(value) if isinstance(each, ast.Call))
    return any(name.startswith(_MODED) for name in names)
