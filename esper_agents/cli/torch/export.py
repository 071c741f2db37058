"""Terminal output of `esper torch export`: successful and failed exports, with fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from esper_agents.cli.terminal import one_line
from esper_agents.cli.torch.explain import missing, rows, source, where
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from rich.console import Console

    from esper_agents.api import MeasurementReport
    from esper_agents.domain.codec import JsonObject

_STYLES = {"exports": "green", "partly": "yellow", "fails": "red"}
_WORDS = {
    "exports": "exports",
    "issues": "exports, and takes things for granted",
    "differs": "exports, and the program gives other numbers",
    "raises": "exports, and the program raises",
    "fails": "does not export",
}


def show(report: MeasurementReport, console: Console) -> None:
    """Print an export diagnosis.

    Args:
        report: Of kind `export`.
        console: Output console.
    """
    result = report.result
    rows(console, [(result["status"], result["headline"])], style=_STYLES[result["status"]])
    told: dict[tuple[str, str, str], str] = {}
    for name, each in result["attempts"].items():
        facts = Text.assemble((name, "bold"), "   ", _WORDS[each["outcome"]], "   ", _facts(each))
        console.print()
        console.print(facts)
        if each["outcome"] != "exports":
            first = told.setdefault((where(each), _why(each), each["change"]), name)
            if first == name:
                _failure(each, console)
            else:
                rows(console, [("", f"as {first}")])
    missing(result, console)


def _failure(each: JsonObject, console: Console) -> None:
    if "place" in each:
        rows(console, [("at", where(each))], style="dim")
        source(console, each["place"])
    pairs = [("why", _why(each))] if _why(each) else []
    pairs += [("issue", _issue(issue)) for issue in each.get("issues", ())]
    pairs.append(("change", each["change"]))
    pairs += [(label, each[label]) for label in ("suggestion", "link") if label in each]
    rows(console, pairs, style="dim")


def _why(each: JsonObject) -> str:
    said = each.get("difference") or each.get("explanation") or each.get("message", "")
    return f"on {each['inputs']}: {said}" if "inputs" in each else str(said)


def _facts(each: JsonObject) -> str:
    facts = [number_of(each["op_count"], "operation")] if "op_count" in each else []
    if each.get("compared"):
        facts.append(f"the same as eager on {number_of(each['compared'], 'input')}")
    return one_line(", ".join(facts))


def _issue(issue: JsonObject) -> str:
    about = ", ".join(str(issue[name]) for name in ("op", "expr", "reason") if name in issue)
    return f"{issue['kind']}: {about}" + (f" ({where(issue)})" if "place" in issue else "")
