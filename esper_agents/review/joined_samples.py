"""Samples that are moved to the device in the rounds of a loop, and then joined there or kept by themselves."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.blocks import BlockKind
from esper_agents.review.conditions import names_in, tests_around
from esper_agents.review.moves import destinations, is_move, makes_from_host, makes_on_device
from esper_agents.review.names import dotted, root_of, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.sample_loops import overs, picks

if TYPE_CHECKING:
    from esper_agents.review.blocks import Block
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call

_JOINING = frozenset({"stack", "vstack", "hstack", "cat", "concat", "concatenate", "pad_sequence"})
# What joins along an axis that is there already.
_ALONG = frozenset({"cat", "concat", "concatenate"})
_FROM_DATA = frozenset({"tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "LongTensor"})
# Results of several devices, which are brought together one by one because that is where they are.
_RESULTS = pattern(
    r"(?:\w+_)?(?:norms?|loss(?:es)?|grads?|scores?|metrics?|results?|outs?|outputs?|params?|p|g|weights?|buffers?|shards?)(?:_\w+)?"
)
# What collects values of several devices or processes.
_GATHERING = pattern(r"all_gather\w*|gather\w*|parallel_apply|scatter\w*|replicate\w*|broadcast\w*")
_MANY = pattern(r"replica|gathered|per_(?:device|gpu|rank)", re.IGNORECASE)
# What gives a sample on the host.
_LOADING = pattern(
    r"_?(?:load|read|open|decode|transform|preprocess|prepare|augment|resize|normali[sz]e|to_tensor|pil_to_tensor|prep)"
    r"(?:_(?:image|img|picture|frame|sample|audio|wav|video|tensor|one)s?)?|(?:\w+_)?transforms?"
)
# What hands out batches, which go over one at a time because they come so.
_BATCHES = pattern(r"(?i:loader)|(?<![a-z])(?:batches|dl|minibatches|chunks)(?![a-z])")


def is_joined_after(call: Call) -> bool:
    """Return whether a moved sample goes into a list, or a tensor on the device, that holds all of them."""
    loop = call.block.loop
    if loop is None or _BATCHES.search(_gone_over(loop)) or not _is_host_sample(call, loop.targets):
        return False
    if loop.kind is BlockKind.COMPREHENSION:
        node = loop.node
        if not isinstance(node, ast.ListComp | ast.GeneratorExp) or not _is_end_of(node.elt, call):
            return False
        return _is_joined(node, call)
    statement = call.statement
    if isinstance(statement, ast.Assign) and _is_end_of(statement.value, call):
        if isinstance(statement.targets[0], ast.Subscript):
            is_own = root_of(dotted(statement.targets[0])) in names_in(statement.value)
            return not is_own and not makes_on_device(call) and _fills_by_counter(statement.targets[0], loop)
        return _is_appended_and_joined(statement.targets[0], call)
    return _is_appended_and_joined(None, call)


def is_from_several_devices(call: Call, index: ProjectIndex) -> bool:
    """Return whether what a call moves comes from several devices, or goes to several: then one move is not enough."""
    loop = call.block.loop
    if loop is None:
        return False
    named = (
        destinations(call.node) if is_move(call.node) else [e.value for e in call.node.keywords if e.arg == "device"]
    )
    if any(_names_several(each, loop) or _is_of_a_tensor(each, call) for each in named):
        return True
    if any(
        "device" in dotted(each) for test in tests_around(call.block, loop) for each in walk(test) if _is_path(each)
    ):
        return True
    rounds = [loop.node.iter] if isinstance(loop.node, ast.For) else []
    rounds += [
        each.iter for each in getattr(loop.node, "generators", ()) if set(_names(each.target)) & set(loop.targets)
    ]
    return any(_holds_several(each, call, index) for each in rounds)


def _names_several(device: ast.expr, loop: Block) -> bool:
    """Return whether a destination is one of several devices: `devices[0]`, or one for each round."""
    if isinstance(device, ast.Subscript) and "device" in dotted(device.value):
        return True
    return bool(names_in(device) & set(loop.targets))


def _is_of_a_tensor(device: ast.expr, call: Call) -> bool:
    """Return whether a destination is bound to the device of one of several: `first = parts[0].device`."""
    bound = call.function.last_assignment(device.id, call.line) if isinstance(device, ast.Name) else None
    value = bound.value if bound is not None and not bound.is_unpacked else None
    return isinstance(value, ast.Attribute) and value.attr == "device" and isinstance(value.value, ast.Subscript)


def _holds_several(rounds: ast.expr, call: Call, index: ProjectIndex) -> bool:
    """Return whether what a loop goes over holds values of several devices, by what fills it."""
    parts = rounds.args if isinstance(rounds, ast.Call) and dotted(rounds.func) in {"zip", "enumerate"} else [rounds]
    for part in parts:
        path = dotted(part)
        if _RESULTS.fullmatch(tail_of(path)) or _MANY.search(tail_of(path)):
            return True
        if any(_is_gathered(one.value) for one in index.origins(part, call.function, call.line)):
            return True
        filling = [one for one in call.function.calls if any(path and dotted(given) == path for given in one.node.args)]
        if any(_GATHERING.fullmatch(one.tail) for one in filling):
            return True
        added = [one for one in call.function.calls if one.tail == "append" and one.receiver == path and path]
        if any(_is_of_round(value, one.block.loop) for one in added if one.block.loop for value in one.node.args):
            return True
    return False


def _is_gathered(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _GATHERING.fullmatch(tail_of(dotted(value.func))) is not None
    if isinstance(value, ast.ListComp):
        drawn = {name for generator in value.generators for name in _names(generator.target)}
        return _runs_or_sends(value.elt, drawn)
    return False


def _is_of_round(value: ast.expr, loop: Block) -> bool:
    """Return whether a value is made by what a loop draws, or sent where it says, so that each may lie elsewhere."""
    bound = loop.function.last_assignment(value.id, value.lineno) if isinstance(value, ast.Name) else None
    return _runs_or_sends(bound.value if bound is not None else value, set(loop.targets))


def _runs_or_sends(value: ast.expr, drawn: set[str]) -> bool:
    """Return whether a value is the result of a model that is drawn, or goes to a device that is drawn."""
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Name) and value.func.id in drawn:
        return True
    return is_move(value) and any(names_in(destination) & drawn for destination in destinations(value))


def _is_path(node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute)


def _names(target: ast.expr) -> list[str]:
    return [each.id for each in walk(target) if isinstance(each, ast.Name)]


def _gone_over(loop: Block) -> str:
    """Return what a loop goes over, as text."""
    rounds = [loop.node.iter] if isinstance(loop.node, ast.For) else []
    rounds += [each.iter for each in getattr(loop.node, "generators", ())]
    return " ".join(ast.unparse(each) for each in rounds)


def _fills_by_counter(target: ast.Subscript, loop: Block) -> bool:
    """Return whether a store is filled row by row: `rows[i] = ...` where the loop counts `i`."""
    counters = {over.counter for over in overs(loop)} - {""}
    return isinstance(target.slice, ast.Name) and target.slice.id in counters


def _is_appended_and_joined(bound: ast.expr | None, call: Call) -> bool:
    """Return whether a move, or the name it is bound to, is appended to a list that is joined to one tensor."""
    name = dotted(bound) if bound is not None else ""
    for each in call.function.calls:
        if each.tail != "append" or len(each.node.args) != 1 or each.block.loop is not call.block.loop:
            continue
        value = each.node.args[0]
        if (name and dotted(value) == name) or (not name and _is_end_of(value, call)):
            # What `cat` joins has an axis of its own already: those are batches, unless each was given one.
            has_axis = not (_gets_axis(value) or _gets_axis(call.statement) or makes_from_host(call.node))
            is_joined = any(
                one.tail in _JOINING
                and not (has_axis and not makes_on_device(call) and one.tail in _ALONG)
                and any(dotted(argument) == each.receiver for argument in one.node.args)
                for one in call.function.calls
            )
            return is_joined or _gets_axes_later(each.receiver, call)
    return False


def _gets_axis(node: ast.AST) -> bool:
    """Return whether something is made a batch of one: `x.unsqueeze(0)`, `x[None]`."""
    return any(
        (isinstance(each, ast.Attribute) and each.attr == "unsqueeze")
        or (isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant) and each.slice.value is None)
        for each in walk(node)
    )


def _gets_axes_later(store: str, call: Call) -> bool:
    """Return whether another loop makes a batch of one of each stored sample, and what comes of them is joined."""
    calls = call.function.calls
    alone = {
        one.block.loop
        for one in calls
        if one.tail == "unsqueeze" and one.block.loop is not None and one.block.loop is not call.block.loop
        if any(over.path == store and over.element == one.receiver for over in overs(one.block.loop))
    }
    filled = {one.receiver for one in calls if one.tail == "append" and one.block.loop in alone}
    return any(one.tail in _JOINING and bool(filled & set(map(dotted, one.node.args))) for one in calls)


def _is_end_of(value: ast.expr, call: Call) -> bool:
    """Return whether a move is the value itself, but for an axis put before it."""
    while isinstance(value, ast.Call) and value is not call.node:
        if not isinstance(value.func, ast.Attribute) or value.func.attr not in {
            "unsqueeze",
            "float",
            "squeeze",
            "long",
        }:
            return False
        value = value.func.value
    if isinstance(value, ast.Subscript):
        value = value.value
    return value is call.node


def _is_host_sample(call: Call, targets: tuple[str, ...]) -> bool:
    """Return whether what is moved is the round's own sample, or is made of it on the host."""
    func = call.node.func
    value = func.value if isinstance(func, ast.Attribute) else call.node
    if _is_unsqueezed(value):
        value = value.func.value  # type: ignore[attr-defined]
    elif isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and value.slice.value is None:
        value = value.value
    if makes_on_device(call) or makes_from_host(value):
        return _is_made_of_data(call.node if makes_on_device(call) else value)
    if isinstance(value, ast.Name):
        return value.id in targets and _RESULTS.fullmatch(value.id) is None
    if isinstance(value, ast.Call):
        is_loaded = _LOADING.fullmatch(tail_of(dotted(value.func))) is not None
        return is_loaded and any(root_of(name) in targets for arg in value.args for name in names_in(arg))
    is_read = isinstance(value, ast.Subscript) and any(
        isinstance(each, ast.Name) and each.id in targets for each in walk(value.slice)
    )
    return is_read and _RESULTS.fullmatch(tail_of(root_of(dotted(value)))) is None


def _is_made_of_data(value: ast.expr) -> bool:
    """Return whether what makes a tensor on the way is handed something there is: no list written out on the spot."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in _FROM_DATA and value.args:
            return isinstance(value.args[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.ListComp)
        value = value.func.value
    return False


def _is_joined(node: ast.expr, call: Call) -> bool:
    """Return whether a comprehension is what `torch.stack` or one of its kind is given, at once or by a name."""
    takes_host = makes_from_host(call.node)
    for each in call.function.calls:
        if each.tail not in _JOINING or not each.node.args or (each.tail != "stack" and not takes_host):
            continue
        first = each.node.args[0]
        if first is node or (isinstance(first, ast.Call) and node in first.args):
            return True
        if isinstance(first, ast.Name):
            made = call.function.last_assignment(first.id, each.line)
            if made is not None and made.value is node:
                return True
    return False


def takes_one_out(call: Call) -> bool:
    """Return whether a move takes the round's sample out of a tensor: `x[i].to(device)` for i in `range(x.size(0))`."""
    loop, func = call.block.loop, call.node.func
    if loop is None or not isinstance(func, ast.Attribute) or not is_move(call.node):
        return False
    statement = call.statement
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return False
    value = func.value.func.value if _is_unsqueezed(func.value) else func.value  # type: ignore[attr-defined]
    return (
        any(
            (over.is_tensor or over.has_shape) and over.counter and picks(value, over.counter, over.axis)
            for over in overs(loop)
        )
        and isinstance(value, ast.Subscript)
        and _RESULTS.fullmatch(tail_of(dotted(value.value)) or "x") is None
    )


def _is_unsqueezed(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "unsqueeze"
