"""Modules of the project during a run: scopes of files, imports, names."""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING

from esper_agents.review.model import ir
from esper_agents.review.model.budget import BudgetSpentError
from esper_agents.review.model.events import Frame, GradMode
from esper_agents.review.model.heap import NameScope
from esper_agents.review.model.lowering import lower_module
from esper_agents.review.model.values import UNKNOWN, Library, Namespace, Value, constant

if TYPE_CHECKING:
    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.model.interpreter import Interpreter
    from esper_agents.review.tables import FileTables

_BUILTINS = frozenset(dir(builtins))
_FOREIGN = frozenset({"torch", "numpy", "tqdm", *sys.stdlib_module_names})


class World:
    """Files of the project as modules.

    Attributes:
        module_classes: Whether classes are torch modules, as far as asked.
        cut: Files whose module level the budget ended.
        grads: Grad mode after the module level of a file has run, by path.
    """

    def __init__(self, index: ProjectIndex) -> None:
        self.index = index
        self.module_classes: dict[object, bool] = {}
        self.grads: dict[str, GradMode] = {}
        self.cut: list[str] = []
        self._codes: dict[str, ir.Code] = {}
        self._scopes: dict[str, NameScope] = {}
        self._modules: dict[str, FileTables | None] = {}

    def close(self) -> None:
        """Drop the code and the scopes of all files."""
        for code in self._codes.values():
            code.close()
        for scope in self._scopes.values():
            scope.names.clear()
        vars(self).clear()

    def code(self, file: FileTables) -> ir.Code:
        """Return the lowered module level of a file."""
        if file.path not in self._codes:
            self._codes[file.path] = lower_module(file)
        return self._codes[file.path]

    def scope(self, run: Interpreter, file: FileTables) -> NameScope:
        """Return the scope of a file; runs its module level the first time."""
        known = self._scopes.get(file.path)
        if known is not None:
            return known
        code = self.code(file)
        scope = self._scopes[file.path] = NameScope(code, None)
        scope.names["__name__"] = constant(file.module)
        loops, grad, depth, limit = run.loops, run.grad, run.depth, run.limit
        run.loops, run.grad, run.depth = [], GradMode.ON, 0
        frame = Frame(code, scope, [UNKNOWN] * code.temporaries, None, None, run.heap.mark())
        run.visited.add(code)
        used = run.used
        run.limit = used + run.budget.instructions
        try:
            run.run(frame, code.body)
            self.grads[file.path] = run.grad
        except BudgetSpentError:
            self.cut.append(file.path)
        finally:
            run.loops, run.grad, run.depth, run.limit = loops, grad, depth, limit + run.used - used
        return scope

    def load(self, run: Interpreter, file: FileTables) -> None:
        """Run the module levels of the files that a file imports, directly or not, before its own."""
        order: list[FileTables] = []
        seen = {file.path}
        edge = [file]
        while edge:
            each = edge.pop()
            if each.path in self._scopes:
                continue
            order.append(each)
            for found in self._imported(each):
                if found.path not in seen:
                    seen.add(found.path)
                    edge.append(found)
        for each in reversed(order):
            self.scope(run, each)

    def _imported(self, file: FileTables) -> list[FileTables]:
        names = {path for name in file.imports.values() for path in (name, name.rpartition(".")[0])}
        return [found for name in sorted(names) if (found := self.module(name)) is not None]

    def module(self, name: str) -> FileTables | None:
        """Return the file that a module's name means; a module of Python or torch is no file of the project."""
        if name not in self._modules:
            root = name.partition(".")[0]
            is_foreign = root in _FOREIGN
            self._modules[name] = None if is_foreign or not name else self.index.module(name)
        return self._modules[name]

    def lookup(self, run: Interpreter, scope: NameScope, name: str) -> Value:
        """Return the value of a name."""
        here: NameScope | None = scope
        last = scope
        while here is not None:
            if name in here.names:
                found: Value = here.names[name]
                return found
            last, here = here, here.outer
        file = last.code.file
        if name in file.imports:
            return self.resolve(run, file.imports[name])
        if name in _BUILTINS:
            return Library(f"builtins.{name}")
        if name[0] == "#":
            return UNKNOWN
        return self._undefined(run, last, name)

    def _undefined(self, run: Interpreter, scope: NameScope, name: str) -> Value:
        """Return an object of unknown kind for a name that the file does not define."""
        if name == "torch":
            # A cell or an excerpt without its imports, or a star import of a module that imports it.
            return Library(name)
        at = ir.SourcePosition(1, 1, 1)
        frame = Frame(scope.code, scope, [])
        made = run.opaque(frame, at, name, is_open=True)
        run.heap.write(scope.names, name, made)
        return made

    def scope_of(self, scope: NameScope, name: str) -> NameScope:
        """Return the scope that a global or nonlocal name is bound in."""
        here = scope.outer
        last = scope
        while here is not None:
            if name in here.names:
                return here
            last, here = here, here.outer
        return last

    def member(self, run: Interpreter, file: FileTables, name: str) -> Value:
        """Return what a module of the project binds to a name, or its submodule."""
        scope = self.scope(run, file)
        if name in scope.names:
            found: Value = scope.names[name]
            return found
        if name in file.imports:
            return self.resolve(run, file.imports[name])
        inner = self.module(f"{file.module}.{name}")
        return Namespace(inner) if inner is not None else self._undefined(run, scope, name)

    def resolve(self, run: Interpreter, path: str) -> Value:
        """Return what a dotted path means: something of the project, or of a library."""
        parts = path.split(".")
        for end in range(len(parts), 0, -1):
            file = self.module(".".join(parts[:end]))
            if file is None:
                continue
            value: Value = Namespace(file)
            for name in parts[end:]:
                value = (
                    self.member(run, value.file, name)
                    if isinstance(value, Namespace)
                    else run.attributes.get(
                        Frame(self.code(file), self.scope(run, file), []), value, name, ir.SourcePosition(1, 1, 1)
                    )
                )
            return value
        return Library(path)
