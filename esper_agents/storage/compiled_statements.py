"""SQL statements compiled once per database and passed directly to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection, Dialect, Executable


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    names: tuple[str, ...] | None
    constants: Mapping[str, object]

    def given(self, values: Mapping[str, object]) -> object:
        """Return values as the driver takes them: by name, or in the order of the statement."""
        known = {**self.constants, **values}
        return known if self.names is None else [known[name] for name in self.names]


class Prepared:
    """A statement whose compiled text is kept.

    What SQLAlchemy does round a statement takes several times as long as the database does for one of these. Values go
    in and come out as the driver has them: words as text, and on SQLite a truth as 0 or 1.
    """

    def __init__(self, statement: Executable) -> None:
        """Take a statement with a named parameter for each of its values; nothing is compiled yet."""
        self._statement = statement
        self._compiled: dict[str, _Compiled] = {}

    def rows(self, connection: Connection, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Return the rows that the statement gives; none where it gives none.

        Args:
            connection: Where, within a transaction.
            values: One for each parameter.

        Raises:
            sqlalchemy.exc.DBAPIError: The database refuses.
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

    def column(self, connection: Connection, values: Mapping[str, object]) -> list[Any]:
        """Return the first column of the rows; see `rows`."""
        return [row[0] for row in self.rows(connection, values)]

    def _compile(self, dialect: Dialect) -> _Compiled:
        statement: Any = self._statement
        made = statement.compile(dialect=dialect)
        names = tuple(made.positiontup) if made.positional else None
        compiled = self._compiled[dialect.name] = _Compiled(made.string, names, made.params)
        return compiled
