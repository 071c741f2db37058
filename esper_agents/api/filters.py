"""Read the filters of certificates and sessions from the texts of a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.archive.search.filters import Filter, commit_of, kind_of, since_of, statuses_of, until_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from esper_agents.domain.session import SessionState
    from esper_agents.storage.sessions import SessionFilter


def read_filter(  # noqa: PLR0913 - one for each condition
    *,
    statuses: Iterable[str] = (),
    agent: str = "",
    file: str = "",
    component: str = "",
    rule: str = "",
    commit: str = "",
    since: str = "",
    until: str = "",
    kind: str = "",
) -> Filter:
    """Return a filter of certificates from the texts of a user; an empty text is no condition.

    Args:
        statuses: Status names, of which one must match.
        agent: Name of the agent.
        file: Path of a reviewed file, relative to the project.
        component: Component.
        rule: Rule code of a finding.
        commit: Commit hash, or a prefix of it.
        since: First UTC date, such as `2026-01-31` or `2026-01`.
        until: Last UTC date.
        kind: Question type.

    Raises:
        NotFoundError: A status or the question type does not exist.
        UsageError: A date or the commit is not valid.
    """
    return Filter(
        statuses=statuses_of(statuses),
        agent=agent,
        path=file,
        component=component,
        rule=rule,
        commit=commit_of(commit) if commit else "",
        since=since_of(since) if since else "",
        until=until_of(until) if until else "",
        kind=kind_of(kind) if kind else None,
    )


def read_session_filter(*, states: Iterable[SessionState] = (), agent: str = "", since: str = "") -> SessionFilter:
    """Return a filter of sessions from the texts of a user; an empty text is no condition.

    Args:
        states: States, of which one must match.
        agent: Name of the agent.
        since: First UTC date of an event, such as `2026-01-31` or `2026-01`.

    Raises:
        UsageError: The date is not valid.
    """
    from esper_agents.storage.sessions import SessionFilter

    return SessionFilter(tuple(states), agent, since_of(since) if since else "")
