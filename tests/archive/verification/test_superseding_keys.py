"""Keys whose certificates supersede those of a key in one log: one owner, or one log that introduced them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from archive_samples import PROJECT, made

from esper_agents.archive import store as archive
from esper_agents.archive.verification.signature import Keyring
from esper_agents.archive.verification.supersession import EndingKind, later_entries
from esper_agents.certificates.log import transparency_log
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.notices import log_notices, notice_statement
from esper_agents.certificates.signing.allowed_signers import own_signer
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.public_keys import as_ssh
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.signing.trusted_keys import TrustedKey, TrustedKeys, TrustOrigin
from esper_agents.domain.notice import EntryKind, LogNoticeStatement, NoticeKind
from esper_agents.domain.relation import Relation, RelationKind

REJECTION, REPLACEMENT = made(1), made(2)
REPLACEMENT = replace(REPLACEMENT, relations=(Relation(RelationKind.SUPERSEDES, REJECTION.id, "0" * 64),))


@pytest.fixture
def logged(archived, home, tmp_path):
    """Return what enters a rejection by the user's key, and its replacement by another key, and reads the endings."""
    other = signing_key(tmp_path / "other")

    def enter(*, owners=(), introduction=None):
        rejection, replacement = (
            Record(archived.add(issued), EntryKind.CERTIFICATE, issued.id, archive.read(archived.store, issued.id))
            for issued in (REJECTION, REPLACEMENT)
        )
        with archived.store.writing() as transaction:
            own = signing_key(home)
            transparency_log.append(transaction, own, PROJECT.key, rejection)
            if introduction is not None:
                notice = LogNoticeStatement(
                    "ntc_" + "1" * 32, introduction, "2026-01-31T09:30:00.000Z", "ann", "", as_ssh(other.public_key)
                )
                record = Record(notice.id, EntryKind.NOTICE, "", notice_statement(notice))
                transparency_log.append(transaction, own, PROJECT.key, record)
            transparency_log.append(transaction, other, PROJECT.key, replacement)
        named = zip((own, other), owners, strict=False)
        keys = [TrustedKey(own_signer(name, key.public_key), TrustOrigin.HOME) for key, name in named]
        with archived.store.reading() as connection:
            log_id = transparency_log.log_of(connection, PROJECT.key)
            notices = list(log_notices(transparency_log.notices(connection, log_id)))
            roots = [own.public_key, *([other.public_key] if introduction is None else [])]
            keyring = Keyring(TrustedKeys(tuple(keys)), key_history(notices, roots))
            return [each.ending for each in later_entries(connection, log_id, REJECTION.id, keyring)]

    return enter


def test_a_certificate_of_a_colleague_in_the_database_does_not_supersede_a_rejection(logged):
    assert logged(owners=("ann", "bob")) == []


def test_another_key_of_the_same_owner_supersedes(logged):
    assert logged(owners=("ann", "ann")) == [EndingKind.SUPERSEDED]


@pytest.mark.parametrize("introduction", [NoticeKind.KEY_ADDED, NoticeKind.KEY_ENROLLED])
def test_the_next_key_and_the_key_of_a_worker_supersede(logged, introduction):
    assert logged(introduction=introduction) == [EndingKind.SUPERSEDED]
