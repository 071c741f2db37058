"""Full-text search of certificates on SQLite and PostgreSQL, newest first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from esper_agents.archive.search.posting_lists import LISTED
from esper_agents.archive.search.tokens import asked_words
from esper_agents.errors import UsageError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.schema_names import FULL_TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from esper_agents.storage.postgres_full_text import FullText


@dataclass(frozen=True, slots=True)
class Words:
    """Archive positions of certificates that contain all search words.

    Attributes:
        connection: The archive.
        asked: Search words in the query syntax of the database.
    """

    run: ClassVar[int] = 16

    connection: Connection
    asked: str

    def newest(self, below: int, count: int, low: int = 0) -> list[int]:
        """Return the newest positions below one, none lower than `low`."""
        if self.connection.dialect.name == "sqlite":
            given = {"asked": self.asked, "low": low, "below": below, "count": count}
            return _NEWEST_SQLITE.column(self.connection, given)
        found = _postgresql().newest(self.connection, self.asked, count, below)
        return [position for position in found if position >= low]

    def one_by_one(self, positions: Sequence[int]) -> set[int]:
        """Return the subset of positions that match."""
        given = {"asked": self.asked, "positions": json.dumps(list(positions))}
        return set(_AMONG[self.connection.dialect.name].column(self.connection, given))


@cache
def _postgresql() -> FullText:
    from esper_agents.storage.postgres_full_text import FullText

    return FullText(FULL_TEXT, "position", "position + 0", "websearch_to_tsquery('simple', :asked)", is_dense=True)


def positions_beginning(connection: Connection, word: str) -> list[int]:
    """Return up to 50 positions, at least two if there are two, of certificates with an indexed word with this prefix.

    Args:
        connection: The archive.
        word: ASCII letters and digits only.
    """
    asked = _AS_BEGINNING[connection.dialect.name].format(word)
    return _BEGINNING[connection.dialect.name].column(connection, {"asked": asked})


def full_text_of(words: str) -> str:
    """Return search words as both databases accept them: each quoted, letters and digits only."""
    asked = asked_words(words)
    if not asked:
        raise UsageError(f"no search word in {words!r}", remedy="use words with letters or digits")
    return " ".join('"' + " ".join(each) + '"' for each in asked)


_NEWEST_SQLITE = Prepared(
    "SELECT rowid FROM certificate_text WHERE certificate_text MATCH :asked AND rowid >= :low AND rowid < :below"
    " ORDER BY rowid DESC LIMIT :count"
)
_AS_BEGINNING = {"sqlite": '"{}"*', "postgresql": "{}:*"}
_BEGINNING = {
    "sqlite": Prepared("SELECT rowid FROM certificate_text WHERE certificate_text MATCH :asked LIMIT 50"),
    "postgresql": Prepared(
        "SELECT position FROM certificate_text WHERE words @@ to_tsquery('simple', :asked) LIMIT 50"
    ),
}
_AMONG = {
    # Position by position: the reverse plan would read every certificate that contains the words.
    "sqlite": Prepared(
        f"SELECT place FROM ({LISTED['sqlite']}) AS listed CROSS JOIN certificate_text"  # noqa: S608 - a fixed text
        " WHERE certificate_text.rowid = place AND certificate_text MATCH :asked"
    ),
    "postgresql": Prepared(
        f"SELECT place FROM ({LISTED['postgresql']}) AS listed WHERE (SELECT words"  # noqa: S608 - a fixed text
        " @@ (SELECT websearch_to_tsquery('simple', :asked)) FROM certificate_text WHERE position = place)"
    ),
}
