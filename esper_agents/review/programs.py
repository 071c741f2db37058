"""Programs of a project: which files import each other, and which of them belong to a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.review.tables import Purpose
from esper_agents.review.training import backward_calls

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables, Function

# How many steps from caller to caller are followed.
_HOPS = 3


def starts(file: FileTables, index: ProjectIndex) -> list[FileTables]:
    """Return the files that no other imports, and from which imports lead to a file: those that start programs."""
    importing = _importing(index)
    seen = [file]
    for each in seen:
        seen += [one for one in importing.get(each, ()) if one not in seen]
    found = [each for each in seen if not importing.get(each)]
    return [each for each in found if each.purpose in {Purpose.CODE, Purpose.EXAMPLE}] or [file]


def reached_from(start: FileTables, index: ProjectIndex) -> set[FileTables]:
    """Return a file with those that it imports, directly or not."""
    seen = [start]
    for each in seen:
        seen += [one for one in _imported(each, index) if one not in seen]
    return set(seen)


def training_files(index: ProjectIndex) -> frozenset[FileTables]:
    """Return the files that send a loss backward, those that import one of them, and what all of them import."""
    return index.once("training files", lambda: _training_files(index))


def _training_files(index: ProjectIndex) -> frozenset[FileTables]:
    importing = _importing(index)
    training = {
        file
        for file in index.files.values()
        if file.purpose in {Purpose.CODE, Purpose.EXAMPLE} and any(True for _ in backward_calls(file))
    }
    around = list(training)
    for each in around:
        around += [one for one in importing.get(each, ()) if one not in around]
    # A package's `__init__` imports everything; what it is imported for is seen at the file itself.
    around = [each for each in around if not each.path.endswith("__init__.py")]
    below = list(training)
    for each in below:
        if not each.path.endswith("__init__.py"):
            below += [one for one in _imported(each, index) if one not in below]
    return frozenset({*around, *below})


def training_functions(index: ProjectIndex) -> frozenset[Function]:
    """Return the functions that lead to a backward, and those that these surely call, with the classes they make."""
    return index.once("training functions", lambda: _training_functions(index))


def _training_functions(index: ProjectIndex) -> frozenset[Function]:
    found: dict[Function, None] = {}
    for file in index.files.values():
        if file.purpose in {Purpose.CODE, Purpose.EXAMPLE}:
            found |= {call.function: None for call in backward_calls(file)}
    edge = list(found)
    for _ in range(_HOPS):
        edge = [call.function for each in edge for call in index.callers(each) if call.function not in found]
        found |= dict.fromkeys(edge)
    queue = list(found)
    for each in queue:
        called = [one for call in each.calls for one in index.callees(call)]
        for call in each.calls:
            made = index.class_called(call.node, call.function)
            called += [one for name, one in made.methods.items() if name in {"__init__", "forward"}] if made else []
        fresh = [one for one in dict.fromkeys(called) if one not in found]
        found |= dict.fromkeys(fresh)
        queue += fresh
    return frozenset(found)


def _importing(index: ProjectIndex) -> dict[FileTables, list[FileTables]]:
    """Return for each file those that import it; tests start no program."""
    return index.once("importing", lambda: _find_importing(index))


def _find_importing(index: ProjectIndex) -> dict[FileTables, list[FileTables]]:
    found: dict[FileTables, list[FileTables]] = {}
    for file in index.files.values():
        for each in _imported(file, index):
            if each is not file and file.purpose is not Purpose.TEST:
                found.setdefault(each, []).append(file)
    return found


def _imported(file: FileTables, index: ProjectIndex) -> set[FileTables]:
    names = [name for import_statement in file.import_statements for name in import_statement.names]
    found = {index.module(name) or index.module(name.rpartition(".")[0]) for name in names}
    return {each for each in found if each is not None}
