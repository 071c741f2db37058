"""A small archive to attack: notices and certificates entered as the program enters them."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

from certificate_samples import certificate
from sqlalchemy import delete, insert, select, text

from esper_agents.archive import store as archive
from esper_agents.certificates.log import merkle, pins, transparency_log
from esper_agents.certificates.log.audit_log import audit_log
from esper_agents.certificates.log.deep_audit import deep_audit
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint
from esper_agents.certificates.log.transparency_log import Record
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import statement
from esper_agents.domain.notice import EntryKind
from esper_agents.domain.project import GitRevision, Project
from esper_agents.domain.session import Submission
from esper_agents.domain.status import QuestionType
from esper_agents.domain.task import Task
from esper_agents.storage import sessions
from esper_agents.storage.tables import certificate as certificates
from esper_agents.storage.tables import log_checkpoint, log_entry, log_node, metadata

PROJECT = Project("/somewhere/toy", "toy", "toy-0123456789ab", is_git=False)
TABLES = ("log_node", "log_checkpoint", "log_entry", "log")


def notice_bytes(number: int) -> bytes:
    return json.dumps({"predicate": {"id": notice_id(number), "certificate": "", "reason": "because"}}).encode()


def notice_id(number: int) -> str:
    return f"ntc_{number:032x}"


class Archive:
    """An archive, the program that writes it, and whoever else has the database."""

    def __init__(self, store, home):
        self.store = store
        self.home = home
        self.key = signing_key(home)
        self.logged = []
        revision = GitRevision("", "", "", "", is_git=False, dirty=())
        submission = Submission(Task("review", (), QuestionType.APPROVAL, "review"), "toy", revision, {}, "somebody")
        self.session = sessions.create(store, PROJECT, submission).session

    def grow(self, count):
        for _ in range(count):
            number = self.size
            self.enter(Record(notice_id(number), EntryKind.NOTICE, "", notice_bytes(number)))

    def certify(self, number=0, **changes):
        issued = replace(certificate(**changes), id=f"crt_{number:032x}", session=self.session)
        data = statement(issued)

        def add(transaction):
            archive.add(transaction, PROJECT.key, issued, data)

        self.enter(Record(issued.id, EntryKind.CERTIFICATE, issued.id, data), add)
        return issued.id

    def enter(self, record, before=lambda _transaction: None):
        with self.store.writing() as transaction:
            pins.check_before_append(transaction.connection, self.home, self.store.where, PROJECT.key)
            before(transaction)
            logged = transparency_log.append(transaction, self.key, PROJECT.key, record)
        self.renew()
        self.logged.append(logged)

    def renew(self):
        with self.store.reading() as connection:
            pins.renew(connection, self.home, self.store.where, PROJECT.key)

    @property
    def pin(self):
        """Return the file of the pin of its log."""
        with self.store.reading() as connection:
            return pins.pin_file(self.home, self.store.where, pins.pinned_for(connection, PROJECT.key))

    @property
    def log_id(self):
        with self.store.reading() as connection:
            return transparency_log.log_of(connection, PROJECT.key)

    @property
    def size(self):
        with self.store.reading() as connection:
            return transparency_log.size(connection, transparency_log.log_of(connection, PROJECT.key))

    def audit(self, published=()):
        return audit_log(self.store, self.home, PROJECT.key, [self.key.public_key], published)

    def kinds(self, published=()):
        return set(self.audit(published).counts)

    def deep(self):
        return deep_audit(self.store, PROJECT.key, {self.key.key_id: self.key.public_key})

    def check_pin(self):
        with self.store.reading() as connection:
            return [each.kind for each in pins.check_pin(connection, self.home, self.store.where, PROJECT.key)]

    def sql(self, *statements):
        with self.store.writing() as transaction:
            for each in statements:
                transaction.connection.execute(text(each))

    def remove(self, certificate_id):
        """Take a certificate out of the archive, with all that it is found by."""
        with self.store.writing() as transaction:
            position = select(certificates.c.position).where(certificates.c.id == certificate_id).scalar_subquery()
            for table in metadata.tables.values():
                if any(key.column is certificates.c.position for key in table.foreign_keys):
                    transaction.connection.execute(delete(table).where(table.c.position == position))
            transaction.connection.execute(delete(certificates).where(certificates.c.id == certificate_id))

    def rows(self):
        with self.store.reading() as connection:
            return {name: connection.execute(text(f"SELECT * FROM {name} ORDER BY 1, 2")).all() for name in TABLES}

    def put_back(self, rows):
        """Replace the whole log by an older copy of it."""
        with self.store.writing() as transaction:
            tables = {"log_node": log_node, "log_checkpoint": log_checkpoint, "log_entry": log_entry}
            for name, table in tables.items():
                transaction.connection.execute(delete(table))
                if rows[name]:
                    transaction.connection.execute(insert(table), [each._asdict() for each in rows[name]])

    def renumber(self, order):
        """Give entries new places: those of `order`, from 0; the others are deleted."""
        with self.store.writing() as transaction:
            found = {each.idx: each._asdict() for each in transaction.connection.execute(select(log_entry))}
            transaction.connection.execute(delete(log_entry))
            moved = [{**found[old], "idx": new} for new, old in enumerate(order)]
            transaction.connection.execute(insert(log_entry), moved)

    def rebuild(self, *, key=None):
        """Make every node fit the entries, as somebody would who knows how; with a key, sign that, too."""
        with self.store.writing() as transaction:
            connection = transaction.connection
            log_id = transparency_log.log_of(connection, PROJECT.key)
            leaves = connection.scalars(select(log_entry.c.leaf_hash).order_by(log_entry.c.idx)).all()
            nodes = {}
            for idx, leaf in enumerate(leaves):
                nodes.update(merkle.appended(idx, leaf, lambda places: [nodes[each] for each in places]))
            connection.execute(delete(log_node))
            connection.execute(
                insert(log_node), [{"log_id": log_id, **place._asdict(), "hash": each} for place, each in nodes.items()]
            )
            if key is not None:
                root = merkle.root(len(leaves), lambda places: [nodes[each] for each in places])
                note = signed_checkpoint(
                    Checkpoint(transparency_log.origin(connection, log_id), len(leaves), root), key
                )
                connection.execute(delete(log_checkpoint))
                connection.execute(
                    insert(log_checkpoint).values(log_id=log_id, size=len(leaves), note=note, at=transaction.at)
                )


def leaf(number: int) -> bytes:
    return merkle.leaf_hash(sha256(str(number).encode()).digest())
