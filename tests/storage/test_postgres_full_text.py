"""The newest rows that say some words, found through windows of PostgreSQL's index."""

from __future__ import annotations

from itertools import product

import pytest
from sqlalchemy import text

from esper_agents.storage import postgres_full_text
from esper_agents.storage.postgres_full_text import FullText

# Each is said by every so-manieth row.
WORDS = {"always": 1, "often": 2, "seldom": 7, "rarely": 61, "never": 1_000}
ROWS = 150
SESSIONS = FullText("session_text", "id", "id || ''", "websearch_to_tsquery('simple', :asked)")
CERTIFICATES = FullText(
    "certificate_text", "position", "position + 0", "websearch_to_tsquery('simple', :asked)", is_dense=True
)


def identifier(number):
    return f"ses_{number:032x}"


def said(number):
    return " ".join(word for word, every in WORDS.items() if number % every == 0)


@pytest.fixture
def connection(store):
    with store.writing() as transaction:
        for number in range(1, ROWS + 1):
            given = {"id": identifier(number), "position": number, "words": said(number)}
            for table, key in (("session_text", "id"), ("certificate_text", "position")):
                added = f"INSERT INTO {table} ({key}, words) VALUES (:{key}, to_tsvector('simple', :words))"  # noqa: S608
                transaction.connection.execute(text(added), given)
        for table in ("session_text", "certificate_text"):
            transaction.connection.execute(text(f"ANALYZE {table}"))
    with store.reading() as opened:
        yield opened


@pytest.mark.parametrize("backend", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)
@pytest.mark.parametrize(
    "sizes",
    [(1_000, 4_000, 5, 40), (4, 16, 1, 1_000), (4, 4, 1_000, 1_000)],
    ids=["one window", "windows read", "windows of an index"],
)
def test_the_newest_that_say_a_word_are_found_however_many_say_it(connection, monkeypatch, sizes):
    for name, size in zip(("_NEAR", "_FAR", "_NAMED", "_BEGUN"), sizes, strict=True):
        monkeypatch.setattr(postgres_full_text, name, size)
    for (word, every), limit, below in product(WORDS.items(), (1, 3, 200), (ROWS + 1, ROWS // 2, 1)):
        expected = [number for number in range(below - 1, 0, -1) if number % every == 0][:limit]
        assert CERTIFICATES.newest(connection, f'"{word}"', limit, below) == expected
        found = SESSIONS.newest(connection, f'"{word}"', limit, identifier(below))
        assert found == [identifier(each) for each in expected]
        for common, step in (("often", 2), ("rarely", 61)):
            expected = [number for number in range(below - 1, 0, -1) if number % every == number % step == 0][:limit]
            assert CERTIFICATES.newest(connection, f'"{word}"', limit, below, besides=common) == expected


@pytest.mark.parametrize("backend", [pytest.param("postgresql", marks=pytest.mark.postgresql)], indirect=True)
def test_the_oldest_of_so_many_is_named_where_there_are_so_many(connection):
    assert CERTIFICATES.oldest(connection, 10, ROWS + 1) == ROWS - 9
    assert SESSIONS.oldest(connection, ROWS, "t") == identifier(1)
    assert CERTIFICATES.oldest(connection, 10, 10) is None
