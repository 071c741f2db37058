"""ESP506: compiled code that is compiled again in every call."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, ClassVar

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.compiled import compiled_called, compiled_functions
from esper_agents.review.compiled_numbers import set_from_outside
from esper_agents.review.conditions import is_now_and_then, names_in
from esper_agents.review.definitions import owner_of
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.rule import FOLLOWED, SEEN, Example, Rule
from esper_agents.review.static_shapes import calls_static, static_names, varying_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.compiled import CompiledBy
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_WRAPPINGS = frozenset({"reversed", "tqdm", "list", "track", "progress_bar"})
_GROWING = frozenset({"append", "extend", "insert", "appendleft"})
_COUNTER = "keep the count in a tensor (`self.register_buffer(...)`, then `self.steps += 1`), or count outside"
_SET = "hand the number over as a tensor (`torch.tensor(step, device=x.device)`), or keep it in a buffer"
_GLOBAL = "hand the count over as an argument, or keep it in a tensor"
_LIST = "return what is gathered, and gather it outside the compiled code"


class RecompilingShapes(Rule):
    """Compiled code that depends on a plain number, or on the length of a list, that changes with every call.

    ## Why it costs
    What is no tensor is compiled in as it is: when it changes, all of it is compiled again, for seconds each time.
    After 8 times (`torch._dynamo.config.recompile_limit`) torch gives up and runs the code without compiling it. It
    happens with a number kept on a module or in a global, also where a loop outside sets it, with a list that grows,
    with a number that says how often a loop goes round, and with every number and size under `dynamic=False`.

    ## When it is right
    It changes a few times only, or `torch._dynamo.config.allow_unspec_int_on_nn_module` is set. Plain numbers handed
    over as arguments, sizes that change, and counters on objects that are no module, are not reported: from the second
    value on torch compiles one version for all.

    ## Sources
    PyTorch documentation of `torch.compile`, on recompilation and dynamic shapes; each pattern was counted with torch
    2.13.
    """

    code, name = "ESP506", "recompiling-shapes"
    severity, category = Severity.WARNING, Category.COMPILE
    bad: ClassVar[Example] = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(8, 8)\n"
        "        self.steps = 0\n"
        "\n"
        "    def forward(self, x):\n"
        "        self.steps += 1\n"
        "        return self.layer(x)\n"
        "\n"
        "\n"
        "net = torch.compile(Net())\n"
    )
    good: ClassVar[Example] = (
        "import torch\n"
        "from torch import nn\n"
        "\n"
        "\n"
        "class Net(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = nn.Linear(8, 8)\n"
        '        self.register_buffer("steps", torch.zeros((), dtype=torch.long))\n'
        "\n"
        "    def forward(self, x):\n"
        "        self.steps += 1\n"
        "        return self.layer(x)\n"
        "\n"
        "\n"
        "net = torch.compile(Net())\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what changes from call to call."""
        yield from self._sized(file, index)
        known = compiled_functions(index)
        if not known or index.once("numbers of modules are dynamic", lambda: _are_numbers_dynamic(index)):
            return
        for function, by in known.items():
            if function.file is file:
                yield from self._kept(function, by, index)
        for node, number, function, by in set_from_outside(file, index, _counters):
            where = f"{function.qualname!r}, which reads it, is compiled at {by.path}:{by.line}"
            yield self._found(node, f"`{number}` changes in every round", where, _SET, by)
        for call in file.calls if _may_call(file, known) else ():
            if call.block.loop is not None:
                yield from self._handed_over(call, call.block.loop, index)

    def _sized(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the calls that hand sizes of their own to what is compiled for one size each."""
        for call in file.calls_ending(*static_names(index)):
            loop = call.block.loop
            if loop is None or is_now_and_then(call.block, loop) or not calls_static(call, index):
                continue
            what = varying_size(call, loop)
            if what:
                yield self.hit(
                    call.node,
                    f"`{what}` has a size of its own in each round, and under `dynamic=False` each compiles anew",
                    remedy="pad to one size or to a few, or leave `dynamic` to torch",
                    basis=FOLLOWED,
                )

    def _kept(self, function: Function, by: CompiledBy, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the counters and lists that compiled code keeps from call to call."""
        where = f"{function.qualname!r} is compiled at {by.path}:{by.line}"
        for path, assignments in function.assignments.items():
            for assignment in assignments:
                if _counts(assignment, path) and not is_now_and_then(assignment.block, function.block):
                    if _is_number_of_module(path, function, index):
                        yield self._found(assignment.statement, f"`{path}` changes in every call", where, _COUNTER, by)
                    elif _is_global(path, function):
                        what = f"the global `{path}` changes in every call"
                        yield self._found(assignment.statement, what, where, _GLOBAL, by)
        for call in function.calls:
            is_kept = call.tail in _GROWING and _is_list_of_module(call, index) and not _is_cleared(call, function)
            if is_kept and not is_now_and_then(call.block, function.block):
                yield self._found(call.node, f"`{call.receiver}` grows in every call", where, _LIST, by)

    def _found(self, node: ast.AST, what: str, where: str, remedy: str, by: CompiledBy) -> RuleMatch:
        return self.hit(
            node,
            f"{what}, and each change compiles anew: {where}",
            remedy=remedy,
            confidence=Confidence.HIGH if by.is_direct else Confidence.MODERATE,
            basis=SEEN if by.is_direct else FOLLOWED,
        )

    def _handed_over(self, call: Call, loop: Block, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the arguments of a compiled function that change with every round of a loop, and compile anew."""
        arguments = [*call.node.args, *(keyword.value for keyword in call.node.keywords)]
        counters, lists = _counters(loop), _growing_lists(call, loop)
        names = [each for each in arguments if isinstance(each, ast.Name)]
        if not {name.id for name in names} & (counters | lists):
            return
        found = compiled_called(call, index)
        if found is None or is_now_and_then(call.block, loop):
            return
        function, by = found
        for parameter, argument in _by_parameter(call, function):
            if not isinstance(argument, ast.Name):
                continue
            is_counter = argument.id in counters and (by.is_static or _says_how_often(parameter, function))
            if is_counter or argument.id in lists:
                does = "grows" if argument.id in lists else "changes"
                left = "`dynamic` to torch" if by.is_static else "that part out of the compiled code"
                why = " under `dynamic=False`" if by.is_static and argument.id not in lists else ""
                yield self.hit(
                    call.node,
                    f"`{argument.id}` {does} with every round, and{why} each round compiles {function.qualname!r} anew",
                    remedy=f"hand over a tensor of one shape, or leave {left}",
                    basis=FOLLOWED,
                )


def _are_numbers_dynamic(index: ProjectIndex) -> bool:
    return any("allow_unspec_int_on_nn_module" in file.text for file in index.files.values())


def _may_call(file: FileTables, known: dict[Function, CompiledBy]) -> bool:
    return any(by.path == file.path or function.name in file.by_tail for function, by in known.items() if by.is_direct)


def _counts(each: Assignment, path: str) -> bool:
    """Return whether an assignment counts: `n += 1`, `n = n + 1`."""
    if isinstance(each.value, ast.BinOp) and not each.is_augmented:
        sides = (each.value.left, each.value.right)
        return any(dotted(side) == path for side in sides) and any(_is_step(side) for side in sides)
    return each.is_augmented and _is_step(each.value)


def _is_step(node: ast.expr) -> bool:
    """Return whether a value is a plain number, or the size of a tensor, which is one as well."""
    inner = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
    return _is_number(node) or (isinstance(inner, ast.Attribute) and inner.attr in {"shape", "size"})


def _is_number(node: ast.expr) -> bool:
    # Of a float torch compiles one version for all values, from the second on.
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_number_of_module(path: str, function: Function, index: ProjectIndex) -> bool:
    """Return whether a path is an attribute of a module that is made as a plain number, and never as anything else."""
    made = _made_in_module(path, function, index)
    plain = [each for each in made if not each.is_augmented and not _counts(each, path)]
    return bool(plain) and all(_is_number(each.value) for each in plain)


def _made_in_module(path: str, function: Function, index: ProjectIndex) -> list[Assignment]:
    """Return what binds a path if it is an attribute of a module; nothing where it is none."""
    owner = owner_of(function) if path.startswith("self.") and path.count(".") == 1 else None
    if owner is None or not index.is_module(owner):
        return []
    return [each for base in index.lineage(owner).classes for each in base.attributes.get(path, ())]


def _is_global(name: str, function: Function) -> bool:
    """Return whether a function counts in a global that the module makes as a plain number."""
    made = function.file.functions[0].assignments.get(name, ())
    if not name.isidentifier() or not made or not all(_is_number(each.value) for each in made):
        return False
    return any(isinstance(each, ast.Global) and name in each.names for each in walk(function.node))


def _is_list_of_module(call: Call, index: ProjectIndex) -> bool:
    made = _made_in_module(call.receiver, call.function, index)
    return bool(made) and all(isinstance(each.value, ast.List) and not each.is_augmented for each in made)


def _is_cleared(call: Call, function: Function) -> bool:
    """Return whether a function empties the list that it fills, so that it does not grow from call to call."""
    path = call.receiver
    return path in function.assignments or any(
        each.receiver == path and each.tail in {"clear", "pop", "popleft"} for each in function.calls
    )


def _counters(loop: Block) -> set[str]:
    """Return the names that a loop counts with: of `enumerate(...)` or `range(...)`, or by `+= 1`."""
    found: set[str] = set()
    for each in (loop, *loop.loops()):
        for target, over in _goes_over(each.node):
            made = _unwrapped(over)
            if made == "enumerate" and isinstance(target, ast.Tuple):
                found.add(dotted(target.elts[0]))
            elif made in {"range", "trange"}:
                found.add(dotted(target))
    for path, assignments in loop.function.assignments.items():
        if any(assignment.block.within(loop) and _counts(assignment, path) for assignment in assignments):
            found.add(path)
    return found - {""}


def _unwrapped(over: ast.expr) -> str:
    """Return what makes the rounds of a loop: `range` of `tqdm(reversed(range(n)))`."""
    while isinstance(over, ast.Call) and tail_of(dotted(over.func)) in _WRAPPINGS and over.args:
        over = over.args[0]
    return tail_of(dotted(over.func)) if isinstance(over, ast.Call) else ""


def _goes_over(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    """Return what a loop or comprehension binds, with what it goes over."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [(node.target, node.iter)]
    return [(each.target, each.iter) for each in getattr(node, "generators", ())]


def _growing_lists(call: Call, loop: Block) -> set[str]:
    """Return the names of lists made before a loop that grow in each of its rounds."""
    function = call.function
    grown = {
        each.receiver
        for each in function.calls
        if each.tail == "append" and each.block.within(loop) and not is_now_and_then(each.block, loop)
    }
    emptied = {each.receiver for each in function.calls if each.tail in {"clear", "pop", "popleft"}}
    return {
        path
        for path in grown - emptied
        if (made := function.assignments.get(path))
        and all(isinstance(each.value, ast.List) and not each.block.within(loop) for each in made)
    }


def _by_parameter(call: Call, function: Function) -> Iterator[tuple[str, ast.expr]]:
    names = [parameter for parameter in function.parameters if not (function.owner is not None and parameter == "self")]
    if not call.has_splat():
        yield from zip(names, call.node.args, strict=False)
        yield from ((keyword.arg, keyword.value) for keyword in call.node.keywords if keyword.arg is not None)


def _says_how_often(parameter: str, function: Function) -> bool:
    """Return whether a parameter says how often a loop of a function goes round."""
    return any(
        isinstance(block.node, ast.For)
        and isinstance(block.node.iter, ast.Call)
        and dotted(block.node.iter.func) == "range"
        and parameter in {root_of(each) for each in names_in(block.node.iter)}
        for block in function.blocks
    )
