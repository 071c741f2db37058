"""`esper certificates diff`: command that compares two certificates of one component."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from esper_agents.cli.certificates import certificates_app
from esper_agents.cli.indented_output import outline
from esper_agents.cli.shared_options import HERE, JsonOption, ProjectOption
from esper_agents.cli.terminal import echo_json
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from esper_agents.api import OpenProject
    from esper_agents.archive.certificate_diff import CertificateDiff
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.domain.finding import Finding

_MOST_LISTED = 40


@certificates_app.command()
def diff(
    first: Annotated[str, typer.Argument(metavar="ID", help="ID or unique suffix of the older certificate")],
    second: Annotated[
        str, typer.Argument(metavar="ID", help="Newer certificate [default: latest of the component]")
    ] = "",
    project: ProjectOption = HERE,
    as_json: JsonOption = False,
) -> None:
    """Compare two certificates.

    Both must be about the same component. With one ID, that certificate is compared with the latest one of its
    component; the latest one is compared with its predecessor.

    Examples:
      esper certificates diff latest
      esper certificates diff 12faba12a09f latest
    """
    found = asyncio.run(_diff(project, first, second))
    if as_json:
        echo_json(_diff_as_data(found))
        return
    for each in (found.before, found.after):
        outline(f"{each.id} {each.issued_at[:16].replace('T', ' ')}Z {each.verdict.status}, by {each.agent}")
    for label, change in (("status", found.status), ("ceiling", found.ceiling)):
        is_same = change.before == change.after
        outline(f"{label}: {change.after}{', as before' if is_same else f'; {change.before} before'}")
    _list_findings("gone", found.gone)
    _list_findings("new", found.new)
    _list_findings("still there", found.still)
    _list_files(found)
    _list_numbers(found)


async def _diff(where: Path, first: str, second: str) -> CertificateDiff:
    from esper_agents.api import open_project
    from esper_agents.archive.certificate_diff import diff_certificates

    async with open_project(where) as project:
        if second:
            pair = [await project.certificates.get(each) for each in (first, second)]
            if pair[0].id == pair[1].id:
                remedy = f"name another one: esper certificates list --component {quote(pair[0].component)}"
                raise UsageError(f"both are {pair[0].id}", remedy=remedy)
        else:
            pair = await _pair(project, await project.certificates.get(first))
        before, after = [await project.certificates.read(each.id) for each in pair]
    return diff_certificates(before, after)


async def _pair(project: OpenProject, given: CertificateSummary) -> list[CertificateSummary]:
    """Return a certificate and the latest one of its component, or its predecessor if it is the latest.

    Raises:
        UsageError: The component has only this certificate.
    """
    from esper_agents.archive.search.filters import Filter

    wanted = Filter(component=given.component)
    (latest,) = await project.certificates.list(wanted=wanted, limit=1)
    if latest.id != given.id:
        return [given, latest]
    before = await project.certificates.list(wanted=wanted, before=given.id, limit=1)
    if not before:
        problem = f"{given.id} is the only certificate of {given.component!r}"
        raise UsageError(problem, remedy=f"repeat its request, then compare: esper submit --again {given.id}")
    return [*before, given]


def _list_findings(label: str, findings: Sequence[Finding]) -> None:
    outline(f"{label}: {len(findings) or 'none'}")
    for each in findings[:_MOST_LISTED]:
        claim = each.claim
        outline(f"{claim.severity} {claim.rule} at {claim.location}: {claim.message}", 1)
    _say_left(len(findings))


def _list_files(found: CertificateDiff) -> None:
    outline(f"files: {len(found.files) or 'none'} changed, {found.same_files} the same")
    for each in found.files[:_MOST_LISTED]:
        if each.before and each.after:
            said = f"was {_digests(each.before)}, is {_digests(each.after)}"
        else:
            said = "read only before" if each.before else "read only afterwards"
        outline(f"{each.path}: {said}", 1)
    _say_left(len(found.files))


def _list_numbers(found: CertificateDiff) -> None:
    from esper_agents.archive.metrics import amount_text

    def written(amounts: tuple[float, ...]) -> str:
        return " and ".join(map(amount_text, amounts)) or "not there"

    outline(f"numbers: {len(found.numbers) or 'none'} changed")
    for each in found.numbers[:_MOST_LISTED]:
        times = f" ({each.ratio:.3g} times)" if each.ratio else ""
        outline(f"{each.name}: was {written(each.before)}, is {written(each.after)}{times}", 1)
    _say_left(len(found.numbers))


def _say_left(count: int) -> None:
    if count > _MOST_LISTED:
        outline(f"and {count - _MOST_LISTED} more, see --json", 1)


def _digests(digests: tuple[str, ...]) -> str:
    return " and ".join(each[:12] for each in digests)


def _diff_as_data(found: CertificateDiff) -> dict[str, Any]:
    return {
        "before": found.before.id,
        "after": found.after.id,
        "component": found.after.component,
        "status": asdict(found.status),
        "ceiling": asdict(found.ceiling),
        "findings": {
            "gone": [asdict(each) for each in found.gone],
            "new": [asdict(each) for each in found.new],
            "still": [asdict(each) for each in found.still],
        },
        "files": {"changed": [asdict(each) for each in found.files], "same": found.same_files},
        "numbers": [asdict(each) | {"ratio": each.ratio} for each in found.numbers],
    }
