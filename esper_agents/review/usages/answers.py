"""Decide a usage question at the places that it is about."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esper_agents.review.usages.entries import UsageVerdict
from esper_agents.review.usages.registry import UsageContext, decide
from esper_agents.review.usages.sites import UsageSite, shown, sites_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from esper_agents.review.index import ProjectIndex
    from esper_agents.review.tables import FileTables
    from esper_agents.review.usages.entries import UsageEntry

_MOST_SITES = 40
_REMOVABLE = frozenset({UsageVerdict.NOT_NEEDED, UsageVerdict.NO_EFFECT})
_REMOVE = "Remove it, or leave it as it is"
# A line that a user names may have moved a little.
_NEAR_LINES = 3


@dataclass(frozen=True, slots=True)
class UsageAnswer:
    """Answer at one place.

    Attributes:
        site: The place.
        verdict: What is so.
        text: The answer with its reason and what happens otherwise, in one sentence without a full stop.
        remedy: What to write, or how to find out; empty if nothing is to be done.
    """

    site: UsageSite
    verdict: UsageVerdict
    text: str
    remedy: str


def answer_usage(
    entry: UsageEntry,
    files: Sequence[FileTables],
    index: ProjectIndex,
    *,
    line: int = 0,
    statements: Mapping[str, tuple[str, str]] | None = None,
) -> Iterator[UsageAnswer]:
    """Yield the answers to a question about an API, by place.

    Args:
        entry: The API.
        files: Files in question.
        index: Facts about all files of the project.
        line: Line that the question names; only the places at that line, or next to it, if there are such.
        statements: What the user stated, by kind, as value and words.
    """
    sites = [site for site in sites_of(entry.sites, files) if not _is_of_project(site, entry, index)]
    found = at_line(sites, line)
    for site in found[:_MOST_SITES]:
        yield _at(UsageContext(site, entry, files, index, statements or {}))


def at_line(sites: Sequence[UsageSite], line: int) -> list[UsageSite]:
    """Return the places at a line, else the nearest ones at most three lines away; all of them without a line."""
    if not line:
        return list(sites)
    here = [site for site in sites if site.first_line <= line <= site.last_line]
    exact = [site for site in here if site.line == line] or here
    if exact:
        return exact
    distance = {id(site): abs(site.line - line) for site in sites}
    nearest = min(distance.values(), default=_NEAR_LINES + 1)
    return [site for site in sites if distance[id(site)] == nearest <= _NEAR_LINES]


def _at(context: UsageContext) -> UsageAnswer:
    entry, site = context.entry, context.site
    known = {"code": site.code, "place": f"{site.file.path}:{site.line}", "function": site.function.qualname}
    if site.call is not None:
        known["receiver"] = site.call.receiver.replace("`", "'") or "the tensor"
        known["call"] = site.call.path.replace("`", "'")
    if site.option is not None:
        known["value"] = shown(site.option)
    for case in entry.cases:
        decisions = []
        for text in case.when:
            decisions.append(decide(text, context))
            if decisions[-1].holds is not True:
                break
        else:
            values = ChainMap(*(dict(each.values) for each in reversed(decisions)), known)
            said = [each.stated for each in decisions if each.stated]
            rests = f' (you say "{said[0]}")' if said else ""
            effect = f"; {_continued(case.effect.format_map(values))}" if case.effect else ""
            remedy = case.fix.format_map(values) or (_REMOVE if case.verdict in _REMOVABLE else "")
            return UsageAnswer(site, case.verdict, f"{case.answer.format_map(values)}{rests}{effect}", remedy)
    text = f"`{site.code}`: the code does not say {entry.unknown}"
    return UsageAnswer(site, UsageVerdict.UNDECIDED, text, entry.tell)


def _continued(sentence: str) -> str:
    """Return a sentence as the end of another one."""
    return sentence[:1].lower() + sentence[1:]


def _is_of_project(site: UsageSite, entry: UsageEntry, index: ProjectIndex) -> bool:
    """Return whether a method of the project is called, which only has the name of the API."""
    call = site.call
    if call is None or not call.receiver or entry.sites.is_given:
        return False
    return bool(index.callees(call))
