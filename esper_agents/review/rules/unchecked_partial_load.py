"""ESP203: weights are loaded loosely, and nobody looks at what was left out."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Confidence, Severity
from esper_agents.review.loaded_states import Source, source_of
from esper_agents.review.names import dotted, root_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.rule import INFERRED, SEEN, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Call, FileTables

_REPORTED = pattern(r"missing|unexpected|incompatible|mismatch|unmatched|not_loaded|skipped", re.IGNORECASE)
_WARNING = pattern(r"\w*warn\w*")
_NO_MODULE = pattern(r"(?:\w*_)?(?:env|envs|storage|buffer|tensordict|td|optimizer|optim|scheduler|sampler|loader)")
_SHARDS = pattern(r"shard|part|chunk|file|path|ckpt|checkpoint", re.IGNORECASE)


class UncheckedPartialLoad(Rule):
    """A `load_state_dict(..., strict=False)` whose report of missing and unexpected keys is thrown away.

    ## Why it costs
    A renamed layer or a `module.` prefix makes every key miss. With `strict=False` the model then keeps its random
    weights, the call returns as if all were well, and the only trace is in the value it returns.

    ## When it is right
    Parts are left out on purpose, such as a new head: then the returned `missing_keys` are compared with what was
    meant. Any use of the returned value counts, and so does a comparison of the keys by hand. Nothing is said of states
    whose keys stand in the code, and of weights copied from a model in memory. One shard of many is a suggestion, and
    so is a state of which nothing shows that it comes from a file.

    ## Sources
    PyTorch documentation of `torch.nn.Module.load_state_dict`: the parameter `strict` and the returned named tuple.
    """

    code, name = "ESP203", "unchecked-partial-load"
    severity, category = Severity.WARNING, Category.SILENT_CORRECTNESS
    bad = (
        "import torch\n"
        "\n"
        "\n"
        "def restore(model, path):\n"
        "    state = torch.load(path, weights_only=True)\n"
        "    model.load_state_dict(state, strict=False)\n"
    )
    good = (
        "import torch\n"
        "\n"
        "\n"
        "def restore(model, path):\n"
        "    state = torch.load(path, weights_only=True)\n"
        "    missing, unexpected = model.load_state_dict(state, strict=False)\n"
        "    assert not unexpected and set(missing) <= {'head.weight', 'head.bias'}\n"
    )

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the loose loads whose result is not used."""
        for call in file.calls_ending("load_state_dict"):
            state = call.argument(0, "state_dict")
            is_own = call.receiver in {"", "super()"} or _NO_MODULE.fullmatch(call.receiver.rpartition(".")[2])
            if state is not None and not is_own and _is_loose(call, 1) and not _is_meant(call, state):
                source = source_of(state, call, index)
                is_shard = source is Source.FILE and _is_one_of_many(call)
                yield from self._judged(call, Source.UNKNOWN if is_shard else source)
        for call in file.calls_to("safetensors.torch.load_model"):
            if _is_loose(call, 2) and not _is_meant(call, call.node):
                yield from self._judged(call, Source.FILE)

    def _judged(self, call: Call, source: Source) -> Iterator[RuleMatch]:
        match source:
            case Source.FILE:
                yield self._found(call, Severity.WARNING)
            case Source.UNKNOWN:
                yield self._found(call, Severity.SUGGESTION)
            case Source.SAID | Source.MEMORY:
                pass

    def _found(self, call: Call, severity: Severity) -> RuleMatch:
        is_sure = severity is Severity.WARNING
        return self.hit(
            call.node,
            "keys that did not match are neither loaded nor looked at",
            remedy="keep the returned value and check its `missing_keys` and `unexpected_keys`",
            confidence=Confidence.HIGH if is_sure else Confidence.MODERATE,
            basis=SEEN if is_sure else INFERRED,
            severity=severity,
        )


def _is_loose(call: Call, position: int) -> bool:
    strict = call.argument(position, "strict")
    if isinstance(strict, ast.Name):
        bound = call.function.assignments.get(strict.id, ())
        strict = bound[0].value if len(bound) == 1 and strict.id not in call.function.parameters else None
    return isinstance(strict, ast.Constant) and strict.value is False and _is_thrown_away(call)


def _is_thrown_away(call: Call) -> bool:
    if isinstance(call.parent, ast.Expr):
        return True
    if not isinstance(call.parent, ast.Assign) or call.parent.value is not call.node:
        return False
    targets = [part for target in call.parent.targets for part in _targets(target)]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    if len(names) < len(targets):
        return False
    return all(name.startswith("_") for name in names) or not _is_read(set(names), call)


def _targets(node: ast.expr) -> list[ast.expr]:
    return [part for elt in node.elts for part in _targets(elt)] if isinstance(node, ast.Tuple | ast.List) else [node]


def _is_read(names: set[str], call: Call) -> bool:
    """Return whether a function reads one of some names; what a module binds anybody may read."""
    return call.function.is_module or any(
        isinstance(each, ast.Name) and each.id in names and isinstance(each.ctx, ast.Load)
        for each in walk(call.function.node)
    )


def _is_meant(call: Call, state: ast.expr) -> bool:
    """Return whether what was left out is looked at in another way, or is surely meant."""
    path = dotted(state)
    keeps_own = path.startswith(f"{call.receiver}.") and path != f"{call.receiver}.state_dict()"
    return keeps_own or _looks_at_keys(call) or _warns(call) or _is_no_module(call)


def _is_no_module(call: Call) -> bool:
    imports = call.function.file.imports.values()
    return any(root_of(each) in {"tensordict", "torchrl"} for each in imports)


def _is_one_of_many(call: Call) -> bool:
    """Return whether a loop goes over files, of which each holds a part of the weights."""
    return any(
        isinstance(loop.node, ast.For)
        and _SHARDS.search(ast.unparse(loop.node.iter)) is not None
        and not set(loop.targets) & {root_of(call.receiver)}
        for loop in call.block.loops()
    )


def _looks_at_keys(call: Call) -> bool:
    """Return whether the function compares keys by hand above the load."""
    function = call.function
    if any(
        _REPORTED.search(path) and assignment.line < call.line and _is_found_out(assignment.value)
        for path, assignments in function.assignments.items()
        for assignment in assignments
    ):
        return True
    for each in walk(function.node):
        is_above = getattr(each, "lineno", call.line) < call.line
        is_difference = (
            isinstance(each, ast.BinOp)
            and isinstance(each.op, ast.Sub | ast.BitXor)
            and all(_is_keys(part) for part in (each.left, each.right))
        )
        if is_above and is_difference:
            return True
    return any(
        _is_keys(part)
        for each in walk(function.node)
        if isinstance(each, ast.Assert) and each.lineno < call.line
        for part in walk(each.test)
    )


def _is_found_out(value: ast.expr) -> bool:
    """Return whether a value follows from something, and is no empty list to begin with."""
    return any(isinstance(each, ast.Name | ast.Call) for each in walk(value))


def _is_keys(node: ast.AST) -> bool:
    return isinstance(node, ast.expr) and bool(re.search(r"set\(|keys", ast.unparse(node)))


def _warns(call: Call) -> bool:
    """Return whether the same block warns just above."""
    return any(
        _WARNING.fullmatch(each.tail)
        and each.block is call.block
        and each.line < call.line
        and not call.function.is_module
        for each in call.function.calls
    )
