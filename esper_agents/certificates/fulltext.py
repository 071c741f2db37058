"""The full text of certificates, as SQLite and PostgreSQL each have it: what says some words, newest first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import text

from esper_agents.certificates.places import in_a_run
from esper_agents.certificates.words import asked_words
from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

# How many places in a run of hits cost as much as one by itself.
_RUN = 16
_NEAR = 1000


@dataclass(frozen=True, slots=True)
class Words:
    """Places of certificates that say all of some words.

    Attributes:
        connection: The archive.
        asked: The words, as the database's full text takes them.
    """

    connection: Connection
    asked: str

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest places below one, none lower than `low`."""
        given = {"asked": self.asked, "low": low, "below": below, "count": count, "few": max(_NEAR, 4 * count)}
        if self.connection.dialect.name == "sqlite":
            return list(self.connection.scalars(_NEWEST_SQLITE, given).all())
        # A word that many say is soon found among the newest; one that few say, by its index.
        near = list(self.connection.scalars(_NEAR_POSTGRESQL, given).all())
        return near if len(near) == count else list(self.connection.scalars(_NEWEST_POSTGRESQL, given).all())

    def among(self, positions: Sequence[int]) -> set[int]:
        """Return which of some places it holds at."""
        if self.connection.dialect.name == "postgresql":
            return self._one_by_one(positions)
        return in_a_run(self.newest, self._one_by_one, positions, _RUN)

    def _one_by_one(self, positions: Sequence[int]) -> set[int]:
        given = {"asked": self.asked, "positions": json.dumps(list(positions))}
        return set(self.connection.scalars(_AMONG[self.connection.dialect.name], given).all())


def positions_beginning(connection: Connection, word: str) -> list[int]:
    """Return some places, two at least if there are two, of certificates with a word in the index that begins so.

    Args:
        connection: The archive.
        word: Letters and digits of ASCII only.
    """
    return list(
        connection.scalars(
            _BEGINNING[connection.dialect.name], {"asked": _AS_BEGINNING[connection.dialect.name].format(word)}
        )
    )


def full_text_of(words: str) -> str:
    """Return words as both databases take them: each in quotes, where nothing but letters and digits can stand."""
    asked = asked_words(words)
    if not asked:
        raise UsageError(f"there is no word in {words!r}", remedy="name words with letters or digits in them")
    return " ".join('"' + " ".join(each) + '"' for each in asked)


_NEWEST_SQLITE = text(
    "SELECT rowid FROM certificate_text WHERE certificate_text MATCH :asked AND rowid >= :low AND rowid < :below"
    " ORDER BY rowid DESC LIMIT :count"
)
_NEAR_POSTGRESQL = text(
    "WITH near AS MATERIALIZED"
    " (SELECT position, words FROM certificate_text WHERE position < :below AND position >= :low"
    " ORDER BY position DESC LIMIT :few)"
    " SELECT position FROM near WHERE words @@ websearch_to_tsquery('simple', :asked)"
    " ORDER BY position DESC LIMIT :count"
)
# The sum keeps the planner from walking all places in order in the hope of meeting the words soon.
_NEWEST_POSTGRESQL = text(
    "SELECT position FROM certificate_text"
    " WHERE words @@ websearch_to_tsquery('simple', :asked) AND position < :below AND position >= :low"
    " ORDER BY position + 0 DESC LIMIT :count"
)
_AS_BEGINNING = {"sqlite": '"{}"*', "postgresql": "{}:*"}
_BEGINNING = {
    "sqlite": text("SELECT rowid FROM certificate_text WHERE certificate_text MATCH :asked LIMIT 50"),
    "postgresql": text("SELECT position FROM certificate_text WHERE words @@ to_tsquery('simple', :asked) LIMIT 50"),
}
_AMONG = {
    # Place by place: asked the other way round, it would go through all that say the words.
    "sqlite": text(
        "SELECT certificate_text.rowid FROM json_each(:positions) AS wanted CROSS JOIN certificate_text"
        " WHERE certificate_text.rowid = wanted.value AND certificate_text MATCH :asked"
    ),
    "postgresql": text(
        "SELECT certificate_text.position"
        " FROM json_array_elements_text(CAST(:positions AS json)) AS wanted(place) JOIN certificate_text"
        " ON certificate_text.position = CAST(wanted.place AS bigint)"
        " WHERE words @@ websearch_to_tsquery('simple', :asked)"
    ),
}
