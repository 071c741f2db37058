from __future__ import annotations

from hashlib import sha256

import pytest
from sqlalchemy import insert, select, text, update
from storage_samples import PROJECT, submission

from esper_agents.domain.ledger import CertificateIssued, RowKey, RowKind
from esper_agents.domain.origin import OriginKind, SessionOrigin
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import QuestionType, Status
from esper_agents.storage import lease, ledger, pruning, sessions
from esper_agents.storage.tables import certificate, session

STATEMENT = b'{"artifact":"' + b"ab" * 32 + b'"}'
DIGEST = sha256(STATEMENT).hexdigest()


@pytest.fixture(autouse=True)
def frozen(clock, monkeypatch):
    monkeypatch.setattr(pruning, "database_clock", clock)


@pytest.fixture
def ended(store, create):
    """Make a session that has ended, with a certificate where it is done."""

    def make(state=SessionState.DONE, *, digest=DIGEST):
        held = create()
        name = f"crt_{held.session[4:]}"
        rows = [(RowKey(1, 1, 0, kind), {"sha256": "cd" * 32}) for kind in (RowKind.DECIDING, RowKind.MOVED)]
        if state is SessionState.DONE:
            rows.append((RowKey(0, 0, 0, RowKind.CERTIFIED), CertificateIssued(name, digest)))
            with store.writing() as transaction:
                transaction.connection.execute(insert(certificate).values(**columns(name, held.session)))
        ledger.append(store, held, rows, state=state)
        lease.release(store, held, state)
        return held.session

    return make


def columns(name, session_id):
    words = dict.fromkeys(("agent", "descriptor", "component", "request", "revision"), "")
    return {
        **words,
        "id": name,
        "view_name": f"{name}.md",
        "session_id": session_id,
        "project_key": PROJECT.key,
        "issued_at": "",
        "kind": QuestionType.APPROVAL,
        "status": Status.APPROVED,
        "ceiling": Status.APPROVED,
        "sha256": "",
        "statement": STATEMENT,
    }


def old(store, days=0):
    return [each.id for each in pruning.old_sessions(store, PROJECT.key, days=days)]


def prune(store, days=0):
    return [each.id for each in pruning.prune(store, PROJECT.key, old(store, days), days=days, by="ann")]


def kinds(store, session_id):
    with store.reading() as connection:
        return [row.key.kind for row in ledger.rows(connection, session_id)]


def test_what_agents_did_goes_and_what_was_asked_and_came_of_it_stays(store, ended, clock):
    name = ended()
    clock.now_ms += 1
    assert prune(store) == [name]
    assert kinds(store, name) == [RowKind.SUBMITTED, RowKind.CERTIFIED, RowKind.PRUNED]
    with store.reading() as connection:
        assert connection.scalar(select(certificate.c.statement)) == STATEMENT
    assert sessions.find(store, PROJECT.key, name).state is SessionState.DONE
    assert prune(store) == []


@pytest.mark.parametrize("state", [SessionState.OPEN, SessionState.WAITING])
def test_an_unfinished_session_is_never_touched(store, ended, clock, state):
    name = ended(state)
    clock.now_ms += 1_000_000_000
    assert old(store) == []
    assert pruning.prune(store, PROJECT.key, [name], days=0, by="ann") == ()
    assert RowKind.MOVED in kinds(store, name)


def test_a_session_that_was_refused_or_cancelled_needs_no_certificate(store, ended, clock):
    names = [ended(SessionState.REFUSED), ended(SessionState.CANCELLED)]
    clock.now_ms += 1
    assert prune(store) == names


def test_days_count_from_when_something_last_happened(store, ended, clock):
    name = ended()
    clock.now_ms += 86_400_000
    assert old(store, days=1) == []
    clock.now_ms += 1
    assert old(store, days=1) == [name]
    assert old(store, days=2) == []


def test_a_session_whose_certificate_is_not_what_its_ledger_says_keeps_it(store, ended, clock):
    ended(digest="00" * 32)
    clock.now_ms += 1
    assert old(store) == []


def test_a_session_whose_certificate_is_gone_keeps_its_ledger(store, ended, clock):
    ended()
    with store.writing() as transaction:
        transaction.connection.execute(text("DELETE FROM certificate"))
    clock.now_ms += 1
    assert old(store) == []


def test_a_session_that_somebody_works_on_is_passed_over(store, ended, clock):
    name = ended()
    clock.now_ms += 1
    chosen = old(store)
    lease.claim(store, name)
    assert chosen == [name]
    assert pruning.prune(store, PROJECT.key, chosen, days=0, by="ann") == ()


def test_what_an_unfinished_session_grew_out_of_is_kept_until_that_one_ends(store, ended, clock):
    name = ended()
    heir = sessions.create(store, PROJECT, submission(), origin=SessionOrigin(OriginKind.CONTINUED, name))
    clock.now_ms += 1
    assert old(store) == []
    with store.writing() as transaction:
        done = update(session).where(session.c.id == heir.session).values(state=SessionState.CANCELLED)
        transaction.connection.execute(done)
    assert old(store) == [name]


def test_another_project_keeps_its_own(store, ended, clock):
    name = ended()
    clock.now_ms += 1
    assert pruning.old_sessions(store, "other-0123456789ab", days=0) == ()
    assert pruning.prune(store, "other-0123456789ab", [name], days=0, by="ann") == ()


def test_a_digest_is_named_while_a_ledger_or_a_certificate_names_it(store, ended, clock):
    name = ended()
    clock.now_ms += 1
    assert {"ab" * 32, "cd" * 32} <= pruning.named_digests(store, PROJECT.key)
    assert "cd" * 32 not in pruning.named_digests(store, PROJECT.key, without=[name])
    prune(store)
    named = pruning.named_digests(store, PROJECT.key)
    assert "ab" * 32 in named
    assert "cd" * 32 not in named


def test_sessions_are_still_found_after_pruning(store, ended, clock):
    name = ended()
    clock.now_ms += 1
    prune(store)
    assert [each.id for each in sessions.search(store, PROJECT.key, "review")] == [name]
    assert sessions.find(store, PROJECT.key, name[-12:]).id == name
