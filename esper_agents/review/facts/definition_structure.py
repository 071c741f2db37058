"""Structure of definitions: parts, parameters, data flow, results, side effects and callers."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.pluralize import number_of
from esper_agents.domain.request import Wish
from esper_agents.review.data_flow_text import condensed, flow_steps
from esper_agents.review.fact_query import Assessment, Fact, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.tables import Class, Function

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, FileTables

_MOST_LINES, _MOST_DEFINITIONS, _FEW, _MOST_PARTS = 12, 3, 4, 3
_LONGEST, _LONGEST_VALUE, _LONGEST_PURPOSE = 190, 60, 100
_CONTAINERS = frozenset({"ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict"})
_MODED = ("Dropout", "AlphaDropout", "BatchNorm", "SyncBatchNorm")
_RANDOM = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "bernoulli", "multinomial", "normal_"}
    | {"uniform_", "rsample"}
)
# Methods by which objects are used, the first that a class has.
_MAIN = ("forward", "training_step", "__getitem__", "__call__", "__iter__", "step", "train", "fit", "run")
_BOOKKEEPING = frozenset({"requires_grad_", "__init__"})


class DefinitionStructure(FactQuery):
    """What a class or function is made of, its data flow step by step, what it returns, changes, and who calls it."""

    name = "definition-structure"
    wishes = (Wish.EXPLAIN,)
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
        named = [found for each in subject.symbols if (found := _named(each, index)) is not None]
        owners = {each.owner for each in named if isinstance(each, Function)}
        whole = [each for each in named if each not in owners][:_MOST_DEFINITIONS]
        for each in named:
            if isinstance(each, Class) and each in owners:
                # The named methods are described below.
                yield _at(each.file, each.node.lineno, _class_head(each, index))
                yield from list(_parts(each, index))[:1]
                yield from (fact for one in whole[:1] if isinstance(one, Function) for fact in _defaults(each, one))
            elif each in whole:
                yield from _structure(each, index, max((_MOST_LINES - len(owners)) // len(whole), _FEW))
        for file in files[:_MOST_DEFINITIONS] if not named else ():
            yield from _of_file(file, index, _MOST_LINES // min(len(files), _MOST_DEFINITIONS))


def _of_file(file: FileTables, index: ProjectIndex, most: int) -> Iterator[Fact]:
    main = _main(file, index)
    shown = main[: max(1, min(_MOST_DEFINITIONS, most // _FEW))]
    if len(file.classes) + len(file.functions[0].inner) > 1:
        yield _at(file, 1, _overview(file, shown))
        most -= 1
    for each in sorted(shown, key=lambda one: getattr(one.node, "lineno", 1)):
        yield from _structure(each, index, max(most // len(shown), 2))


def _overview(file: FileTables, main: Sequence[Class | Function]) -> str:
    """Return what a file defines."""
    classes = [each.name for each in file.classes]
    functions = [each.name for each in file.functions[0].inner if each.owner is None]
    parts = [f"{number_of(len(classes), 'class', 'classes')} ({_listed(classes)})"] if classes else []
    parts += [f"{number_of(len(functions), 'function')} ({_listed(functions)})"] if functions else []
    told = f"; mainly {_listed([each.name for each in main])}" if len(main) < len(classes) + len(functions) else ""
    return f"the file defines {' and '.join(parts)}{told}"


def _main(file: FileTables, index: ProjectIndex) -> list[Class | Function]:
    """Return the main definitions of a file: the longest ones, those that others in it are made of counted less."""
    functions = [each for each in file.functions[0].inner if each.owner is None]
    found: list[Class | Function] = [*file.classes, *functions]
    names = {each.name for each in found}
    parts = {call.tail for call in file.calls if call.function.name not in {"main", "<module>", call.tail}} & names
    parts |= {tail_of(base) for each in file.classes for base in each.bases}
    weights = {each: _weight(each, parts, index) for each in found}
    most = max(weights.values(), default=0)
    main = [each for each in found if weights[each] * _FEW >= most]
    return sorted(main, key=lambda each: -weights[each]) or [file.functions[0]]


def _weight(found: Class | Function, parts: set[str], index: ProjectIndex) -> float:
    length = _length(found) * (2 if _is_module(found, index) else 1)
    return length / _FEW if found.name in parts else length


def _is_module(found: Class | Function, index: ProjectIndex) -> bool:
    return isinstance(found, Class) and index.is_module(found)


def _length(found: Class | Function) -> int:
    return (getattr(found.node, "end_lineno", 1) or 1) - getattr(found.node, "lineno", 1)


def _named(symbol: str, index: ProjectIndex) -> Class | Function | None:
    """Return the definition that `FILE.py:Qualified.name` means."""
    path, _, name = symbol.partition(":")
    file = index.files.get(path)
    if file is None:
        return None
    found: list[Class | Function] = [each for each in file.classes if each.name == name]
    found += [each for each in file.functions if each.qualname == name or each.qualname.endswith(f".{name}")]
    return found[0] if found else None


def _structure(found: Class | Function, index: ProjectIndex, most: int) -> Iterator[Fact]:
    if isinstance(found, Function):
        effects = list(_effects(found))[:_FEW] if most > _FEW else []
        yield _at(found.file, getattr(found.node, "lineno", 1), _function_head(found, index))
        yield from _flow(found, index, max(most - 1 - len(effects), 1))
        yield from effects
        return
    yield _at(found.file, found.node.lineno, _class_head(found, index))
    main = _main_method(found, index)
    told = [*_created(found, index), *_modes(found), *(_effects(main) if main is not None else ())]
    effects = told[:_FEW] if most > _FEW else []
    parts = list(_parts(found, index))
    parts += list(_defaults(found, main)) if main is not None and not parts else []
    room = most - 1 - len(effects)
    kept = min(_MOST_PARTS, max(1, room // 2))
    if len(parts) > kept:
        parts[kept - 1 :] = [
            replace(parts[kept - 1], text=f"{parts[kept - 1].text}; more to line {parts[-1].end_line}")
        ]
    yield from parts
    if main is not None:
        yield from _flow(main, index, max(room - len(parts), 1))
    else:
        yield from list(_methods(found))[: room - len(parts)]
    yield from effects


def _main_method(owner: Class, index: ProjectIndex) -> Function | None:
    """Return the method by which objects are used: a usual one that does more than pass on, else the longest entry."""
    usual = [owner.methods[each] for each in _MAIN if each in owner.methods]
    found = next((each for each in usual if len(_statements(each)) > 1), None)
    if found is not None or (usual and index.is_module(owner) and usual[0].name == "forward"):
        return found or usual[0]
    own = set(owner.methods.values())
    entries = [
        each
        for name, each in owner.methods.items()
        if not name.startswith("_")
        and "property" not in each.decorators
        and len(_statements(each)) >= _MOST_PARTS
        and not any(call.function in own for call in index.callers(each))
    ]
    return max(entries, key=_length, default=usual[0] if usual else None)


def _statements(function: Function) -> list[ast.stmt]:
    """Return the statements of a function without its docstring."""
    body = getattr(function.node, "body", [])
    return body[1:] if ast.get_docstring(function.node, clean=False) else body


def _purpose(node: ast.AST) -> str:
    """Return what the docstring of a definition says first, quoted; empty without one."""
    text = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else None
    first = " ".join((text or "").strip().partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)])\. ", first)[0].rstrip(".")
    return f'"{_cut(sentence.replace("`", ""), _LONGEST_PURPOSE)}"' if len(sentence.split()) > 1 else ""


def _defaults(owner: Class, used: Function) -> Iterator[Fact]:
    """Yield the defaults of the settings that a method reads, as the constructor has them."""
    init = owner.methods.get("__init__")
    if init is None or isinstance(init.node, ast.Module):
        return
    arguments = init.node.args
    given = [*arguments.posonlyargs, *arguments.args]
    known = dict(zip([each.arg for each in given][::-1], arguments.defaults[::-1], strict=False))
    known |= {each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value}
    read = {
        each.attr for each in walk(used.node) if isinstance(each, ast.Attribute) and dotted(each) == f"self.{each.attr}"
    }
    names = [name for name, value in known.items() if name in read and _is_setting(value)]
    if names:
        shown = ", ".join(f"`{name}` = `{_cut(ast.unparse(known[name]), 20)}`" for name in reversed(names))
        yield _at(owner.file, init.node.lineno, f"defaults: {shown}")


def _is_setting(value: ast.expr) -> bool:
    return isinstance(value, ast.UnaryOp | ast.BinOp) or (isinstance(value, ast.Constant) and value.value is not None)


def _class_head(owner: Class, index: ProjectIndex) -> str:
    """Return what a class is, in one line."""
    bases = _listed([ast.unparse(each) for each in owner.node.bases], most=3)
    layers = [path for path, each in _attributes(owner) if _is_layer(each, index)]
    weights = [path for path, each in _attributes(owner) if _is_parameter(each)]
    kind = f"`{owner.name}` is a module ({bases})" if index.is_module(owner) else f"`{owner.name}` is a class"
    if not index.is_module(owner) and bases:
        kind = f"`{owner.name}` derives from {bases}"
    # Others may come from arguments or calls.
    has = [f"at least {number_of(len(layers), 'submodule')}"] if layers else []
    has += [f"{number_of(len(weights), 'parameter')} of its own"] if weights else []
    if not has:
        public = [each for each in owner.methods if not each.startswith("_")]
        has = [f"methods {_listed(public)}"] if len(public) > 1 else []
    called = _main_method(owner, index)
    entry = f"; used by `{_signature(called)}`" if called is not None else ""
    if purpose := _purpose(owner.node):
        return f"{kind}: {purpose}{entry}"
    return f"{kind}{' with ' + ' and '.join(has) if has else ''}{entry}"


def _created(owner: Class, index: ProjectIndex) -> Iterator[Fact]:
    init = index.method(owner, "__init__")
    calls = [each for each in index.callers(init) if each.tail == owner.name] if init is not None else []
    if calls:
        places = _places([(each.function.file.path, each.line) for each in calls])
        yield _at(owner.file, owner.node.lineno, f"`{owner.name}` is created at {places}")


def _function_head(function: Function, index: ProjectIndex) -> str:
    """Return what a function takes and who calls it, in one line."""
    if function.is_module:
        return f"`{function.file.path.rpartition('/')[2]}` is a script"
    decorated = f", decorated by {_listed(list(function.decorators), most=2)}" if function.decorators else ""
    calls = [(each.function.file.path, each.line) for each in index.callers(function)]
    called = f"; called at {_places(calls)}" if calls else "; no call of it is in these files"
    returned = [each for each, _ in function.returns if each.value is not None]
    yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in walk(function.node))
    result = "yields values" if yields else f"returns at {_listed_lines(returned)}" if returned else "returns nothing"
    purpose = _purpose(function.node)
    return f"`{_signature(function)}`{f': {purpose}' if purpose else ''}{decorated} {result}{called}"


def _listed_lines(returns: Sequence[ast.Return]) -> str:
    lines = [str(each.lineno) for each in returns]
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(lines[:_FEW])}{' ...' if len(lines) > _FEW else ''}"


def _places(places: Sequence[tuple[str, int]]) -> str:
    shown = [f"{path}:{line}" for path, line in dict.fromkeys(places)]
    return ", ".join(shown[:2]) + (f" and {len(shown) - 2} more" if len(shown) > 2 else "")  # noqa: PLR2004 - two fit


def _signature(function: Function) -> str:
    node = function.node
    if isinstance(node, ast.Module):
        return function.name
    names = [each for each in function.parameters if each not in {"self", "cls"}]
    return f"{function.name}({_cut(', '.join(names), _LONGEST_VALUE)})"


def _parts(owner: Class, index: ProjectIndex) -> Iterator[Fact]:
    """Yield submodules, parameters and buffers, with their sizes as written; several in a line."""
    found = [
        (each.line, f"`{path.removeprefix('self.')}` = `{_cut(ast.unparse(each.value), _LONGEST_VALUE)}`")
        for path, each in _attributes(owner)
        if _is_layer(each, index) or _is_parameter(each)
    ]
    for method in owner.methods.values():
        for call in method.calls:
            name = call.argument(0, "name") if call.path == "self.register_buffer" else None
            value = call.argument(1, "tensor")
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and value is not None:
                found.append((call.line, f"buffer `{name.value}` = `{_cut(ast.unparse(value), _LONGEST_VALUE)}`"))
    row: list[tuple[int, str]] = []
    for each in sorted(dict.fromkeys(found)):
        if row and sum(len(text) + 2 for _, text in (*row, each)) > _LONGEST - 28:
            yield _row(owner, row)
            row = []
        row.append(each)
    if row:
        yield _row(owner, row)


def _row(owner: Class, row: Sequence[tuple[int, str]]) -> Fact:
    fact = _at(owner.file, row[0][0], f"parts: {', '.join(text for _, text in row)}")
    return replace(fact, end_line=row[-1][0])


def _flow(function: Function, index: ProjectIndex, most: int) -> Iterator[Fact]:
    owner = function.owner
    kinds = dict(_kinds(owner, index)) if owner is not None else {}
    for each in condensed(flow_steps(function.node, lambda path: kinds.get(path.replace("[]", ""), "")), most):
        yield _at(function.file, each.line, each.whole)


def _methods(owner: Class) -> Iterator[Fact]:
    for name, method in owner.methods.items():
        if not name.startswith("_") and not isinstance(method.node, ast.Module):
            steps = condensed(flow_steps(method.node, lambda _: ""), 1)
            told = f": {steps[-1].text}" if steps else ""
            yield _at(method.file, method.node.lineno, f"`{_signature(method)}`{told}")


def _modes(owner: Class) -> Iterator[Fact]:
    """Yield the layers that differ in training and in evaluation."""
    found = [(each.line, path) for path, each in _attributes(owner) if _has_mode(each.value)]
    if found:
        names = _listed([path.removeprefix("self.") for _, path in found])
        verb = "works" if len(found) == 1 else "work"
        yield _at(owner.file, found[0][0], f"{names} {verb} differently in training and after `.eval()`")


def _effects(function: Function) -> Iterator[Fact]:
    """Yield what a function does besides computing its result."""
    given = {each for each in function.parameters if each not in {"self", "cls"}}
    file = function.file
    for each in walk(function.node):
        if isinstance(each, ast.Attribute) and dotted(each) == "self.training":
            yield _at(file, each.lineno, "`self.training` decides here: training and evaluation differ")
            break
    for path, assignments in function.assignments.items():
        is_own = path.startswith("self.") and function.name not in _BOOKKEEPING
        if is_own:
            yield _at(file, assignments[0].line, f"each call changes `{path.replace('[]', '[...]')}`")
        elif path.endswith("[]") and path.removesuffix("[]") in given:
            yield _at(file, assignments[0].line, f"writes into its argument `{path.removesuffix('[]')}`")
    for call in function.calls:
        is_in_place = call.tail.endswith("_") and not call.tail.endswith("__") and call.tail not in _BOOKKEEPING
        if is_in_place and call.receiver in given:
            yield _at(file, call.line, f"changes its argument `{call.receiver}` in place by `.{call.tail}`")
    random = next((each for each in function.calls if each.tail in _RANDOM and each.receiver), None)
    if random is not None:
        yield _at(file, random.line, f"draws random numbers by `{random.path}`")


def _attributes(owner: Class) -> Iterator[tuple[str, Assignment]]:
    """Yield what the methods of a class assign to `self`, the first assignment of each path, by line."""
    firsts = [(path, each[0]) for path, each in owner.attributes.items() if each and path.startswith("self.")]
    yield from sorted(firsts, key=lambda each: each[1].line)


def _is_layer(found: Assignment, index: ProjectIndex) -> bool:
    return any(_is_layer_call(each, found, index) for each in _alternatives(found.value))


def _is_layer_call(value: ast.expr, found: Assignment, index: ProjectIndex) -> bool:
    if not isinstance(value, ast.Call):
        return False
    function = found.block.function
    name = resolve(dotted(value.func), function)
    if name.startswith("torch.nn.") and tail_of(name)[:1].isupper() and not name.startswith("torch.nn.Parameter"):
        return ".utils." not in name
    made = index.class_called(value, function)
    return made is not None and index.is_module(made)


def _is_object(found: Assignment) -> bool:
    """Return whether what is assigned is made by a class, by its name."""
    return isinstance(found.value, ast.Call) and tail_of(dotted(found.value.func))[:1].isupper()


def _alternatives(value: ast.expr) -> tuple[ast.expr, ...]:
    if isinstance(value, ast.IfExp):
        return (*_alternatives(value.body), *_alternatives(value.orelse))
    return (value,)


def _is_parameter(found: Assignment) -> bool:
    value = found.value
    name = resolve(dotted(value.func), found.block.function) if isinstance(value, ast.Call) else ""
    return name in {"torch.nn.Parameter", "torch.nn.parameter.Parameter"} and bool(getattr(value, "args", ()))


def _has_mode(value: ast.expr) -> bool:
    names = (tail_of(dotted(each.func)) for each in _alternatives(value) if isinstance(each, ast.Call))
    return any(each.startswith(_MODED) for each in names)


def _kinds(owner: Class, index: ProjectIndex) -> Iterator[tuple[str, str]]:
    """Yield the paths that hold layers, with the kinds of layer."""
    for base in reversed(index.lineage(owner).classes):
        for path, each in _attributes(base):
            if _is_layer(each, index) or _is_object(each):
                calls = [one for one in _alternatives(each.value) if isinstance(one, ast.Call)]
                names = dict.fromkeys(tail_of(dotted(one.func)) for one in calls)
                yield path, " or ".join(_element(name, each.value) for name in names)


def _element(name: str, value: ast.expr) -> str:
    """Return the kind of a layer; of a list, with the kind of its elements if it is one."""
    if name not in _CONTAINERS:
        return name
    inner = {
        tail_of(dotted(each.func))
        for each in walk(value)
        if isinstance(each, ast.Call) and each is not value and tail_of(dotted(each.func))[:1].isupper()
    }
    return f"{name} of {inner.pop()}" if len(inner) == 1 else name


def _at(file: FileTables, line: int, text: str) -> Fact:
    return Fact(Assessment.DESCRIPTION, file.path, line, _cut(text, _LONGEST), end_line=line)


def _listed(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(f"`{each}`" for each in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 4].rstrip()
    return f"{cut}{'`' * (cut.count('`') % 2)}..."
