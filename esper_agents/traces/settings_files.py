"""Values of the YAML and JSON files that a program reads its settings from, with their lines."""

from __future__ import annotations

import ast
import json
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from esper_agents.review.discover import LEFT_OUT
from esper_agents.review.source import ReviewSource, read
from esper_agents.traces.program_index import CodeScope, OriginValue, called_name
from esper_agents.traces.scopes import is_self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from esper_agents.traces.locate import ProjectSources
    from esper_agents.traces.origins import OriginTracer

_SUFFIXES = (".yaml", ".yml", ".json")
# Files of tools, of which no program reads its settings, and those that may hold credentials.
_OTHER = re.compile(r"^\.|package|tsconfig|lock|secret|credential|passw|token", re.IGNORECASE)
_MOST_FILES = 100
_LARGEST, _LARGEST_TOGETHER = 200_000, 1_000_000
_MOST_ENTRIES = 5_000
_DEEPEST = 8
_SCALARS: dict[str, type[int | float | str]] = {"int": int, "float": float, "bool": bool, "str": str}
_DECIMAL = re.compile(r"0|[-+]?[1-9][0-9_]*")
_LOADING = re.compile(r"\b(?:safe_load|full_load|unsafe_load|OmegaConf\.load|(?:yaml|json)\.loads?)\(")


class SettingsFiles:
    """Entries of the settings files of a project that its code names."""

    def __init__(self, sources: ProjectSources) -> None:
        """Belong to the files of a project."""
        self.sources = sources

    @classmethod
    def of(cls, sources: ProjectSources) -> SettingsFiles:
        """Return the settings of a project, which are read once."""
        if sources not in _SETTINGS:
            _SETTINGS[sources] = cls(sources)
        return _SETTINGS[sources]

    def find(self, keys: tuple[str, ...]) -> OriginValue | None:
        """Return the entry at a path of keys; None if no file or more than one has it, or if it has parts."""
        found = [value for path, value in self._entries if path == keys]
        return found[0] if len(found) == 1 else None

    def has_entry(self, name: str) -> bool:
        """Return whether an entry of a settings file has a name as its last key."""
        return name in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(path[-1] for path, _ in self._entries)

    @staticmethod
    def reads_settings(step: OriginValue) -> bool:
        """Return whether an expression, or the function around it, loads a settings file."""
        function = step.scope.function
        return bool(_LOADING.search(step.text) or (function is not None and _LOADING.search(ast.unparse(function))))

    @cached_property
    def _entries(self) -> tuple[tuple[tuple[str, ...], OriginValue], ...]:
        found = []
        left = _LARGEST_TOGETHER
        for path in self._named_files():
            source = read(self.sources.root / path, path)
            size = len(source.text) if isinstance(source, ReviewSource) else 0
            if isinstance(source, ReviewSource) and size <= min(_LARGEST, left):
                left -= size
                entries = [*_entries_of(source.text, path)]
                if entries:
                    self.sources.examined[path] = source.record
                found += entries
        return tuple(found)

    def _named_files(self) -> list[str]:
        """Return the files whose names the code contains; all if it contains none, and there is one only."""
        files = list(_files(self.sources))
        code = "\n".join(self.sources.text(path) or "" for path in self.sources.paths[:_MOST_FILES])
        named = [path for path in files if re.search(rf"\b{re.escape(os.path.basename(path))}\b", code)]  # noqa: PTH119
        return named or (files if len(files) == 1 else [])


def setting_of(tracer: OriginTracer, value: OriginValue) -> OriginValue | None:
    """Return the entry of a settings file that an attribute or item of loaded settings is; None if not certain."""
    name = _key(value.node)
    settings = SettingsFiles.of(tracer.index.sources)
    if name is None or not settings.has_entry(name[1]):
        return None
    keys: tuple[str, ...] = ()
    node, scope, is_loaded = value.node, value.scope, False
    for _ in range(_DEEPEST):
        while (part := _key(node)) is not None and not is_self(part[0]):
            node, keys = part[0], (part[1], *keys)
        chain = tracer.chain(node, scope)
        is_loaded = is_loaded or any(settings.reads_settings(step) for step in chain)
        # The first item on the way counts: a chain may go on with the whole of which it takes one item.
        items = (step for step in chain[1:] if (part := _key(step.node)) is not None and not is_self(part[0]))
        end = next(items, chain[-1])
        if (unpacked := _unpacked(tracer, end.node)) is not None:
            node, scope = unpacked, end.scope
        elif end.node is node:
            break
        else:
            node, scope = end.node, end.scope
    return settings.find(keys) if is_loaded else None


def _unpacked(tracer: OriginTracer, node: ast.expr) -> ast.expr | None:
    """Return the settings that a call of a class of the project unpacks by `**`; None for other expressions."""
    if not isinstance(node, ast.Call) or tracer.index.class_named(called_name(node)) is None:
        return None
    values = [each.value for each in node.keywords if each.arg is None]
    return values[0] if len(values) == 1 else None


def _key(node: ast.expr) -> tuple[ast.expr, str] | None:
    """Return the object and the name of an attribute, an item or a `get`; None for other expressions."""
    match node:
        case ast.Attribute(value=base, attr=name):
            return base, name
        case ast.Subscript(value=base, slice=ast.Constant(value=str() as name)):
            return base, name
        case ast.Call(func=ast.Attribute(value=base, attr="get"), args=[ast.Constant(value=str() as name), *_]):
            return base, name
        case _:
            return None


def _files(sources: ProjectSources) -> Iterator[str]:
    """Yield the paths of the settings files of a project; links are not followed."""
    number = 0
    for folder, folders, names in os.walk(sources.root):
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each not in LEFT_OUT)
        for name in sorted(names):
            path = os.path.join(folder, name)  # noqa: PTH118 - os.walk gives text
            if name.endswith(_SUFFIXES) and not _OTHER.search(name) and not os.path.islink(path):  # noqa: PTH114
                yield os.path.relpath(path, sources.root).replace(os.sep, "/")
                number += 1
        if number >= _MOST_FILES:
            return


def _entries_of(text: str, path: str) -> Iterator[tuple[tuple[str, ...], OriginValue]]:
    """Yield the single values of a file with their keys; nothing if it cannot be parsed or uses aliases."""
    import yaml

    try:
        if any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(text)):
            return  # an alias may repeat a part without limit, and its line is not where the value is used
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        return
    pending: list[tuple[tuple[str, ...], Any]] = [((), root)]
    for _ in range(_MOST_ENTRIES):
        if not pending:
            return
        keys, node = pending.pop()
        if isinstance(node, yaml.MappingNode) and len(keys) < _DEEPEST:
            pending += [((*keys, key.value), value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]
        elif isinstance(node, yaml.ScalarNode) and keys and (constant := _constant(node, path)) is not None:
            line = node.start_mark.line + 1
            yield keys, OriginValue(ast.Constant(constant, lineno=line, col_offset=0), CodeScope(path))


def _constant(node: Any, path: str) -> str | float | None:
    """Return the value that YAML or JSON reads from a scalar; None for null, dates and others."""
    if path.endswith(".json") and node.style is None:
        try:
            value = json.loads(node.value)
        except ValueError:
            return None
        return value if isinstance(value, int | float) else None
    kind = _SCALARS.get(node.tag.rpartition(":")[2])
    if kind is bool:
        return str(node.value).lower() in {"true", "yes", "on"}
    # YAML 1.1 reads `010` as 8 and `1:30` as 90.
    if kind is None or (kind is int and not _DECIMAL.fullmatch(node.value)):
        return None
    try:
        return kind(node.value.replace("_", "")) if kind is not str else node.value
    except ValueError:
        return None


_SETTINGS: WeakKeyDictionary[ProjectSources, SettingsFiles] = WeakKeyDictionary()
