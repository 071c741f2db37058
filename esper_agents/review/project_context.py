"""Review files together with the rest of their project, and report only them."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING

from esper_agents.domain.codec import carried
from esper_agents.errors import InputFileError
from esper_agents.review.catalogue import catalogue, select
from esper_agents.review.discover import discover
from esper_agents.review.engine import refuse_if_pointless, review
from esper_agents.review.parts import size_of
from esper_agents.review.source import read

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path
    from types import ModuleType

    from esper_agents.domain.finding import Category
    from esper_agents.review.cache import Cache
    from esper_agents.review.discover import DiscoveredFile
    from esper_agents.review.portable_parts import PartReviewer
    from esper_agents.review.report import Progress, ReviewReport
    from esper_agents.review.source import Unreadable

# About 250,000 lines: half a minute the first time, a second from the cache.
MOST_CONTEXT_BYTES = 8 * 1024 * 1024


def review_in_project(  # noqa: PLR0913 - the options of the command
    root: Path,
    paths: Sequence[Path],
    *,
    categories: Collection[Category] | None = None,
    rules: Collection[str] | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    extra: Sequence[ModuleType] = (),
    cache: Cache | None = None,
    most_bytes: int = MOST_CONTEXT_BYTES,
    elsewhere: PartReviewer | None = None,
) -> ReviewReport:
    """Review files and folders as parts of their project: all of it is analysed, only they are reported.

    So a file has the same findings whether it is named itself, by its folder, or by the project, and the cache answers
    for any of them after the first. A folder that is not under git is no project: its files are analysed alone.

    Args:
        root: The project's folder.
        paths: Files and folders in it to report; relative ones start at the root.
        categories: Report only rules of these categories; None reports all.
        rules: Report only these rules, by code or name; None reports all.
        on_progress: Called before each file is read and before it is checked.
        extra: Modules with further rules.
        cache: Cache of reports.
        most_bytes: Size of the project's sources above which the named paths are analysed alone.
        elsewhere: Reviews the parts in other processes; None for this process.

    Returns:
        The report of the paths; `context_files` says how many other files were analysed with them.

    Raises:
        InputFileError: A path does not exist, or contains nothing to review.
        NotFoundError: A named rule does not exist.
    """
    unread: dict[str, Unreadable] = {}
    named = discover(root, paths, notebooks=True, unread=unread)
    known: dict[str, Unreadable] = {}
    around = project_sources(root, known)
    inside, own = {each.path for each in around}, {each.path for each in named}
    beside = [each for each in named if each.path not in inside]
    if not around or sum(map(size_of, (*around, *beside))) > most_bytes:
        return review(
            root,
            paths,
            categories=categories,
            rules=rules,
            on_progress=on_progress,
            extra=extra,
            cache=cache,
            elsewhere=elsewhere,
        )
    chosen = {each.code for each in select(catalogue(extra), categories=categories, names=rules)}
    for each in named:
        if each.is_explicit:
            refuse_if_pointless(read(each.file, each.path))
    everything = [root, *(each.file for each in beside)]
    whole = review(root, everything, on_progress=on_progress, extra=extra, cache=cache, elsewhere=elsewhere)
    # A path in a report is as it is printed; what is not known to be another file's is reported.
    others = {carried(each) for each in inside - own} | (known.keys() - unread.keys())
    return _limited(whole, others, chosen)


def project_sources(root: Path, unread: dict[str, Unreadable]) -> tuple[DiscoveredFile, ...]:
    """Return the sources of a project under git; none for a folder that merely holds the named files.

    Args:
        root: The project's folder.
        unread: Receives the items that cannot be read, by path.
    """
    if not (root / ".git").exists():
        return ()
    try:
        return discover(root, [root], notebooks=True, unread=unread)
    except InputFileError:
        return ()


def _limited(whole: ReviewReport, others: Collection[str], codes: Collection[str]) -> ReviewReport:
    """Return a report without some files, with some rules only."""
    examined = tuple(each for each in whole.examined if each.path not in others)
    shown = [each for each in whole.silenced if each.claim.location.path not in others]
    silenced = tuple(each for each in shown if each.claim.rule in codes)
    sizes = tuple(size for size in whole.sizes if size.path not in others)
    context = [f"{each.sha256}  {each.path}\n" for each in whole.examined if each.path in others]
    return replace(
        whole,
        claims=tuple(claim for claim in whole.claims if claim.location.path not in others and claim.rule in codes),
        examined=examined,
        unreadable=tuple(each for each in whole.unreadable if each.path not in others),
        rules=tuple(rule for rule in whole.rules if rule in codes),
        suppressed=len(silenced),
        lines=sum(size.lines for size in sizes),
        torch_files=sum(size.imports_torch for size in sizes),
        generated=tuple(each for each in whole.generated if each not in others),
        silenced=silenced,
        sizes=sizes,
        context_files=len(context),
        context_sha256=sha256("".join(context).encode()).hexdigest() if context else "",
    )
