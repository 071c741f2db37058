"""Facts about libraries: what their functions, constructors, methods and hooks do.

`data/libraries/*.toml` holds the rows with their checks, `data/libraries.json` (`checks/library_table.py`) the same
rows without them; the operators of torch come from `operators`. Rows are read when a name of their library is used.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from esper_agents.errors import UsageError
from esper_agents.review.model.knowledge import (
    CallFacts,
    DeviceEffect,
    Effect,
    GradEffect,
    GraphEffect,
    Hook,
    InitialMode,
    ResultKind,
)
from esper_agents.review.model.operators import DATA, operator_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

FOLDER = DATA / "libraries"
# Keys of rows that say where a row comes from, and are no facts.
_PROOFS = frozenset({"example", "input", "check", "checked"})
_ENUMS: dict[str, type[StrEnum]] = {
    "result": ResultKind,
    "graph": GraphEffect,
    "device": DeviceEffect,
    "mode": InitialMode,
    "grad_mode": GradEffect,
}
_LISTS: dict[str, type] = {"writes": int, "holds": str, "parameters": str}
_TYPES: dict[str, type] = {
    "shape": str,
    "since": str,
    "before": str,
    "source": str,
    "acts_by_mode": bool,
    "has_parameters": bool,
    "keeps_arguments": bool,
}
E_ = TypeVar("E_", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file, for one name.

    Attributes:
        section: `call`, `method` or `attribute`.
        name: Qualified name, or name of the method or attribute; `*` stands for any text.
        facts: What it does.
        kind: Kind of the receiver of a method or attribute.
        class_name: Class of the receiver, empty for any; `*` stands for any text.
    """

    section: str
    name: str
    facts: CallFacts
    kind: ResultKind = ResultKind.UNKNOWN
    class_name: str = ""


@dataclass(frozen=True, slots=True)
class LibraryFile:
    """The rows of one file.

    Attributes:
        name: The file.
        aliases: Prefixes of names, and what they stand for: `pytorch_lightning.` for `lightning.`.
        rows: Its rows.
        hooks: Hooks by qualified name of the base class.
    """

    name: str
    aliases: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    hooks: tuple[tuple[str, tuple[Hook, ...]], ...]


def read_library(path: Path) -> LibraryFile:
    """Return the rows of a file.

    Args:
        path: A TOML file.

    Raises:
        UsageError: If the file cannot be read or a row is not valid.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read library file {path}: {error}", remedy="correct the file, or its path") from error
    return parse_library(document, str(path))


def parse_library(document: Mapping[str, Any], name: str) -> LibraryFile:
    """Return the rows of a document.

    Args:
        document: Content of a library file.
        name: Its name, for errors.

    Raises:
        UsageError: If a row is not valid.
    """
    try:
        rows = tuple(row for section in ("call", "method", "attribute") for row in _rows(document, section))
        hooks = tuple(pair for each in _list(document, "hooks") for pair in _hooks(each))
        aliases = _table(document.get("aliases", {}))
    except _RowError as error:
        raise UsageError(f"library file {name}: {error}", remedy=f"see the rows in {FOLDER}") from error
    return LibraryFile(name, tuple(sorted(aliases.items(), key=lambda pair: -len(pair[0]))), rows, hooks)


class _RowError(ValueError):
    """A row that says something that rows cannot say."""


def _list(document: Mapping[str, Any], key: str) -> list[Any]:
    value = document.get(key, [])
    if not isinstance(value, list):
        raise _RowError(f"'{key}' is not a list of tables")
    return value


def _table(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _RowError("'aliases' is not a table of names")
    return value


def _rows(document: Mapping[str, Any], section: str) -> Iterable[Row]:
    checked = document.get("checked", "")
    for row in _list(document, section):
        if not isinstance(row, dict):
            raise _RowError(f"'{section}' is not a list of tables")
        left = {key: value for key, value in row.items() if key not in _PROOFS}
        prefix, names = left.pop("in", ""), left.pop("names", None)
        kinds, classes = left.pop("kind", "unknown"), left.pop("class", "")
        if not isinstance(names, list) or not names or not all(isinstance(each, str) for each in names):
            raise _RowError(f"a row of '{section}' has no 'names'")
        facts = _facts(left, f"row '{names[0]}'")
        facts = replace(facts, source=facts.source or str(row.get("checked", checked)))
        for name in names:
            for kind in kinds if isinstance(kinds, list) else [kinds]:
                for class_name in classes if isinstance(classes, list) else [classes]:
                    full = f"{prefix}.{name}" if prefix else name
                    yield Row(section, full, facts, _member(ResultKind, kind, "kind"), class_name)


def _facts(row: Mapping[str, Any], where: str) -> CallFacts:
    values: dict[str, Any] = {}
    for key, value in row.items():
        if key in _ENUMS:
            values[key] = _member(_ENUMS[key], value, f"{where}: '{key}'")
        elif key in _TYPES and isinstance(value, _TYPES[key]):
            values[key] = value
        elif key == "effects" and isinstance(value, list):
            values[key] = frozenset(_member(Effect, each, f"{where}: 'effects'") for each in value)
        elif (key == "writes" and isinstance(value, list) and all(type(each) is int for each in value)) or (
            key in {"holds", "parameters"} and isinstance(value, list) and all(isinstance(each, str) for each in value)
        ):
            values[key] = tuple(value)
        else:
            known = ", ".join(field.name for field in fields(CallFacts))
            raise _RowError(f"{where}: '{key} = {value!r}' is not one of the facts {known}")
    return CallFacts(**values)


def _member(kind: type[E_], value: object, where: str) -> E_:
    try:
        return kind(str(value))
    except ValueError:
        raise _RowError(f"{where} is {value!r}, not one of {', '.join(each.value for each in kind)}") from None


def _hooks(row: Any) -> Iterable[tuple[str, tuple[Hook, ...]]]:
    if not isinstance(row, dict) or not isinstance(row.get("bases"), list):
        raise _RowError("a row of 'hooks' has no 'bases'")
    hooks = []
    for each in _list(row, "hook"):
        left = {key: value for key, value in each.items() if key not in _PROOFS | {"source"}}
        methods = left.pop("methods", [])
        if "grad" in left:
            left["grad"] = _member(GradEffect, left["grad"], "'grad' of a hook")
        if "mode" in left:
            left["mode"] = _member(InitialMode, left["mode"], "'mode' of a hook")
        unknown = set(left) - set(get_type_hints(Hook))
        if unknown or not methods:
            raise _RowError(
                f"a hook has {'no methods' if not methods else 'unknown keys ' + ', '.join(sorted(unknown))}"
            )
        hooks += [Hook(method, **left) for method in methods]
    for base in row["bases"]:
        yield base, tuple(hooks)


class LibraryKnowledge:
    """Facts about the bundled libraries and those that a project describes.

    Attributes:
        versions: Versions of libraries for which the code is written, by first part of the name; other libraries are
            taken as their newest rows describe them.
    """

    def __init__(self, extra: Iterable[Path] = (), versions: Mapping[str, str] | None = None) -> None:
        """Read the files of a project; bundled ones are read when they are needed.

        Args:
            extra: Library files of the project. They cannot describe bundled libraries.
            versions: Versions of libraries.

        Raises:
            UsageError: If a file cannot be read, a row is not valid, or it describes a bundled library.
        """
        self.versions = dict(versions or {})
        self._tables: dict[str, _Tables] = {}
        self._calls: dict[str, CallFacts | None] = {}
        self._members: dict[tuple[str, ResultKind, str, str], CallFacts | None] = {}
        self._extra = [read_library(path) for path in extra]
        for file in self._extra:
            _reject_bundled(file)

    def call(self, name: str) -> CallFacts | None:
        """Return what a call of a function or class does, by qualified name."""
        if name not in self._calls:
            table = self._table(name)
            canonical = table.canonical(name)
            found = table.find("call", canonical, "", ResultKind.UNKNOWN)
            self._calls[name] = found or operator_facts(canonical)
        return self._calls[name]

    def method(self, kind: ResultKind, name: str, class_name: str = "") -> CallFacts | None:
        """Return what a method does, by kind and class of its receiver."""
        return self._member("method", kind, name, class_name)

    def attribute(self, kind: ResultKind, name: str, class_name: str = "") -> CallFacts | None:
        """Return what reading an attribute gives."""
        return self._member("attribute", kind, name, class_name)

    def hooks(self, base: str) -> tuple[Hook, ...]:
        """Return the hooks of a framework's base class, by qualified name."""
        table = self._table(base)
        return table.hooks.get(table.canonical(base), ())

    def _member(self, section: str, kind: ResultKind, name: str, class_name: str) -> CallFacts | None:
        key = (section, kind, name, class_name)
        if key not in self._members:
            self._members[key] = self._found_member(section, kind, name, class_name)
        return self._members[key]

    def _found_member(self, section: str, kind: ResultKind, name: str, class_name: str) -> CallFacts | None:
        if class_name:
            table = self._table(class_name)
            found = table.find(section, name, table.canonical(class_name), kind)
            if found is not None:
                return found
        found = self._table("torch").find(section, name, "", kind)
        is_operator = found is None and section == "method" and kind is ResultKind.TENSOR
        return operator_facts(f"torch.Tensor.{name}") if is_operator else found

    def _table(self, name: str) -> _Tables:
        root = name.partition(".")[0]
        if root not in self._tables:
            files = [*_bundled(root), *(file for file in self._extra if root in _roots(file))]
            self._tables[root] = _Tables(files, self.versions.get(root, ""))
        return self._tables[root]


class _Tables:
    """The rows of one library, by name."""

    def __init__(self, files: Iterable[LibraryFile], version: str) -> None:
        self._exact: dict[tuple[str, str, str, ResultKind], CallFacts] = {}
        self._patterns: list[Row] = []
        self._aliases: list[tuple[str, str]] = []
        self._found: dict[tuple[str, str, str, ResultKind], CallFacts | None] = {}
        self.hooks: dict[str, tuple[Hook, ...]] = {}
        for file in files:
            self._aliases += file.aliases
            self.hooks |= dict(file.hooks)
            for row in file.rows:
                if not _holds(row.facts, version):
                    continue
                if "*" in row.name or "*" in row.class_name:
                    self._patterns.append(row)
                else:
                    self._exact[row.section, row.name, row.class_name, row.kind] = row.facts
        # The longest pattern says most.
        self._patterns.sort(key=lambda row: -len(row.name) - len(row.class_name))

    def canonical(self, name: str) -> str:
        """Return the name under which the rows have what several names mean."""
        for prefix, replacement in self._aliases:
            if "*" in prefix and fnmatchcase(name, f"{prefix}*"):
                # `torch.nn.modules.*.`: what stands for the star goes, too.
                depth = prefix.count(".")
                return replacement + ".".join(name.split(".")[depth:])
            if name.startswith(prefix):
                return replacement + name[len(prefix) :]
        return name

    def find(self, section: str, name: str, class_name: str, kind: ResultKind) -> CallFacts | None:
        """Return the facts of the row that says most about a name."""
        key = (section, name, class_name, kind)
        if key not in self._found:
            self._found[key] = self._exact.get(key) or next(
                (
                    row.facts
                    for row in self._patterns
                    if row.section == section
                    and row.kind is kind
                    and fnmatchcase(name, row.name)
                    and fnmatchcase(class_name, row.class_name)
                ),
                None,
            )
        return self._found[key]


def _holds(facts: CallFacts, version: str) -> bool:
    """Return whether a row is about a version; without a version, whether it is about the newest."""
    if not version:
        return not facts.before
    number = _numbers(version)
    return _numbers(facts.since) <= number and (not facts.before or number < _numbers(facts.before))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _roots(file: LibraryFile) -> frozenset[str]:
    """Return the first parts of the names that a file describes."""
    named = [row.class_name if row.section != "call" else row.name for row in file.rows]
    named += [prefix for prefix, _ in file.aliases] + [base for base, _ in file.hooks]
    return frozenset(name.partition(".")[0] for name in named)


def _reject_bundled(file: LibraryFile) -> None:
    for root in sorted(_roots(file)):
        if root in _index() or root in {"", "torch"} or "*" in root:
            what = f"describes '{root}'" if root else "has a method or attribute without 'class'"
            raise UsageError(
                f"library file {file.name} {what}, which is bundled",
                remedy="describe only libraries that are not bundled, and name the class of each method",
            )


def without_proofs(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a library file without what tests run."""
    stripped = dict(document)
    for section in ("call", "method", "attribute"):
        rows = document.get(section, [])
        stripped[section] = [
            {key: value for key, value in row.items() if key not in _PROOFS - {"checked"}} for row in rows
        ]
    return stripped


@lru_cache(maxsize=1)
def _documents() -> dict[str, dict[str, Any]]:
    documents: dict[str, dict[str, Any]] = json.loads((DATA / "libraries.json").read_text(encoding="utf-8"))
    return documents


@lru_cache(maxsize=1)
def _index() -> dict[str, tuple[str, ...]]:
    """Return the bundled files by the first parts of the names that they describe."""
    index: dict[str, list[str]] = {}
    for stem, document in _documents().items():
        for root in document.get("roots", [stem.partition(".")[0]]):
            index.setdefault(root, []).append(stem)
    return {root: tuple(stems) for root, stems in index.items()}


@lru_cache(maxsize=64)
def _bundled(root: str) -> tuple[LibraryFile, ...]:
    return tuple(parse_library(_documents()[stem], f"{stem}.toml") for stem in _index().get(root, ()))
