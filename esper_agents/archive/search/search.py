"""Full-text search: newest matching certificates with the matching excerpts."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from sqlalchemy import select

from esper_agents.archive import store as archive
from esper_agents.archive.search.posting_lists import listed
from esper_agents.archive.search.tokens import SearchableText, asked_words, best_passage, recorded_passages
from esper_agents.storage.tables import certificate as table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from esper_agents.archive.search.filters import Filter
    from esper_agents.archive.store import CertificateSummary
    from esper_agents.storage.store import Store


_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class SearchHit:
    """Certificate that matches a search.

    Attributes:
        entry: Listing row of the certificate.
        passage: Best matching excerpt; None if the archived record was changed or no longer matches.
    """

    entry: CertificateSummary
    passage: SearchableText | None


def search(
    store: Store, project_key: str, wanted: Filter, *, before: str = "", limit: int = 20
) -> tuple[SearchHit, ...]:
    """Return a project's certificates that contain all words of a filter, newest first.

    Searched texts: request, summary, rationale, agent, component, and of findings the rule, its name, message, path
    and source line. A word such as `loss.detach` matches its parts in sequence. Case and accents are ignored.

    Raises:
        NotFoundError: No certificate matches `before`.
        UsageError: The search words contain neither a letter nor a digit.
    """
    return tuple(hits(store, archive.listing(store, project_key, wanted=wanted, before=before, limit=limit), wanted))


def hits(store: Store, entries: Sequence[CertificateSummary], wanted: Filter) -> Iterator[SearchHit]:
    """Yield certificates that match a filter with their best matching excerpts."""
    asked = asked_words(wanted.words)
    for start in range(0, len(entries), _AT_ONCE):
        some = {each.position: each for each in entries[start : start + _AT_ONCE]}
        with store.reading() as connection:
            query = select(table.c.position, table.c.statement).where(table.c.position.in_(listed(connection, [*some])))
            records = {position: bytes(data) for position, data in connection.execute(query)}
        for position, entry in some.items():
            data = records.get(position, b"")
            is_issued = sha256(data).hexdigest() == entry.sha256
            yield SearchHit(entry, best_passage(recorded_passages(data), asked) if is_issued else None)
