"""State of modules that `state_dict` does not contain."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, walk
from esper_agents.review.tensor_tests import buffers_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Class, FileTables

# A class with one of these decides itself what is saved.
_OWN_STATE = frozenset({"get_extra_state", "state_dict", "__getstate__", "_save_to_state_dict"})
_SETUP = frozenset({"__init__", "reset", "reset_parameters", "setup"})


class UnsavedState(FactQuery):
    """Numbers and flags that a module with buffers changes while it runs, and that no checkpoint holds."""

    name = "unsaved-state"
    topics = ("checkpoints",)
    claim = "a loaded module goes on from another state than the saved one"
    refutes = False
    category = Category.SILENT_CORRECTNESS
    unseen = "whether the program saves the attribute elsewhere"
    bad = (
        "import torch\nfrom torch import nn\n\n\nclass Queue(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.register_buffer('rows', torch.zeros(8, 2))\n        self.at = 0\n\n"
        "    def forward(self, x):\n        self.rows[self.at] = x\n        self.at = (self.at + 1) % 8\n"
        "        return self.rows\n"
    )
    good = bad.replace("self.at = 0", "self.register_buffer('at', torch.tensor(0))")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the attributes that change beside the buffers of a module."""
        for file in files:
            for owner in file.classes:
                if index.is_module(owner) and buffers_of(owner) and not _OWN_STATE & set(owner.methods):
                    yield from self._of(file, owner)

    def _of(self, file: FileTables, owner: Class) -> Iterator[Fact]:
        buffers, setup = buffers_of(owner), _setup_methods(owner)
        for path, assignments in owner.attributes.items():
            name = path.removeprefix("self.")
            changes = [assignment for assignment in assignments if assignment.block.function.name not in setup]
            first = [assignment.value for assignment in assignments if assignment.block.function.name in setup]
            if name in buffers or not changes or len(first) != 1 or not _is_number(first[0]):
                continue
            # What is set back while the module runs is of no use after it.
            is_set_back = any(ast.dump(change.value) == ast.dump(first[0]) for change in changes)
            if is_set_back or not any(_reads(change, path) for change in changes):
                continue
            where = changes[0].block.function.name
            text = f"`{path}` changes in `{where}` and is not in `state_dict()`: a load does not restore it"
            remedy = f"write `self.register_buffer({name!r}, torch.tensor(...))`, or save it by `get_extra_state`"
            yield self.fact(file, changes[0].statement, Assessment.SHOULD_CHECK, text, remedy)


def _setup_methods(owner: Class) -> frozenset[str]:
    """Return the names of the methods that prepare an object: the constructor and what it calls."""
    init = owner.methods.get("__init__")
    called = {call.tail for call in init.calls if call.receiver == "self"} if init is not None else set()
    return _SETUP | (called & set(owner.methods))


def _is_number(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool | int | float)


def _reads(change: Assignment, path: str) -> bool:
    """Return whether the function of a change also reads the attribute: what it does next depends on it."""
    nodes = walk(change.block.function.node)
    return change.is_augmented or any(
        isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == path for node in nodes
    )
