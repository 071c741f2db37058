"""The rows that certificates are found by: written at issue, and made again the same from the statements alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from archive_samples import found, made
from certificate_samples import full
from sqlalchemy import delete, select, text, update

from esper_agents.archive.search.filters import Filter
from esper_agents.archive.search_index import rebuild
from esper_agents.certificates.statement import normal
from esper_agents.domain.status import Status
from esper_agents.storage.tables import (
    certificate,
    certificate_file,
    certificate_metric,
    certificate_relation,
    certificate_rule,
)

TABLES = (certificate_file, certificate_rule, certificate_relation, certificate_metric)


@pytest.fixture
def filled(archived):
    archived.add(normal(full()))
    archived.fill(*(made(number, findings=(found(2, f"ESP{number}", "a.py", 1),)) for number in range(3)))
    return archived


def rows(archived):
    with archived.store.reading() as connection:
        return {each.name: sorted(map(tuple, connection.execute(select(each)))) for each in (*TABLES, certificate)}


def rebuilt(archived):
    with archived.store.writing() as transaction:
        return rebuild(transaction.connection)


def change(archived, statement) -> None:
    with archived.store.writing() as transaction:
        transaction.connection.execute(statement)


def test_rebuilding_twice_changes_nothing(filled) -> None:
    before = rows(filled)
    assert all(before.values())
    for _ in range(2):
        made_again = rebuilt(filled)
        assert (made_again.certificates, made_again.corrected, made_again.unreadable) == (4, (), ())
        assert rows(filled) == before


def test_rows_that_were_lost_or_made_up_are_as_they_were_after_rebuilding(filled) -> None:
    before = rows(filled)
    change(filled, delete(certificate_file))
    change(filled, update(certificate_metric).values(amount=99.0))
    change(filled, certificate_rule.insert().values(rule="ESP999", position=1))
    rebuilt(filled)
    assert rows(filled) == before
    assert filled.listed(wanted=Filter(words="please nothing")) == []


def test_columns_that_say_other_than_the_statement_are_corrected_and_named(filled) -> None:
    before = rows(filled)
    (newest, *_) = filled.listed()
    forged = {"status": Status.GO, "agent": "somebody", "component": "else", "issued_at": "2020-01-01T00:00:00.000Z"}
    change(filled, update(certificate).where(certificate.c.id == newest).values(forged))
    assert rebuilt(filled).corrected == (newest,)
    assert rows(filled) == before


@pytest.mark.sample(3)
@pytest.mark.parametrize("data", [b"", b"{}", b"\xff\x00", b"nothing"])
def test_a_statement_that_was_changed_has_no_rows_and_is_named(filled, data) -> None:
    (newest, second, *_) = filled.listed()
    change(filled, update(certificate).where(certificate.c.id == newest).values(statement=data))
    made_again = rebuilt(filled)
    assert (made_again.certificates, made_again.unreadable) == (3, (newest,))
    assert filled.listed(wanted=Filter(path="train.py")) == [second, *filled.listed()[2:3]]


def test_a_statement_of_the_same_certificate_with_other_words_is_not_taken_for_it(filled) -> None:
    (newest, *_) = filled.listed()
    with filled.store.reading() as connection:
        data = connection.scalars(select(certificate.c.statement).where(certificate.c.id == newest)).one()
    other = bytes(data).replace(b"ESP2", b"ESP9")
    assert other != data
    change(filled, update(certificate).where(certificate.c.id == newest).values(statement=other))
    assert rebuilt(filled).unreadable == (newest,)
    assert filled.listed(wanted=Filter(rule="ESP9")) == []


def test_a_statement_of_another_certificate_is_not_taken_for_this_one(filled) -> None:
    newest, second, *_ = filled.listed()
    with filled.store.reading() as connection:
        other = connection.execute(select(certificate).where(certificate.c.id == second)).one()
    values = {"statement": other.statement, "sha256": other.sha256}
    change(filled, update(certificate).where(certificate.c.id == newest).values(values))
    assert rebuilt(filled).unreadable == (newest,)


def test_names_too_long_for_an_index_are_found_by_their_beginning(archived) -> None:
    path = f"{'folder/' * 400}train.py"
    issued = archived.add(made(1, paths=(path,), findings=(found(2, "R" * 500, path, 1),)))
    assert archived.listed(wanted=Filter(path=path)) == [issued]
    assert archived.listed(wanted=Filter(rule="R" * 500)) == [issued]


def test_the_index_keeps_words_and_not_texts(archived) -> None:
    archived.add(replace(made(1), summary="the quokka of Rottnest"))
    with archived.store.reading() as connection:
        if connection.dialect.name == "sqlite":
            stored = connection.scalars(text("SELECT words FROM certificate_text")).all()
            assert stored == [None]
        else:
            assert "quokka" in connection.scalar(text("SELECT CAST(words AS text) FROM certificate_text"))
