"""ESP290: the target network is the network itself, under a second name."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category, Severity
from esper_agents.review.names import dotted
from esper_agents.review.rule import FOLLOWED, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.rule import RuleMatch
    from esper_agents.review.tables import Assignment, Call, FileTables, Function

_STATE = ".state_dict()"
_PARAMETERS, _BUFFERS = ".parameters()", ".buffers()"


class TargetNetworkShared(Rule):
    """`self.target = q` beside `self.q = q`, and a `load_state_dict` that copies the one onto the other.

    ## Why it costs
    Both names are one object. The target moves with every step of the optimizer, which is what a target network is
    there to prevent, and copying the weights does nothing. Bootstrapped values chase themselves and may diverge.

    ## When it is right
    The second network is a copy: `copy.deepcopy(q)`, or made again and loaded. Only pairs that the code itself copies
    onto each other are reported.

    ## Sources
    Mnih et al., "Human-level control through deep reinforcement learning", on the separate target network.
    """

    code, name = "ESP290", "target-network-shared"
    severity, category = Severity.CRITICAL, Category.SILENT_CORRECTNESS
    bad = (
        "class Agent:\n"
        "    def __init__(self, q):\n"
        "        self.q = q\n"
        "        self.target = q\n"
        "\n"
        "    def sync(self):\n"
        "        self.target.load_state_dict(self.q.state_dict())\n"
    )
    good = "import copy\n\n\n" + bad.replace("self.target = q\n", "self.target = copy.deepcopy(q)\n")

    def check(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the networks whose weights are copied onto themselves."""
        for call in file.calls_ending("load_state_dict"):
            given = call.argument(0, "state_dict")
            source = dotted(given) if given is not None else ""
            if not source.endswith(_STATE) or not call.receiver:
                continue
            target = _made(call.receiver, call, index)
            other = _made(source.removesuffix(_STATE), call, index)
            if target is not None and other is not None and _is_one(target, other):
                yield self.hit(
                    target.statement,
                    f"{call.receiver!r} and {source.removesuffix(_STATE)!r} are one object: copying weights between "
                    f"them (line {call.line}) does nothing, and both are trained",
                    remedy=f"make a copy: `copy.deepcopy({ast.unparse(target.value)})`",
                    basis=FOLLOWED,
                )
        yield from self._averaged(file, index)

    def _averaged(self, file: FileTables, index: ProjectIndex) -> Iterator[RuleMatch]:
        """Yield the moving averages of the parameters of a network that are written to the same network."""
        done: set[ast.AST] = set()
        for call in file.calls_ending("zip"):
            owners = [each for each in call.node.args if dotted(each).endswith((_PARAMETERS, _BUFFERS))]
            if len(owners) != 2:  # noqa: PLR2004 - the average and the network
                continue
            target, other = (each.func.value for each in owners if isinstance(each, ast.Call))  # type: ignore[attr-defined]
            one, two = _only_maker(target, call, index), _only_maker(other, call, index)
            if one is None or one is not two or ast.dump(target) == ast.dump(other):
                continue
            kept = [index.binding(dotted(each), call.function, call.line) for each in (target, other)]
            node = next((each.statement for each in kept if each is not None), call.node)
            if node not in done:
                done.add(node)
                names = " and ".join(repr(dotted(each)) for each in (target, other))
                yield self.hit(
                    node,
                    f"{names} are one object, made by `{ast.unparse(one)}`: averaging its parameters "
                    f"(line {call.line}) does nothing, and the targets come from the network that is trained",
                    remedy="make a copy: `copy.deepcopy(...)`",
                    basis=FOLLOWED,
                )


def _only_maker(value: ast.expr, call: Call, index: ProjectIndex) -> ast.expr | None:
    """Return the call that makes the object that an expression means; None if several may."""
    origins = index.origins(value, call.function, call.line)
    found = origins[0].value if len(origins) == 1 else None
    return found if isinstance(found, ast.Call) else None


def _made(path: str, call: Call, index: ProjectIndex) -> Assignment | None:
    """Return the only assignment of a path; None if there are several."""
    owner = call.function.owner
    if path.startswith("self.") and owner is not None:
        found = [each for cls in index.lineage(owner).classes for each in cls.attributes.get(path, ())]
    else:
        found = call.function.assignments.get(path, [])
    return found[0] if len(found) == 1 and not found[0].is_unpacked else None


def _is_one(target: Assignment, other: Assignment) -> bool:
    """Return whether two names are bound to one object: one to the other, or both to one name."""
    if target.block is not other.block:
        return False
    if dotted(target.value) == other.target or dotted(other.value) == target.target:
        return True
    is_name = isinstance(target.value, ast.Name) and ast.dump(target.value) == ast.dump(other.value)
    return is_name and not _is_bound_between(target, other, target.block.function)


def _is_bound_between(target: Assignment, other: Assignment, function: Function) -> bool:
    first, last = sorted((target.line, other.line))
    name = target.value.id if isinstance(target.value, ast.Name) else ""
    return any(first <= each.line <= last for each in function.assignments.get(name, ()))
