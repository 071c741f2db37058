"""Memory that grows or peaks: stores of each step, kept graphs, evaluations with gradients."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.conditions import are_alternatives
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.growing import is_short
from esper_agents.review.hooks import forward_hooks
from esper_agents.review.hot import hot_around, is_rare
from esper_agents.review.magnitudes import operand
from esper_agents.review.models import forward_calls, gradients_off_around
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern
from esper_agents.review.stores import is_emptied, is_made_in
from esper_agents.review.tables import Purpose
from esper_agents.review.values import without_gradients

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.blocks import Block
    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import Origin, ProjectIndex
    from esper_agents.review.tables import Assignment, Call, Class, FileTables, Function

_GROWTH, _PEAK = "memory growth", "memory"
_STORING = ("append", "extend", "appendleft", "add")
_NUMBERS = frozenset({"item", "tolist", "numpy", "float", "int", "len", "str", "round", "time", "format", "bool"})
_LETTING_GO = frozenset({"detach", "detach_", "data"})
_TRAINING = frozenset({"backward", "manual_backward", "grad", ".step"})
_EVALUATING = pattern(r"^_?(?:eval|evaluate|validate|validation|predict|infer|inference|test|score)(?:_|$)")
_LOSS = pattern(r"(?i)loss|criterion")
_CACHES = ("functools.lru_cache", "functools.cache")
_MOST_FINE = 3
# Layers of torch that consist of several.
_OF_MANY = ("Sequential", "TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer", "LSTM", "GRU", "RNN")
_ATTENTION = pattern(r"(?i)att(?:n|ention)|transformer|vit\b")


class KeptMemory(FactQuery):
    """What keeps tensors or graphs from step to step, what is bounded or detached, and what makes the peak high."""

    name = "kept-memory"
    topics = (_GROWTH, _PEAK)
    claim = "memory is held that no step needs"
    refutes = False
    category = Category.MEMORY
    rules = ("ESP301", "ESP302", "ESP303", "ESP401")
    unseen = "fragmentation and workspaces of the device's allocator, and the sizes of the tensors"
    bad = (
        "history = []\nfor x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n"
        "    loss.backward(retain_graph=True)\n    optimizer.step()\n    history.append(loss)\n"
    )
    good = (
        "history = []\nfor x, y in loader:\n    optimizer.zero_grad()\n    loss = criterion(model(x), y)\n"
        "    loss.backward()\n    optimizer.step()\n    history.append(loss.item())\n"
    )

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield what keeps memory; of growth also what does not."""
        is_growth = _GROWTH in subject.topics or not subject.topics
        for fact in self._find(files, index, subject):
            if is_growth or fact.assessment is not Assessment.FINE:
                yield fact

    def _find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        is_peak = _PEAK in subject.topics or not subject.topics
        for file in files:
            yield from self._stores(file, index)
            for call in file.calls_ending(*_STORING):
                if call.receiver and len(call.node.args) == 1 and hot_around(call.block, index) is None:
                    yield from self._rounds(file, call, index)
            yield from self._graphs(file, index)
            yield from self._hooks(file, index)
            yield from self._caches(file)
            yield from self._evaluations(file, index)
            if is_peak:
                yield from self._peaks(file, index)

    def _stores(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield the lists and sums that every step adds to."""
        for call in file.calls_ending(*_STORING):
            hot = hot_around(call.block, index) if call.receiver and len(call.node.args) == 1 else None
            if hot is None or not _outlives(call.receiver, call.function, hot.around, index):
                continue
            if is_short(hot.around):
                continue
            value = call.node.args[0]
            yield from self._store(file, call.node, call.receiver, value, call.function, index)
        for function in file.functions:
            for path, assignments in function.assignments.items():
                last = assignments[-1]
                is_detached = isinstance(last.value, ast.Call) and tail_of(dotted(last.value.func)) == "detach"
                if path.startswith("self.") and path.endswith("[]") and is_detached:
                    text = f"`{path[:-2]}[...] = {_short(last.value)}` keeps no graph"
                    yield self.fact(file, last.statement, Assessment.FINE, text)
                for assignment in assignments:
                    hot = hot_around(assignment.block, index) if assignment.is_augmented else None
                    if hot is None or not _fetched(assignment.value, function, assignment.line, index):
                        continue
                    if not is_rare(assignment.block, hot.around, assignment.line) and _is_of_tensor(assignment.value):
                        text = f"`{path} += {_short(assignment.value)}` adds a number: no graph is kept"
                        yield self.fact(file, assignment.statement, Assessment.FINE, text)

    def _rounds(self, file: FileTables, call: Call, index: ProjectIndex) -> Iterator[Fact]:
        """Yield a loss that every round of another loop than that of the steps stores, such as one for each epoch."""
        loop, value = call.block.loop, call.node.args[0]
        if loop is None or not _outlives(call.receiver, call.function, loop, index):
            return
        if _fetched(value, call.function, call.line, index) or _is_detached(value, call.function, call.line, index):
            return
        for origin in index.origins(value, call.function, call.line):
            made = origin.value
            block = next((each.block for each in origin.function.calls if each.node is made), None)
            if block is None or not isinstance(made, ast.Call) or not _LOSS.search(tail_of(dotted(made.func))):
                continue
            if not gradients_off_around(block, index):
                line = getattr(loop.node, "lineno", 1)
                text = (
                    f"`{call.receiver}` gets `{_short(value)}` in each round of the loop at line {line}, and it holds "
                    f"the graph of `{_short(made)}`: gradients are on there"
                )
                remedy = f"`{_short(value)}.item()`, and `torch.no_grad()` around what is not trained on"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
                return

    def _store(  # noqa: PLR0917 - the parts of one addition
        self, file: FileTables, node: ast.AST, store: str, value: ast.expr, function: Function, index: ProjectIndex
    ) -> Iterator[Fact]:
        line = getattr(node, "lineno", 1)
        if (loop := _remade_in(store, function)) is not None:
            text = f"`{store}` starts empty in each round of the loop at line {loop}: it does not grow for ever"
            yield self.fact(file, node, Assessment.FINE, text)
        elif is_emptied(store, function, index):
            text = f"`{store}` is emptied, bounded or replaced elsewhere: it does not grow for ever"
            yield self.fact(file, node, Assessment.FINE, text)
        elif _fetched(value, function, line, index):
            text = f"`{store}` gets numbers (`{_short(value)}`): no graph is kept, a few bytes a step"
            yield self.fact(file, node, Assessment.FINE, text)
        elif _is_detached(value, function, line, index):
            text = f"`{store}` gets `{_short(value)}` without its graph; the tensors themselves add up over the steps"
            yield self.fact(file, node, Assessment.OPEN, text)
        elif not isinstance(value, ast.Constant | ast.JoinedStr):
            text = f"`{store}` grows by `{_short(value)}` at every step; no line here empties it or detaches the value"
            yield self.fact(file, node, Assessment.OPEN, text)

    def _graphs(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield backward passes that keep their graph."""
        for call in file.calls_ending("backward", "manual_backward"):
            others = [
                each
                for each in call.function.calls
                if each.tail in {"backward", "manual_backward", "grad"}
                and each.line > call.line
                and not are_alternatives(call.block, each.block)
            ]
            if _says(call, "create_graph"):
                text = "`backward(create_graph=True)` makes a cycle between parameters and gradients that is not freed"
                remedy = "use `torch.autograd.grad(..., create_graph=True)`, or set the gradients to None afterwards"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
            elif _says(call, "retain_graph") and others:
                text = f"`retain_graph=True` keeps the graph for the backward at line {others[0].line}, which frees it"
                yield self.fact(file, call.node, Assessment.FINE, text)
            elif _says(call, "retain_graph") and (loop := _loop_over_losses(call)) is not None:
                text = f"`retain_graph=True` keeps the graph for the next loss of the loop at line {loop}"
                yield self.fact(file, call.node, Assessment.FINE, text)
            elif _says(call, "retain_graph") and hot_around(call.block, index) is not None:
                text = "`retain_graph=True`, and no other backward follows: each step's graph lives as long as its loss"
                remedy = "leave out `retain_graph=True`; detach what goes from step to step"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        for function in file.functions:
            for path, assignments in function.assignments.items():
                for assignment in assignments:
                    if _is_carried(path, assignment, function, index):
                        text = f"`{path}` goes from step to step with its graph: each backward would reach further back"
                        yield self.fact(
                            file, assignment.statement, Assessment.SHOULD_CHECK, text, f"`{path} = {path}.detach()`"
                        )

    def _hooks(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield hooks that store what passes, and hooks that every step registers again."""
        for hook, outputs in forward_hooks(file, index).items():
            for path, assignments in hook.assignments.items():
                value = assignments[0].value
                is_kept = path.endswith("[]") or path.startswith("self.")
                if is_kept and dotted(value) in outputs:
                    text = f"the hook keeps `{dotted(value)}` of the last forward with its graph in `{path}`"
                    yield self.fact(
                        file,
                        assignments[0].statement,
                        Assessment.SHOULD_CHECK,
                        text,
                        f"store `{dotted(value)}.detach()`",
                    )
                elif is_kept and _is_detached(value, hook, assignments[0].line, index):
                    text = f"the hook stores `{_short(value)}` without its graph"
                    yield self.fact(file, assignments[0].statement, Assessment.FINE, text)
        for call in file.calls_ending("register_forward_hook", "register_full_backward_hook"):
            hot = hot_around(call.block, index)
            removed = any(each.tail == "remove" for each in call.function.calls)
            if hot is not None and not removed and not is_rare(call.block, hot.around, call.line):
                text = f"every step registers `{call.path}` again: the hooks and what they hold pile up"
                remedy = "register it once before the loop, or call `handle.remove()`"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)

    def _caches(self, file: FileTables) -> Iterator[Fact]:
        for function in file.functions:
            for name, node in zip(function.decorators, getattr(function.node, "decorator_list", ()), strict=False):
                if name.removesuffix("()") not in _CACHES:
                    continue
                given = _tensors_given(function)
                if given:
                    text = f"the cache of `{function.qualname}` keeps its arguments and results alive: {given}"
                    yield self.fact(
                        file, node, Assessment.SHOULD_CHECK, text, "cache by sizes or names, not by tensors"
                    )

    def _evaluations(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        calls = [
            forward_call
            for forward_call in forward_calls(file, index)
            if without_gradients(forward_call.block) and forward_call.block.loop
        ]
        for call in calls[:_MOST_FINE]:
            text = f"`{call.path}(...)` runs without gradients here: no graph is kept"
            yield self.fact(file, call.node, Assessment.FINE, text)
        for function in file.functions:
            needless = _needless_graph(function, index)
            if needless is not None:
                text = (
                    f"`{needless.path}(...)` records a graph, and nothing in `{function.qualname}` calls backward: "
                    "each round holds all that its operations save"
                )
                remedy = f"`with torch.no_grad():` around the loop, or `@torch.no_grad()` on `{function.name}`"
                yield self.fact(file, needless.node, Assessment.SHOULD_CHECK, text, remedy)

    def _peaks(self, file: FileTables, index: ProjectIndex) -> Iterator[Fact]:
        """Yield what makes the peak of a step high."""
        is_checkpointed = any(each.tail.startswith("checkpoint") for each in file.calls)
        for owner in file.classes:
            forward = owner.methods.get("forward")
            if forward is None or is_checkpointed or not index.is_module(owner):
                continue
            for block in forward.blocks:
                over = dotted(block.node.iter) if isinstance(block.node, ast.For) else ""
                called = [each for each in forward.calls if each.path in block.targets and _is_next(each, block)]
                lists = [each for each in owner.attributes.get(over, ()) if "ModuleList" in ast.unparse(each.value)]
                if called and any(_is_of_blocks(each, over, owner) for each in lists):
                    call = called[0]
                    text = f"the activations inside all blocks in `{over}` are kept for the backward pass"
                    remedy = f"`torch.utils.checkpoint.checkpoint({call.path}, ..., use_reentrant=False)` to trade time"
                    yield self.fact(file, block.node, Assessment.SHOULD_CHECK, text, remedy)
                    break
        for call in file.calls_ending("softmax"):
            scores = operand(call.node, call.function)
            is_attention = _ATTENTION.search(f"{call.function.qualname} {call.function.file.path}") is not None
            if scores is not None and is_attention and _is_product(scores, call, index):
                text = "the whole attention matrix (length x length) is built, and kept for the backward pass"
                remedy = "`F.scaled_dot_product_attention(q, k, v)` does not store it"
                yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, remedy)
        for call in file.calls_ending("empty_cache"):
            text = "`empty_cache()` frees no tensor that something still holds; it does not cure growth"
            yield self.fact(file, call.node, Assessment.DESCRIPTION, text)


def _needless_graph(function: Function, index: ProjectIndex) -> Call | None:
    """Return the first call by which a function that evaluates runs layers of a model with gradients, in a loop."""
    if not _EVALUATING.search(function.name) or function.file.purpose is Purpose.TEST:
        return None
    callers = [call.block for call in index.callers(function)]
    is_off_outside = bool(callers) and all(gradients_off_around(block, index) for block in callers)
    if is_off_outside or index.reached(function) & _TRAINING:
        return None
    for call in function.calls:
        if call.block.loop is None or call.receiver in {"", "self"} or gradients_off_around(call.block, index):
            continue
        methods = [each for each in index.functions.get(call.tail, ()) if each.owner is not None]
        is_of_model = any(each.owner is not None and index.is_module(each.owner) for each in methods)
        has_result = not isinstance(call.parent, ast.Expr) and bool(call.node.args)
        if is_of_model and has_result and not any(gradients_off_around(each.block, index) for each in methods):
            return call
    return None


def _is_of_blocks(made: Assignment, over: str, owner: Class) -> bool:
    """Return whether a list certainly has blocks of several layers; a checkpoint of one layer saves nothing."""
    names = {over, *(dotted(each) for each in walk(made.value) if isinstance(each, ast.Name))}
    calls = [each for each in walk(made.value) if isinstance(each, ast.Call)]
    for method in owner.methods.values():
        added = [call for call in method.calls if call.tail in {"append", "extend"} and call.receiver in names]
        calls += [each for call in added for each in walk(call.node) if isinstance(each, ast.Call)]
    classes = [resolve(dotted(each.func), made.block.function) for each in calls]
    return any(
        tail_of(cls)[:1].isupper() and (not cls.startswith("torch.nn.") or cls.endswith(_OF_MANY)) for cls in classes
    )


def _is_next(call: Call, block: Block) -> bool:
    """Return whether a loop hands a layer what the layer before made: `x = layer(x)`."""
    given = {dotted(arg) for arg in call.node.args}
    return call.block.within(block) and any(
        each.value is call.node or call.node in walk(each.value)
        for path in given
        for each in call.function.assignments.get(path, ())
        if each.block.within(block)
    )


def _outlives(store: str, function: Function, around: Block, index: ProjectIndex) -> bool:
    """Return whether a store lives longer than a step."""
    if "(" in store or is_made_in(store, function, around):
        return False
    if store.startswith("self."):
        return True
    if root_of(store) in function.parameters:
        return False
    made = list(function.assignments.get(store, ()))
    # A list of a function that every step calls ends with it.
    is_local = hot_around(function.block, index) is not None
    return bool(made) and "." not in store and _is_list(made[0].value) and not is_local


def _remade_in(store: str, function: Function) -> int | None:
    """Return the line of a loop in whose every round a function makes a store; None if it makes it once."""
    made = function.assignments.get(store, ())
    loop = made[0].block.loop if made and "." not in store and _is_list(made[0].value) else None
    return getattr(loop.node, "lineno", None) if loop is not None else None


def _is_list(value: ast.expr) -> bool:
    return isinstance(value, ast.List | ast.Dict) or (
        isinstance(value, ast.Call) and tail_of(dotted(value.func)) in {"list", "deque", "dict", "defaultdict"}
    )


def _says(call: Call, keyword: str) -> bool:
    value = next((each.value for each in call.node.keywords if each.arg == keyword), None)
    return isinstance(value, ast.Constant) and value.value is True


def _loop_over_losses(call: Call) -> int | None:
    """Return the line of a loop whose rounds take another loss backward each; None if a round makes the loss itself."""
    loop = call.block.loop
    names = {dotted(part) for given in call.node.args for part in walk(given) if isinstance(part, ast.Name)}
    names.add(call.receiver)
    if loop is None or names.isdisjoint(loop.targets):
        return None
    return getattr(loop.node, "lineno", None)


def _fetched(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a value is a plain number, text or array of the host."""
    for origin in index.origins(value, function, line):
        found = origin.value
        parts = found.elts if isinstance(found, ast.Tuple | ast.List) else [found]
        if not parts or not all(_is_plain(part) for part in parts):
            return False
    return True


def _is_plain(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.JoinedStr():
            return True
        case ast.BinOp(left=left, right=right):
            return (_is_plain(left) or _is_plain(right)) and any(
                isinstance(each, ast.Call) and tail_of(dotted(each.func)) in _NUMBERS for each in walk(value)
            )
        case ast.Call(func=func):
            path = dotted(func)
            return tail_of(path) in _NUMBERS or path.startswith(("np.", "time.", "math."))
        case _:
            return False


def _is_of_tensor(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) and tail_of(dotted(each.func)) in {"item", "float"} for each in walk(value))


def _is_detached(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    origins = index.origins(value, function, line)
    return any(_lets_go(origin.value) or _returns_detached(origin, index) for origin in origins)


def _lets_go(value: ast.expr) -> bool:
    return any(
        tail_of(dotted(part.func) if isinstance(part, ast.Call) else dotted(part)) in _LETTING_GO
        for part in walk(value)
        if isinstance(part, ast.Call | ast.Attribute)
    )


def _returns_detached(origin: Origin, index: ProjectIndex) -> bool:
    """Return whether a value is what a function of these files returns, which detaches all that it returns."""
    call = next((each for each in origin.function.calls if each.node is origin.value), None)
    called = index.callees(call) if call is not None else ()
    returned = [statement.value for each in called for statement, _ in each.returns if statement.value is not None]
    return bool(returned) and all(map(_lets_go, returned))


def _is_carried(path: str, found: object, function: Function, index: ProjectIndex) -> bool:
    """Return whether a hidden state of a model is handed to the next step with its graph."""
    value, block = getattr(found, "value", None), getattr(found, "block", None)
    if not isinstance(value, ast.Call) or block is None or block.loop is None or "." in path or "[" in path:
        return False
    hot = hot_around(block, index)
    if hot is None or hot.around is not block.loop:
        return False
    names = [dotted(each) for each in (*value.args, *(one.value for one in value.keywords))]
    is_model = any(forward_call.node is value for forward_call in forward_calls(function.file, index))
    if path not in names or not is_model or path in block.loop.targets:
        return False
    inside = [each for each in function.assignments.get(path, ()) if each.block.within(block.loop)]
    return len(inside) == 1 and not any(
        call.tail in {"detach_", "detach", "repackage_hidden"} and path in {call.receiver, *map(dotted, call.node.args)}
        for call in function.calls
    )


def _tensors_given(function: Function) -> str:
    arguments = getattr(function.node, "args", None)
    if arguments is None:
        return ""
    typed = [
        arg.arg for arg in arguments.args if arg.annotation is not None and "Tensor" in ast.unparse(arg.annotation)
    ]
    if typed:
        return f"the tensor `{typed[0]}`"
    bases = function.owner.bases if function.owner is not None else ()
    is_method = function.parameters[:1] == ("self",) and any(base.startswith("torch.nn.") for base in bases)
    return "`self`, a module with its weights" if is_method else ""


def _is_product(value: ast.expr, call: Call, index: ProjectIndex, steps: int = 3) -> bool:
    """Return whether scores are a product of queries and transposed keys, scaled or masked."""
    for origin in index.origins(value, call.function, call.line) if steps else ():
        match origin.value:
            case ast.BinOp(op=ast.MatMult(), right=right):
                if _is_transposed(right):
                    return True
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() | ast.Add() | ast.Sub()):
                if _is_product(left, call, index, steps - 1):
                    return True
            case ast.Call(func=func, args=args):
                name = resolve(dotted(func), call.function)
                if name in {"torch.matmul", "torch.bmm"} and len(args) > 1 and _is_transposed(args[1]):
                    return True
                if isinstance(func, ast.Attribute) and func.attr in {"masked_fill", "masked_fill_", "float"}:
                    return _is_product(func.value, call, index, steps - 1)
            case _:
                pass
    return False


def _is_transposed(value: ast.expr) -> bool:
    path = dotted(value)
    return path.endswith((".transpose()", ".mT", ".T", ".permute()", ".t()"))


def _short(value: ast.expr) -> str:
    text = ast.unparse(value).replace("`", "'")
    return text if len(text) <= 50 else f"{text[:47]}..."  # noqa: PLR2004 - one clause of a line
