"""Judges whether a candidate does what a baseline does, from bytes alone, in a process in which no user code ever runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .bundle import Bundle, BundleError, Piece
from .structure import walk
from .tolerance import Fit, Runs, fit, of_float, relative_error, typical_gap

_Json = dict[str, Any]
# Half of the digits: a reference further away than this does not compute the same thing.
_HALF = 0.5
_IDLE_NS = 1_000_000
# Of a reference that is further away: this many times what inputs an ulp away do is still rounding.
_TIMES_SHIFT = 10
_FORM = ("type", "dtype", "shape", "strides", "requires-grad")
_ROUNDED = {"values", "gradients", "state", "mutation", "fresh-parameters"}
_LIBRARIES = ("builtins.", "collections.", "torch.")


@dataclass
class _Seen:
    """One run of a plan.

    Attributes:
        bundle: What was observed.
        steps: By the number of the step in the plan.
    """

    bundle: Bundle
    steps: dict[int, _Json]

    def piece(self, step: int, what: str) -> Piece | None:
        name = self.steps.get(step, {}).get(what)
        return self.bundle.pieces.get(name) if isinstance(name, str) else None


@dataclass
class Case:
    """Everything that was observed.

    Attributes:
        plan: What was run.
        baseline: The baseline.
        again: The baseline once more, in another process.
        candidate: The candidate.
        reference: The baseline in float64; None where it could not be run.
        shifted: The baseline on inputs an ulp away.
        allow: Checks, or variants, whose differences are no fault here.
        readings: By variant, what the user's own metric says of baseline and candidate, in place of the rule for numbers.
        tolerance: How much the two may differ.
    """

    plan: Bundle
    baseline: _Seen
    again: _Seen | None
    candidate: _Seen
    reference: _Seen | None = None
    shifted: list[_Seen] = field(default_factory=list)
    allow: frozenset[str] = frozenset()
    readings: dict[str, list[float]] | None = None
    tolerance: float = 0.0


def judge(request: _Json) -> _Json:
    """Judge a candidate.

    Args:
        request: `files`: descriptors of bundles, with `roles` beside them: `plan`, `baseline`, `again`, `candidate`, `reference`,
            any number of `shifted`. `allow`: names of checks or variants. `readings` and `tolerance` of a metric.

    Returns:
        `checks`: a list of `check`, `variant`, `is_passed`, `detail`, and numbers; `is_settled`: whether runs of the baseline on
        inputs an ulp away could still change a check; `nondeterministic`: what the baseline does not do twice; `notes`;
        `refused` and `missing`; `parameters`; `scales`, which `judge_timed` takes.
    """
    return _Judgement(_case(request)).result()


def judge_timed(request: _Json) -> list[_Json]:
    """Judge what the two returned for the same timed call.

    Args:
        request: `files`: descriptors of the two bundles, baseline first, with their piece `output`; `scales` from `judge`; `variant`:
            what the call is called; `allow`.

    Returns:
        Checks.
    """
    pieces = []
    for each in request["files"]:
        try:
            pieces.append(Bundle(each).pieces["output"])
        except (BundleError, KeyError) as error:
            return [_check("comparable", request["variant"], False, f"what was returned cannot be read: {error}")]
    allow, scales = frozenset(request.get("allow", ())), request.get("scales", {})
    checks = []
    for name, detail, numbers in _compared(pieces[0], pieces[1], lambda path, runs: _timed_fit(path, runs, scales)):
        checks.append(_check(name, request["variant"], not detail or name in allow, detail or "the same", numbers))
    return checks


def _case(request: _Json) -> Case:
    roles: dict[str, list[Bundle]] = {}
    for role, descriptor in zip(request["roles"], request["files"], strict=True):
        roles.setdefault(role, []).append(Bundle(descriptor))
    seen = {
        role: [_Seen(each, {int(n): step for n, step in each.about["steps"].items()}) for each in bundles]
        for role, bundles in roles.items()
        if role != "plan"
    }
    return Case(
        plan=roles["plan"][0],
        baseline=seen["baseline"][0],
        again=seen["again"][0] if "again" in seen else None,
        candidate=seen["candidate"][0],
        reference=seen["reference"][0] if "reference" in seen else None,
        shifted=seen.get("shifted", []),
        allow=frozenset(request.get("allow", ())),
        readings=request.get("readings"),
        tolerance=float(request.get("tolerance") or 0.0),
    )


class _Judgement:
    def __init__(self, case: Case) -> None:
        self._case = case
        self._steps: list[_Json] = case.plan.about["steps"]
        self._checks: list[_Json] = []
        self._notes: list[_Json] = []
        self._is_settled = True
        self._known: dict[tuple[str, ...], list[tuple[str, str, _Json]]] = {}
        # Steps on the same inputs and state have the same reference.
        self._same: dict[tuple[str, str | None, str], int] = {}
        for number, step in enumerate(self._steps):
            self._same.setdefault(_key(step), number)
        parameters = case.candidate.bundle.about.get("parameters") or {}
        self._unmatched = set(parameters.get("unmatched") or ()) | set(parameters.get("moved") or ())
        self._distrusted = self._find_distrusted()

    def result(self) -> _Json:
        for number, step in enumerate(self._steps):
            self._judge_step(number, step)
        self._judge_process()
        self._checks = _in_a_row(self._checks, {step["name"] for step in self._steps if step["is_repeat"]})
        plan = self._case.plan.about
        return {
            "checks": self._checks,
            "is_settled": self._is_settled or any(_is_final(each) for each in self._checks),
            "nondeterministic": self._nondeterministic(),
            "notes": self._notes,
            "refused": plan["refused"],
            "missing": plan["missing"] + self._missing(),
            "parameters": self._case.candidate.bundle.about.get("parameters"),
            "scales": self._scales(),
        }

    def _judge_step(self, number: int, step: _Json) -> None:
        one, other = self._case.baseline.steps.get(number), self._case.candidate.steps.get(number)
        if one is None or other is None:
            return
        name = step["name"]
        if "raised" in one or "raised" in other:
            self._judge_raised(name, one.get("raised"), other.get("raised"))
            return
        values = "fresh-parameters" if step["group"] == "parameters" else "values"
        self._compare(number, name, "output", values)
        if "backward_raised" in one:
            self._note(name, f"the baseline's backward raises {one['backward_raised']['type']}")
        elif "backward_raised" in other:
            self._say("gradients", name, _raised_text(other["backward_raised"]))
        elif "gradients" in one or "gradients" in other:
            self._compare(number, name, "gradients", "gradients")
        if step["is_close"] and step["after"] != "overwrite inputs":
            self._judge_mutation(number, name)
            self._compare(number, name, "state_after", "state")
            self._say("generators", name, _generators_text(one["generators"], other["generators"]))
        self._say("aliasing", name, self._relations_text(number, one["relations"], other["relations"]))
        if other.get("is_unfinished") and not one.get("is_unfinished"):
            self._say("finished", name, "what it returned changed after it had returned")
        elif step["after"]:
            self._say("finished", name, "")
        if "modes" in other:
            self._say("global-state", name, other["modes"])

    def _judge_raised(self, name: str, one: _Json | None, other: _Json | None) -> None:
        if one is None and other is not None:
            self._say("raises", name, _raised_text(other))
        elif one is not None and other is None:
            text = f"the baseline raises {one['type']}: {one['message']}; the candidate returns"
            if one["is_deliberate"]:
                self._say("raises", name, text)
            else:
                self._note(name, text)
        elif one is not None and other is not None and one["is_deliberate"] and one["type"] != other["type"]:
            self._note(name, f"the baseline raises {one['type']}, the candidate {other['type']}")

    def _compare(self, number: int, variant: str, what: str, values: str) -> None:
        one, other = self._case.baseline.piece(number, what), self._case.candidate.piece(number, what)
        if one is None and other is None:
            return
        if one is None or other is None:
            missing = "the candidate" if other is None else "the baseline"
            self._say(values, variant, f"{missing} has no {what.replace('_', ' ')}")
            return
        if what in {"gradients", "state_after"} and self._unmatched:
            one, other = _common(one, other, self._unmatched)
        step = self._steps[number]
        differences = self._differences(number, what, one, other)
        if what == "output" and not any(detail for name, detail, _ in differences if name in _FORM):
            self._say("form", variant, "")
        for name, detail, numbers in differences:
            if name in _FORM and not detail:
                continue
            check = values if name == "values" else name
            if check == "strides" and step["group"] == "layout" and detail:
                self._note(variant, detail)
                continue
            if what != "output" and name in {"strides", "aliasing"}:
                continue
            if name == "values" and what == "output" and self._case.readings is not None:
                detail, numbers = self._metric(variant)
            self._say(check, variant, detail, numbers)

    def _differences(self, number: int, what: str, one: Piece, other: Piece) -> list[tuple[str, str, _Json]]:
        case = self._case
        key = (what, *(str(each.steps[number].get(what)) for each in (case.baseline, case.candidate)))
        if key not in self._known:
            self._known[key] = list(_compared(one, other, lambda path, runs: self._fit(number, what, path, runs)))
        return self._known[key]

    def _fit(self, number: int, what: str, path: str, runs: Runs) -> Fit:
        index = int(path.partition("#")[2])
        runs.reference = self._run_of(self._case.reference, number, what, index, runs.baseline)
        runs.shifted = [
            found
            for each in self._case.shifted
            if (found := self._run_of(each, number, what, index, runs.baseline)) is not None
        ]
        runs.is_trusted = (what, index) not in self._distrusted
        found = fit(runs)
        if not found.is_passed and not found.is_settled:
            self._is_settled = False
        return found

    def _run_of(
        self, seen: _Seen | None, number: int, what: str, index: int, like: torch.Tensor
    ) -> torch.Tensor | None:
        if seen is None:
            return None
        piece = seen.piece(number, what) or seen.piece(self._same[_key(self._steps[number])], what)
        if piece is None:
            return None
        leaves = [node for _, node in walk(piece.tree, "")]
        found = _number_at(piece, leaves[index], 0.0) if index < len(leaves) else None
        return found if found is not None and found.shape == like.shape else None

    def _find_distrusted(self) -> set[tuple[str, int]]:
        """Return the leaves at which the float64 run computes something else than the baseline, as other random numbers would."""
        coarsest = getattr(torch, self._case.plan.about["coarsest"], torch.float32)
        limit = torch.finfo(coarsest).eps ** _HALF
        found: set[tuple[str, int]] = set()
        for number, step in enumerate(self._steps):
            if step["group"] != "plain" or self._case.reference is None:
                continue
            for what in ("output", "gradients", "state_after", "inputs_after"):
                piece = self._case.baseline.piece(number, what)
                for index, (_, node) in enumerate(walk(piece.tree, "")) if piece is not None else ():
                    own = _number_at(piece, node, 0.0) if piece is not None else None
                    if own is None:
                        continue
                    wide = self._run_of(self._case.reference, number, what, index, own)
                    if wide is None or (
                        relative_error(own, wide) > limit and not self._is_fragile(number, what, index, own, wide)
                    ):
                        found.add((what, index))
        return found

    def _is_fragile(self, number: int, what: str, index: int, own: torch.Tensor, wide: torch.Tensor) -> bool:
        """Return whether inputs an ulp away move the baseline about as far as its float64 run is from it."""
        shifted = [
            found for each in self._case.shifted if (found := self._run_of(each, number, what, index, own)) is not None
        ]
        return bool(shifted) and typical_gap(own, wide) <= _TIMES_SHIFT * max(
            typical_gap(own, each) for each in shifted
        )

    def _judge_mutation(self, number: int, name: str) -> None:
        one, other = (
            self._case.baseline.piece(number, "inputs_after"),
            self._case.candidate.piece(number, "inputs_after"),
        )
        if one is None and other is None:
            self._say("mutation", name, "")
        elif one is None:
            self._say("mutation", name, "the candidate changes its inputs")
        elif other is None:
            self._say("mutation", name, "the baseline changes its inputs, the candidate does not")
        else:
            for check, detail, numbers in self._differences(number, "inputs_after", one, other):
                if check in {"values", "structure", "shape", "dtype"}:
                    self._say("mutation", name, detail, numbers)

    def _relations_text(self, number: int, one: list[Any], other: list[Any]) -> str:
        """Return how the memory that outputs share with other things differs between the arms."""
        ours, theirs = ({tuple(each) for each in relations} for relations in (one, other))
        texts = []
        for index, what, which in sorted(theirs - ours, key=str):
            where = f"the output of {self._steps[which]['name']}" if what == "earlier output" else f"{what} {which}"
            texts.append(f"tensor {index} of what it returns shares memory with {where}")
        for index, what, which in sorted(ours - theirs, key=str):
            if what != "earlier output":
                texts.append(f"tensor {index} of what it returns no longer shares memory with {what} {which}")
        return "; ".join(texts[:3])

    def _metric(self, variant: str) -> tuple[str, _Json]:
        readings = (self._case.readings or {}).get(variant)
        if readings is None:
            return "", {}
        one, other = readings
        numbers = {"baseline_metric": one, "candidate_metric": other}
        if abs(one - other) <= self._case.tolerance:
            return "", numbers
        return f"the metric is {one:.6g} and {other:.6g}, over {self._case.tolerance:.6g} apart", numbers

    def _judge_process(self) -> None:
        one, other = self._case.baseline.bundle.about, self._case.candidate.bundle.about
        changed = [self._steps[each]["name"] for each in other["end"]["changed_outputs"]]
        own = {self._steps[each]["name"] for each in one["end"]["changed_outputs"]}
        late = [each for each in changed if each not in own]
        self._say(
            "earlier-outputs", "all calls", f"what it returned changed later: {', '.join(late[:3])}" if late else ""
        )
        grown = other["end"]["threads"] - other["threads_at_start"]
        excess = grown - (one["end"]["threads"] - one["threads_at_start"])
        self._say("threads", "all calls", f"it starts {excess} threads more than the baseline" if excess > 0 else "")
        starts = other["end"]["has_children"] and not one["end"]["has_children"]
        self._say("processes", "all calls", "it starts processes" if starts else "")
        idle, idle_own = self._idle(self._case.candidate), self._idle(self._case.baseline)
        works = idle > _IDLE_NS and idle > 2 * idle_own
        text = f"after it returned, other threads of it work: {idle / 1e6:.2g} ms in 4 ms" if works else ""
        self._say("finished", "all calls", text)
        self._judge_global_state(one, other)

    def _idle(self, seen: _Seen) -> int:
        watched = [int(each["work_while_idle_ns"]) for each in seen.steps.values() if "work_while_idle_ns" in each]
        return max([int(seen.bundle.about["end"]["work_while_idle_ns"]), *watched])

    def _judge_global_state(self, one: _Json, other: _Json) -> None:
        ours, theirs = _flat(one["after"]), _flat(other["after"])
        changes = [
            f"{name} is {theirs.get(name)!r:.60}, and {ours.get(name)!r:.60} after the baseline"
            for name in sorted({*ours, *theirs})
            if ours.get(name) != theirs.get(name)
        ]
        self._say("global-state", "all calls", "; ".join(changes[:3]))
        known, found = one["replaced"], other["replaced"]
        # What stands in the baseline's own file runs in both arms; what only libraries replace in both is no difference.
        is_one_file = self._case.plan.about["file"] == self._case.candidate.bundle.about["file"]
        suspects = set(other["replaced_by_user"]) if is_one_file else set()
        names = sorted(name for name in found if name in suspects or found[name] != known.get(name))
        self._say("patched", "all calls", "; ".join(f"{name} is now {found[name]}" for name in names[:3]))

    def _nondeterministic(self) -> list[_Json]:
        """Return what two runs of the baseline on the same inputs and seeds do not agree about."""
        case, found = self._case, []
        if case.again is None or case.readings is not None:
            return []
        for number, step in enumerate(self._steps):
            if step["group"] != "plain":
                continue
            for what in ("output", "gradients"):
                one, other = case.baseline.piece(number, what), case.again.piece(number, what)
                if one is None or other is None or one == other:
                    continue
                for name, detail, _ in _compared(
                    one, other, lambda path, runs, n=number, w=what: self._fit(n, w, path, runs)
                ):
                    if detail and name != "strides":
                        found.append({"variant": step["name"], "check": name, "detail": detail})
        return found

    def _missing(self) -> list[_Json]:
        missing = []
        if self._case.reference is None:
            missing.append({"what": "float64 reference", "why": "the baseline could not be run in float64"})
        for number, step in enumerate(self._steps):
            wide = self._case.reference.steps.get(number) if self._case.reference is not None else None
            if wide is not None and "raised" in wide and step["is_distinct"]:
                why = f"the baseline raises {wide['raised']['type']} in float64: {wide['raised']['message']}"
                missing.append({"what": f"float64 reference of {step['name']}", "why": why})
        if self._distrusted:
            what = ", ".join(sorted({each for each, _ in self._distrusted}))
            missing.append(
                {"what": f"float64 reference of {what}", "why": "it differs from the baseline by more than rounding"}
            )
        parameters = self._case.candidate.bundle.about.get("parameters")
        if parameters is not None and parameters["unmatched"]:
            why = f"the candidate has no place for {', '.join(parameters['unmatched'][:3])}"
            missing.append({"what": "changed parameters", "why": why})
        return missing

    def _scales(self) -> _Json:
        """Return, for each leaf of the output, how large it is and how far the two were apart on plain inputs."""
        scales: dict[str, dict[str, float]] = {}
        for number, step in enumerate(self._steps):
            one, other = self._case.baseline.piece(number, "output"), self._case.candidate.piece(number, "output")
            if step["group"] != "plain" or one is None or other is None:
                continue
            try:
                pairs = list(_pairs(one, other))
            except (BundleError, _OtherStructureError):
                continue
            for _, index, runs in pairs:
                if runs is None or not runs.baseline.is_floating_point():
                    continue
                reference = self._run_of(self._case.reference, number, "output", index, runs.baseline)
                wide = runs.baseline.to(torch.float64)
                apart = [runs.candidate.to(torch.float64) - wide]
                if reference is not None and ("output", index) not in self._distrusted:
                    apart.append(reference.to(torch.float64) - wide)
                known = scales.setdefault(str(index), {"size": 0.0, "apart": 0.0})
                known["size"] = max(known["size"], _largest_finite(wide))
                known["apart"] = max(known["apart"], *(_largest_finite(each) for each in apart))
        return scales

    def _say(self, check: str, variant: str, problem: str, numbers: _Json | None = None) -> None:
        allow = self._case.allow
        is_allowed = check in allow or variant in allow
        if problem and is_allowed:
            self._note(variant, f"{check}: {problem}")
        self._checks.append(_check(check, variant, not problem or is_allowed, problem or "the same", numbers))

    def _note(self, variant: str, text: str) -> None:
        note = {"variant": variant, "text": text}
        if note not in self._notes:
            self._notes.append(note)


def _check(name: str, variant: str, is_passed: bool, detail: str, numbers: _Json | None = None) -> _Json:  # noqa: FBT001 - plain record
    return {
        "check": name,
        "variant": variant,
        "is_passed": is_passed,
        "detail": detail,
        **({"numbers": numbers} if numbers else {}),
    }


def _is_final(check: _Json) -> bool:
    """Return whether a check failed that has nothing to do with rounding."""
    return not check["is_passed"] and check["check"] not in _ROUNDED


def _common(one: Piece, other: Piece, unmatched: set[str]) -> tuple[Piece, Piece]:
    """Return two pieces without what belongs to parameters of which the candidate has no counterpart."""
    return tuple(  # type: ignore[return-value]  # two in, two out
        Piece(_without(each.tree, unmatched), each.tensors, each.storages, each.blocks) for each in (one, other)
    )


def _without(node: _Json, names: set[str]) -> _Json:
    if node["kind"] != "dict":
        return node
    kept = [(key, _without(each, names)) for key, each in zip(node["keys"], node["items"], strict=True) if key not in names]
    return {**node, "keys": [key for key, _ in kept], "items": [each for _, each in kept]}


def _in_a_row(checks: list[_Json], repeats: set[str]) -> list[_Json]:
    """Return the checks with those of calls in a row taken together: the first that failed stands for all of them."""
    kept, rows = [], dict[str, list[_Json]]()
    for each in checks:
        if each["variant"] in repeats:
            rows.setdefault(each["check"], []).append(each)
        else:
            kept.append(each)
    for name, row in rows.items():
        failed = [each for each in row if not each["is_passed"]]
        if failed:
            kept.append({**failed[0], "failed_calls": len(failed), "calls": len(row)})
        else:
            kept.append({**_check(name, f"{len(row)} calls in a row", True, "the same"), "calls": len(row)})
    return kept


def _key(step: _Json) -> tuple[str, str | None, str]:
    return step["input"], step["state"], step["mode"]


def _compared(one: Piece, other: Piece, judge_numbers: Callable[[str, Runs], Fit]) -> Iterator[tuple[str, str, _Json]]:
    """Yield each check of two nests: its name, what is wrong (nothing where it passes), and numbers."""
    wrong: dict[str, list[str]] = {}
    try:
        pairs = list(_pairs(one, other))
    except BundleError as error:
        yield "comparable", str(error), {}
        return
    except _OtherStructureError as error:
        yield "structure", str(error), {}
        return
    numbers: _Json = {}
    for path, index, runs in pairs:
        left, right = _leaf(one, index), _leaf(other, index)
        for name, detail in _leaf_differences(left, right):
            wrong.setdefault(name, []).append(f"{path} {detail}")
        if runs is None:
            continue
        found = judge_numbers(f"{path}#{index}", runs)
        if not found.is_passed:
            wrong.setdefault("values", []).append(f"{path}: {found.detail}")
        if found.numbers and (not found.is_passed or not numbers):
            numbers = found.numbers
    shared = _sharing(one), _sharing(other)
    if shared[0] != shared[1]:
        wrong.setdefault("aliasing", []).append("the returned tensors share memory among themselves in another way")
    for name in ("structure", "comparable", "type", "dtype", "shape", "strides", "requires-grad", "values", "aliasing"):
        if name in wrong or name in {"type", "dtype", "shape", "strides", "requires-grad", "values"}:
            yield name, "; ".join(wrong.get(name, [])[:3]), numbers if name == "values" else {}


class _OtherStructureError(Exception):
    """Two nests are not of one shape."""


def _pairs(one: Piece, other: Piece) -> Iterator[tuple[str, int, Runs | None]]:
    """Yield for each leaf its place, its number, and the two tensors where their numbers can be compared."""
    text = _tree_text(one.tree, other.tree, "output")
    if text:
        raise _OtherStructureError(text)
    left, right = one.views(), other.views()
    for index, ((path, node), (_, mirror)) in enumerate(
        zip(walk(one.tree, "output"), walk(other.tree, "output"), strict=True)
    ):
        if node["kind"] == "tensor":
            mine, theirs = left[node["tensor"]], right[mirror["tensor"]]
            comparable = (
                mine is not None and theirs is not None and mine.shape == theirs.shape and mine.dtype == theirs.dtype
            )
            yield path, index, Runs(mine, theirs) if comparable and mine is not None and theirs is not None else None
        elif node["kind"] == "scalar" and node["type"] == mirror["type"] == "builtins.float":
            like = float.fromhex(node["value"])
            yield path, index, Runs(of_float(like, like), of_float(float.fromhex(mirror["value"]), like))
        else:
            yield path, index, None


def _tree_text(one: _Json, other: _Json, path: str) -> str:
    """Return how two descriptions differ as containers; nothing where they do not."""
    if one["kind"] != other["kind"]:
        return f"{path} is a {_type_text(one)} and became a {_type_text(other)}"
    if "items" not in one:
        return ""
    if _short(one["type"]) != _short(other["type"]):
        return f"{path} is a {one['type']} and became a {other['type']}"
    if len(one["items"]) != len(other["items"]) or one.get("keys") != other.get("keys"):
        return f"{path} has other parts: {one.get('keys', len(one['items']))} became {other.get('keys', len(other['items']))}"
    keys = one.get("keys") or range(len(one["items"]))
    for key, left, right in zip(keys, one["items"], other["items"], strict=True):
        text = _tree_text(left, right, f"{path}[{key!r}]")
        if text:
            return text
    return ""


def _type_text(node: _Json) -> str:
    return str(node.get("type", "tensor"))


def _short(name: str) -> str:
    """Return the name of a class without its module, where that is the user's: the arms may define it each for itself."""
    return name if name.startswith(_LIBRARIES) else name.rpartition(".")[2]


def _leaf(piece: Piece, index: int) -> _Json:
    leaves = [node for _, node in walk(piece.tree, "")]
    node: _Json = leaves[index]
    return piece.tensors[node["tensor"]] if node["kind"] == "tensor" else node


def _leaf_differences(one: _Json, other: _Json) -> Iterator[tuple[str, str]]:
    if "kind" in one:
        yield from _scalar_differences(one, other)
        return
    for name, keys in (
        ("type", ("type", "layout", "device")),
        ("dtype", ("dtype",)),
        ("shape", ("shape",)),
        ("requires-grad", ("requires_grad",)),
    ):
        for key in keys:
            if one.get(key) != other.get(key):
                yield name, f"has {key} {one.get(key)} and got {other.get(key)}"
    for record in (one, other):
        if "problem" in record:
            yield "comparable", f"cannot be compared: {record['problem']}"
            return
    if one["shape"] == other["shape"] and _strides(one) != _strides(other):
        yield "strides", f"has strides {one['stride']} and got {other['stride']}"
    if (one["is_conj"], one["is_neg"]) != (other["is_conj"], other["is_neg"]):
        yield "strides", "is conjugated or negated only when it is read"


def _strides(record: _Json) -> list[int]:
    """Return the strides that mean something: those of dimensions with more than one element."""
    if 0 in record["shape"]:
        return []
    return [step for step, size in zip(record["stride"], record["shape"], strict=True) if size > 1]


def _scalar_differences(one: _Json, other: _Json) -> Iterator[tuple[str, str]]:
    if one["kind"] == "opaque":
        if one["type"] == other["type"]:
            yield "comparable", f"is a {one['type']}, which cannot be compared"
        else:
            yield "type", f"is a {one['type']} and became a {other['type']}"
    elif one["type"] != other["type"]:
        yield "type", f"is a {one['type']} and became a {other['type']}"
    elif one["type"] != "builtins.float" and one["value"] != other["value"]:
        yield "values", f"is {one['value']!r:.60} and became {other['value']!r:.60}"


def _sharing(piece: Piece) -> list[int]:
    """Return for each tensor leaf the first one that it shares memory with."""
    first: dict[int, int] = {}
    shared = []
    for number, (_, node) in enumerate(walk(piece.tree, "")):
        record = piece.tensors[node["tensor"]] if node["kind"] == "tensor" else {"shape": [0]}
        is_empty = "storage" not in record or 0 in record["shape"]
        shared.append(number if is_empty else first.setdefault(record["storage"], number))
    return shared


def _number_at(piece: Piece, node: _Json, like: float) -> torch.Tensor | None:
    if node["kind"] == "tensor":
        return piece.views()[node["tensor"]]
    if node["kind"] == "scalar" and node["type"] == "builtins.float":
        return of_float(float.fromhex(node["value"]), like)
    return None


def _timed_fit(path: str, runs: Runs, scales: dict[str, dict[str, float]]) -> Fit:
    """Judge two timed outputs by how far the arms were apart on plain inputs: there is no float64 run of each timed call."""
    scale = scales.get(path.partition("#")[2])
    if scale is None or not runs.baseline.is_floating_point():
        return fit(runs)
    size = torch.full_like(runs.baseline, scale["apart"], dtype=torch.float64)
    room = [runs.baseline.to(torch.float64) + size, runs.baseline.to(torch.float64) - size]
    return fit(Runs(runs.baseline, runs.candidate, None, room))


def _largest_finite(tensor: torch.Tensor) -> float:
    finite = tensor[torch.isfinite(tensor)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _raised_text(raised: _Json) -> str:
    where = f" at {raised['file']}:{raised['line']}" if raised.get("file") else ""
    return f"the candidate raises {raised['type']}: {raised['message']}{where}"


def _generators_text(one: dict[str, str], other: dict[str, str]) -> str:
    names = [name for name in one if one[name] != other.get(name)]
    return f"it leaves the random generator of {', '.join(names)} in another state" if names else ""


def _flat(state: Any, path: str = "") -> dict[str, Any]:
    """Return a nest of JSON as one level, with paths as names."""
    if isinstance(state, dict) and state:
        return {
            name: each for key, part in state.items() for name, each in _flat(part, f"{path}.{key}".lstrip(".")).items()
        }
    return {path: state}
