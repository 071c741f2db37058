"""Writes `report.schema.json`: the definitions of the results follow from the data classes of the measurements.

Run it after a change of a result with `python checks/report_schema.py`; a test compares. Definitions with the name of
a class and the list of kinds are generated. The others are written by hand: the parts that all reports have,
`<kind>_request`, and `<kind>_result` with conditions that a class cannot state.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from esper_agents.torchlab.measurement import measurements

FILE = Path(__file__).parents[1] / "esper_agents" / "torchlab" / "report.schema.json"
_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def generated(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of reports with the results of all measurements.

    Args:
        schema: The schema, whose parts that are written by hand are kept.
    """
    by_hand = {name: each for name, each in schema["$defs"].items() if not name[0].isupper()}
    results: dict[str, Any] = {}
    branches = [each for each in schema["allOf"] if "result" not in each["then"].get("properties", {})]
    for about in measurements():
        made = TypeAdapter(about.result).json_schema(ref_template="#/$defs/{model}")
        results |= made.pop("$defs", {})
        results[about.result.__name__] = made
        branches.append({"if": {"properties": {"kind": {"const": about.kind}}}, "then": _then(about, by_hand)})
    described = {name: _described(each) for name, each in sorted(results.items())}
    kind = {**schema["properties"]["kind"], "enum": sorted(about.kind for about in measurements())}
    properties = {**schema["properties"], "kind": kind}
    return {**schema, "properties": properties, "allOf": branches, "$defs": {**by_hand, **described}}


def _then(about: Any, by_hand: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"$ref": f"#/$defs/{about.result.__name__}"}
    if f"{about.kind}_result" in by_hand:
        result = {"allOf": [result, {"$ref": f"#/$defs/{about.kind}_result"}]}
    request = {"request": {"$ref": f"#/$defs/{about.kind}_request"}} if f"{about.kind}_request" in by_hand else {}
    return {"properties": {**request, "result": result}}


def _described(shape: dict[str, Any]) -> dict[str, Any]:
    """Return a definition with the descriptions of its docstring, and no other members than those of its class."""
    found = _without_titles(shape)
    text = found.pop("description", "")
    told = {name: " ".join(said.split()) for name, said in _ATTRIBUTE.findall(text.partition("Attributes:")[2])}
    if "properties" in found:
        found["additionalProperties"] = False
        for name, each in found["properties"].items():
            if name in told:
                found["properties"][name] = {"description": told[name], **each}
    return {"description": " ".join(text.partition("\n\n")[0].split()), **found}


def _without_titles(shape: Any) -> Any:
    match shape:
        case dict():
            return {name: _without_titles(each) for name, each in shape.items() if not _is_title(name, each)}
        case list():
            return [_without_titles(each) for each in shape]
        case _:
            return shape


def _is_title(name: str, value: object) -> bool:
    # A property may be called `title`; its schema is no text.
    return name == "title" and isinstance(value, str)


def text() -> str:
    """Return the text of the file."""
    schema = json.loads(FILE.read_text(encoding="utf-8"))
    return json.dumps(generated(schema), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
