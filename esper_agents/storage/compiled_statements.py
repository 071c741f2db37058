"""SQL statements compiled once per database and passed directly to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Dialect, Executable


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    names: tuple[str, ...] | None
    constants: Mapping[str, object]

    def given(self, values: Mapping[str, object]) -> object:
        """Return values in the form that the driver expects: by name, or in the order of the statement."""
        known = {**self.constants, **values}
        return known if self.names is None else [known[name] for name in self.names]


class Prepared:
    """A statement with its cached compiled text.

    SQLAlchemy's processing of such a statement takes several times as long as its execution in the database. Values are
    passed in the driver's representation: dates as text, and on SQLite booleans as 0 or 1.
    """

    def __init__(self, statement: Executable) -> None:
        """Wrap a statement that has a named parameter for every value; it is compiled at first use."""
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: Connection, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Return the rows of the statement's result; empty if it returns none.

        Args:
            connection: The connection, inside a transaction.
            values: A value for every parameter.

        Raises:
            sqlalchemy.exc.DBAPIError: The database rejects the statement.
        """
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name) or self._compile(dialect)
        cursor = connection.connection.cursor()
        try:
            cursor.execute(compiled.text, compiled.given(values))  # type: ignore[arg-type]
            return list(cursor.fetchall()) if cursor.description else []
        except dialect.loaded_dbapi.Error as error:
            raise DBAPIError(compiled.text, None, error) from error
        finally:
            cursor.close()

    def many(self, connection: Connection, values: Sequence[Mapping[str, object]]) -> None:
        """Execute the statement once for each of some values; see `rows`."""
        dialect = connection.dialect
        compiled = self._compiled.get(dialect.name) or self._compile(dialect)
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(compiled.text, [compiled.given(each) for each in values])  # type: ignore[arg-type]
        except dialect.loaded_dbapi.Error as error:
            raise DBAPIError(compiled.text, None, error) from error
        finally:
            cursor.close()

    def column(self, connection: Connection, values: Mapping[str, object]) -> list[Any]:
        """Return the first column of the rows; see `rows`."""
        return [row[0] for row in self.rows(connection, values)]

    def scalar(self, connection: Connection, values: Mapping[str, object]) -> Any:
        """Return the first column of the first row, or None if there is no row; see `rows`."""
        return next(iter(self.column(connection, values)), None)

    def _compile(self, dialect: Dialect) -> _Compiled:
        statement: Any = self._statement
        made = statement.compile(dialect=dialect)
        names = tuple(made.positiontup) if made.positional else None
        compiled = self._compiled[dialect.name] = _Compiled(made.string, names, made.params)
        return compiled
