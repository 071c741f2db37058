"""Definitions in words: signatures, purposes, layers, the methods that do the work, and their data flow."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.review.data_flow_text import condensed, flow_steps
from esper_agents.review.fact_query import Assessment, Fact
from esper_agents.review.names import dotted, tail_of, walk
from esper_agents.review.objects import resolve
from esper_agents.review.patterns import pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import Assignment, Class, FileTables, Function

LONGEST = 190
_LONGEST_VALUE, _LONGEST_PURPOSE = 60, 100
_LEAST_ENTRY, _MOST_CALLS = 3, 40
_CONTAINERS = frozenset({"ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict"})
# Methods by which objects are used, the first that a class has.
_MAIN = ("forward", "training_step", "__getitem__", "__call__", "__iter__", "step", "train", "fit", "run")
# Where the list of parameters begins in a docstring.
_PARAMETERS = pattern(
    r"(?im)^\s*(?:args?|arguments|parameters|params|inputs?|returns?|examples?|usage)\s*:|^\s*:param|^\s*-{3,}"
)


def main_method(owner: Class, index: ProjectIndex) -> Function | None:
    """Return the method by which objects are used: a usual one that does more than pass on, else the longest entry."""
    usual = [owner.methods[each] for each in _MAIN if each in owner.methods]
    found = next((each for each in usual if len(statements_of(each)) > 1), None)
    if found is not None or (usual and index.is_module(owner) and usual[0].name == "forward"):
        return found or usual[0]
    if (inherited := inherited_entry(owner, index)) is not None:
        # A base class runs the object, and calls what this class defines.
        called = [of_call for of_call in path_of_calls(inherited, owner, index) if of_call.owner is owner]
        return max(called, key=length_of, default=None)
    own = set(owner.methods.values())
    entries = [
        each
        for name, each in owner.methods.items()
        if not name.startswith("_")
        and "property" not in each.decorators
        and len(statements_of(each)) >= _LEAST_ENTRY
        and not any(call.function in own for call in index.callers(each))
    ]
    return max(entries, key=length_of, default=usual[0] if usual else None)


def inherited_entry(owner: Class, index: ProjectIndex) -> Function | None:
    """Return the method of a base class in the project that runs objects of a class, if it has none of its own.

    Without a usual one, it is the public method that reaches most of what the class defines.
    """
    if any(name in owner.methods for name in _MAIN):
        return None
    found = (index.method(owner, name) for name in _MAIN)
    usual = next((each for each in found if each is not None and not _is_stub(each)), None)
    own = {each for name, each in owner.methods.items() if not name.startswith("__") and not _is_stub(each)}
    if usual is not None or not own or any(not each.name.startswith("_") for each in own):
        return usual
    names = dict.fromkeys(name for base in index.lineage(owner).classes[1:] for name in base.methods)
    inherited = (index.method(owner, name) for name in names if not name.startswith("_"))
    reached = {each: len(own.intersection(path_of_calls(each, owner, index))) for each in inherited if each is not None}
    return max((each for each, count in reached.items() if count), key=lambda each: reached[each], default=None)


def path_of_calls(entry: Function, owner: Class, index: ProjectIndex) -> Iterator[Function]:
    """Yield a method and those that it reaches on `self` for objects of a class, overridden ones as overridden.

    Args:
        entry: The method that is called.
        owner: The class of the object.
        index: Facts about all files of the project.
    """
    bases = index.lineage(owner).classes
    reached = [entry]
    for each in reached:
        yield each
        for call in each.calls:
            called: list[Function] = []
            if call.receiver == "self":
                called = _methods_called(call.tail, owner, index)
            elif call.receiver == "super()" and each.owner in bases:
                later = bases[bases.index(each.owner) + 1 :]
                called = [base.methods[call.tail] for base in later if call.tail in base.methods][:1]
            reached += [one for one in called if one not in reached and not _is_stub(one)]
        del reached[_MOST_CALLS:]


def _methods_called(name: str, owner: Class, index: ProjectIndex) -> list[Function]:
    """Return the method that `self.NAME` is for objects of a class, or the methods that are assigned to it."""
    if (found := index.method(owner, name)) is not None:
        return [found]
    assigned = (one for base in index.lineage(owner).classes for one in base.attributes.get(f"self.{name}", ()))
    paths = (dotted(value) for one in assigned for value in alternatives_of(one.value))
    methods = (index.method(owner, path.removeprefix("self.")) for path in paths if path.startswith("self."))
    return [method for method in methods if method is not None]


def _is_stub(function: Function) -> bool:
    """Return whether a method does nothing but pass, raise, or hand a constant back."""
    body = statements_of(function)
    return all(isinstance(each, ast.Pass | ast.Raise | ast.Expr) and not _is_call(each) for each in body)


def _is_call(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call | ast.Await | ast.Yield)


def statements_of(function: Function) -> list[ast.stmt]:
    """Return the statements of a function without its docstring."""
    body = getattr(function.node, "body", [])
    return body[1:] if ast.get_docstring(function.node, clean=False) else body


def purpose_of_node(node: ast.AST) -> str:
    """Return what the docstring of a definition says first, quoted; empty without one."""
    text = ast.get_docstring(node) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else None
    first = " ".join(_PARAMETERS.split((text or "").strip().partition("\n\n")[0])[0].split())
    sentence = re.split(r"(?<=[a-z)])\. ", first)[0].rstrip(".")
    return f'"{shortened(sentence.replace("`", ""), _LONGEST_PURPOSE)}"' if len(sentence.split()) > 1 else ""


def is_setting(value: ast.expr) -> bool:
    """Return whether a default is a setting: a number, a text, or computed from some."""
    return isinstance(value, ast.UnaryOp | ast.BinOp) or (isinstance(value, ast.Constant) and value.value is not None)


def signature_of(function: Function) -> str:
    """Return a function with its parameters, without `self`."""
    node = function.node
    if isinstance(node, ast.Module):
        return function.name
    names = [parameter for parameter in function.parameters if parameter not in {"self", "cls"}]
    return f"{function.name}({shortened(', '.join(names), _LONGEST_VALUE)})"


def length_of(found: Class | Function) -> int:
    """Return the number of lines of a definition, less one."""
    return (getattr(found.node, "end_lineno", 1) or 1) - getattr(found.node, "lineno", 1)


def flow_of(function: Function, index: ProjectIndex, most: int, leading: Collection[str] = ()) -> Iterator[Fact]:
    """Yield the data flow of a function in at most so many facts; those with the calls in question are kept."""
    owner = function.owner
    kinds = dict(_kinds(owner, index)) if owner is not None else {}
    imported = function.file.imports.keys()
    for each in condensed(
        flow_steps(function.node, lambda path: kinds.get(path.replace("[]", ""), ""), imported, leading), most
    ):
        yield described(function.file, each.line, each.whole)


def attributes_of(owner: Class) -> Iterator[tuple[str, Assignment]]:
    """Yield what the methods of a class assign to `self`, the first assignment of each path, by line."""
    firsts = [(path, each[0]) for path, each in owner.attributes.items() if each and path.startswith("self.")]
    yield from sorted(firsts, key=lambda each: each[1].line)


def is_layer(found: Assignment, index: ProjectIndex) -> bool:
    """Return whether an attribute is a module."""
    return any(_is_layer_call(each, found, index) for each in alternatives_of(found.value))


def _is_layer_call(value: ast.expr, found: Assignment, index: ProjectIndex) -> bool:
    if not isinstance(value, ast.Call):
        return False
    function = found.block.function
    name = resolve(dotted(value.func), function)
    if name.startswith("torch.nn.") and tail_of(name)[:1].isupper() and not name.startswith("torch.nn.Parameter"):
        return ".utils." not in name
    made = index.class_called(value, function)
    return made is not None and index.is_module(made)


def _is_object(found: Assignment) -> bool:
    """Return whether what is assigned is made by a class, by its name."""
    return isinstance(found.value, ast.Call) and tail_of(dotted(found.value.func))[:1].isupper()


def alternatives_of(value: ast.expr) -> tuple[ast.expr, ...]:
    """Return the values of a conditional expression; any other value alone."""
    if isinstance(value, ast.IfExp):
        return (*alternatives_of(value.body), *alternatives_of(value.orelse))
    return (value,)


def _kinds(owner: Class, index: ProjectIndex) -> Iterator[tuple[str, str]]:
    """Yield the paths that hold layers, with the kinds of layer."""
    for base in reversed(index.lineage(owner).classes):
        for path, each in attributes_of(base):
            if is_layer(each, index) or _is_object(each):
                calls = [one for one in alternatives_of(each.value) if isinstance(one, ast.Call)]
                names = dict.fromkeys(tail_of(dotted(one.func)) for one in calls)
                yield path, " or ".join(_element(name, each.value) for name in names)


def _element(name: str, value: ast.expr) -> str:
    """Return the kind of a layer; of a list, with the kind of its elements if it is one."""
    if name not in _CONTAINERS:
        return name
    inner = {
        tail_of(dotted(each.func))
        for each in walk(value)
        if isinstance(each, ast.Call) and each is not value and tail_of(dotted(each.func))[:1].isupper()
    }
    return f"{name} of {inner.pop()}" if len(inner) == 1 else name


def described(file: FileTables, line: int, text: str, *, most: int | None = LONGEST) -> Fact:
    """Return a description of a line, shortened to a number of characters; None keeps it whole."""
    return Fact(Assessment.DESCRIPTION, file.path, line, shortened(text, most or len(text)), end_line=line)


def shortened(text: str, most: int) -> str:
    """Return a text on one line of at most so many characters."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    cut = line[: most - 4].rstrip()
    return f"{cut}{'`' * (cut.count('`') % 2)}..."


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names in code marks, and how many more there are."""
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def named_definition(symbol: str, index: ProjectIndex) -> Class | Function | None:
    """Return the definition that `FILE.py:Qualified.name` means."""
    path, _, name = symbol.partition(":")
    file = index.files.get(path)
    if file is None:
        return None
    found: list[Class | Function] = [cls for cls in file.classes if cls.name == name]
    found += [
        function for function in file.functions if function.qualname == name or function.qualname.endswith(f".{name}")
    ]
    return found[0] if found else None


def default_settings(owner: Class, used: Function) -> Iterator[Fact]:
    """Yield the defaults of the settings that a method reads, as the constructor has them."""
    init = owner.methods.get("__init__")
    if init is None or isinstance(init.node, ast.Module):
        return
    arguments = init.node.args
    given = [*arguments.posonlyargs, *arguments.args]
    known = dict(zip([each.arg for each in given][::-1], arguments.defaults[::-1], strict=False))
    known |= {each.arg: value for each, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value}
    read = {
        each.attr for each in walk(used.node) if isinstance(each, ast.Attribute) and dotted(each) == f"self.{each.attr}"
    }
    names = [name for name, value in known.items() if name in read and is_setting(value)]
    if names:
        shown = ", ".join(f"`{name}` = `{shortened(ast.unparse(known[name]), 20)}`" for name in reversed(names))
        yield described(owner.file, init.node.lineno, f"defaults: {shown}")
