"""ESP504: the same thing is wrapped for compilation again in every round of a loop."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.conditions import is_now_and_then, names_in
from esper_agents.review.index import argument_for
from esper_agents.review.names import dotted, root_of
from esper_agents.review.rule import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

# Methods that run once for every batch.
_REPEATED = frozenset({"forward", "__call__", "training_step", "validation_step", "train_step", "step", "predict"})


class CompileInLoop(Rule):
    """A `torch.compile` inside a loop, or in a `forward`, of something that does not change there.

    ## Why it costs
    Each call makes a new wrapper and checks it against what was compiled before: about 0.7 ms a round with torch 2.13,
    against 0.1 ms for a call of what is already wrapped. The compiled code itself is found again, unless `backend` is a
    function made anew: then every round compiles, until the recompile limit is reached and the code runs eagerly.

    ## When it is right
    The loop is over what is compiled, such as the layers of a model or several settings: then what is handed to
    `torch.compile` depends on the loop's own names, and nothing is reported.

    ## Sources
    PyTorch documentation of `torch.compile`; its troubleshooting page, on recompilation.
    """

    code, name = "ESP504", "compile-in-loop"
    severity, category = Severity.SUGGESTION, Category.COMPILE
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader):\n"
        "    for x in loader:\n"
        "        fast = torch.compile(model)\n"
        "        fast(x)\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def fit(model, loader):\n"
        "    fast = torch.compile(model)\n"
        "    for x in loader:\n"
        "        fast(x)\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what is compiled in a loop without depending on it."""
        yield from self._decorated(file)
        for call in file.calls_to("torch.compile"):
            loops = [] if not call.node.args else [loop for loop in call.block.loops() if not _depends_on(call, loop)]
            if loops and not is_now_and_then(call.block, loops[0]):
                yield self.hit(
                    call.node,
                    f"`{ast.unparse(call.node.args[0])}` is wrapped anew by `torch.compile` in every round of the loop",
                    remedy="compile it once, before the loop",
                )
            elif call.block.loop is None and (_is_in_every_call(call) or _is_repeated(call, index)):
                yield self.hit(
                    call.node,
                    f"`{ast.unparse(call.node.args[0])}` is wrapped anew by `torch.compile` in every call of "
                    f"{call.function.qualname!r}",
                    remedy="compile it once, in `__init__`"
                    if call.function.owner
                    else "compile it once, before the loop",
                )

    def _decorated(self, file: FileTables) -> Iterator[RuleMatch]:
        for function in file.functions:
            loop = function.outer.loop if function.outer is not None else None
            for path, node in zip(function.decorators, getattr(function.node, "decorator_list", ()), strict=False):
                bound = {root_of(target) for target in loop.targets} if loop is not None else set()
                read = {root_of(each) for each in names_in(function.node)} - set(function.parameters)
                is_same = loop is not None and not bound & read
                if is_same and path.removesuffix("()") == "torch.compile":
                    yield self.hit(
                        node,
                        f"{function.name!r} is made and wrapped anew by `torch.compile` in every round of the loop",
                        remedy="define it once, before the loop",
                    )


def _is_in_every_call(call: Call) -> bool:
    """Return whether a step or a `forward` compiles something of its object that it does not keep."""
    function = call.function
    if function.owner is None or function.name not in _REPEATED or not call.node.args:
        return False
    path = dotted(call.node.args[0])
    is_kept = any(target.startswith("self.") and each.value is call.node for target, each in _assigned(function))
    return path.startswith("self.") and not is_kept and call.block is function.block


def _is_repeated(call: Call, index: ProjectIndex) -> bool:
    """Return whether a function that a loop calls compiles what it is handed, uses it, and does not keep it."""
    function = call.function
    handed = dotted(call.node.args[0]) if call.node.args else ""
    if handed not in function.parameters or call.block is not function.block or function.decorators:
        return False
    names = {target for target, each in _assigned(function) if each.value is call.node}
    is_called = isinstance(call.parent, ast.Call) and call.parent.func is call.node
    is_used = is_called or any(each.path in names for each in function.calls)
    kept = {path for statement, _ in function.returns if statement.value is not None for path in _held(statement.value)}
    if not is_used or kept & names or any(not name.isidentifier() for name in names):
        return False
    return any(
        caller.block.loop is not None
        and function in index.callees(caller)
        and not is_now_and_then(caller.block, caller.block.loop)
        and not set(caller.block.loop.targets) & _held(argument)
        for caller in index.callers(function)
        for argument in (argument_for(caller, function, handed),)
        if argument is not None
    )


def _held(value: ast.expr) -> set[str]:
    """Return the names that a value gives on as they are."""
    parts = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return {part.id for part in parts if isinstance(part, ast.Name)}


def _assigned(function: Function) -> Iterator[tuple[str, Assignment]]:
    return ((path, each) for path, listed in function.assignments.items() for each in listed)


def _depends_on(call: Call, loop: Block) -> bool:
    """Return whether what is compiled, or how, depends on names that a loop around binds."""
    read = {root_of(path) for path in names_in(call.node)}
    for inner_loop in call.block.loops():
        if inner_loop is loop:
            break
        # What an inner loop goes over says what its own names stand for.
        if read & {root_of(target) for target in inner_loop.targets}:
            read |= {root_of(path) for each in _gone_over(inner_loop) for path in names_in(each)}
    bound = {root_of(target) for target in loop.targets}
    made = {
        root_of(target)
        for target, assignments in call.function.assignments.items()
        if any(
            assignment.block.within(loop) and assignment.statement is not call.statement for assignment in assignments
        )
    }
    inner = any(
        each.outer is not None and each.outer.within(loop) and each.name in read for each in call.function.inner
    )
    return bool(read & (bound | made)) or inner


def _gone_over(loop: Block) -> list[ast.expr]:
    if isinstance(loop.node, ast.For | ast.AsyncFor):
        return [loop.node.iter]
    return [each.iter for each in getattr(loop.node, "generators", ())]
