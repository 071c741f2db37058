"""Recorded language model usage of a project, inside and outside its sessions."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from esper_agents.domain.usage import Expense, expense_of
from esper_agents.storage.compiled_statements import Prepared
from esper_agents.storage.model_requests import exchanges

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from esper_agents.storage.store import Store

_SELECT = """
SELECT moved.session_id, {agent}, {model}, {usage}, {spent}, {is_priced}
FROM session
JOIN ledger AS moved ON moved.session_id = session.id
JOIN ledger AS opened ON opened.session_id = moved.session_id AND opened.frame = moved.frame
  AND opened.step = 0 AND opened.call = 0 AND opened.kind = 'opened'
WHERE session.project_key = :project AND {wanted} AND moved.kind IN ('moved', 'deciding') AND {usage} IS NOT NULL
ORDER BY moved.seq
"""
_MEMBERS = {
    "agent": ("opened", "agent", "name"),
    "model": ("moved", "record", "model"),
    "usage": ("moved", "record", "usage"),
    "spent": ("moved", "record", "spent"),
    "is_priced": ("moved", "record", "is_priced"),
}
# Above this number of sessions, all rows of the project are read at once.
_MOST_SINGLY = 200
# Rows also contain the model's messages: extract only the needed values inside the database.
_FORMS = {
    "sqlite": "json_extract({table}.body, '$.{first}.{second}')",
    # PostgreSQL cannot parse JSON with a NUL in a text, so NUL is replaced by a blank; these texts are not read here.
    "postgresql": r"CAST(replace({table}.body, '\u0000', '\u0020') AS json) #>> '{{{first},{second}}}'",
}


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """Usage of one model by one agent in one session.

    Attributes:
        session: `ses_` identifier, or the purpose of a request outside sessions, such as `retrospect`.
        agent: The agent's name; outside sessions the same as `session`.
        model: The model's full name, as reported by the server.
        expense: The usage.
    """

    session: str
    agent: str
    model: str
    expense: Expense


def expenses(store: Store, project_key: str, sessions: Sequence[str] | None = None) -> tuple[ModelUsage, ...]:
    """Return the model usage in the order of the sessions' first turns, followed by usage outside sessions.

    Args:
        store: The store.
        project_key: Key of the project.
        sessions: Only these sessions; if None, all sessions and usage outside them.
    """
    found: dict[tuple[str, str, str], Expense] = {}
    is_all = sessions is None or len(sessions) > _MOST_SINGLY
    asked = ({},) if is_all else ({"session": each} for each in sessions or ())
    with store.reading() as connection:
        for given in asked:
            statement = _statement(connection.dialect.name, is_one=bool(given))
            for session, agent, model, *parts in statement.rows(connection, {"project": project_key, **given}):
                key = session, str(agent), str(model)
                found[key] = found.get(key, Expense()) + expense_of(_record(parts))
    for one in exchanges(store, project_key) if sessions is None else ():
        key = one.purpose, one.purpose, str(one.record.get("model"))
        found[key] = found.get(key, Expense()) + expense_of(one.record)
    wanted = frozenset(sessions or ())
    return tuple(ModelUsage(*key, each) for key, each in found.items() if sessions is None or key[0] in wanted)


def _record(parts: Sequence[Any]) -> Mapping[str, Any]:
    usage, spent, is_priced = (json.loads(part) if isinstance(part, str) else part for part in parts)
    # SQLite returns JSON booleans as 0 or 1.
    return {"usage": usage, "spent": spent, "is_priced": is_priced != 0}


@cache
def _statement(dialect: str, *, is_one: bool) -> Prepared:
    parts = {
        member: _FORMS[dialect].format(table=table, first=first, second=second)
        for member, (table, first, second) in _MEMBERS.items()
    }
    wanted = "session.id = :session" if is_one else "1 = 1"
    return Prepared(_SELECT.format(**parts, wanted=wanted))
