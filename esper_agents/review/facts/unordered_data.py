"""Data whose order Python or the file system decides: sets, directory listings."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.review.definitions import owner_of
from esper_agents.review.fact_query import Assessment, FactQuery
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.patterns import pattern
from esper_agents.review.programs import training_functions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.fact_query import Fact, InspectionSubject
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Call, FileTables

_LISTING = ("os.listdir", "os.scandir", "glob.glob", "glob.iglob", "os.walk")
_METHODS = frozenset({"iterdir", "glob", "rglob"})
# What does not depend on the order of what it is given.
_INDIFFERENT = frozenset(
    {"sorted", "len", "set", "frozenset", "max", "min", "sum", "any", "all", "Counter", "natsorted", "dict"}
)
_DATA = pattern(r"(?<![a-z])data", re.IGNORECASE)
_SORTING = frozenset({"sort", "sorted", "natsorted", "shuffle", "sort_values", "lexsort", "argsort"})
_ORDERED = frozenset({"list", "tuple", "enumerate"})


class UnorderedData(FactQuery):
    """Sets that become lists or indices, and directory listings that are not sorted."""

    name = "unordered-data"
    topics = ("reproducibility",)
    claim = "the order of the data differs between runs or machines"
    follows_names = True
    category = Category.SILENT_CORRECTNESS
    bad = "def vocabulary(words):\n    return {word: number for number, word in enumerate(set(words))}\n"
    good = bad.replace("set(words)", "sorted(set(words))")

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield the places whose result depends on the order of a set or of a listing."""
        reached = training_functions(index)
        for file in files:
            is_data = _DATA.search(file.path) is not None
            for call in file.calls:
                is_trained = call.function in reached or _is_in_data_set(call, index)
                if is_trained or call.path == "enumerate":
                    yield from self._set(file, call)
                if not (_is_in_data_set(call, index) or (is_data and call.function in reached)):
                    continue
                if call.name in _LISTING or (call.tail in _METHODS and call.receiver and "glob." not in call.name):
                    yield from self._listing(file, call)

    def _set(self, file: FileTables, call: Call) -> Iterator[Fact]:
        """Yield where a set gets an order: `enumerate(set(...))`, `list(set(...))`."""
        if call.path not in _ORDERED or len(call.node.args) < 1 or not _is_set(call.node.args[0]):
            return
        if _is_indifferent(call) or (call.path != "enumerate" and (_is_sorted_later(call) or not _is_kept(call))):
            return
        shown = ast.unparse(call.node)[:50]
        if call.path == "enumerate":
            text = f"`{shown}` numbers a set: texts get other numbers in every process"
            yield self.problem(file, call.node, text, "write `enumerate(sorted(...))`", assumption="they are texts")
        else:
            text = f"`{shown}` has the order of a set, which for texts differs in every process"
            yield self.fact(file, call.node, Assessment.SHOULD_CHECK, text, "write `sorted(...)`")

    def _listing(self, file: FileTables, call: Call) -> Iterator[Fact]:
        if call.tail in _METHODS and not _is_path_method(call):
            return
        if _is_indifferent(call) or _is_sorted_later(call):
            return
        if call.name == "os.walk" or not _is_kept(call):
            return
        text = f"`{call.path}` lists files in the order of the file system, which differs between machines"
        yield self.fact(
            file, call.node, Assessment.SHOULD_CHECK, text, f"write `sorted({ast.unparse(call.node)[:60]})`"
        )


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and dotted(node.func) in {"set", "frozenset"} and bool(node.args)


def _is_path_method(call: Call) -> bool:
    """Return whether `glob` and its kind have the arguments that a path's method has."""
    return call.tail == "iterdir" or (len(call.node.args) == 1 and not isinstance(call.node.args[0], ast.Starred))


def _is_indifferent(call: Call) -> bool:
    """Return whether a call stands inside one whose result does not depend on the order."""
    for node in walk(call.statement):
        is_outer = isinstance(node, ast.Call) and tail_of(dotted(node.func)) in _INDIFFERENT
        if is_outer and node is not call.node and any(each is call.node for each in walk(node)):
            return True
    tests = isinstance(call.statement, ast.If | ast.While | ast.Assert)
    return tests or isinstance(call.parent, ast.Compare) or _is_only_counted(call)


def _is_only_counted(call: Call) -> bool:
    """Return whether a call's value is bound to a name of which only the length is used."""
    targets = call.statement.targets if isinstance(call.statement, ast.Assign) else []
    name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
    nodes = list(walk(call.function.node)) if name else []
    read = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]
    lengths = [node for node in nodes if isinstance(node, ast.Call) and dotted(node.func) == "len"]
    counted = [arg for one in lengths for arg in one.args]
    return bool(read) and all(any(each is one for one in counted) for each in read)


def _is_sorted_later(call: Call) -> bool:
    """Return whether the same function sorts or shuffles something afterwards; in doubt that is the listing."""
    return any(each.tail in _SORTING and each.line >= call.line for each in call.function.calls)


def _is_in_data_set(call: Call, index: ProjectIndex) -> bool:
    owner = owner_of(call.function)
    return owner is not None and any("Dataset" in base for base in index.lineage(owner).foreign)


def _is_kept(call: Call) -> bool:
    """Return whether a listing becomes a list: it is bound, returned or passed on; a loop over it may only act."""
    return isinstance(call.statement, ast.Assign | ast.AnnAssign | ast.Return | ast.AugAssign)
