"""Follow a name through a project: its default, its documentation and its uses."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.domain.pluralize import number_of
from esper_agents.review.grounding.catalogue import operations_in
from esper_agents.review.grounding.ranking import is_trivial, passes_on
from esper_agents.review.grounding.saying import quoted
from esper_agents.review.grounding.statements import reads_name
from esper_agents.review.names import walk
from esper_agents.review.tables import Purpose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.grounding.statements import CodeStatement, SourceScope
    from esper_agents.review.grounding.vocabulary import Vocabulary
    from esper_agents.review.tables import FileTables

_MOST_DEFAULTS, _MOST_SCOPES, _LONGEST_VALUE, _LONGEST_WORDS = 3, 3, 40, 160
_MOST_DOCUMENTED = 12
# Fewer words repeat the name or its type.
_LEAST_WORDS = 5


@dataclass(frozen=True, slots=True)
class NameFact:
    """A fact about a name with its place.

    Attributes:
        file: File.
        line: Line.
        text: The fact, in one sentence without a full stop.
    """

    file: FileTables
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class NameWay:
    """The way of a name.

    Attributes:
        facts: Its default, its documentation, and where it is kept and passed on.
        uses: Statements that compute or decide something with it.
    """

    facts: tuple[NameFact, ...]
    uses: tuple[CodeStatement, ...]


def default_of(name: str, known: Vocabulary) -> tuple[NameFact, ...]:
    """Return the default of a name; empty if it has none."""
    return tuple(_defaults(name, known, ""))


def way_of(name: str, known: Vocabulary, preferred: str = "") -> NameWay:
    """Return the way of a name: by name, so that all definitions with it are meant.

    Args:
        name: A parameter, an attribute, an option or a key.
        known: Names and terms of the project.
        preferred: Qualified name of the definition that is asked about; its facts come first.
    """
    with_name = [
        statement
        for scope in known.scopes
        if scope.file.purpose is Purpose.CODE
        for statement in scope.statements
        if name in statement.names
    ]
    kept = [each for each in with_name if is_trivial(each)]
    passed = [each for each in with_name if each not in kept and passes_on(each, {name})]
    used = [each for each in with_name if each not in kept and each not in passed]
    facts = [*_defaults(name, known, preferred), *_documented(name, known, preferred), *_passing(name, kept, passed)]
    return NameWay(tuple(facts), tuple(used))


def unused(name: str, known: Vocabulary) -> tuple[NameFact, ...]:
    """Return that no code uses a name which it only defines or keeps; empty if some code does, or none defines it."""
    scopes = [scope for scope in known.scopes if scope.file.purpose is not Purpose.TEST]
    kept = [
        statement
        for scope in scopes
        for statement in scope.statements
        if name in statement.names and not statement.documented
    ]
    is_read = any(reads_name(each, name) and not _is_kept(each.node, name) for each in kept)
    is_keyword = any(
        keyword.arg == name
        for each in kept
        for call in walk(each.node)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
    )
    if not kept or is_read or is_keyword:
        return ()
    places = ", ".join(f"{each.scope.file.path}:{each.line}" for each in kept[:_MOST_SCOPES])
    read = len({scope.file.path for scope in scopes})
    text = (
        f"no line of the {number_of(read, 'file')} that were read uses `{name}` by its name: it is only set at {places}"
    )
    return (NameFact(kept[0].scope.file, kept[0].line, text),)


def _is_kept(node: ast.stmt, name: str) -> bool:
    """Return whether a statement only keeps a name under the same name: `self.x = x`."""
    match node:
        case ast.Assign(targets=[ast.Attribute(attr=target)], value=ast.Name(id=value)):
            return target == value == name
        case _:
            return False


def _defaults(name: str, known: Vocabulary, preferred: str) -> Iterator[NameFact]:
    """Yield the defaults of a name, in one fact."""
    found: dict[str, list[tuple[SourceScope, int]]] = {}
    for scope in known.scopes:
        for value, line in _given(name, scope) if scope.file.purpose is Purpose.CODE else ():
            found.setdefault(value, []).append((scope, line))
    if not found:
        return
    ordered = sorted(
        found.items(), key=lambda each: (not any(_is_of(scope, preferred) for scope, _ in each[1]), -len(each[1]))
    )
    parts = []
    for value, places in ordered[:_MOST_DEFAULTS]:
        places.sort(key=lambda place: not _is_of(place[0], preferred))
        parts.append(f"{value} in {_listed([scope for scope, _ in places])}")
    more = f", and {number_of(len(ordered) - _MOST_DEFAULTS, 'other value')}" if len(ordered) > _MOST_DEFAULTS else ""
    scope, line = ordered[0][1][0]
    means = "; ".join(operations_in(f"{name}={ordered[0][0].strip('`')}"))
    text = f"the default of `{name}` is {'; '.join(parts)}{more}"
    yield NameFact(scope.file, line, f"{text}: {means}" if means else text)


def _given(name: str, scope: SourceScope) -> Iterator[tuple[str, int]]:
    """Yield the defaults that a scope gives to a name: of a parameter, a field or an option."""
    value = scope.defaults.get(name)
    if value is not None:
        yield _value(value), next((each.lineno for each in scope.parameters if each.arg == name), scope.line)
    for node in scope.node.body if isinstance(scope.node, ast.ClassDef) else ():
        match node:
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as given) if target == name:
                yield _value(given), node.lineno
            case _:
                pass
    for statement in scope.statements:
        if "add_argument" in statement.names and (option := _option_default(statement.node, name)):
            yield option, statement.line


def _option_default(node: ast.stmt, name: str) -> str:
    """Return the default of an option of a command line; empty if the statement defines another, or none."""
    match node:
        case ast.Expr(value=ast.Call(args=[*names], keywords=[*keywords])):
            options = [each.value for each in names if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if not any(each.startswith("--") and each.lstrip("-").replace("-", "_") == name for each in options):
                return ""
            given = {each.arg: each.value for each in keywords}
            if "default" in given:
                return _value(given["default"])
            action = given.get("action")
            is_flag = isinstance(action, ast.Constant) and action.value == "store_true"
            return "`False` (the option turns it on)" if is_flag else "`None`"
        case _:
            return ""


def _value(value: ast.expr) -> str:
    match value:
        case ast.Call(
            func=ast.Name(id="field"), keywords=[ast.keyword(arg="default" | "default_factory", value=inner)]
        ):
            return quoted(ast.unparse(inner), _LONGEST_VALUE)
        case _:
            return quoted(ast.unparse(value), _LONGEST_VALUE)


def _is_of(scope: SourceScope, preferred: str) -> bool:
    owner = preferred.partition(".")[0]
    return bool(owner) and (scope.name == owner or scope.name.startswith(f"{owner}."))


def _listed(scopes: Sequence[SourceScope]) -> str:
    names = list(dict.fromkeys(_shown(scope) for scope in scopes))
    more = f" and {len(names) - _MOST_SCOPES} more" if len(names) > _MOST_SCOPES else ""
    return ", ".join(names[:_MOST_SCOPES]) + more


def _shown(scope: SourceScope) -> str:
    return f"`{scope.name.removesuffix('.__init__') or scope.file.path.rpartition('/')[2]}`"


def _documented(name: str, known: Vocabulary, preferred: str) -> Iterator[NameFact]:
    """Yield what the first docstring says about a name."""
    pattern = re.compile(
        rf"^(?P<indent>[ \t]*)(?::param (?:\w+ )?)?[`*]*{re.escape(name)}[`*]*[ \t]*(?:\([^)\n]*\))?[ \t]*:"
        r"(?P<text>.*)$",
        re.MULTILINE,
    )
    scopes = sorted(known.scopes, key=lambda scope: not _is_of(scope, preferred))
    tried = 0
    for scope in scopes:
        text = ast.get_docstring(scope.node, clean=False) or ""
        if name not in text:
            continue
        tried += 1
        match = pattern.search(text)
        if match is None:
            if tried > _MOST_DOCUMENTED:
                return
            continue
        words = [match["text"].strip()]
        for line in text[match.end() :].split("\n")[1:]:
            indent = len(line) - len(line.lstrip())
            if not line.strip() or indent <= len(match["indent"].replace("\n", "")):
                break
            words.append(line.strip())
        told = " ".join(words).strip()
        if len(told.split()) >= _LEAST_WORDS:
            at = scope.node.body[0].lineno + text[: match.start("text")].count("\n")
            shown = told if len(told) <= _LONGEST_WORDS else f"{told[: _LONGEST_WORDS - 3].rstrip()}..."
            words_shown = quoted(shown, _LONGEST_WORDS).strip("`").replace('"', "'")
            yield NameFact(scope.file, at, f'the docstring of {_shown(scope)} says of `{name}`: "{words_shown}"')
            return


def _passing(name: str, kept: Sequence[CodeStatement], passed: Sequence[CodeStatement]) -> Iterator[NameFact]:
    """Yield where a name is kept and passed on, in one fact."""
    parts = []
    owners = [each.scope for each in kept if isinstance(each.node, ast.Assign) and _keeps(each.node, name)]
    if owners:
        parts.append(f"kept as an attribute of {_listed([scope.outer or scope for scope in owners])}")
    if passed:
        parts.append(f"passed on in {_listed([each.scope for each in passed])}")
    if parts:
        first = (passed or kept)[0]
        yield NameFact(first.scope.file, first.line, f"`{name}` is {' and '.join(parts)}")


def _keeps(node: ast.Assign, name: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute()], value=ast.Name(id=value)):
            return value == name
        case _:
            return False
