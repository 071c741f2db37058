"""Audit of the index tables: derive the rows again and compare them with the stored rows."""

from __future__ import annotations

import secrets
import sqlite3
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import String, select, text, type_coerce

from esper_agents.archive.search_index import archived_rows, indexed_words, issued_in, rows_by_table, tables_by_position
from esper_agents.certificates.log.faults import FaultKind, Faults, shown
from esper_agents.storage.schema_names import FULL_TEXT
from esper_agents.storage.tables import certificate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection, Row

    from esper_agents.storage.store import Store

_BUCKETS = 1024
# Number of differing buckets that are read again to name certificates.
_MOST_NAMED = 20
_AT_ONCE = 500
_TOKENS = "certificate_text_tokens"
_SQLITE_TOKENS = text(
    'SELECT doc, term, "offset" FROM temp.certificate_text_tokens WHERE :bucket IS NULL OR doc % :buckets = :bucket'
)
_POSTGRESQL_VECTORS = text(
    "SELECT position, CAST(words AS text) FROM certificate_text"
    " WHERE CAST(:bucket AS integer) IS NULL OR position % CAST(:buckets AS integer) = CAST(:bucket AS integer)"
)


@dataclass(slots=True)
class _Differences:
    """Sums of keyed row digests, expected minus stored, by table and bucket of positions.

    Stored rows arrive in another order than derived rows, and millions of them cannot be held or sorted in memory, so
    only sums are kept. The key is random per audit, so an attacker cannot prepare rows with a matching sum.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    sums: Counter[tuple[str, int]] = field(default_factory=Counter)

    def add(self, table: str, position: int, row: Iterable[object], *, times: int) -> None:
        """Add a row `times` times; stored rows count negatively."""
        said = repr((position, *row)).encode("utf-8", "surrogatepass")
        digest = blake2b(said, key=self.key, digest_size=32).digest()
        self.sums[table, position % _BUCKETS] += times * int.from_bytes(digest)

    def differing(self) -> list[tuple[str, int]]:
        """Return the tables and buckets that differ."""
        return sorted(place for place, amount in self.sums.items() if amount)


def audit_index(store: Store) -> Faults:
    """Return the certificates whose index rows differ from those derived from their statements.

    Listings, search and trends read these tables. Memory does not grow with the number of certificates. A certificate
    whose statement differs from what was issued has no rows to compare; `deep_audit` reports it.

    Args:
        store: The database.
    """
    faults, differences = Faults(), _Differences()
    with store.reading() as connection, _words_of(connection) as words:
        unreadable: set[int] = set()
        for rows in _batches(archived_rows(connection)):
            _take(differences, words, rows, unreadable)
        for table, position, row in _stored(connection, words):
            if position not in unreadable:
                differences.add(table, position, row, times=-1)
        for table, bucket in differences.differing()[:_MOST_NAMED]:
            for position in sorted(_wrong_in(connection, words, table, bucket) - unreadable):
                where = connection.scalar(select(certificate.c.id).where(certificate.c.position == position))
                detail = f"its rows in {table} differ from its statement"
                if where is None:
                    detail = f"{table} contains its rows, but there is no certificate"
                faults.add(FaultKind.INDEX_CHANGED, shown(where) if where else f"position {position}", detail)
    return faults


def _batches(rows: Iterable[Row[Any]], size: int = _AT_ONCE) -> Iterator[list[Row[Any]]]:
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


def _take(differences: _Differences, words: _Words, rows: Iterable[Row[Any]], unreadable: set[int]) -> None:
    texts: dict[int, str] = {}
    for row in rows:
        issued = issued_in(row)
        if issued is None:
            unreadable.add(row.position)
            continue
        texts[row.position] = indexed_words(issued)
        for table, expected in rows_by_table(row.position, issued).items():
            for each in expected:
                differences.add(table, row.position, _values(each), times=1)
    for position, said in words.expected(texts):
        differences.add(FULL_TEXT, position, said, times=1)


def _values(row: dict[str, Any]) -> tuple[object, ...]:
    """Return a row's values sorted by column name, with enum members as text."""
    said = (row[name] for name in sorted(row) if name != "position")
    return tuple(str(each) if isinstance(each, str) else each for each in said)


def _stored(
    connection: Connection, words: _Words, only: str = "", bucket: int | None = None
) -> Iterator[tuple[str, int, tuple[object, ...]]]:
    """Yield stored rows with their table and position, optionally limited to one table and bucket."""
    for table in tables_by_position():
        if only in {"", table.name}:
            # Read as text: a value outside the closed set is a difference, not an exception.
            columns = [type_coerce(each, String) if isinstance(each.type, String) else each for each in table.c]
            wanted = (
                select(*columns) if bucket is None else select(*columns).where(table.c.position % _BUCKETS == bucket)
            )
            names = [each.name for each in table.c]
            for row in connection.execute(wanted, execution_options={"yield_per": _AT_ONCE}):
                values = dict(zip(names, row, strict=True))
                yield table.name, int(values["position"]), _values(values)
    if only in {"", FULL_TEXT}:
        for position, said in words.stored(bucket):
            yield FULL_TEXT, position, said


def _wrong_in(connection: Connection, words: _Words, table: str, bucket: int) -> set[int]:
    """Return the positions of a bucket whose rows in a table differ."""
    found: dict[int, Counter[tuple[object, ...]]] = {}
    of_bucket = select(certificate).where(certificate.c.position % _BUCKETS == bucket)
    streamed = connection.execute(of_bucket, execution_options={"yield_per": _AT_ONCE})
    for rows in _batches(streamed):
        issued = {row.position: each for row in rows if (each := issued_in(row)) is not None}
        for position, each in issued.items():
            for name, expected in rows_by_table(position, each).items():
                if name == table:
                    found.setdefault(position, Counter()).update(map(_values, expected))
        if table == FULL_TEXT:
            for position, said in words.expected({at: indexed_words(each) for at, each in issued.items()}):
                found.setdefault(position, Counter())[said] += 1
    for _, position, row in _stored(connection, words, table, bucket):
        found.setdefault(position, Counter())[row] -= 1
    return {position for position, rows in found.items() if any(rows.values())}


class _Words(Protocol):
    """Full-text index as comparable tokens."""

    def expected(self, texts: Mapping[int, str]) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Yield the tokens that the database derives from texts, each with its position."""
        ...

    def stored(self, bucket: int | None) -> Iterator[tuple[int, tuple[object, ...]]]:
        """Yield the stored tokens, optionally of one bucket of positions."""
        ...


class _SqliteWords:
    """FTS5 tokens with offsets: the table is contentless, so its texts cannot be read."""

    def __init__(self, connection: Connection, scratch: sqlite3.Connection) -> None:
        self._connection, self._scratch = connection, scratch
        # The same definition as in the migrations.
        scratch.execute("CREATE VIRTUAL TABLE documents USING fts5(words, content='', tokenize='unicode61')")
        scratch.execute("CREATE VIRTUAL TABLE tokens USING fts5vocab(documents, instance)")
        connection.exec_driver_sql(f"DROP TABLE IF EXISTS temp.{_TOKENS}")
        connection.exec_driver_sql(f"CREATE VIRTUAL TABLE temp.{_TOKENS} USING fts5vocab(main, {FULL_TEXT}, instance)")

    def expected(self, texts: Mapping[int, str]) -> Iterator[tuple[int, tuple[object, ...]]]:
        self._scratch.executemany("INSERT INTO documents (rowid, words) VALUES (?, ?)", texts.items())
        for position, *token in self._scratch.execute('SELECT doc, term, "offset" FROM tokens'):
            yield position, tuple(token)
        self._scratch.execute("INSERT INTO documents (documents) VALUES ('delete-all')")

    def stored(self, bucket: int | None) -> Iterator[tuple[int, tuple[object, ...]]]:
        given = {"bucket": bucket, "buckets": _BUCKETS}
        rows = self._connection.execute(_SQLITE_TOKENS, given, execution_options={"yield_per": _AT_ONCE})
        for position, *token in rows:
            yield int(position), tuple(token)

    def close(self) -> None:
        self._connection.exec_driver_sql(f"DROP TABLE IF EXISTS temp.{_TOKENS}")


class _PostgresqlWords:
    """Complete text vectors of PostgreSQL."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def expected(self, texts: Mapping[int, str]) -> Iterator[tuple[int, tuple[object, ...]]]:
        wanted = text("SELECT CAST(to_tsvector('simple', :words) AS text)")
        for position, words in texts.items():
            yield position, (self._connection.scalar(wanted, {"words": words}),)

    def stored(self, bucket: int | None) -> Iterator[tuple[int, tuple[object, ...]]]:
        given = {"bucket": bucket, "buckets": _BUCKETS}
        rows = self._connection.execute(_POSTGRESQL_VECTORS, given, execution_options={"yield_per": _AT_ONCE})
        for position, words in rows:
            yield int(position), (words,)


@contextmanager
def _words_of(connection: Connection) -> Iterator[_Words]:
    if connection.dialect.name != "sqlite":
        yield _PostgresqlWords(connection)
        return
    with closing(sqlite3.connect(":memory:")) as scratch:
        words = _SqliteWords(connection, scratch)
        try:
            yield words
        finally:
            words.close()
