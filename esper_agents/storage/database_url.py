"""URL of the database: the file of a project, or `ESPER_DATABASE_URL`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from esper_agents.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import URL

_SPOKEN = ("sqlite", "postgresql")
# Query parameters of the URL that may contain a password.
_SECRETS = ("password", "sslpassword", "oauth_client_secret")
_SET_IT = "set it to postgresql://user@host/name, or unset it"


@dataclass(frozen=True, slots=True)
class SqliteUrl:
    """URL of an SQLite file, which needs no SQLAlchemy.

    Attributes:
        database: The file.
    """

    database: str

    @staticmethod
    def get_backend_name() -> str:
        """Return the name of the database system, as SQLAlchemy's URLs do."""
        return "sqlite"


DatabaseUrl: TypeAlias = "SqliteUrl | URL"


def database_url(default_file: Path) -> DatabaseUrl:
    """Return the URL of the database: `ESPER_DATABASE_URL`, else the given SQLite file.

    Raises:
        UsageError: `ESPER_DATABASE_URL` is not a database URL.
    """
    given = os.environ.get("ESPER_DATABASE_URL")
    if not given:
        return SqliteUrl(str(default_file))
    from sqlalchemy import make_url
    from sqlalchemy.exc import SQLAlchemyError

    try:
        url = make_url(given)
        system = url.get_backend_name()
    except SQLAlchemyError as error:
        raise UsageError("ESPER_DATABASE_URL is not a database URL", remedy=_SET_IT) from error
    if system not in _SPOKEN:
        raise UsageError(f"ESPER_DATABASE_URL names a {system!r} database", remedy=_SET_IT)
    return SqliteUrl(url.database) if system == "sqlite" and url.database and not url.query else url


def display_name(url: DatabaseUrl) -> str:
    """Return the display name of a database: the file, or the URL without any password."""
    if isinstance(url, SqliteUrl) or url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.difference_update_query(_SECRETS).render_as_string()
