"""What must hold after every crash: nothing lost that was accepted, nothing repeated, one certificate, a whole log."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from crash_session import ANSWERS, PLAYBOOKS, UNREPEATABLE
from databases import connected, settle

from esper_agents.api import open_project, verify_archive
from esper_agents.archive.verification.statement import CheckOutcome, verify_statement, verify_view
from esper_agents.certificates.policy.verdict_ceiling import policy_text
from esper_agents.certificates.signing.dsse import read_envelope
from esper_agents.domain.evidence import CallOutcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from crash_session import Place

    from esper_agents.archive.repair import RepairResult

_ROWS = "SELECT seq, session_id, frame, step, call, kind, fence, body FROM ledger ORDER BY seq"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was on record at one moment.

    Attributes:
        rows: The ledger, as tuples in the order of `_ROWS`.
        effects: What the tools have noted: name and evidence.
    """

    rows: tuple[tuple[int, str, int, int, int, str, int, str], ...]
    effects: tuple[str, ...]

    @property
    def keys(self) -> tuple[tuple[int, int, int, str], ...]:
        """What names each row within its session."""
        return tuple(row[2:6] for row in self.rows)

    @property
    def finished(self) -> set[str]:
        """Evidence of the calls that have a result."""
        return {body["evidence"]["id"] for body in self.bodies("called")}

    @property
    def begun(self) -> set[str]:
        """Evidence of the calls that were begun."""
        return {body["evidence"] for body in self.bodies("calling")}

    def bodies(self, kind: str) -> list[dict[str, Any]]:
        """Return what the rows of a kind hold."""
        return [json.loads(row[7]) for row in self.rows if row[5] == kind]


def look(place: Place) -> Seen:
    """Return what is on record now."""
    return Seen(tuple(_select(place, _ROWS)), tuple(place.lines("effects")))


def _select(place: Place, statement: str) -> list[tuple[int, str, int, int, int, str, int, str]]:
    if place.server:
        settle(place.database)
        with connected(place.database) as connected_to:
            there = connected_to.execute("SELECT to_regclass('ledger')").fetchone()
            return connected_to.execute(statement).fetchall() if there and there[0] else []
    found = list(place.home.glob("projects/*/esper.db"))
    if not found:
        return []
    with closing(sqlite3.connect(found[0])) as connection:
        has_table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'ledger'").fetchone()
        return connection.execute(statement).fetchall() if has_table else []


def violations(place: Place, kills: Sequence[Seen], expected: Sequence[tuple[int, int, int, str]]) -> list[str]:
    """Return everything that does not hold after a session was killed and resumed to its end.

    Args:
        place: Where.
        kills: What was on record after each kill.
        expected: Keys of the rows of a session that nothing happened to.
    """
    now = look(place)
    found = [*place.lines("trouble"), *_lost(place, now), *_of_calls(now), *_certificate(place, now), *_log(place)]
    for kill in kills:
        found.extend(_since(kill, now))
    if sorted(now.keys) != sorted(expected):
        odd = set(now.keys) ^ set(expected)
        found.append(f"the ledger has other rows than without a crash: {sorted(odd) or 'some of them twice'}")
    return found


def _lost(place: Place, now: Seen) -> Iterator[str]:
    accepted = place.lines("accepted")
    if len(accepted) > 1:
        yield f"{len(accepted)} sessions were accepted"
    if lost := set(accepted) - {row[1] for row in now.rows if row[5] == "certified"}:
        yield f"accepted and not brought to its end: {lost}"
    if len({row[1] for row in now.rows}) != 1:
        yield "there is not exactly one session"
    if repeated := [key for key, number in Counter(now.keys).items() if number > 1]:
        yield f"ledger keys stand twice: {repeated}"
    fences = [row[6] for row in now.rows]
    if fences != sorted(fences):
        yield "an older owner wrote after a newer one"


def _of_calls(now: Seen) -> Iterator[str]:
    started = Counter(now.effects)
    for line, number in started.items():
        name, _, evidence = line.partition(" ")
        if name in UNREPEATABLE and number > 1:
            yield f"{name} is not repeatable and was started {number} times"
        if ANSWERS.get(name) == "deny":
            yield f"{name} was denied and has run"
        if evidence not in now.begun:
            yield f"{name} ran without a row before it"
    ran = {line.partition(" ")[2] for line in started}
    for body in now.bodies("called"):
        evidence = body["evidence"]
        is_ours = evidence["tool"].startswith("crash-") and evidence["outcome"] == CallOutcome.COMPLETED
        if is_ours and evidence["id"] not in ran:
            yield f"{evidence['tool']} is on record and never ran"


def _since(kill: Seen, now: Seen) -> Iterator[str]:
    """Yield what must not have happened since a kill."""
    if now.rows[: len(kill.rows)] != kill.rows:
        yield "rows that were durable are gone or changed"
    for line in now.effects[len(kill.effects) :]:
        name, _, evidence = line.partition(" ")
        if evidence in kill.finished:
            yield f"{name} had finished and ran again"
    outcomes = {body["evidence"]["id"]: body["evidence"] for body in now.bodies("called")}
    for each in kill.begun - kill.finished:
        record = outcomes.get(each)
        if record is None:
            yield f"the call {each} was begun and has no result"
        elif record["tool"] in UNREPEATABLE and record["outcome"] != CallOutcome.INTERRUPTED:
            yield f"{record['tool']} was interrupted and is on record as {record['outcome']}"


_CERTIFICATES = "SELECT position, id, agent, view_name, sha256, statement, 0, '' FROM certificate"


def _certificate(place: Place, now: Seen) -> Iterator[str]:
    found = _select(place, _CERTIFICATES)
    if len(found) != 1 or len(now.bodies("certified")) != 1:
        yield f"{len(found)} certificates were issued"
        return
    _, _, agent, name, _, data, *_ = found[0]
    documents = place.project / "docs/ai/agents"
    view = documents / str(agent) / "certificates" / str(name)
    yield from _view(view, bytes(data))  # type: ignore[arg-type] # the column holds bytes
    yield from (
        f"{who} has no {what}"
        for who in PLAYBOOKS
        for what in ("working-memory.md", "decisions-log.md", "next-actions.md")
        if not (documents / who / what).is_file()
    )


def _view(view: Path, data: bytes) -> Iterator[str]:
    if not all(view.with_suffix(each).is_file() for each in (".md", ".html", ".dsse.json", ".tlog-proof")):
        yield "the certificate is not published whole"
        return
    if read_envelope(view.with_suffix(".dsse.json").read_bytes()).payload != data:
        yield "the certificate is not published as it was issued"
    checks = (*verify_view(data, view.read_text()), *verify_statement(data, policy_text()))
    yield from (f"{check.name}: {check.detail}" for check in checks if check.outcome is not CheckOutcome.HOLDS)


def mend(place: Place) -> RepairResult:
    """Repair the archive of a place, as somebody may at any time."""

    async def run() -> RepairResult:
        async with open_project(place.project) as project:
            return await project.certificates.repair()

    with patch.dict(os.environ, place.environment):
        return asyncio.run(run())


def _log(place: Place) -> Iterator[str]:
    """Yield what is wrong with the log and the certificate's standing in it, and what a repair still finds to do."""
    with patch.dict(os.environ, place.environment):
        whole = asyncio.run(verify_archive(place.project))
    yield from (f"log: {fault.kind} at {fault.where}" for fault in whole.faults)
    for certificate in whole.certificates:
        found = certificate.verified
        checks = (*found.genuine, *found.complete, *found.verdict)
        yield from (f"{check.name}: {check.detail}" for check in checks if check.outcome is not CheckOutcome.HOLDS)
    done = mend(place)
    if done.written or done.corrected or done.entered or done.nodes or done.left:
        yield f"a repair had something to do: {done}"
