"""SQL statements compiled once per database and passed directly to the driver."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sqlalchemy import Connection, Executable

Statement: TypeAlias = "str | Callable[[], Executable]"
# A named parameter in SQL text: not a cast, and not a time of day.
_PARAMETER = re.compile(r"(?<![:\w]):([a-zA-Z_]\w*)(?!:)")


@dataclass(frozen=True, slots=True)
class _Compiled:
    text: str
    names: tuple[str, ...] | None
    constants: Mapping[str, object] = field(default_factory=dict)

    def given(self, values: Mapping[str, object]) -> object:
        """Return values in the form that the driver expects: by name, or in the order of the statement."""
        known = {**self.constants, **values}
        return known if self.names is None else [known[name] for name in self.names]


class Prepared:
    """A statement with its cached compiled text.

    SQLAlchemy's processing of such a statement takes several times as long as its execution in the database, and
    its import takes longer than a command that only reads: that one's statements are SQL text. Values are passed in the
    driver's representation: dates as text, and on SQLite booleans as 0 or 1.
    """

    def __init__(self, statement: Statement) -> None:
        """Wrap a statement that has a named parameter for every value.

        Args:
            statement: SQL text with parameters such as `:wanted`, or a function that returns a statement of SQLAlchemy,
                called and compiled at first use.
        """
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
        compiled = self._compiled.get(connection.dialect.name) or self._compile(connection)
        cursor = connection.connection.cursor()
        try:
            cursor.execute(compiled.text, compiled.given(values))  # type: ignore[arg-type]
            return list(cursor.fetchall()) if cursor.description else []
        except connection.dialect.loaded_dbapi.Error as error:
            raise _wrapped(compiled.text, error) from error
        finally:
            cursor.close()

    def many(self, connection: Connection, values: Sequence[Mapping[str, object]]) -> None:
        """Execute the statement once for each of some values; see `rows`."""
        compiled = self._compiled.get(connection.dialect.name) or self._compile(connection)
        cursor = connection.connection.cursor()
        try:
            cursor.executemany(compiled.text, [compiled.given(each) for each in values])  # type: ignore[arg-type]
        except connection.dialect.loaded_dbapi.Error as error:
            raise _wrapped(compiled.text, error) from error
        finally:
            cursor.close()

    def column(self, connection: Connection, values: Mapping[str, object]) -> list[Any]:
        """Return the first column of the rows; see `rows`."""
        return [row[0] for row in self.rows(connection, values)]

    def scalar(self, connection: Connection, values: Mapping[str, object]) -> Any:
        """Return the first column of the first row, or None if there is no row; see `rows`."""
        return next(iter(self.column(connection, values)), None)

    def _compile(self, connection: Connection) -> _Compiled:
        name = connection.dialect.name
        if isinstance(self._statement, str):
            compiled = _Compiled(_with_parameters(self._statement, name), None)
        else:
            statement: Any = self._statement()
            made = statement.compile(dialect=connection.engine.dialect)
            compiled = _Compiled(made.string, tuple(made.positiontup) if made.positional else None, made.params)
        self._compiled[name] = compiled
        return compiled


def _with_parameters(text: str, dialect: str) -> str:
    """Return SQL text with its parameters in the form of the driver: SQLite's takes them as they are."""
    return text if dialect == "sqlite" else _PARAMETER.sub(r"%(\1)s", text.replace("%", "%%"))


def _wrapped(text: str, error: BaseException) -> Exception:
    from sqlalchemy.exc import DBAPIError

    return DBAPIError(text, None, error)


def among(parameter: str) -> dict[str, str]:
    """Return the SQL condition by dialect that a value is one of the texts in a parameter, a JSON list.

    Args:
        parameter: Name of the parameter.
    """
    return {
        "sqlite": f"IN (SELECT value FROM json_each(:{parameter}))",  # noqa: S608 - a name
        # With an array, an index is scanned once for all values.
        "postgresql": f"= ANY (ARRAY(SELECT json_array_elements_text(CAST(:{parameter} AS json))))",
    }
