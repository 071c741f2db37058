"""Run the definitions that a change edits before and after it, and compare what both versions do."""

from __future__ import annotations

import ast
import time
from dataclasses import replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from esper_agents.domain.codec import plain
from esper_agents.domain.evidence import Risk
from esper_agents.domain.finding import Severity
from esper_agents.domain.pluralize import number_of
from esper_agents.review.changed_definitions import changed_definitions
from esper_agents.review.diff import renamed
from esper_agents.review.leniency import purpose_of
from esper_agents.review.tables import Purpose
from esper_agents.tools import measurement_comparison
from esper_agents.tools.change_tests import changed_files
from esper_agents.tools.changed_lines import changed_lines
from esper_agents.tools.measurement_tools import diagnostic_of, measure, outlined
from esper_agents.tools.tool import ToolContext, ToolResult, tool
from esper_agents.torchlab.measurement import MeasuredClaim
from esper_agents.torchlab.measurement_codes import VERSIONS_DIFFER
from esper_agents.torchlab.report import now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.domain.codec import JsonObject
    from esper_agents.review.changed_definitions import ChangedDefinition
    from esper_agents.tools.change_tests import ChangedFile
    from esper_agents.torchlab.compare.versions import VersionComparison, VersionPair
    from esper_agents.torchlab.lab import Lab
    from esper_agents.torchlab.report import MeasurementReport

_MOST_PAIRS, _SECONDS = 8, 20
# Terms of an optimizer that its defaults often leave out.
_FURTHER = (("weight_decay", "0.01"),)
_SEEN_BY = "a run of both versions"


def _rerun(arguments: JsonObject) -> str:
    paths = " ".join(quote(str(each)) for each in arguments["paths"])
    return f"esper submit 'is this refactor harmless?' {paths} --diff={quote(str(arguments['since']))}"


@tool("torch-versions", risk=Risk.LOW, repeatable=True, rerun=_rerun, comparing=measurement_comparison.measured)
async def torch_versions(
    context: ToolContext, paths: list[str], since: str, *, claims_same: bool = False, seconds: int = _SECONDS
) -> ToolResult:
    """Run the functions, methods and modules that a change edits before and after it, and compare what they do.

    Both versions run in the sandbox on the same inputs, parameters and seeds. The program chooses the inputs: that the
    versions do the same on them is evidence, and no proof. Nothing is timed.

    Args:
        context: The project.
        paths: Changed files, relative to the project.
        since: A revision, compared with the work tree, or `A..B`, whose new side is in the work tree.
        claims_same: Whether the change is said to keep the behaviour, so that a difference is a fault.
        seconds: Time limit of all comparisons.
    """
    from esper_agents.git.revisions import checkout
    from esper_agents.torchlab.compare.versions import VersionRuns

    changed = [each for each in changed_files(context, since, paths) if purpose_of(each.path) is not Purpose.TEST]
    named = list(_named(changed))
    if not named:
        return ToolResult("no function, method or module was edited that both versions have", {"comparisons": []})
    done: list[VersionComparison] = []
    with TemporaryDirectory(prefix="esper-base-", ignore_cleanup_errors=True) as folder:
        base = checkout(context.root.resolve(), since.partition("..")[0], Path(folder) / "project").root
        scratch = Path(folder).resolve() / "harnesses"
        scratch.mkdir()

        def work(lab: Lab) -> MeasurementReport:
            started = now(), time.monotonic_ns()
            done.extend(VersionRuns(lab, base, scratch, seconds).compare([pair for _, _, pair in named[:_MOST_PAIRS]]))
            result = {"comparisons": [plain(each) for each in done]}
            request = {"since": since, "claims_same": claims_same, "seconds": seconds}
            return lab.report("versions", {"name": ", ".join(paths)}, request, result, started=started)

        found = await measure(context, [f"{each.path}:" for each in changed if each.after], work, roots=(base, scratch))
    ran = [each for each in done if each.inputs]
    output = outlined(
        found.report,
        witnesses=(_SEEN_BY,),
        only=(),
        comparisons=[
            {**plain(each), "said": str(each), "lines": _settled(known)}
            for (_, known, _), each in zip(named, done, strict=False)
        ],
        edited=len(named),
        since=since,
        **({"synthetic": True} if any(each.is_synthetic for each in ran) else {}),
    )
    claims = [
        _claim((file, known), each, since, claims_same=claims_same)
        for (file, known, _), each in zip(named, done, strict=False)
    ]
    diagnostics = [diagnostic_of(context, claim) for claim in claims if claim is not None]
    return ToolResult(
        _summary(done, len(named)), output, tuple(filter(None, diagnostics)), found.examined, found.artifacts
    )


def _named(changed: Sequence[ChangedFile]) -> Iterator[tuple[ChangedFile, ChangedDefinition, VersionPair]]:
    """Yield the definitions that both versions have, with how to run them."""
    from esper_agents.torchlab.compare.versions import VersionPair

    before = {each.path: each.before for each in changed if each.before}
    after = {each.path: each.after for each in changed if each.after}
    old_names = renamed(before, after)
    for file in changed:
        was = old_names.get(file.path, file.path)
        if file.after is None or not before.get(was):
            continue
        try:
            definitions = changed_definitions(before[was], file.after)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        makes = _optional_arguments(file.after)
        whole = {each.holder for each in definitions if each.is_run_by_object}
        known: set[str] = set()
        for each in definitions:
            # The object runs these; one comparison serves all of them.
            name, name_before = (
                (each.holder, each.holder_before) if each.is_run_by_object else (each.after, each.before)
            )
            if each.is_of_optimizer:
                name, name_before = f"{each.holder}.step", f"{each.holder_before}.step"
            if name in known:
                continue
            known.add(name)
            fallback = None
            if each.holder and name != each.holder and each.holder not in whole and not each.is_of_optimizer:
                fallback = f"{was}:{each.holder_before}", f"{file.path}:{each.holder}"
            targets = f"{was}:{name_before}", f"{file.path}:{name}"
            optional = makes.get(each.holder, ()) if each.is_of_optimizer else None
            old_lines = _edited(file.after, before[was], each.body_before)
            new_lines = _edited(before[was], file.after, each.body)
            yield file, each, VersionPair(*targets, old_lines, new_lines, fallback, optional)


def _settled(edited: ChangedDefinition) -> list[int]:
    """Return the lines whose edits a comparison can settle; none of a constructor.

    Both versions are given the same parameters, so what a constructor puts into them is not compared.
    """
    return [] if edited.after.endswith("__init__") else [edited.line, edited.last_line]


def _optional_arguments(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return arguments with which the constructor of each class of a source makes more of its code run."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            names = {name.arg for each in made for name in (*each.args.args, *each.args.kwonlyargs)}
            found[node.name] = tuple(each for each in _FURTHER if each[0] in names)
    return found


def _edited(other: str, own: str, body: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Return the lines of the body of a definition that differ from the other version; the body if only others do."""
    first, last = body
    statements = {line for block in changed_lines(other, own).blocks for line in block.statements}
    return tuple((line, line) for line in sorted(statements) if first <= line <= last) or (body,)


def _claim(
    edited: tuple[ChangedFile, ChangedDefinition], compared: VersionComparison, since: str, *, claims_same: bool
) -> MeasuredClaim | None:
    """Return the diagnostic of a difference, at the first edited line of its definition; None without one."""
    from esper_agents.torchlab.compare.versions import VersionOutcome

    if compared.outcome not in {VersionOutcome.DIFFERENT, VersionOutcome.EXTREME}:
        return None
    file, known = edited
    line = known.line
    if file.lines is not None:
        inside = [each.line for each in file.lines.blocks if known.line <= each.line <= known.last_line]
        line = min(inside, default=line)
    remedy = f"{VERSIONS_DIFFER.remedy} To see it: {_rerun({'paths': [file.path], 'since': since})}"
    severity = Severity.SUGGESTION
    if compared.outcome is VersionOutcome.DIFFERENT:
        severity = Severity.CRITICAL if claims_same else Severity.WARNING
    rule = replace(VERSIONS_DIFFER, severity=severity)
    inputs = f" (arguments: {compared.arguments})" if compared.arguments else ""
    message = f"{compared}{inputs}"
    return MeasuredClaim(rule, file.path, line, message, remedy, (_SEEN_BY,))


def _summary(done: Sequence[VersionComparison], named: int) -> str:
    """Return the results in one line: differences first."""
    from esper_agents.torchlab.compare.versions import VersionOutcome

    ran = [each for each in done if each.outcome is not VersionOutcome.NOT_COMPARED]
    different = [each for each in ran if each.outcome in {VersionOutcome.DIFFERENT, VersionOutcome.EXTREME}]
    same = [each for each in ran if each not in different]
    parts = [str(each) for each in different]
    if same:
        names = ", ".join(f"`{each.target.rpartition(':')[2]}`" for each in same)
        rounding = " up to rounding" if any(each.outcome is VersionOutcome.CLOSE for each in same) else ""
        kinds = min(each.inputs for each in same)
        made_up = "synthetic " if all(each.is_synthetic for each in same) else ""
        parts.append(
            f"{names} {'does' if len(same) == 1 else 'do'} the same{rounding} before and after the change "
            f"on {number_of(kinds, f'kind of {made_up}input', f'kinds of {made_up}input')}"
            f"{' or more' if len({each.inputs for each in same}) > 1 else ''}"
        )
    missing = named - len(ran)
    if missing:
        parts.append(f"{number_of(missing, 'edited definition')} not compared by running")
    return "; ".join(parts)
