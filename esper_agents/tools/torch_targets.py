"""Find measurable targets of the project: named by the user, or runnable without arguments."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING

from esper_agents.domain.evidence import Risk
from esper_agents.domain.request import Wish
from esper_agents.errors import EvidenceError
from esper_agents.review.discover import discover
from esper_agents.review.fact_query import InspectionSubject
from esper_agents.review.inspection import inspect
from esper_agents.review.source import ReviewSource, read
from esper_agents.tools.module_imports import imported_names
from esper_agents.tools.runnable_targets import Runnable, base_names, find_runnables, module_classes, relevance
from esper_agents.tools.tool import ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from esper_agents.domain.codec import JsonObject
    from esper_agents.review.discover import DiscoveredFile

_MOST = 40
# Base classes of base classes, and the files that define or export them.
_MOST_BASE_ROUNDS, _MOST_BASE_FILES = 6, 60


def _rerun(arguments: JsonObject) -> str:
    # It has no equivalent command; this one lists the definitions that it reads.
    paths = " ".join(quote(str(each)) for each in arguments["paths"])
    return rf"grep -rnE --include='*.py' '^(class|def) ' -- {paths}"


@tool("torch-targets", risk=Risk.LOW, repeatable=True, rerun=_rerun)
async def torch_targets(
    context: ToolContext,
    paths: list[str],
    named: list[str] | None = None,
    inputs: list[str] | None = None,
    about: list[str] | None = None,
    *,
    alternatives: bool = False,
    symbols: list[str] | None = None,
) -> ToolResult:
    """Find functions, modules and training steps that the torch tools can run, without running code.

    Args:
        context: The project.
        paths: Files or folders to search, relative to the project.
        named: Targets named by the user: `FILE.py:NAME`, or the bare name of a definition in the paths.
        inputs: Available inputs, such as `randn(32,128)`.
        about: Words of the request, and what it names as `FILE.py` and `FILE.py:NAME`; relevant targets come first.
        alternatives: Also find pairs of definitions that do the same, such as `attn` and `fast_attn`.
        symbols: Definitions in question, as `FILE.py:NAME`, which make a pair whatever their names.
    """
    found = await asyncio.to_thread(
        _look, context, paths, named or [], None if not inputs else len(inputs), about or []
    )
    if not alternatives:
        return found
    pairs = await asyncio.to_thread(_pairs, context, paths, tuple(symbols or ()))
    return replace(found, output={**found.output, "alternatives": pairs})


def _pairs(context: ToolContext, paths: list[str], symbols: tuple[str, ...]) -> list[list[str]]:
    """Return the pairs of definitions that do the same, the existing one first."""
    subject = InspectionSubject(("alternatives",), Wish.COMPARE, symbols)
    facts = inspect(context.root, [context.inside(path) for path in paths], subject).results[0].facts
    return [list(fact.definitions) for fact in facts if len(fact.definitions) > 1]


def _look(context: ToolContext, paths: list[str], named: list[str], inputs: int | None, about: list[str]) -> ToolResult:
    candidates = {each.path: each for each in discover(context.root, [context.inside(path) for path in paths])}
    asked = [_resolved(context, each, candidates) for each in named]
    for path in {path for path, _, _ in asked if path} - candidates.keys():
        candidates |= {each.path: each for each in discover(context.root, [context.inside(path)])}
    found: list[Runnable] = []
    examined = []
    sources = {path: source for path in sorted(candidates) if (source := _source(candidates[path], path)) is not None}
    texts = {path: source.text for path, source in sources.items()}
    modules = module_classes([*texts.values(), *_base_sources(context, texts)])
    for path, source in sources.items():
        try:
            found += find_runnables(source.text, path, inputs=inputs, modules=modules)
        except (SyntaxError, ValueError, RecursionError):
            continue
        examined.append(source.record)
    people = [_named(path, name, said, found) for path, name, said in asked]
    ranks = relevance(found, about) if about else {}
    found.sort(key=lambda each: -ranks.get(each.target, 0.0))
    found = [each for each in found if each.computes]
    ready = [each for each in found if not each.needs]
    output = {
        "named": people,
        "runnable": [_described(each, ready, ranks) for each in ready[:_MOST]],
        "missing": [_described(each, ready, ranks) for each in found if each.needs][:_MOST],
        "files": len(examined),
    }
    return ToolResult(_summary(ready, people), output, examined=tuple(examined))


def _base_sources(context: ToolContext, texts: Mapping[str, str]) -> list[str]:
    """Return the sources of other files of the project from which base classes are imported."""
    found: list[str] = []
    read_paths, recent = set(texts), dict(texts)
    for _ in range(_MOST_BASE_ROUNDS):
        paths = [path for each, text in recent.items() for path in _base_paths(text, each)]
        recent = {}
        for path in dict.fromkeys(paths):
            if path in read_paths or len(found) >= _MOST_BASE_FILES or not _is_file(context, path):
                continue
            read_paths.add(path)
            source = read(context.inside(path), path)
            if isinstance(source, ReviewSource):
                recent[path] = source.text
                found.append(source.text)
    return found


def _base_paths(text: str, path: str) -> Iterator[str]:
    """Yield the files that may define the imported base classes of a file, or pass them on."""
    is_package = path.endswith("__init__.py")
    wanted = set(base_names(text))
    for name in imported_names(text, path):
        module, _, last = name.rpartition(".")
        if module and (last in wanted or is_package):
            place = module.replace(".", "/")
            yield from (f"{place}.py", f"{place}/__init__.py", f"src/{place}.py", f"src/{place}/__init__.py")


def _source(file: DiscoveredFile, path: str) -> ReviewSource | None:
    source = read(file.file, path)
    return source if isinstance(source, ReviewSource) else None


def _resolved(context: ToolContext, said: str, candidates: dict[str, DiscoveredFile]) -> tuple[str, str, str]:
    """Return the file and the name of a user's target, with its original text; no file for a bare name."""
    where, colon, name = said.rpartition(":")
    if not colon:
        return "", said, said
    tried = [where] if where.endswith(".py") else [f"{where.replace('.', '/')}.py", f"src/{where.replace('.', '/')}.py"]
    near = [path for path in candidates for each in tried if path.endswith(f"/{each}")]
    for path in (*tried, *(near if len(near) == 1 else ())):
        if _is_file(context, path):
            return path, name, said
    raise EvidenceError(f"there is no file {where!r} in the project", remedy="name it as FILE.py:NAME, from its root")


def _is_file(context: ToolContext, path: str) -> bool:
    try:
        inside: Path = context.inside(path)
    except EvidenceError:
        return False
    return inside.is_file()


def _named(path: str, name: str, said: str, found: Sequence[Runnable]) -> JsonObject:
    """Return the named targets, with the known facts; a bare name may match definitions in several files."""
    first = name.split(".", maxsplit=1)[0]
    same = [each for each in found if each.name == first and path in {"", each.path}]
    exact = [each for each in same if each.name == name]
    targets = [f"{path}:{name}"] if path else sorted({f"{each.path}:{name}" for each in same})
    return {
        "said": said,
        "targets": targets,
        "kind": str(exact[0].kind) if len(exact) == 1 else "",
        "line": exact[0].line if len(exact) == 1 else 0,
        "needs": list(exact[0].needs) if len(exact) == 1 else [],
    }


def _described(each: Runnable, ready: Sequence[Runnable], ranks: Mapping[str, float]) -> JsonObject:
    return {
        "target": each.target,
        "line": each.line,
        "kind": str(each.kind),
        "needs": list(each.needs),
        "uses": sorted(other.target for other in ready if other.name in each.uses and other.target != each.target),
        **({"relevance": f"{ranks[each.target]:.3g}"} if ranks else {}),
    }


def _summary(ready: Sequence[Runnable], people: Sequence[JsonObject]) -> str:
    if named := [target for each in people for target in each["targets"]]:
        return f"named: {', '.join(named)}"
    if not ready:
        return "no target runs without arguments"
    shown = ", ".join(each.target for each in ready[:3])
    return f"{len(ready)} can be run: {shown}" + (f" and {len(ready) - 3} more" if len(ready) > 3 else "")  # noqa: PLR2004
