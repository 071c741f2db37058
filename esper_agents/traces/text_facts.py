"""Facts about text that the code passes where a number is needed."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from esper_agents.domain.finding import Location
from esper_agents.traces.facts import TraceFact, fact
from esper_agents.traces.program_index import called_name, place_of
from esper_agents.traces.scopes import statement_at
from esper_agents.traces.value_facts import failing_node, shown, values_of

if TYPE_CHECKING:
    from esper_agents.traces.facts import FactContext
    from esper_agents.traces.origins import OriginTracer
    from esper_agents.traces.program_index import OriginValue

_NUMBER = re.compile(r"\s*[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*")
_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+|[-+]?\d*\.\d*[eE]\d+")
_OUTSIDE = re.compile(r"\bos\.environ\b|\b(?:os\.)?getenv\(|\bsys\.argv\b|(?<![\w.])input\(")
_VALUES = (ast.Name, ast.Attribute, ast.Subscript)
_SETTINGS = (".yaml", ".yml", ".json")


@fact
def number_as_text(context: FactContext) -> TraceFact | None:
    """Return the value of the failing part that is a number written as text, with the place that writes it."""
    found = failing_node(context)
    if found is None:
        return None
    tracer, scope, node = found
    texts: dict[str, dict[str, str]] = {}
    for name, value in values_of(_without_conversions(node)):
        chain = tracer.chain(value, scope)
        if (values := _text_at(tracer, chain)) is not None:
            texts.setdefault(values["text_at"], {"name": name, **values})
    if len(texts) != 1:
        return None
    ((at, values),) = texts.items()
    path, _, line = at.rpartition(":")
    return TraceFact(values, Location(path, int(line)) if path.endswith(".py") else None)


def _without_conversions(node: ast.AST) -> ast.AST:
    """Return the parts of the arguments and operands of a node that no `int(...)` or `float(...)` converts."""
    parts = [node]
    for part in parts:
        is_conversion = isinstance(part, ast.Call) and ast.unparse(part.func) in {"int", "float"}
        parts += [] if is_conversion or isinstance(part, _VALUES) else list(ast.iter_child_nodes(part))
    return ast.Module([ast.Expr(each) for each in parts if isinstance(each, _VALUES)], [])


def _text_at(tracer: OriginTracer, chain: list[OriginValue]) -> dict[str, str] | None:
    """Return where a chain of values ends in the text of a number, and the change; None if it does not."""
    end = chain[-1]
    place = place_of(end)
    if any(isinstance(step.node, ast.Call) and called_name(step.node) in {"int", "float"} for step in chain):
        return None
    if isinstance(end.node, ast.Constant) and isinstance(end.node.value, str) and _NUMBER.fullmatch(end.node.value):
        text = end.node.value
        values = {"text_at": str(place), "written": f"the text `{text}`"}
        if place.path.endswith(_SETTINGS):
            return values | _in_settings(text, place.path)
        declared = _option_around(tracer, end)
        if declared is not None:
            kind = "float" if re.search(r"[.eE]", text) else "int"
            values["written"] = f"the default {text!r} of the option {declared}, which has no `type`"
            return values | {"change": f"Declare it with `type={kind}` and `default={text.strip()}`, without quotes"}
        return values | {"change": f"Write `{text.strip()}` without quotes"}
    return _from_outside(tracer, end)


def _in_settings(text: str, path: str) -> dict[str, str]:
    if not path.endswith(".json") and _EXPONENT.fullmatch(text.strip()):
        mantissa, _, exponent = text.strip().lower().partition("e")
        right = (
            f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent if exponent[0] in '+-' else '+' + exponent}"
        )
        return {
            "written": f"`{text}`, which YAML reads as text (with an exponent it needs a point and a sign)",
            "change": f"Write `{right}`",
        }
    return {"change": f"Write `{text.strip()}` without quotes"}


def _option_around(tracer: OriginTracer, end: OriginValue) -> str | None:
    """Return the name of the option without type that a text is the default of; None if it is none."""
    statement = statement_at(tracer.index.tree(end.scope.path), end.line)
    for call in (each for each in ast.walk(statement) if isinstance(each, ast.Call)):
        is_default = any(each.arg == "default" and each.value is end.node for each in call.keywords)
        if called_name(call) == "add_argument" and is_default and not _has_type(call):
            return f"`{ast.unparse(call.args[0])}`" if call.args else "`default`"
    return None


def _has_type(call: ast.Call) -> bool:
    return any(each.arg in {"type", "action", "nargs", None} for each in call.keywords)


def _from_outside(tracer: OriginTracer, end: OriginValue) -> dict[str, str] | None:
    """Return where an option without type, a variable of the environment or other text from outside is read."""
    if isinstance(end.node, ast.Attribute):
        base = tracer.last(end.node.value, end.scope).node
        is_parsed = isinstance(base, ast.Call) and called_name(base) in {"parse_args", "parse_known_args"}
        found = tracer.index.option_call(end.node.attr) if is_parsed else None
        if found is not None and not _has_type(found[1]):
            path, call = found
            option = f"`{ast.unparse(call.args[0])}`" if call.args else "`default`"
            values = {"text_at": f"{path}:{call.lineno}", "written": f"the option {option}, which has no `type`"}
            return values | {"change": "Declare it with `type=int` or `type=float`"}
    if _OUTSIDE.search(end.text) and not isinstance(end.node, ast.Constant):
        values = {"text_at": str(place_of(end)), "written": f"`{shown(end.text)}`, which is always text"}
        return values | {"change": "Convert it with `int(...)` or `float(...)`"}
    return None
