"""Parse measurement options from the words of a request."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from esper_agents.certificates.policy.question_type import speed_up_asked

_TARGET = re.compile(r"(?<![\w./-])(?:[\w./-]+\.py|[A-Za-z_]\w*(?:\.\w+)+):[A-Za-z_]\w*(?:\.\w+)*")
_QUOTED = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`")
# An identifier that cannot be an ordinary word: with an inner underscore or capital letter.
_BARE = re.compile(r"(?<![\w./`-])(?:[A-Za-z]\w*_\w+|[A-Z]+[a-z0-9]+[A-Z]\w*)(?![\w./(`-])")
_MAKER = re.compile(
    r"(?:\b[A-Za-z_]\w*\s?=\s?)?\b(?:torch\.)?"
    r"(?:arange|bernoulli|empty|eye|full|linspace|ones|rand|randint|randn|randperm|tensor|zeros)\("
)
# In a list of inputs, constants are arguments, too: `on inputs randn(8, 4), 3, eps=1e-6`.
_LISTED = re.compile(r"\binputs?:? (?=[\w.]+\s?[=(])")
_CONSTANT = re.compile(
    r"\s*,\s*((?:[A-Za-z_]\w*\s?=\s?)?(?:-?\d+(?:\.\d+)?(?:e-?\d+)?|True|False|None))(?=\s*(?:[,?.;]|$))"
)
_INPUTS_FROM = re.compile(
    r"(?:--inputs|inputs? (?:from|by|of|come from|comes from))[ =]`?((?:[\w./-]+\.py|[\w.]+):[\w.]+)`?"
)
_BASE = re.compile(
    r"(?:--base[ =]|\b(?:since|against|versus|vs\.?|than|to|at|from|with|commit|revision)\s+(?:commit\s+|revision\s+)?)"
    r"(HEAD(?:[~^]\d*)*|[0-9a-f]{7,40}|v\d+(?:\.\d+)+)(?![\w.])"
)
_FLAG = re.compile(r"(?:--flag[ =]|(?:feature )?flag )`?([A-Za-z_][\w.-]*)`?")
_RATIO = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?[x\u00d7](?![\w\u00d7])")
_LESS = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?%\s+(?:lower latency|less latency|less time)\b", re.IGNORECASE)
_MORE = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s?%\s+(?:faster|quicker|more throughput|higher throughput)\b", re.IGNORECASE
)
_SLOWER = re.compile(r"\b(?:slower|slow(?:ed|s)? down|regress(?:ed|ion|es)?)\b", re.IGNORECASE)
_FILE = re.compile(r"\S*(?:/|\.py)\S*")
_TRAINS = re.compile(r"\b(?:train(?:s|ing)?|backward|gradients?|optimi[sz]er|epochs?)\b", re.IGNORECASE)
_EXPORTS = re.compile(r"\b(?:export(?:s|ed|ing)?|onnx|executorch|aotinductor)\b", re.IGNORECASE)
_CANDIDATE_FIRST = re.compile(r"\b(?:faster|quicker|slower|better|instead of|replaces?)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MeasurementRequest:
    """Measurement options of a request.

    Attributes:
        named: Named targets, `FILE.py:NAME` or a bare name, in the order of the words.
        inputs: Inputs such as `randn(32,128)`, in order.
        inputs_from: `FILE:FUNCTION` that creates the inputs; empty if none is named.
        base: Revision to compare with, or empty.
        claim: Claimed speed-up as a decimal number; empty if there is none.
        flag: Feature flag that disables the candidate, or empty.
        speed_up: Words that ask for or claim a speed-up, or empty.
        slower: Whether the request asks about a slowdown.
        throughput: Whether the request is about throughput.
        train: Whether the request is about training.
        export: Whether the request is about export.
        candidate_first: Whether the first of two named targets is the candidate.
    """

    named: tuple[str, ...]
    inputs: tuple[str, ...]
    inputs_from: str
    base: str
    claim: str
    flag: str
    speed_up: str
    slower: bool
    throughput: bool
    train: bool
    export: bool
    candidate_first: bool


def measurement_options(request: str) -> MeasurementRequest:
    """Parse a request. Total: missing options are empty."""
    source = _INPUTS_FROM.search(request)
    inputs_from = source.group(1) if source else ""
    inputs = tuple(_inputs(request))
    left = request
    for each in (*inputs, inputs_from):
        left = left.replace(each, " ") if each else left
    base, flag = _BASE.search(left), _FLAG.search(left)
    left = left.replace(flag.group(), " ") if flag else left
    named = _names(left)
    return MeasurementRequest(
        named=named,
        inputs=inputs,
        inputs_from=inputs_from,
        base=base.group(1) if base else "",
        claim=_claim(left),
        flag=flag.group(1) if flag else "",
        speed_up=speed_up_asked(request),
        slower=_SLOWER.search(left) is not None,
        throughput="throughput" in left.casefold(),
        train=_TRAINS.search(_FILE.sub(" ", left)) is not None,
        export=_EXPORTS.search(_FILE.sub(" ", left)) is not None,
        candidate_first=len(named) > 1 and _is_candidate_first(left, named),
    )


def _names(text: str) -> tuple[str, ...]:
    """Return full targets if there are any, else names in backticks, else names that cannot be ordinary words."""
    for pattern in (_TARGET, _QUOTED, _BARE):
        if found := [(each.group(1) if pattern.groups else each.group()) for each in pattern.finditer(text)]:
            return tuple(dict.fromkeys(each.rstrip(".") for each in found))
    return ()


def _inputs(text: str) -> list[str]:
    """Return the calls that create tensors, each up to its closing bracket, and constants in a list of inputs."""
    found, begin = [], 0
    listed = _LISTED.search(text)
    while match := _MAKER.search(text, begin):
        end = _closing(text, match.end())
        begin = max(end, match.end())
        call = text[match.start() : end]
        try:
            ast.parse(f"_({call})", mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        found.append(call)
        while listed and listed.end() <= begin and (constant := _CONSTANT.match(text, begin)):
            found.append(constant.group(1))
            begin = constant.end()
    return found


def _closing(text: str, begin: int) -> int:
    depth = 1
    for position in range(begin, len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[position], 0)
        if not depth:
            return position + 1
    return begin


def _claim(text: str) -> str:
    """Return the claimed minimum speed-up as the ratio of baseline to candidate."""
    if found := _RATIO.search(text):
        return found.group(1)
    if (found := _LESS.search(text)) and float(found.group(1)) < 100:  # noqa: PLR2004 - per cent
        return f"{1 / (1 - float(found.group(1)) / 100):.6g}"
    if found := _MORE.search(text):
        return f"{1 + float(found.group(1)) / 100:.6g}"
    return ""


def _is_candidate_first(text: str, named: tuple[str, ...]) -> bool:
    """Return whether a comparing word stands between the first two names: `is NEW faster than OLD`."""
    # The one may begin with the other: `mean_fast`, `mean`.
    first, second = (re.search(rf"{re.escape(name)}(?![\w.]*\w)", text) for name in named[:2])
    between = text[first.end() : second.start()] if first and second else ""
    return _CANDIDATE_FIRST.search(between) is not None
