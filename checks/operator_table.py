"""Write the table of torch's operators for the review: `python checks/operator_table.py`.

Signatures come from torch's schemas, facts from sample calls on the meta device (on the CPU where the meta device has
no kernel), and what neither shows from `curated_operators.toml`. A test compares if torch has the version of the table.
"""

from __future__ import annotations

import json
import sys
import tomllib
import warnings
from typing import Any

import torch
from operator_probes import Observations, observe, shape_rule
from operator_signatures import callables, overloads, text

from esper_agents.review.model.operators import DATA, Overload

FILE = DATA / "operators.json"
_TAGS = ("pointwise", "reduction", "nondeterministic_seeded", "dynamic_output_shape", "data_dependent_output")


def row(name: str, function: Any, schemas: list[Any]) -> dict[str, Any]:
    """Return the facts about one callable.

    Args:
        name: Its qualified name.
        function: The callable.
        schemas: Operator schemas of its name.
    """
    calls, ran, rules = [], [], set()
    for parameters in overloads(name, function, schemas):
        overload = Overload(parameters)
        rule, samples = shape_rule(overload, function, name)
        calls.append(text(parameters) + (f" -> {rule}" if rule else ""))
        rules.add(rule)
        ran += samples[:4]
    facts: dict[str, Any] = {"calls": calls} | _facts(observe(ran, function), rules)
    tags = sorted({tag for tag in _TAGS if any(_has_tag(schema, tag) for schema in schemas)})
    return facts | ({"tags": tags} if tags else {})


def _has_tag(schema: Any, tag: str) -> bool:
    try:
        return getattr(torch.Tag, tag) in torch._C._get_operation_overload(schema.name, schema.overload_name)[2]
    except (RuntimeError, TypeError):
        return False


def _facts(seen: Observations, rules: set[str]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    results = seen.results - {""}
    if len(results) == 1:
        facts["result"] = next(iter(results))
    elif results == {"tensor", "tensors"}:
        # `max`: a tensor, or values and indices by its arguments.
        facts["result"] = "tensor"
    dtype = _dtype_rule(seen.dtypes)
    if dtype:
        facts["dtype"] = dtype
    if any(seen.aliases):
        facts["alias"] = "always" if all(seen.aliases) else "sometimes"
    if seen.written:
        facts["writes"] = sorted(seen.written)
    if rules <= {"same", "broadcast"} and len(seen.orders) == 1 and "other" not in seen.orders:
        facts["order"] = next(iter(seen.orders))
    if seen.graphs and len(set(seen.graphs)) == 1:
        facts["has_graph"] = seen.graphs[0]
    if seen.fetches and all(seen.fetches):
        facts["fetches"] = True
    return facts


def _dtype_rule(seen: dict[torch.dtype, set[torch.dtype]]) -> str:
    found = {dtype: next(iter(results)) for dtype, results in seen.items() if len(results) == 1}
    if len(found) != len(seen) or len(found) < 2:
        return ""
    if all(result == dtype for dtype, result in found.items()):
        return "same"
    results = set(found.values())
    if len(results) == 1:
        return str(next(iter(results))).removeprefix("torch.")
    integers = {dtype for dtype in found if not dtype.is_floating_point}
    if all(found[dtype] == dtype for dtype in found if dtype not in integers):
        made = {found[dtype] for dtype in integers}
        return {frozenset({torch.float32}): "float", frozenset({torch.int64}): "widen"}.get(frozenset(made), "")
    return ""


def curated() -> dict[str, dict[str, Any]]:
    """Return the facts written by hand, by qualified name."""
    document = tomllib.loads((DATA / "curated_operators.toml").read_text(encoding="utf-8"))
    rows: dict[str, dict[str, Any]] = {}
    for each in document["operator"]:
        facts = {key: value for key, value in each.items() if key not in {"names", "shape", "because"}}
        for name in each["names"]:
            known = rows.setdefault(name, {})
            known |= facts | ({"shape": each["shape"]} if "shape" in each else {})
    return rows


def table() -> dict[str, dict[str, Any]]:
    """Return the facts about all callables, by qualified name."""
    torch.manual_seed(0)
    rows = {name: row(name, function, schemas) for name, function, schemas in callables()}
    for name, facts in curated().items():
        known = rows.setdefault(name, {})
        rule = facts.pop("shape", None)
        known |= facts
        if rule is not None:
            ending = f" -> {rule}" if rule else ""
            known["calls"] = [call.partition(" -> ")[0] + ending for call in known.get("calls", [])]
    return dict(sorted(rows.items()))


def document() -> str:
    """Return the text of the file: one line for each callable."""
    lines = [f"{json.dumps(name)}: {json.dumps(facts, separators=(',', ':'))}" for name, facts in table().items()]
    version = torch.__version__.partition("+")[0]
    return f'{{"torch": "{version}", "operators": {{\n' + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    written = document()
    FILE.write_text(written, encoding="utf-8")
    sys.stdout.write(f"{written.count(chr(10)) - 2} operators of torch {torch.__version__}\n")
