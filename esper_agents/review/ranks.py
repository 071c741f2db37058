"""Code that differs between the ranks of a distributed program, and what makes a program distributed."""

from __future__ import annotations

import ast
import re
from enum import Enum, auto
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.frameworks import runs_the_loop
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables, Function

DDP = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "apex.parallel.DistributedDataParallel",
)
FSDP = (
    "torch.distributed.fsdp.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard",
    "torch.distributed._composable.fsdp.fully_shard",
)
# Packages that start the processes, place the model and average the gradients themselves.
_ENGINES = frozenset({"deepspeed", "horovod", "colossalai", "torch_xla", "megatron", "bagua", "ray", "dora", "flashy"})
_RANK = pattern(
    r"(?:get_)?(?:(?:local|global|world|ddp|dist|distributed|process|proc|node)_?)?rank(?:_?id)?", re.IGNORECASE
)
_INDEX = pattern(r"(?:local_)?process_(?:index|id)|proc_id")
_FIRST = pattern(
    r"(?:is_|on_|_is_)*(?:local_|global_|world_)*(?:main_?(?:process|rank|worker|node)?|master(?:_?process|_node)?|primary"
    r"|(?:rank_?|process_?)(?:0|zero)|(?:zero|first)_rank|chief|coordinator|master_ordinal)",
    re.IGNORECASE,
)
_ON_FIRST = pattern(r"rank_?zero|main_process|master_only|only_main|main_only|is_master|rank0|on_master", re.IGNORECASE)
_SERIAL = pattern(
    r"distributed|world_size|is_initialized|num_processes|(?:\bn|num)_?gpus?\b|ddp\b|\bdist\b|parallel|device_count"
    r"|rank\s*[=!<>]=?\s*-1",
    re.IGNORECASE,
)
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
_HOPS, _MOST = 3, 8
COLLECTIVES = frozenset(
    {
        "all_reduce",
        "all_gather",
        "all_gather_object",
        "all_gather_into_tensor",
        "barrier",
        "broadcast",
        "gather",
        "reduce",
    }
    | {"broadcast_object_list", "gather_object", "reduce_scatter", "reduce_scatter_tensor", "scatter", "all_to_all"}
    | {"scatter_object_list", "monitored_barrier", "all_to_all_single"}
)
_OWN_PATH = pattern(r"rank|process_index|world|shard|tempfile|TemporaryFile|mkstemp|mkdtemp|BytesIO")
_DISTRIBUTED = pattern(r"torch\.distributed\.\w+")


class Ranks(Enum):
    """On which ranks a test holds, or code runs."""

    ONE = auto()
    OTHERS = auto()
    SOME = auto()


_OPPOSITE = {Ranks.ONE: Ranks.OTHERS, Ranks.OTHERS: Ranks.ONE, Ranks.SOME: Ranks.SOME}


def ranks_of(test: ast.expr, function: Function, index: ProjectIndex, hops: int = _HOPS) -> Ranks | None:
    """Return on which ranks a test holds; None if it does not depend on the rank."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = ranks_of(operand, function, index, hops)
            return _OPPOSITE[inner] if inner is not None else None
        case ast.BoolOp(op=op, values=values):
            found = [each for each in (ranks_of(value, function, index, hops) for value in values) if each is not None]
            if not found:
                return None
            # `not distributed or rank == 0` holds in the only process, too.
            return Ranks.ONE if Ranks.ONE in found else found[0] if isinstance(op, ast.Or) else Ranks.SOME
        case ast.Compare(left=left, ops=[operator], comparators=[other]):
            return _compared(_named_rank(left, function, index), operator, _named_rank(other, function, index))
        case ast.Name() | ast.Attribute() | ast.Call():
            return _named(test, function, index, hops)
        case _:
            return None


def _named(test: ast.expr, function: Function, index: ProjectIndex, hops: int) -> Ranks | None:
    name = tail_of(dotted(test))
    if _FIRST.fullmatch(name):
        return Ranks.ONE
    if is_rank(test):
        return Ranks.OTHERS
    if not hops:
        return None
    if isinstance(test, ast.Call):
        return _returned(test, function, index, hops)
    for origin in index.origins(test, function, test.lineno):
        if origin.value is not test and not isinstance(origin.value, ast.Call):
            return ranks_of(origin.value, origin.function, index, hops - 1)
    return None


def _named_rank(value: ast.expr, function: Function, index: ProjectIndex) -> ast.expr:
    """Return the rank that a name stands for: of `local = int(os.environ["LOCAL_RANK"])` what is assigned."""
    if not isinstance(value, ast.Name) or is_rank(value):
        return value
    found = [each.value for each in index.origins(value, function, value.lineno)]
    return found[0] if found and all(is_rank(each) for each in found) else value


def _returned(test: ast.Call, function: Function, index: ProjectIndex, hops: int) -> Ranks | None:
    called = index.function_named(test, function)
    values = [each.value for each, _ in called.returns if each.value is not None] if called is not None else []
    return ranks_of(values[0], called, index, hops - 1) if called is not None and len(values) == 1 else None


def _compared(left: ast.expr, operator: ast.cmpop, other: ast.expr) -> Ranks | None:
    if is_rank(other) and not is_rank(left):
        left, other = other, left
    if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod):
        left = left.left
    numbers = [each.value for each in walk(other) if isinstance(each, ast.Constant)]
    # A rank of -1 or None stands for a program of one process.
    if not is_rank(left) or (isinstance(other, ast.UnaryOp) or None in numbers):
        return None
    found: Ranks | None = None
    match operator:
        case ast.Eq():
            found = Ranks.ONE
        case ast.NotEq():
            found = Ranks.OTHERS
        case ast.Gt():
            found = Ranks.OTHERS if numbers == [0] else Ranks.SOME
        case ast.Lt() | ast.LtE():
            found = Ranks.ONE if numbers in ([1], [0]) else Ranks.SOME
        case ast.In() | ast.NotIn():
            here = Ranks.ONE if 0 in numbers else Ranks.SOME
            found = here if isinstance(operator, ast.In) else _OPPOSITE[here]
        case _:
            pass
    return found


def is_rank(node: ast.expr) -> bool:
    """Return whether an expression is named as the rank of the process: `args.local_rank`, `dist.get_rank()`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return _RANK.fullmatch(str(node.slice.value)) is not None
    if isinstance(node, ast.Call) and tail_of(dotted(node.func)) == "int" and node.args:
        return is_rank(node.args[0])
    name = tail_of(dotted(node)) if isinstance(node, ast.Name | ast.Attribute | ast.Call) else ""
    return bool(_RANK.fullmatch(name) or _INDEX.fullmatch(name))


def ranks_at(call: Call, index: ProjectIndex, hops: int = 2) -> Ranks | None:
    """Return on which ranks a call runs, by the tests around and above it and around its function's callers.

    None if all ranks run it, as far as the code shows.
    """
    own = _in_function(call, index)
    if own is not None:
        return own
    if any(_ON_FIRST.search(decorator) for decorator in call.function.decorators):
        return Ranks.ONE
    return index.once(("ranks of callers", call.function, hops), lambda: _at_callers(call.function, index, hops))


def _at_callers(function: Function, index: ProjectIndex, hops: int) -> Ranks | None:
    callers = index.callers(function)[:_MOST] if hops and not function.is_module else ()
    found = {ranks_at(caller, index, hops - 1) for caller in callers}
    if len(found) != 1 or found == {None} or _is_passed_on(function, index):
        return None
    return found.pop()


def _is_passed_on(function: Function, index: ProjectIndex) -> bool:
    """Return whether a function is used as a value, as a closure of an optimizer: others call it, on any rank."""
    places = [file.tree for file in index.files.values() if function.name in file.text]
    for node in (each for place in places for each in walk(place)):
        for child in ast.iter_child_nodes(node):
            is_name = isinstance(child, ast.Name | ast.Attribute) and tail_of(dotted(child)) == function.name
            is_called = isinstance(node, ast.Call) and node.func is child
            if is_name and isinstance(child.ctx, ast.Load) and not is_called:  # type: ignore[attr-defined]
                return True
    return False


def is_collective(call: Call) -> bool:
    """Return whether a call is a collective of `torch.distributed` among all ranks: it names no group."""
    is_named = call.tail in COLLECTIVES and _DISTRIBUTED.fullmatch(call.name) is not None
    return is_named and call.argument(-1, "group") is None


def has_counterpart(call: Call, found: Ranks, index: ProjectIndex) -> bool:
    """Return whether a call of the same name in its function runs on the other ranks, or may."""
    others = [each for each in call.function.calls if each.tail == call.tail and each is not call]
    return any(ranks_at(each, index) not in {None, found} for each in others)


def own_path(call: Call, index: ProjectIndex) -> bool:
    """Return whether a save writes to memory, or to a file whose name differs from rank to rank."""
    where = call.argument(1, "f")
    origins = index.origins(where, call.function, call.line) if where is not None else ()
    return any(_OWN_PATH.search(ast.unparse(origin.value)) for origin in origins)


def is_limited(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call may run on some ranks only, or in a program of one process only; in doubt yes."""
    return (
        is_for_one_process(call) or ranks_at(call, index) is not None or _is_called_on_one(call.function, index, _HOPS)
    )


def _is_called_on_one(function: Function, index: ProjectIndex, hops: int) -> bool:
    def find() -> bool:
        callers = index.callers(function)[:_MOST] if hops and not function.is_module else ()
        return any(
            _in_function(caller, index) is not None or _is_called_on_one(caller.function, index, hops - 1)
            for caller in callers
        )

    return index.once(("called on one rank", function, hops), find)


def _in_function(call: Call, index: ProjectIndex) -> Ranks | None:
    function = call.function
    tests = index.once(("tests of ranks", function), lambda: _tests(function, index))
    for block in call.block.chain() if tests else ():
        found = tests.get(block.node)
        if found is not None:
            return found if block.kind is BlockKind.IF else _OPPOSITE[found]
    around = set(call.block.chain()) if tests else ()
    for block in function.blocks if tests else ():
        found = tests.get(block.node) if block.kind is BlockKind.IF and block.parent in around else None
        if found is not None and _leaves_above(block.node, call.line):
            return _OPPOSITE[found]
    for each in walk(call.statement) if isinstance(call.statement, _SIMPLE) else ():
        if isinstance(each, ast.IfExp) and any(inner is call.node for inner in walk(each)):
            return ranks_of(each.test, function, index)
    return None


def _tests(function: Function, index: ProjectIndex) -> dict[ast.AST, Ranks]:
    """Return the `if`s of a function whose tests depend on the rank."""
    nodes = {block.node: block.node.test for block in function.blocks if isinstance(block.node, ast.If)}
    found = {node: ranks_of(test, function, index) for node, test in nodes.items()}
    return {node: ranks for node, ranks in found.items() if ranks is not None}


def _leaves_above(node: ast.AST, line: int) -> bool:
    """Return whether an `if` without an `else` ends above a line by leaving the block that it stands in."""
    if not isinstance(node, ast.If) or node.orelse or (node.end_lineno or 0) >= line:
        return False
    return isinstance(node.body[-1], ast.Return | ast.Raise | ast.Continue)


def is_for_one_process(call: Call) -> bool:
    """Return whether a call stands in an arm of an `if` about whether there are several processes."""
    tests = (each.node.test for each in call.block.chain() if isinstance(each.node, ast.If))
    return any(_SERIAL.search(ast.unparse(test)) for test in tests)


def wraps(index: ProjectIndex) -> tuple[Call, ...]:
    """Return the calls of the project that wrap a model in DDP or FSDP, outside tests."""
    return index.once("ddp wraps", lambda: tuple(_wraps(index)))


def _wraps(index: ProjectIndex) -> Iterator[Call]:
    for file in index.files.values():
        if file.purpose.value in {"code", "example"}:
            yield from file.calls_to(*DDP, *FSDP)


def is_distributed(index: ProjectIndex) -> bool:
    """Return whether some program of the project wraps a model in DDP or FSDP or starts a process group."""
    return bool(wraps(index)) or any(
        call.name.startswith("torch.distributed") for call in index.calls_ending("init_process_group")
    )


def unless_distributed(index: ProjectIndex) -> str:
    """Return the assumption of faults between ranks where the project starts none itself; empty where it does."""
    return "" if is_distributed(index) else "several processes run this"


def leaves_it_to_engine(file: FileTables) -> bool:
    """Return whether a framework or an engine that a file imports runs its processes."""
    needed = (
        import_statement
        for import_statement in file.import_statements
        if import_statement.block.kind is BlockKind.FUNCTION
    )
    return runs_the_loop(file) or any(name.split(".")[0] in _ENGINES for each in needed for name in each.names)
