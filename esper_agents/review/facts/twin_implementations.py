"""Two implementations of one function: by their names and parameters, and by tests that compare them."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Category
from esper_agents.domain.request import Wish
from esper_agents.review.fact_query import Assessment, Fact, FactQuery, InspectionSubject
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.tables import Class, Function, Purpose
from esper_agents.review.twin_differences import differences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables

_MOST_PAIRS, _MOST_OF_NAME, _MOST_PLACES = 12, 3, 2
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words that tell the variants of one function apart: those of the existing one, and those of the one that replaces it.
_EXISTING = frozenset(
    (
        *("baseline", "basic", "classic", "eager", "legacy", "loop", "loops", "naive", "old", "orig", "original"),
        *("plain", "py", "python", "ref", "reference", "serial", "sequential", "simple", "slow", "unfused", "vanilla"),
    )
)
_REPLACING = frozenset(
    (
        *("batched", "chunked", "compiled", "cuda", "efficient", "fast", "faster", "flash", "fused", "improved", "jit"),
        *("new", "opt", "optimised", "optimized", "parallel", "quick", "sdpa", "torch", "triton", "vec"),
        *("vectorised", "vectorized"),
    )
)
_COMPARES = frozenset(("assert_close", "allclose", "assert_allclose", "assert_array_almost_equal", "equal", "isclose"))
_PROGRAM = frozenset((Purpose.CODE, Purpose.EXAMPLE, Purpose.BENCHMARK))


@dataclass(frozen=True)
class _TwinPair:
    """Two definitions of one purpose, the existing one first.

    Attributes:
        baseline: The existing one.
        candidate: The one that may replace it.
        compared_at: Place of a test that compares their results; empty without one.
        is_named: Whether the subject names both.
    """

    baseline: Class | Function
    candidate: Class | Function
    compared_at: str = ""
    is_named: bool = False


class TwinImplementations(FactQuery):
    """Pairs of functions or modules that do the same by their names and parameters, or by a test that compares them."""

    name = "twin-implementations"
    topics = ("alternatives",)
    category = Category.PERFORMANCE
    bad = (
        "def attn(q, k, v):\n    return (q @ k.T).softmax(-1) @ v\n\n\n"
        "def fast_attn(q, k, v):\n    return scaled_dot_product_attention(q, k, v)\n"
    )
    good = "def attn(q, k, v):\n    return (q @ k.T).softmax(-1) @ v\n\n\ndef norm(x):\n    return x / x.sum()\n"
    asked = InspectionSubject(("alternatives",), Wish.COMPARE)

    def find(self, files: Sequence[FileTables], index: ProjectIndex, subject: InspectionSubject) -> Iterator[Fact]:
        """Yield one fact for each pair, the pairs that the subject names first."""
        pairs: dict[frozenset[int], _TwinPair] = {}
        for each in (
            *_named(index, subject),
            *_tested(files, index),
            *_variants(files, index),
            *_namesakes(files, index),
        ):
            pairs.setdefault(frozenset((id(each.baseline), id(each.candidate))), each)
        # A pair that the request names is what is asked; the others are not.
        found = [pair for pair in pairs.values() if pair.is_named] or list(pairs.values())
        symbols = {*subject.symbols}
        found.sort(key=lambda each: not symbols & {_target(each.baseline), _target(each.candidate)})
        for each in found[:_MOST_PAIRS]:
            yield from _facts(each, index)


def _facts(pair: _TwinPair, index: ProjectIndex) -> Iterator[Fact]:
    """Yield a fact about both definitions of a pair at the second one, and one about the first."""
    one, other = pair.baseline, pair.candidate
    is_same = _names(_entry(one, index)) == _names(_entry(other, index))
    same = "with the same arguments" if is_same else "with other arguments"
    compared = f"; {pair.compared_at} compares them" if pair.compared_at else ""
    place = f"{one.file.path}:{_line(one)}"
    verb = f"is like `{one.name}` ({place})" if one.name != other.name else f"is also defined at {place}"
    text = f"`{other.name}` {verb}, {same}{compared}; this one {_called(other, index)}"
    yield _at(other, text, _target(one), _target(other))
    yield _at(one, f"`{one.name}` {_called(one, index)}", _target(one))
    if pair.is_named:
        for definition, different in differences(one, other, index).items():
            if different:
                yield _at(definition, f"`{definition.name}` {different}", _target(definition))


def _at(found: Class | Function, text: str, *definitions: str) -> Fact:
    line = _line(found)
    last = getattr(found.node, "end_lineno", None) or line
    return Fact(Assessment.DESCRIPTION, found.file.path, line, text, end_line=last, definitions=definitions)


def _called(found: Class | Function, index: ProjectIndex) -> str:
    """Return where the program calls a definition."""
    if isinstance(found, Class):
        calls = [
            each for each in index.calls_ending(found.name) if index.class_called(each.node, each.function) is found
        ]
    else:
        calls = [caller for caller in index.callers(found) if caller.function is not found]
    places = dict.fromkeys(
        f"{call.function.file.path}:{call.line}" for call in calls if call.function.file.purpose in _PROGRAM
    )
    if not places and (used := _used(found, index)):
        return f"is used at {used}"
    if not places:
        return "is called by tests only" if calls else "is not called in these files"
    more = len(places) - _MOST_PLACES
    return f"is called at {', '.join(list(places)[:_MOST_PLACES])}{f' and {more} more' if more > 0 else ''}"


def _used(found: Class | Function, index: ProjectIndex) -> str:
    """Return the first place where the program names a definition without a call, as for a table of functions."""
    for file in index.files.values():
        if file.purpose in _PROGRAM and found.name in file.text:
            for node in walk(file.tree):
                is_named = isinstance(node, ast.Name) and node.id == found.name
                if is_named or (isinstance(node, ast.Attribute) and node.attr == found.name):
                    return f"{file.path}:{node.lineno}"
    return ""


def _named(index: ProjectIndex, subject: InspectionSubject) -> Iterator[_TwinPair]:
    """Yield the pairs of named definitions of one kind, in the order of their names' words."""
    found = [each for symbol in subject.symbols if (each := _definition(symbol, index)) is not None]
    for one, other in combinations(found, 2):
        if type(one) is type(other) and one is not other:
            yield replace(_ordered(one, other), is_named=True)


def _definition(symbol: str, index: ProjectIndex) -> Class | Function | None:
    path, _, name = symbol.partition(":")
    file = index.files.get(path)
    known = _definitions(file, methods=True) if file is not None else []
    return next((each for each in known if _target(each) == symbol or each.name == name), None)


def _tested(files: Sequence[FileTables], index: ProjectIndex) -> Iterator[_TwinPair]:
    """Yield the pairs whose results a test compares."""
    own = {each.path for each in files}
    by_name: dict[str, list[Class | Function]] = {}
    for file in index.files.values():
        for definition in _definitions(file):
            by_name.setdefault(definition.name, []).append(definition)
    for file in index.files.values():
        if file.purpose not in {Purpose.TEST, Purpose.BENCHMARK}:
            continue
        for call in file.calls_ending(*sorted(_COMPARES)):
            values = [call.argument(position) for position in range(2)]
            names = [_made_by(value, call.function, call.line, index) for value in values if value is not None]
            known = [by_name[name][0] for name in names if len(by_name.get(name, ())) == 1]
            if len(known) == 2 and known[0] is not known[1] and any(each.file.path in own for each in known):  # noqa: PLR2004 - a pair
                yield replace(_ordered(known[0], known[1]), compared_at=f"{file.path}:{call.line}")


def _made_by(value: ast.expr, function: Function, line: int, index: ProjectIndex) -> str:
    """Return the name of the function that makes a value; empty if it is not one."""
    for origin in index.origins(value, function, line):
        if isinstance(origin.value, ast.Call):
            return tail_of(dotted(origin.value.func))
    return ""


def _variants(files: Sequence[FileTables], index: ProjectIndex) -> Iterator[_TwinPair]:
    """Yield definitions whose names differ in words such as `fast` or `v2` alone, and whose parameters fit."""
    by_stem: dict[tuple[str, ...], list[Class | Function]] = {}
    for file in files:
        for definition in _definitions(file, methods=True):
            by_stem.setdefault(_stem(definition.name), []).append(definition)
    for stem, group in by_stem.items():
        for one, other in combinations(group if stem else (), 2):
            if one.name != other.name and _is_variant(one.name, other.name) and _fit(one, other, index):
                yield _ordered(one, other)


def _namesakes(files: Sequence[FileTables], index: ProjectIndex) -> Iterator[_TwinPair]:
    """Yield public definitions of one name in different files, whose parameters fit."""
    own = {each.path for each in files}
    by_name: dict[str, list[Class | Function]] = {}
    for file in index.files.values():
        for each in _definitions(file) if file.purpose in _PROGRAM else ():
            by_name.setdefault(each.name, []).append(each)
    for name, group in by_name.items():
        if name.startswith("_") or name == "main" or len(group) > _MOST_OF_NAME:
            continue
        for one, other in combinations(group, 2):
            is_own = one.file.path in own or other.file.path in own
            if is_own and one.file is not other.file and _fit(one, other, index):
                yield _ordered(one, other)


def _definitions(file: FileTables, *, methods: bool = False) -> list[Class | Function]:
    """Return what a file defines at its top level, and with `methods` what its classes define."""
    functions = [each for each in file.functions[0].inner if each.owner is None]
    own = [method for owner in file.classes for method in owner.methods.values()] if methods else []
    return [*file.classes, *functions, *own]


def _entry(found: Class | Function, index: ProjectIndex) -> Function | None:
    """Return what a call runs: of a module its `forward`, of another class its constructor."""
    if isinstance(found, Function):
        return found
    return index.method(found, "forward") or index.method(found, "__init__")


def _fit(one: Class | Function, other: Class | Function, index: ProjectIndex) -> bool:
    """Return whether two definitions are of one kind and can take the same arguments."""
    owners = [each.owner if isinstance(each, Function) else None for each in (one, other)]
    if type(one) is not type(other) or owners[0] is not owners[1]:
        return False
    if any(isinstance(each, Class) and not _is_called(each, index) for each in (one, other)):
        return False
    entries = _entry(one, index), _entry(other, index)
    needed, known = [set(_required(entry)) for entry in entries], [set(_names(entry)) for entry in entries]
    if not all(needed):
        return False
    return (needed[0] <= known[1] and needed[1] <= known[0]) or len(needed[0]) == len(needed[1])


def _is_called(found: Class, index: ProjectIndex) -> bool:
    """Return whether objects of a class are modules, as far as these files tell."""
    return index.is_module(found) or index.method(found, "forward") is not None


def _names(function: Function | None) -> list[str]:
    return (
        [parameter for parameter in function.parameters if parameter not in {"self", "cls"}]
        if function is not None
        else []
    )


def _required(function: Function | None) -> list[str]:
    """Return the parameters without a default."""
    arguments = getattr(function.node, "args", None) if function is not None else None
    if arguments is None:
        return []
    plain = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    required = plain[: len(plain) - len(arguments.defaults)]
    needed = [
        each.arg for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
    ]
    return [each for each in (*required, *needed) if each not in {"self", "cls"}]


def _pieces(name: str) -> list[str]:
    return [each.lower() for each in _PIECE.findall(name)]


def _stem(name: str) -> tuple[str, ...]:
    """Return the words of a name without those that tell variants apart, and without a number at the end."""
    words = [piece for piece in _pieces(name) if piece not in _EXISTING and piece not in _REPLACING]
    if len(words) > 1 and words[-1].isdigit():
        words.pop()
    if len(words) > 1 and words[-1] == "v":
        words.pop()
    return tuple(words)


def _is_variant(one: str, other: str) -> bool:
    """Return whether one of two names has a word of variants or a version, or a number that the other one lacks."""
    pieces = _pieces(one), _pieces(other)
    marks = _EXISTING | _REPLACING | {"v"}
    numbered = [piece[-1].isdigit() for piece in pieces]
    return any(marks & {*piece} for piece in pieces) or numbered[0] is not numbered[1]


def _ordered(one: Class | Function, other: Class | Function) -> _TwinPair:
    """Return a pair with the existing implementation first, as far as names and files tell."""
    return _TwinPair(other, one) if _age(one) > _age(other) else _TwinPair(one, other)


def _age(found: Class | Function) -> tuple[int, int]:
    """Return how surely a definition replaces another: by its words, and by its version."""
    words = [*_pieces(found.name), *_pieces(PurePosixPath(found.file.path).stem)]
    version = max((int(word) for word in words if word.isdigit() and len(word) < _MOST_OF_NAME), default=0)
    return sum(word in _REPLACING for word in words) - sum(word in _EXISTING for word in words), version


def _target(found: Class | Function) -> str:
    """Return a definition as `FILE.py:Qualified.name`."""
    return f"{found.file.path}:{found.qualname if isinstance(found, Function) else found.name}"


def _line(found: Class | Function) -> int:
    return int(getattr(found.node, "lineno", 1))
