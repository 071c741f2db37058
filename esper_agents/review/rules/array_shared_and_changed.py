"""ESP207: an array and a tensor share their memory, and one is changed while the other is still used."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.index import resolve
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import FOLLOWED, SEEN, Rule
from esper_agents.review.shared_memory import (
    SHARING,
    changed_after,
    changed_in_class,
    changed_item,
    changes,
    viewed_array,
)
from esper_agents.review.tables import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.flow import Event
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import FileTables

# What a shared tensor goes through without a copy, so that it still shares.
_READING = pattern(
    r"__getitem__|__iter__|_?(?:get|fetch|read|load)_(?:item|sample|example|batch|window|patch|row)|sample"
)
_VIEWING = frozenset({"view", "reshape", "unsqueeze", "squeeze", "permute", "transpose", "t", "flatten", "detach"})
_KEEPING = frozenset({"append", "extend", "add", "put", "insert", "appendleft", "put_nowait"})


class ArraySharedAndChanged(Rule):
    """A NumPy array that is changed in place while a tensor that shares its memory is still used, or the reverse.

    ## Why it costs
    `torch.from_numpy` and `as_tensor` copy nothing, nor does `Tensor.numpy()`. A buffer that is filled again for
    the next sample changes every tensor that was made of it before: all of them end up with the last one's numbers.

    ## When it is right
    The tensor is used up before the array changes, or the sharing is the point. A `.clone()` or `.copy()` on the way,
    and a copy to another device or type, are not reported.

    ## Sources
    PyTorch documentation of `torch.from_numpy`, `torch.as_tensor` and `Tensor.numpy`, on shared memory.
    """

    code, name = "ESP207", "array-shared-and-changed"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import numpy as np\n"
        "import torch\n"
        "\n"
        "\n"
        "def frames(source):\n"
        "    buffer = np.zeros((4, 4), dtype=np.float32)\n"
        "    found = []\n"
        "    for frame in source:\n"
        "        buffer[:] = frame\n"
        "        found.append(torch.from_numpy(buffer))\n"
        "    return torch.stack(found)\n"
    )
    good = bad.replace("torch.from_numpy(buffer)", "torch.from_numpy(buffer.copy())")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield what shares memory with something that changes while both are used."""
        for call in (*file.calls_to(*SHARING), *file.calls_ending("numpy")):
            source, is_tensor = _shared(call)
            if not source or (call.tail in {"as_tensor", "asarray"} and not _is_array(source, call, index)):
                continue
            kept = _kept_as(call)
            if kept is None or _is_item(call, index):
                continue
            if kept and _is_stored(kept, call):
                kept = ""
            yield from self._judged(call, source, kept, index, is_tensor=is_tensor)
        yield from self._items(file, index)

    def _judged(
        self, call: Call, source: str, kept: str, index: ProjectIndex, *, is_tensor: bool
    ) -> Iterator[RuleMatch]:
        changed = changed_after(call, source, changes(source, call.function, call, index), index, shared=source)
        other = changes(kept, call.function, call, index) if kept and _is_plain_name(kept) else []
        turned = changed_after(call, kept, other, index, shared=source) if kept else None
        elsewhere = changed_in_class(source, call, index) if not kept and changed is None else None
        if changed is not None and (not kept or _is_used_after(kept, changed, call)):
            yield self._found(call, source, changed, is_tensor=is_tensor)
        elif turned is not None and _is_filled_through(source, call):
            return
        elif turned is not None and (source.startswith("self.") or _is_used_after(source, turned, call)):
            yield self._found(call, kept, turned, is_tensor=not is_tensor)
        elif elsewhere is not None:
            yield self._found(call, source, elsewhere, is_tensor=is_tensor, is_seen=False)

    def _items(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the views of one item of a data set that are changed in place, and the data set with them."""
        for owner in file.classes:
            methods = [each for name, each in owner.methods.items() if _READING.fullmatch(name)]
            for method, path in ((one, path) for one in methods for path in one.assignments):
                for each in method.assignments[path]:
                    found = changed_item(each, path, index) if path.isidentifier() else None
                    if found is not None:
                        yield self.hit(
                            found.node if isinstance(found, Call) else found.statement,
                            f"{path!r} is a view of what the data set keeps: this changes it for every later read",
                            remedy=f"copy it first: `{path} = {path}.copy()`, or `.clone()` for a tensor",
                            basis=SEEN,
                        )

    def _found(self, call: Call, changed: str, event: Event, *, is_tensor: bool, is_seen: bool = True) -> RuleMatch:
        copy = "clone()" if is_tensor else "copy()"
        return self.hit(
            call.node,
            f"this shares its memory with {changed!r}, which changes in place on line {event.line} while both are used",
            remedy=f"copy first: `{changed}.{copy}`",
            confidence=Confidence.HIGH if is_seen else Confidence.MODERATE,
            basis=SEEN if is_seen else FOLLOWED,
        )


def _is_item(call: Call, index: ProjectIndex) -> bool:
    """Return whether a call makes the view of an item of a data set that is reported where it is changed."""
    if call.function.owner is None or _READING.fullmatch(call.function.name) is None:
        return False
    return any(
        assignment.statement is call.statement
        and path.isidentifier()
        and changed_item(assignment, path, index) is not None
        for path, assignments in call.function.assignments.items()
        for assignment in assignments
    )


def _shared(call: Call) -> tuple[str, bool]:
    """Return the path whose memory a call shares, and whether it is a tensor; an empty path for none."""
    if call.tail == "numpy":
        node: ast.expr | None = call.node.func.value if isinstance(call.node.func, ast.Attribute) else None
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWING:
            node = node.func.value
        is_plain = isinstance(node, ast.Name | ast.Attribute) and not call.node.args and not call.node.keywords
        return (dotted(node) if is_plain and node is not None else ""), True
    given = call.argument(0)
    if any(keyword.arg in {"dtype", "device", "copy"} for keyword in call.node.keywords) or given is None:
        return "", False
    whole = viewed_array(given, call.function)
    return (dotted(whole) if whole is not None else ""), False


def _is_array(path: str, call: Call, index: ProjectIndex) -> bool:
    found = index.bindings(path, call.function, call.line).assignments
    return bool(found) and all(
        isinstance(each.value, ast.Call) and resolve(dotted(each.value.func), each.block.function).startswith("numpy.")
        for each in found
    )


def _is_filled_through(source: str, call: Call) -> bool:
    """Return whether a function makes something empty first, which is then filled through what shares it."""
    made = call.function.last_assignment(source, call.line)
    return (
        made is not None and isinstance(made.value, ast.Call) and tail_of(dotted(made.value.func)) in {"empty", "zeros"}
    )


def _kept_as(call: Call) -> str | None:
    """Return the name a result is kept under, an empty one for a list or a generator; None where nothing keeps it."""
    node: ast.AST = call.node
    statement = call.statement
    parents = {child: each for each in walk(statement) for child in ast.iter_child_nodes(each)}
    while (parent := parents.get(node)) is not None:
        if isinstance(parent, ast.Call):
            called = dotted(parent.func)
            is_view = isinstance(parent.func, ast.Attribute) and tail_of(called) in _VIEWING and node is parent.func
            if not is_view:
                return "" if tail_of(called) in _KEEPING and node in parent.args else None
        elif isinstance(parent, ast.Yield | ast.Return):
            return ""
        elif isinstance(parent, ast.AugAssign):
            return "" if isinstance(node, ast.List) else None
        elif isinstance(parent, ast.Assign):
            target = parent.targets[0]
            return _kept_in(target, call) if isinstance(target, ast.Subscript) else dotted(target)
        elif not isinstance(parent, ast.Attribute | ast.Tuple | ast.Dict | ast.List):
            return None
        node = parent
    return None


def _kept_in(target: ast.Subscript, call: Call) -> str | None:
    """Return an empty name for a list or a dictionary; None for a tensor or an array, which copies what it is given."""
    bound = call.function.assignments.get(dotted(target.value), ())
    holds = [each for each in bound if isinstance(each.value, ast.List | ast.Dict | ast.ListComp | ast.DictComp)]
    is_mapped = isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    return "" if is_mapped or (holds and len(holds) == len(bound)) else None


def _is_stored(kept: str, call: Call) -> bool:
    """Return whether the round that makes a result also puts it into something that outlives the round."""
    loop = call.block.loop
    stores = (
        each
        for each in call.function.calls
        if loop is not None and each.block.within(loop) and each.tail in _KEEPING and each.receiver
    )
    put = (
        assignment
        for path, assignments in call.function.assignments.items()
        if path.endswith("[]")
        for assignment in assignments
        if loop is not None and assignment.block.within(loop) and isinstance(assignment.node, ast.Subscript)
    )
    if any(
        dotted(each.value) == kept and _kept_in(each.node, call) == ""
        for each in put
        if isinstance(each.node, ast.Subscript)
    ):
        return True
    return any(
        isinstance(part, ast.Name) and part.id == kept and not _is_called_on(part, store.node)
        for store in stores
        for argument in store.node.args
        for part in walk(argument)
    )


def _is_called_on(name: ast.Name, node: ast.Call) -> bool:
    """Return whether a name is there for a method only: `t.sum()` stores no `t`."""
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.value is name
        for each in walk(node)
    )


def _is_plain_name(path: str) -> bool:
    return path.replace(".", "").isidentifier()


def _is_used_after(path: str, change: Event, sharing: Call) -> bool:
    """Return whether a path is read after a change, in the lines below it."""
    function = sharing.function
    last = change.statement.end_lineno or change.line
    rebound = [each.line for each in function.assignments.get(path, ()) if not each.is_augmented]
    limit = min((line for line in rebound if line > last), default=1 << 30)
    return any(
        isinstance(each, ast.Name | ast.Attribute)
        and isinstance(each.ctx, ast.Load)
        and dotted(each) == path
        and last < each.lineno <= limit
        for each in walk(function.node)
    )
