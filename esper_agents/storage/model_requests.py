"""Cache of model requests made outside sessions: each one is sent and paid for once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.projects import note_project

if TYPE_CHECKING:
    from collections.abc import Mapping

    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.project import Project
    from esper_agents.storage.store import Store


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to a model server with its response.

    Attributes:
        purpose: Purpose of the request, such as `retrospect`.
        request_sha256: Digest of the request.
        at: Time of the response, as `YYYY-MM-DDTHH:MM:SS.mmmZ`.
        record: The response and its cost, with the members of `reasoner.Decision.record`.
    """

    purpose: str
    request_sha256: str
    at: str
    record: JsonObject


def keep_exchange(
    store: Store, project: Project, purpose: str, request_sha256: str, record: Mapping[str, Any]
) -> ModelRequest:
    """Store an exchange, and return it.

    Args:
        store: The store.
        project: The project.
        purpose: Purpose of the request.
        request_sha256: Digest of the request.
        record: The response and its cost.
    """
    with store.writing() as transaction:
        note_project(transaction, project)
        values = {"project_key": project.key, "purpose": purpose, "request_sha256": request_sha256}
        values |= {"at": transaction.at, "record": json.dumps(record)}
        _INSERT.rows(transaction.connection, values)
        return ModelRequest(purpose, request_sha256, transaction.at, record)


def exchanges(store: Store, project_key: str, request_sha256: str = "") -> tuple[ModelRequest, ...]:
    """Return the stored exchanges of a project, oldest first.

    Args:
        store: The store.
        project_key: Key of the project.
        request_sha256: Only exchanges of this request; all if empty.
    """
    given = {"project": project_key, "request": request_sha256}
    with store.reading() as connection:
        found = (_OF_REQUEST if request_sha256 else _OF_PROJECT).rows(connection, given)
    return tuple(ModelRequest(purpose, digest, at, json.loads(record)) for purpose, digest, at, record in found)


_ALL = "SELECT purpose, request_sha256, at, record FROM exchange WHERE project_key = :project"
_OF_PROJECT = Prepared(f"{_ALL} ORDER BY id")
_OF_REQUEST = Prepared(f"{_ALL} AND request_sha256 = :request ORDER BY id")
_INSERT = Prepared(
    "INSERT INTO exchange (project_key, purpose, request_sha256, at, record)"
    " VALUES (:project_key, :purpose, :request_sha256, :at, :record)"
)
