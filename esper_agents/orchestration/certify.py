"""Certify node: issue the certificate of a conclusion once, and publish its views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.archive import store as archive
from esper_agents.archive.publishing import publish
from esper_agents.certificates.log_entry import enter_unlogged, sign_and_log
from esper_agents.certificates.policy import rulebook
from esper_agents.certificates.statement import parse, statement
from esper_agents.domain.ledger import CertificateIssued, RowKind
from esper_agents.domain.memory import ACTION
from esper_agents.memory import notes
from esper_agents.memory.lessons import gap_action, lessons
from esper_agents.orchestration import follow_ups
from esper_agents.orchestration.build_certificate import certificate
from esper_agents.orchestration.poison_session import MOST_ATTEMPTS
from esper_agents.orchestration.session_run import session_row
from esper_agents.storage import ledger, session_search_index

if TYPE_CHECKING:
    from esper_agents.domain.certificate import Certificate
    from esper_agents.orchestration.session_run import SessionRun
    from esper_agents.storage.ledger import Appended
    from esper_agents.storage.store import Store


async def certify(run: SessionRun) -> None:
    """Issue the certificate of a conclusion if it is not issued yet, and publish it.

    A session that is waiting, was refused or was cancelled has no conclusion and ends here without a verdict.
    """
    frame, certified = run.history.conclusion, run.history.certified
    if frame is None or run.history.is_cancelled:
        return
    # An earlier run may have died between the certificate and its files. If each one dies there, `repair` is left.
    if certified is not None and run.lease.attempt > MOST_ATTEMPTS:
        return
    with run.publishing():
        name = certified.certificate if certified else await _issued(run, certificate(run.history, frame))
        await run.services.store.run(publish, run.services.place, name)


async def _issued(run: SessionRun, content: Certificate) -> str:
    """Issue a certificate, and return its ID."""
    data = statement(content)
    issued = parse(data)
    rulebook.keep(run.services.place.artifacts)
    await run.transact(lambda store: _issue(store, run, issued, data))
    return issued.id


def _issue(store: Store, run: SessionRun, issued: Certificate, data: bytes) -> Appended:
    """Archive, sign, log, remember and record in one transaction: the event is the commit point.

    The listed state stays open until the lease is returned, after publication: if this process dies before that, the
    next one that claims the session publishes.
    """
    project_key = run.services.project.key
    with store.writing() as transaction:
        enter_unlogged(transaction, str(store.where), project_key)
        digest = archive.add(transaction, project_key, issued, data)
        sign_and_log(transaction, project_key, issued.id, data)
        follow_ups.close_done(transaction, project_key, issued)
        if taken := issued.task.options.get(ACTION):
            notes.close_gap(transaction, project_key, taken, still_open={gap_action(gap) for gap in issued.gaps})
        notes.write(transaction, project_key, lessons(issued))
        session_search_index.write(transaction, run.session, issued.summary)
        row = session_row(RowKind.CERTIFIED), CertificateIssued(issued.id, digest)
        return ledger.append_within(transaction, run.lease, [row], certificate_id=issued.id)
