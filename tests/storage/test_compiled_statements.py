from __future__ import annotations

import pytest
from sqlalchemy import bindparam, insert, select
from sqlalchemy.exc import DBAPIError

from esper_agents.errors import StorageError
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.tables import project

ADD = Prepared(lambda: insert(project).values({each.name: bindparam(each.name) for each in project.c}))
NAMED = Prepared(
    lambda: select(project.c.key, project.c.name).where(project.c.key >= bindparam("least")).order_by(project.c.key)
)


def row(key):
    return {"key": key, "root": "/", "name": f"the {key}", "opened_at": "", "log_id": 0}


def test_rows_come_back_in_the_order_of_the_statement(store):
    with store.writing() as transaction:
        assert ADD.rows(transaction.connection, row("b")) == []
        ADD.rows(transaction.connection, row("a"))
        assert NAMED.rows(transaction.connection, {"least": "a"}) == [("a", "the a"), ("b", "the b")]
        assert NAMED.column(transaction.connection, {"least": "b"}) == ["b"]


def test_constants_of_a_statement_stay_and_further_values_are_left_aside(store):
    wanted = select(project.c.key).where(project.c.name == "the a", project.c.key == bindparam("key")).limit(1)
    asked = Prepared(lambda: wanted)
    with store.writing() as transaction:
        ADD.rows(transaction.connection, row("a"))
        ADD.rows(transaction.connection, row("b"))
        assert asked.column(transaction.connection, {"key": "a", "nothing": 1}) == ["a"]
        assert asked.column(transaction.connection, {"key": "b", "nothing": 1}) == []


def test_sql_text_takes_named_parameters_and_keeps_colons_and_percent_signs(store):
    said = Prepared("SELECT :one, 'a:b', '10%', 'x::y', CAST(:two AS TEXT), :one")
    with store.reading() as connection:
        assert said.rows(connection, {"one": 1, "two": "z", "three": 3}) == [(1, "a:b", "10%", "x::y", "z", 1)]


def test_a_statement_of_sqlalchemy_goes_on_in_the_transaction_of_compiled_ones(store):
    wanted = select(project.c.key).order_by(project.c.key)
    with store.writing() as transaction:
        ADD.rows(transaction.connection, row("a"))
        assert transaction.connection.scalars(wanted).all() == ["a"]
        transaction.connection.execute(insert(project).values(row("b")))
        ADD.rows(transaction.connection, row("c"))
    with store.reading() as connection:
        assert connection.scalars(wanted).all() == NAMED.column(connection, {"least": ""}) == ["a", "b", "c"]


def test_what_both_kinds_of_statements_wrote_is_rolled_back_together(store):
    def fail():
        with store.writing() as transaction:
            ADD.rows(transaction.connection, row("a"))
            transaction.connection.execute(insert(project).values(row("b")))
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - its own
        fail()
    with store.reading() as connection:
        assert NAMED.column(connection, {"least": ""}) == []


def test_values_are_never_part_of_the_statement(store):
    with store.writing() as transaction:
        ADD.rows(transaction.connection, row("x'; DROP TABLE project; --%s?:key"))
        assert NAMED.column(transaction.connection, {"least": ""}) == ["x'; DROP TABLE project; --%s?:key"]


def test_what_the_database_refuses_is_said_as_sqlalchemy_says_it_and_nothing_is_written(store):
    def twice():
        with store.writing() as transaction:
            ADD.rows(transaction.connection, row("a"))
            with pytest.raises(DBAPIError) as refused:
                ADD.rows(transaction.connection, row("a"))
            assert refused.value.orig is not None
            raise refused.value

    with pytest.raises(StorageError, match="refused"):
        twice()
    with store.reading() as connection:
        assert NAMED.column(connection, {"least": ""}) == []


def test_a_statement_that_is_none_is_refused(store):
    with store.reading() as connection, pytest.raises(DBAPIError):
        Prepared("SELECT nothing FROM nowhere").rows(connection, {})
