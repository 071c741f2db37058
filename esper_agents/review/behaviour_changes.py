"""Changes of behaviour between versions, and the places of a file that they concern."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.symbols import guarded_nodes, is_for_some_versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables


@dataclass(frozen=True, slots=True)
class BehaviourChange:
    """A change of behaviour.

    Attributes:
        names: Whole paths that it concerns.
        version: The first version that behaves otherwise.
        change: The new behaviour.
        remedy: What to write.
        source: Where that is said.
        package: Whose version is meant.
        absent: Keywords that must be missing, separated by spaces; empty if none.
        breaks: Whether the code fails for certain.
        attribute: Whether reading the name without a call counts.
    """

    names: tuple[str, ...]
    version: str
    change: str
    remedy: str
    source: str
    package: str = "torch"
    absent: str = ""
    breaks: bool = False
    attribute: bool = False


@cache
def behaviour_changes() -> tuple[BehaviourChange, ...]:
    """Return all changes, read once."""
    data = tomllib.loads(Path(__file__).with_name("behaviour_changes.toml").read_text(encoding="utf-8"))
    return tuple(BehaviourChange(**{**entry, "names": tuple(entry["names"])}) for entry in data["change"])


def changed_uses(file: FileTables, index: ProjectIndex) -> Iterator[tuple[ast.AST, str, BehaviourChange]]:
    """Yield where a file does what changed: the node, the name as a whole path, and the change.

    Code that asks for the version, or that binds or catches a missing name, is omitted.
    """
    attributes = {
        name: behaviour_change
        for behaviour_change in behaviour_changes()
        if behaviour_change.attribute
        for name in behaviour_change.names
    }
    for behaviour_change in behaviour_changes():
        for name in behaviour_change.names if not behaviour_change.attribute else ():
            for call in file.calls_to(name):
                said = {one.arg for one in call.node.keywords}
                is_said = behaviour_change.absent and (
                    said.intersection(behaviour_change.absent.split()) or call.has_splat()
                )
                if not is_said and not is_for_some_versions(call):
                    yield call.node, call.name, behaviour_change
    if any(tail_of(name) in file.text for name in attributes):
        guarded = guarded_nodes(file)
        nodes = [each for each in walk(file.tree) if isinstance(each, ast.Attribute) and each not in guarded]
        bound = index.once("names bound in NumPy", lambda: _bound(index))
        for node in nodes:
            path = resolve(dotted(node), file.functions[0])
            if path in attributes and path not in bound:
                yield node, path, attributes[path]


def _bound(index: ProjectIndex) -> frozenset[str]:
    """Return the names of NumPy that a project binds, so that it has them: `np.float = np.float64`."""
    found = set[str]()
    for file in index.files.values():
        paths = [path for function in file.functions for path in function.assignments if path.count(".") == 1]
        found.update(resolve(path, file.functions[0]) for path in paths)
    return frozenset(each for each in found if each.startswith("numpy."))
