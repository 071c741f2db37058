"""The rows of a home, changed behind the program's back, in whichever database they are."""

from __future__ import annotations

import os
from contextlib import contextmanager

from sqlalchemy import URL, create_engine, make_url


def is_shared():
    """Return whether rows are in a database that projects share."""
    return "ESPER_DATABASE_URL" in os.environ


class Rows:
    """A connection that takes plain SQL, each statement durable by itself."""

    def __init__(self, connection):
        self._connection = connection

    def execute(self, statement):
        """Run one statement and return its result."""
        if self._connection.dialect.name == "postgresql":
            statement = statement.replace(" AS BLOB)", " AS BYTEA)")
        return self._connection.exec_driver_sql(statement)


@contextmanager
def rows_of(home):
    """Yield the rows of the one project of a home. No rule of the database keeps who changes them from it."""
    if is_shared():
        url = make_url(os.environ["ESPER_DATABASE_URL"])
    else:
        (file,) = home.glob("projects/*/esper.db")
        url = URL.create("sqlite", database=str(file))
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            if is_shared():
                connection.exec_driver_sql("SET session_replication_role = replica; SET search_path = esper")
            yield Rows(connection)
    finally:
        engine.dispose()
