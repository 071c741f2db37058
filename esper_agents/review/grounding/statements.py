"""Statements of functions with their words, and with the conditions under which they run."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from esper_agents.review.grounding.words import terms_of
from esper_agents.review.names import walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.review.tables import FileTables

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_MOST_TERMS_LINES, _MOST_BODY = 30, 2
# Sentences of a docstring, and its paragraphs.
_SENTENCE = re.compile(r"\S(?:[^.\n]|\.(?!\s)|\n(?!\s*\n)(?!\s*[-\w]+\s*(?:\([^)\n]*\))?\s*:))*")
_IS_EXAMPLE = re.compile(r"\w\(.*=.*\)|>>>|^(?:from|import)\s|^https?:")
_LONGEST_DOCSTRING, _MOST_SENTENCES, _LEAST_WORDS = 6_000, 40, 5
_SPACE = re.compile(r"\s+")
_COMMENT = re.compile(r"(?:^|\s)#.*")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)


@dataclass(slots=True, eq=False)
class SourceScope:
    """A function, a class body or the code of a module.

    Attributes:
        file: Its file.
        name: Qualified name; empty for a module.
        node: Its definition.
        outer: The scope around it; None for a module.
        name_terms: Terms of its name and of those around it.
        terms: Terms of its statements, signature and docstring.
        statements: Its statements, in order.
    """

    file: FileTables
    name: str
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    outer: SourceScope | None
    name_terms: frozenset[str] = frozenset()
    terms: dict[str, int] = field(default_factory=dict)
    statements: list[CodeStatement] = field(default_factory=list)

    @property
    def line(self) -> int:
        """First line of the definition."""
        return getattr(self.node, "lineno", 1)

    @property
    def parameters(self) -> list[ast.arg]:
        """Parameters of a function, without `self`; of another scope none."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return []
        arguments = self.node.args
        return [
            each for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if each.arg not in _OWN
        ]

    @property
    def defaults(self) -> dict[str, ast.expr]:
        """Default values of the parameters that have one."""
        if not isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef):
            return {}
        arguments = self.node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        found = {
            each.arg: value
            for each, value in zip(plain[len(plain) - len(arguments.defaults) :], arguments.defaults, strict=True)
        }
        keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return found | {each.arg: value for each, value in keywords if value is not None}


_OWN = frozenset(("self", "cls"))


@dataclass(slots=True, eq=False)
class CodeStatement:
    """A statement, or the head of a compound one.

    Attributes:
        scope: Where it stands.
        node: Its node; of an `if` that only raises, the `if`.
        text: Its source in one line, without comments; of a compound one its head.
        terms: Terms of its identifiers and strings.
        comments: Terms of the comments beside and above it.
        names: Its identifiers.
        around: Heads of the blocks around it, outermost first.
        around_terms: Terms of these.
        documented: Words of a docstring that stand for the statement; empty for code.
        at: Line of these words, else 0.
    """

    scope: SourceScope
    node: ast.stmt
    text: str
    terms: frozenset[str]
    comments: frozenset[str]
    names: frozenset[str]
    around: tuple[str, ...] = ()
    around_terms: frozenset[str] = frozenset()
    documented: str = ""
    at: int = 0

    @property
    def line(self) -> int:
        """Its first line."""
        return self.at or self.node.lineno

    @property
    def raises(self) -> bool:
        """Whether it is an `if` that only raises an exception."""
        return isinstance(self.node, ast.If) and not self.node.orelse and _only_raises(self.node.body)


def scopes_of(file: FileTables) -> list[SourceScope]:
    """Return the scopes of a file with their statements; made once for a file."""
    return file.once("grounding scopes", lambda: list(_scopes(file)))


def _scopes(file: FileTables) -> Iterator[SourceScope]:
    module = SourceScope(
        file, "", file.tree, None, frozenset(terms_of(file.path.rpartition("/")[2].removesuffix(".py")))
    )
    pending = [module]
    # The list grows while it is read: nesting needs no recursion.
    for scope in pending:
        reader = _Reader(scope, file.lines)
        reader.read(scope.node.body, (), frozenset())
        reader.count()
        scope.statements += _documented(scope)
        yield scope
        for node in reader.inner:
            name = f"{scope.name}.{node.name}".lstrip(".")
            pending.append(SourceScope(file, name, node, scope, scope.name_terms | set(terms_of(node.name))))


def _documented(scope: SourceScope) -> Iterator[CodeStatement]:
    """Yield the sentences of a docstring as statements: they say what callers must know."""
    text = ast.get_docstring(scope.node, clean=False) or ""
    first = scope.node.body[0] if text else None
    if first is None or isinstance(scope.node, ast.Module):
        return
    for match in list(_SENTENCE.finditer(text[:_LONGEST_DOCSTRING]))[:_MOST_SENTENCES]:
        sentence = " ".join(match.group().split()).strip(" .:-*")
        names = _IDENTIFIER.findall(sentence)
        if len(names) >= _LEAST_WORDS and not _IS_EXAMPLE.search(sentence):
            terms = frozenset(term for name in names for term in terms_of(name))
            line = first.lineno + text.count("\n", 0, match.start())
            yield CodeStatement(scope, first, sentence, frozenset(), terms, frozenset(), documented=sentence, at=line)


class _Reader:
    """Reads the statements of one scope."""

    def __init__(self, scope: SourceScope, lines: Sequence[str]) -> None:
        self._scope, self._lines = scope, lines
        self.inner: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []

    def read(self, body: Sequence[ast.stmt], around: tuple[str, ...], terms: frozenset[str]) -> None:
        pending = [(body, around, terms)]
        while pending:
            body, around, terms = pending.pop()
            for node in body:
                pending += self._read_one(node, around, terms)
        self._scope.statements.sort(key=lambda each: each.line)

    def _read_one(
        self, node: ast.stmt, around: tuple[str, ...], terms: frozenset[str]
    ) -> list[tuple[Sequence[ast.stmt], tuple[str, ...], frozenset[str]]]:
        if isinstance(node, _DEFINITIONS):
            self.inner.append(node)
            return []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return []
        only_raises = isinstance(node, ast.If) and not node.orelse and _only_raises(node.body)
        if not isinstance(node, _COMPOUND) or only_raises:
            self._add(node, node.end_lineno or node.lineno, around, terms)
            return []
        bodies: list[tuple[Sequence[ast.stmt], tuple[str, ...], frozenset[str]]] = []
        body = getattr(node, "body", [])
        head = self._add(node, max(node.lineno, body[0].lineno - 1) if body else node.lineno, around, terms)
        shown = head.text.rstrip(":") if head is not None else ""
        own = head.terms if head is not None else frozenset()
        if isinstance(node, ast.Try):
            bodies.append((node.body, around, terms))
            for handler in node.handlers:
                kind = f"except {ast.unparse(handler.type)}" if handler.type is not None else "except"
                bodies.append((handler.body, (*around, kind), terms | set(terms_of(kind))))
            return [*bodies, (node.orelse, around, terms), (node.finalbody, around, terms)]
        if isinstance(node, ast.Match):
            return [(case.body, (*around, shown), terms | own) for case in node.cases]
        bodies.append((body, (*around, shown), terms | own))
        if other := getattr(node, "orelse", []):
            is_chain = isinstance(node, ast.If) and len(other) == 1 and isinstance(other[0], ast.If)
            mark = f"not {shown}" if isinstance(node, ast.If) else shown
            bodies.append((other, around if is_chain else (*around, mark), terms | own))
        return bodies

    def _add(
        self, node: ast.stmt, last: int, around: tuple[str, ...], around_terms: frozenset[str]
    ) -> CodeStatement | None:
        if isinstance(node, ast.Pass | ast.Import | ast.ImportFrom | ast.Global | ast.Try):
            return None
        first = node.lineno
        shown = self._lines[first - 1 : min(last, first + _MOST_TERMS_LINES)]
        above = []
        for line in reversed(self._lines[max(0, first - 4) : first - 1]):
            if line.strip() and not line.strip().startswith("#"):
                break
            above.append(line)
        comments = " ".join([*above, *(found.group() for each in shown if (found := _COMMENT.search(each)))])
        text = _SPACE.sub(" ", " ".join(_COMMENT.sub("", each) for each in shown)).strip()
        names = frozenset(_IDENTIFIER.findall(text))
        statement = CodeStatement(
            self._scope,
            node,
            text,
            frozenset(term for name in names for term in terms_of(name)),
            frozenset(term for name in _IDENTIFIER.findall(comments) for term in terms_of(name)),
            names,
            around,
            around_terms,
        )
        self._scope.statements.append(statement)
        return statement

    def count(self) -> None:
        """Count the terms of the scope."""
        counts = self._scope.terms
        for statement in self._scope.statements:
            for term in statement.terms | statement.comments:
                counts[term] = counts.get(term, 0) + 1
        node = self._scope.node
        text = ast.get_docstring(node, clean=False) or ""
        heads = [each.arg for each in self._scope.parameters]
        for name in (*_IDENTIFIER.findall(text[:4000]), *heads):
            for term in terms_of(name):
                counts.setdefault(term, 1)


def _only_raises(body: Sequence[ast.stmt]) -> bool:
    return len(body) <= _MOST_BODY and isinstance(body[-1], ast.Raise)


def reads_name(statement: CodeStatement, name: str) -> bool:
    """Return whether a statement reads a name, an attribute, a key or an option, instead of only assigning it."""
    for node in walk(statement.node):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            if (node.id if isinstance(node, ast.Name) else node.attr) == name:
                return True
        elif isinstance(node, ast.Constant) and node.value == name:
            return True
    return False
