"""What names mean across files: modules, functions, classes, and what classes inherit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from esper_agents.review.names import tail_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.tables import Call, Class, FileTables, Function

# How many imports through `__init__` files are followed.
_REEXPORTS = 5
# How long a name has to be to be likened to that of a class.
_SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a class inherits from.

    Attributes:
        classes: The class and its bases in these files, nearest first.
        foreign: The resolved paths of the bases that stand elsewhere.
    """

    classes: tuple[Class, ...]
    foreign: frozenset[str]


class Definitions:
    """Functions and classes of all files, by name.

    Attributes:
        files: The files, by path.
    """

    def __init__(self, files: Sequence[FileTables]) -> None:
        self.files = {file.path: file for file in files}
        self._lineages: dict[Class, Lineage] = {}
        self._defined: dict[Function, dict[str, Function]] = {}
        self._places: dict[tuple[str, FileTables | None], tuple[FileTables | None, str]] = {}

    @cached_property
    def functions(self) -> dict[str, list[Function]]:
        """Functions and methods of all files, by name."""
        found: dict[str, list[Function]] = {}
        for file in self.files.values():
            for function in file.functions:
                found.setdefault(function.name, []).append(function)
        return found

    @cached_property
    def classes(self) -> dict[str, list[Class]]:
        """Classes of all files, by name."""
        found: dict[str, list[Class]] = {}
        for file in self.files.values():
            for cls in file.classes:
                found.setdefault(cls.name, []).append(cls)
        return found

    @cached_property
    def _modules(self) -> dict[str, list[FileTables]]:
        """Files by the last part of their module's name."""
        found: dict[str, list[FileTables]] = {}
        for file in self.files.values():
            found.setdefault(tail_of(file.module), []).append(file)
        return found

    def calls_ending(self, *tails: str) -> Iterator[Call]:
        """Yield the calls of all files whose last name is one of `tails`, name by name, in order of files."""
        for tail in tails:
            yield from self._calls.get(tail, ())

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        """Calls of all files by last name, in order of files."""
        found: dict[str, list[Call]] = {}
        for file in self.files.values():
            for tail, calls in file.by_tail.items():
                found.setdefault(tail, []).extend(calls)
        return found

    def calls_of_objects(self, owner: Class) -> Iterator[Call]:
        """Yield the calls of what is named like a class: `evaluator(...)` and `self.evaluator(...)` for `Evaluator`."""
        name = owner.name.lower()
        ends = range(len(name) + 1)
        alike = {name[start:end] for start in ends for end in ends[start + _SHORTEST + 1 :]} & self._plain_tails.keys()
        if name in self._all_tails:
            alike |= {plain for plain in self._plain_tails if name in plain and len(plain) > _SHORTEST}
        for tail in sorted(tail for plain in alike for tail in self._plain_tails[plain]):
            if tail != owner.name:
                yield from self._calls[tail]

    @cached_property
    def _plain_tails(self) -> dict[str, list[str]]:
        """The last names of all calls, by their small letters alone."""
        found: dict[str, list[str]] = {}
        for tail in self._calls:
            found.setdefault(tail.lower().replace("_", ""), []).append(tail)
        return found

    @cached_property
    def _all_tails(self) -> str:
        """The small letters of all last names in one text, where any of them is found at once."""
        return " ".join(self._plain_tails)

    @cached_property
    def _parts_of_modules(self) -> frozenset[str]:
        """Every part of the dotted names of the files: what an import may mean in them starts with one."""
        return frozenset(part for file in self.files.values() for part in file.module.split("."))

    def is_foreign(self, call: Call) -> bool:
        """Return whether a call surely is of a package that none of these files belongs to: `torch.cat(...)`."""
        root = call.path.partition(".")[0]
        imported = call.function.file.imports.get(root)
        if imported is None or "(" in call.path or "[" in call.path:
            return False
        is_bound = root in call.function.parameters or root in call.function.assignments
        return not is_bound and imported.partition(".")[0] not in self._parts_of_modules

    def module(self, name: str) -> FileTables | None:
        """Return the file that an imported module's name means; `train` also means `src/train.py`."""
        for file in self._modules.get(tail_of(name), ()):
            if file.module == name or file.module.endswith(f".{name}"):
                return file
        return None

    def function(self, name: str, file: FileTables) -> Function | None:
        """Return the top-level function that a resolved path means in a file."""
        place, last = self._definition(name, file)
        if place is None or last not in self.functions:
            return None
        return self.defined_in(place.functions[0]).get(last)

    def defined_in(self, function: Function) -> dict[str, Function]:
        """Return the functions that are defined directly in another, methods left out, by name; the first one wins."""
        if function not in self._defined:
            found: dict[str, Function] = {}
            for each in function.inner:
                if each.owner is None:
                    found.setdefault(each.name, each)
            self._defined[function] = found
        return self._defined[function]

    def class_named(self, name: str, file: FileTables) -> Class | None:
        """Return the class that a resolved path means in a file."""
        place, last = self._definition(name, file)
        return next((each for each in self.classes.get(last, ()) if each.file is place), None)

    def _definition(self, name: str, file: FileTables) -> tuple[FileTables | None, str]:
        """Return the file that defines a path, following imports, and its name there."""
        # A path with a module in it means the same in every file.
        key = (name, None if "." in name[1:] else file)
        if key not in self._places:
            self._places[key] = self._find_definition(name, file)
        return self._places[key]

    def _find_definition(self, name: str, file: FileTables) -> tuple[FileTables | None, str]:
        place: FileTables | None = file
        for _ in range(_REEXPORTS):
            prefix, _, last = name.rpartition(".")
            if prefix:
                place = self.module(prefix)
            if place is None or last not in place.imports or place.imports[last] == name:
                return place, last
            name = place.imports[last]
        return None, name

    def lineage(self, owner: Class) -> Lineage:
        """Return a class with what it inherits from."""
        if owner not in self._lineages:
            self._lineages[owner] = self._find_lineage(owner)
        return self._lineages[owner]

    def _find_lineage(self, owner: Class) -> Lineage:
        inside, outside = [owner], set[str]()
        for each in inside:
            for base in each.bases:
                found = self.class_named(base, each.file)
                if found is None:
                    outside.add(base)
                elif found not in inside:
                    inside.append(found)
        return Lineage(tuple(inside), frozenset(outside))

    def method(self, owner: Class, name: str) -> Function | None:
        """Return the method a class has, its own or inherited from these files."""
        return next((cls.methods[name] for cls in self.lineage(owner).classes if name in cls.methods), None)

    def is_module(self, owner: Class) -> bool:
        """Return whether a class is surely a `torch.nn.Module`."""
        outside = self.lineage(owner).foreign
        return any(base.startswith("torch.nn.") or tail_of(base) in {"LightningModule", "Module"} for base in outside)


def owner_of(function: Function) -> Class | None:
    """Return the class whose `self` a function sees, through the functions around it."""
    current: Function | None = function
    while current is not None:
        if current.owner is not None:
            return current.owner
        current = current.outer.function if current.outer else None
    return None
