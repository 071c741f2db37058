"""ESP112: the weights of a wrapped model are saved with its prefix and loaded into a bare model."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.names import dotted, walk
from esper_agents.review.ranks import DDP
from esper_agents.review.rule import FOLLOWED, Rule, RuntimeExpectation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables, Function

_WRAPPERS = frozenset({*DDP, "torch.nn.DataParallel", "torch.nn.parallel.DataParallel"})
# Code that takes a prefix off, or that asks what it has.
_UNWRAPS = frozenset({"consume_prefix_in_state_dict_if_present", "removeprefix"})
_PREFIXES = ("module.", "module", "_orig_mod.", "_orig_mod")
_SAVED_PATH = 1


@dataclass(frozen=True, slots=True)
class _State:
    """A place in a checkpoint: the file and the key in it.

    Attributes:
        path: The expression of the file, as written.
        key: The key of the weights in it; empty if they are all of it.
    """

    path: str
    key: str


class WrappedStateLoadedBare(Rule):
    """A checkpoint of a `DistributedDataParallel` model that is loaded into a model which is not wrapped.

    ## Why it costs
    The wrapper holds the model as its attribute `module`, so each name in its `state_dict()` begins with `module.`.
    A bare model raises on them: missing and unexpected keys. With `strict=False` it loads nothing at all.

    ## When it is right
    `model.module.state_dict()` is saved, or the prefix is taken off before loading, or the model that loads is
    wrapped as well. Reported only if the save and the load name the same file and the same key.

    ## Sources
    PyTorch tutorial "Saving and Loading Models", section "Saving `torch.nn.DataParallel` Models".
    """

    code, name = "ESP112", "wrapped-state-loaded-bare"
    severity, category = Severity.CRITICAL, Category.CORRECTNESS
    shown = RuntimeExpectation.RAISES
    bad = (
        "import torch\n"
        "from torch.nn.parallel import DistributedDataParallel\n"
        "\n"
        "\n"
        "def train(net, rank):\n"
        "    model = DistributedDataParallel(net.to(rank), device_ids=[rank])\n"
        "    if rank == 0:\n"
        '        torch.save(model.state_dict(), "best.pt")\n'
        "\n"
        "\n"
        "def predict(x):\n"
        "    model = torch.nn.Linear(8, 4)\n"
        '    model.load_state_dict(torch.load("best.pt", weights_only=True))\n'
        "    return model(x)\n"
    )
    good = bad.replace("model.state_dict()", "model.module.state_dict()")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loads of wrapped weights into bare models."""
        saved = index.once("saved wrapped states", lambda: dict(_saved(index)))
        if not saved or _unwraps(file):
            return
        for call in file.calls_ending("load_state_dict"):
            state = _loaded(call, index)
            source = saved.get(state) if state is not None else None
            if source is None or not isinstance(call.node.func, ast.Attribute):
                continue
            if _is_bare(call.node.func.value, call.function, call.line, index):
                where = f"line {source.line}"
                if source.function.file is not file:
                    where = f"{source.function.file.path}:{source.line}"
                yield self.hit(
                    call.node,
                    f"these weights were saved from a wrapped model ({where}): their names begin with `module.`, and "
                    f"`{call.receiver}` is not wrapped",
                    remedy=f"save `{source.receiver}.module.state_dict()`",
                    confidence=Confidence.HIGH if source.function is call.function else Confidence.MODERATE,
                    basis=FOLLOWED,
                )


def _unwraps(file: FileTables) -> bool:
    """Return whether a file has code that takes a prefix off names, or that asks for it."""
    if file.calls_ending(*_UNWRAPS):
        return True
    return any(isinstance(node, ast.Constant) and node.value in _PREFIXES for node in walk(file.tree))


def _saved(index: ProjectIndex) -> Iterator[tuple[_State, Call]]:
    """Yield the places in checkpoints at which the weights of wrapped models are saved."""
    for file in index.files.values():
        for call in file.calls_ending("save"):
            if call.name != "torch.save" or len(call.node.args) <= _SAVED_PATH:
                continue
            where = _text(call.node.args[_SAVED_PATH], call.function, call.line)
            for key, node in _parts(call.node.args[0], call.function, call.line):
                taken = next((each for each in call.function.calls if each.node is node), None)
                if taken is None or taken.tail != "state_dict" or not isinstance(taken.node.func, ast.Attribute):
                    continue
                if _is_wrapped(taken.node.func.value, taken.function, taken.line, index):
                    yield _State(where, key), taken


def _parts(value: ast.expr, function: Function, line: int) -> list[tuple[str, ast.expr]]:
    """Return what is saved, by key."""
    if isinstance(value, ast.Name):
        made = function.last_assignment(value.id, line)
        return _parts(made.value, function, made.line) if made is not None else []
    if isinstance(value, ast.Dict):
        pairs = zip(value.keys, value.values, strict=True)
        return [
            (repr(key.value), each)
            for key, each in pairs
            if isinstance(key, ast.Constant)
            for each in [_followed(each, function, line)]
        ]
    return [("", value)]


def _followed(value: ast.expr, function: Function, line: int) -> ast.expr:
    made = function.last_assignment(value.id, line) if isinstance(value, ast.Name) else None
    return made.value if made is not None and not made.is_unpacked else value


def _text(value: ast.expr, function: Function, line: int) -> str:
    """Return the expression of a file, through one name."""
    found = _followed(value, function, line)
    return ast.unparse(found)


def _loaded(call: Call, index: ProjectIndex) -> _State | None:
    """Return the place in a checkpoint that a `load_state_dict` takes its weights from."""
    del index
    value = call.argument(0, "state_dict")
    if value is None:
        return None
    function, line, key = call.function, call.line, ""
    for _ in range(4):
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Constant) and not key:
            key, value = repr(value.slice.value), value.value
        elif isinstance(value, ast.Name):
            made = function.last_assignment(value.id, line)
            if made is None or made.is_unpacked:
                return None
            value, line = made.value, made.line
        elif isinstance(value, ast.Call) and dotted(value.func) == "torch.load" and value.args:
            return _State(_text(value.args[0], function, line), key)
        else:
            return None
    return None


def _is_wrapped(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a model is surely wrapped: all that it may be is."""
    found = index.origins(value, function, line)
    return bool(found) and all(
        any(call.node is origin.value and call.name in _WRAPPERS for call in origin.function.calls) for origin in found
    )


def _is_bare(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> bool:
    """Return whether a model is surely not wrapped: all that it may be is made by another call."""
    found = index.origins(value, function, line)
    for origin in found:
        if not isinstance(origin.value, ast.Call):
            return False
        for node in walk(origin.value):
            call = next((each for each in origin.function.calls if each.node is node), None)
            if call is not None and (call.name in _WRAPPERS or call.tail in {"prepare", "wrap", "to_ddp"}):
                return False
    return bool(found)
