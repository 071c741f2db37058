"""Facts about changed interfaces of libraries, of the files in `contracts/` and of torch's symbols."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.facts import TraceFact, fact, files_with, same_statements
from esper_agents.traces.program_index import place_of, returned_values
from esper_agents.traces.scopes import FunctionNode, enclosing_class
from esper_agents.traces.value_facts import failing_node, tracer_of, values_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.review.symbols import TorchSymbol
    from esper_agents.traces.facts import FactContext

_FOLDER = Path(__file__).with_name("contracts")
_MOST_CONTEXT = 2_000


@dataclass(frozen=True, slots=True)
class InterfaceContract:
    """A change of a library's interface that makes code for older versions fail.

    Attributes:
        message: Pattern of `Type: message`; its groups are available to the texts, `old2` as `old`.
        version: First version with the new interface.
        change: The change in one clause, without a full stop.
        fix: The change of the code, as a sentence without a full stop.
        source: Page that says so.
        code: Pattern that the failing line, or that of the library called by it, must match; empty for any line.
        origin: Pattern of the call that a value of the failing line must come from; empty for any.
        uses: Package that the project must import or the trace run through, as pattern; empty for none.
        returns: Method of an environment or callback of the project that must return the number of values that the
            message names (`got`), and that the answer is about; empty for the failing line.
        defined: Group of the message with the name of a method of the project that the answer is about.
        replacements: What to write for each `old`, as `{instead}`.
    """

    message: str
    version: str
    change: str
    fix: str
    source: str
    code: str = ""
    origin: str = ""
    uses: str = ""
    returns: str = ""
    defined: str = ""
    replacements: Mapping[str, str] = field(default_factory=dict)


@cache
def contracts() -> tuple[InterfaceContract, ...]:
    """Return the contracts of all libraries, read once."""
    files = (tomllib.loads(file.read_text(encoding="utf-8")) for file in sorted(_FOLDER.glob("*.toml")))
    return tuple(InterfaceContract(**entry) for data in files for entry in data["contract"])


@fact
def changed_interface(context: FactContext) -> TraceFact | None:
    """Return the change of a library's interface that the message and the failing line show."""
    message = f"{context.trace.exception}: {context.trace.message}"[:_MOST_CONTEXT]
    for contract in contracts():
        if (match := re.search(contract.message, message)) is None:
            continue
        if (found := _fitting(contract, match, context)) is not None:
            return found
    return _changed_symbol(message, context)


def _fitting(contract: InterfaceContract, match: re.Match[str], context: FactContext) -> TraceFact | None:
    """Return what a contract says about a trace; None if its conditions do not hold."""
    parts = {name.rstrip("2"): value for name, value in match.groupdict().items() if value is not None}
    values = {"version": contract.version, **parts}
    if contract.replacements:
        if parts.get("old", "") not in contract.replacements:
            return None
        values["instead"] = contract.replacements[parts["old"]]
    if contract.uses and not _is_used(contract.uses, context):
        return None
    if contract.code and not re.search(contract.code, _failing_text(context)):
        return None
    location = None
    if contract.origin:
        if (origin := _origin(contract.origin, context)) is None:
            return None
        location, values["origin_at"] = origin, str(origin)
    if contract.returns or contract.defined:
        count = re.search(r"got (\d+)", context.trace.message)
        number = int(count[1]) if count and contract.returns else None
        location = _definition(contract.returns or parts[contract.defined], number, context)
        if location is None and contract.returns:
            return None
    change, fix = (text.format_map(values) for text in (contract.change, contract.fix))
    failed = context.frames[0].location if context.frames else None
    elsewhere = {"failed_at": str(failed)} if location is not None and location != failed else {}
    return TraceFact({"change": change, "change_fix": fix, **elsewhere}, location, same_statements(context))


def _is_used(package: str, context: FactContext) -> bool:
    """Return whether the trace runs through a package or a file of the project imports it."""
    if re.search(rf"(?:site|dist)-packages/{package}/", context.text.replace("\\", "/")):
        return True
    paths = context.sources.paths if context.sources is not None else ()
    pattern = re.compile(rf"^\s*(?:import|from)\s+{package}\b", re.MULTILINE)
    return any(pattern.search(context.sources.text(path) or "") for path in paths) if context.sources else False


def _failing_text(context: FactContext) -> str:
    """Return the last line of code of the trace, which may be one of a library, with that of the project."""
    own = context.frames[0].frame.text if context.frames else ""
    last = context.trace.frames[-1].text if context.trace.frames else ""
    return f"{own}\n{last}"


def _origin(pattern: str, context: FactContext) -> Location | None:
    """Return the line with the only call of a pattern that values of the failing line come from."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    places = {
        place_of(chain[-1])
        for _, value in values_of(node)
        if isinstance((chain := tracer.chain(value, scope))[-1].node, ast.Call)
        and re.search(pattern, ast.unparse(chain[-1].node.func) + "(")
        and _is_whole(chain[-1].node, tracer.index.tree(chain[-1].scope.path))
    }
    return places.pop() if len(places) == 1 else None


def _is_whole(call: ast.AST, tree: ast.Module) -> bool:
    """Return whether one name takes the whole result of a call."""
    return any(isinstance(each, ast.Assign) and each.value is call for each in ast.walk(tree)) and not any(
        isinstance(each, ast.Assign) and each.value is call and isinstance(each.targets[0], ast.Tuple | ast.List)
        for each in ast.walk(tree)
    )


def _definition(name: str, number: int | None, context: FactContext) -> Location | None:
    """Return the only method of the project with a name; of its `return`, if it must return a number of values."""
    if context.sources is None:
        return None
    tracer = tracer_of(context)
    found = []
    for path in files_with(context.sources, f"def {name}", first=set()):
        for method in ast.walk(tracer.index.tree(path)):
            if not isinstance(method, FunctionNode) or method.name != name:
                continue
            if enclosing_class(tracer.index.tree(path), method.lineno) is None:
                continue
            values = [each for each in returned_values(method) if isinstance(each, ast.Tuple)]
            fitting = [each for each in values if number is not None and len(each.elts) == number]
            if number is None:
                found.append(Location(path, method.lineno))
            elif fitting:
                found.append(Location(path, fitting[0].lineno))
    return found[0] if len(found) == 1 else None


def _changed_symbol(message: str, context: FactContext) -> TraceFact | None:
    """Return the removal of a name or keyword of torch that the failing call or import uses."""
    from esper_agents.review.symbols import symbols

    match = re.search(
        r"unexpected keyword argument '(?P<keyword>\w+)'"
        r"|module '(?P<module>torch[\w.]*)' has no attribute '(?P<name>\w+)'"
        r"|cannot import name '(?P<imported>\w+)' from '(?P<package>torch[\w.]*)'|(?P<refused>and is now removed)",
        message,
    )
    if match is None:
        return None
    called = _called_names(context)
    for symbol in symbols():
        if not symbol.removed or bool(symbol.keyword) != bool(match["keyword"]) or symbol.absent:
            continue
        name = _meant(symbol, match, called)
        if name:
            what = f"the argument `{symbol.keyword}` of `{name}`" if symbol.keyword else f"`{name}`"
            instead = symbol.replacement(name)
            change = f"torch {symbol.removed} and later versions do not have {what}"
            return TraceFact({"change": change, "change_fix": instead[:1].upper() + instead[1:]})
    return None


def _meant(symbol: TorchSymbol, match: re.Match[str], called: set[str]) -> str:
    """Return the name of a symbol that the message or the failing line means; empty if it is another."""
    if match["keyword"]:
        names = called if match["keyword"] == symbol.keyword else set()
    elif match["refused"]:
        names = called
    else:
        names = {f"{match['module'] or match['package']}.{match['name'] or match['imported']}"}
    for name in sorted(names):
        if any(name == each or (each.endswith(".") and name.startswith(each)) for each in symbol.names):
            return name
    return ""


def _called_names(context: FactContext) -> set[str]:
    """Return what the failing part calls, as whole paths by the imports of its file."""
    found = failing_node(context)
    if found is None:
        return set()
    tracer, scope, node = found
    imported: dict[str, str] = {}
    for each in ast.walk(tracer.index.tree(scope.path)):
        if isinstance(each, ast.Import):
            imported |= {alias.asname: alias.name for alias in each.names if alias.asname}
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            imported |= {alias.asname or alias.name: f"{each.module}.{alias.name}" for alias in each.names}
    names = [ast.unparse(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)]
    pairs = (name.partition(".") for name in names)
    return {f"{imported.get(first, first)}{dot}{rest}" for first, dot, rest in pairs}
