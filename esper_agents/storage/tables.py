"""Database tables. Times are UTC text of fixed width, so that they sort."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Enum,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from esper_agents.domain.status import QuestionType, Status
from esper_agents.domain.stored_kinds import (
    EntryKind,
    NoteKind,
    NoteState,
    OriginKind,
    RelationKind,
    RowKind,
    SessionState,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_ID = String(40)
_TIME = String(24)
_SEQUENCE = BigInteger().with_variant(Integer, "sqlite")


def _words(words: type) -> Enum:
    return Enum(words, native_enum=False, length=32, values_callable=lambda each: [str(word) for word in each])


project = Table(
    "project",
    metadata,
    Column("key", String(96), primary_key=True),
    Column("root", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("opened_at", _TIME, nullable=False),
    # The transparency log with the project's entries; 0 before its first entry. It never changes after that.
    Column("log_id", Integer, nullable=False, server_default="0"),
)

session = Table(
    "session",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("request", Text, nullable=False),
    Column("created_at", _TIME, nullable=False),
    # Copies of ledger data, written in the same transaction as the events, so that a listing does not read the ledger.
    Column("state", _words(SessionState), nullable=False),
    Column("agent", Text, nullable=False),
    Column("certificate_id", _ID, nullable=False),
    Column("changed_at", _TIME, nullable=False),
    # The lease. The fencing token increases with every claim; a write with an older one is rejected.
    Column("owner", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    # Whether a worker may claim it, and its origin: the session that it forks or continues.
    Column("queued", Boolean, nullable=False, server_default=false()),
    Column("origin_id", _ID, nullable=False, server_default=""),
    Column("origin_kind", _words(OriginKind), nullable=False, server_default=OriginKind.SUBMITTED.value),
    Index("ix_session_project_key_id", "project_key", "id"),
    Index("ix_session_project_key_changed_at", "project_key", "changed_at"),
    Index("ix_session_project_key_state_id", "project_key", "state", "id"),
    Index("ix_session_project_key_agent_id", "project_key", "agent", "id"),
    Index("ix_session_queued_id", "queued", "id"),
)

ledger = Table(
    "ledger",
    metadata,
    Column("seq", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("session_id", ForeignKey("session.id"), nullable=False),
    Column("frame", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("call", Integer, nullable=False),
    Column("kind", _words(RowKind), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("at", _TIME, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("session_id", "frame", "step", "call", "kind"),
    Index("ix_ledger_session_id_seq", "session_id", "seq"),
)

certificate = Table(
    "certificate",
    metadata,
    Column("position", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("id", _ID, nullable=False, unique=True),
    Column("session_id", ForeignKey("session.id"), nullable=False),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("issued_at", _TIME, nullable=False),
    Column("agent", Text, nullable=False),
    Column("kind", _words(QuestionType), nullable=False),
    Column("status", _words(Status), nullable=False),
    Column("ceiling", _words(Status), nullable=False),
    Column("descriptor", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("revision", String(64), nullable=False),
    # Derived from the statement. These columns are checked against it before they name a file.
    Column("view_name", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("statement", LargeBinary, nullable=False),
    Index("ix_certificate_project_key_position", "project_key", "position"),
    Index("ix_certificate_project_key_revision_position", "project_key", "revision", "position"),
    # The other filter columns are part of the list's index, so that no certificate row is read.
    Index("ix_certificate_project_key_status_position", "project_key", "status", "position", "agent", "component"),
    Index("ix_certificate_project_key_agent_position", "project_key", "agent", "position", "status", "component"),
    Index("ix_certificate_project_key_component_position", "project_key", "component", "position", "status", "agent"),
    Index(
        "ix_certificate_project_key_issued_at_position",
        *("project_key", "issued_at", "position", "status", "agent", "component"),
    ),
    Index("ix_certificate_session_id", "session_id"),
    # Unique per project, not per agent folder: differing folder names may be one folder on disk.
    Index("uq_certificate_project_key_view_name", "project_key", "view_name", unique=True),
)

# Search columns of certificates. They derive from the statements, and can be rebuilt from them.
certificate_file = Table(
    "certificate_file",
    metadata,
    Column("path", Text, primary_key=True),
    Column("position", ForeignKey("certificate.position"), primary_key=True),
    Index("ix_certificate_file_position", "position"),
)

certificate_rule = Table(
    "certificate_rule",
    metadata,
    Column("rule", String(64), primary_key=True),
    Column("position", ForeignKey("certificate.position"), primary_key=True),
    Index("ix_certificate_rule_position", "position"),
)

certificate_relation = Table(
    "certificate_relation",
    metadata,
    # The certificate that the one at `position` supersedes, revokes, depends on or countersigns.
    Column("other", _ID, primary_key=True),
    Column("position", ForeignKey("certificate.position"), primary_key=True),
    Column("kind", _words(RelationKind), primary_key=True),
    Index("ix_certificate_relation_position", "position"),
)

certificate_metric = Table(
    "certificate_metric",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", ForeignKey("certificate.position"), primary_key=True),
    Column("evidence_id", _ID, primary_key=True),
    Column("amount", Float, nullable=False),
    Index("ix_certificate_metric_position", "position"),
)

log = Table(
    "log",
    metadata,
    # 1 is the log that all projects of a database shared in 0.1.0; any other log belongs to one project.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("origin", Text, nullable=False),
    Column("created_at", _TIME, nullable=False),
)

log_entry = Table(
    "log_entry",
    metadata,
    Column("log_id", Integer, primary_key=True, autoincrement=False),
    # From 0, without gaps: the index of the leaf in the tree.
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("record_id", _ID, nullable=False),
    Column("kind", _words(EntryKind), nullable=False),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("about", _ID, nullable=False),
    Column("at", _TIME, nullable=False),
    Column("key_id", String(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("leaf_hash", LargeBinary, nullable=False),
    # Empty if the record is a certificate, whose statement is in `certificate`.
    Column("statement", LargeBinary, nullable=False),
    # A notice about a key is in every log; a certificate is in the log of its project.
    UniqueConstraint("record_id", "log_id"),
    Index("ix_log_entry_about", "about"),
    Index("ix_log_entry_log_id_kind_idx", "log_id", "kind", "idx"),
    Index("ix_log_entry_key_id_record_id", "key_id", "record_id"),
)

log_node = Table(
    "log_node",
    metadata,
    Column("log_id", Integer, primary_key=True, autoincrement=False),
    # Root of the complete subtree over the leaves from idx * 2**level on; leaves have level 0.
    Column("level", Integer, primary_key=True, autoincrement=False),
    Column("idx", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False),
    # Stored in key order: a level is read sequentially, and a node without a second lookup.
    sqlite_with_rowid=False,
)

log_checkpoint = Table(
    "log_checkpoint",
    metadata,
    Column("log_id", Integer, primary_key=True, autoincrement=False),
    Column("size", BigInteger, primary_key=True, autoincrement=False),
    Column("note", Text, nullable=False),
    Column("at", _TIME, nullable=False),
)

# Certificates of other origins that a user imported into the archive. They are not verified.
imported = Table(
    "imported",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("path", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("agent", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("dated", Text, nullable=False),
    Column("problems", Text, nullable=False),
    Column("text", LargeBinary, nullable=False),
    Column("imported_at", _TIME, nullable=False),
    UniqueConstraint("project_key", "path", "sha256"),
)

# Its index of current notes, `ix_note_current`, is described in alembic/env.py: its condition would load the dialect of
# PostgreSQL at every start.
note = Table(
    "note",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("agent", Text, nullable=False),
    Column("kind", _words(NoteKind), nullable=False),
    Column("state", _words(NoteState), nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("command", Text, nullable=False),
    # Empty if a user wrote or imported it.
    Column("session_id", ForeignKey("session.id"), nullable=True),
    Column("certificate_id", _ID, nullable=False),
    Column("revision", String(64), nullable=False),
    Column("sources", Text, nullable=False),
    Column("written_at", _TIME, nullable=False),
    Column("author", Text, nullable=False, server_default=""),
    UniqueConstraint("session_id", "agent", "kind", "subject"),
    # Newest first within every combination: a listing reads the ends of a few runs, however many notes there are.
    Index("ix_note_project_key_agent_kind_state_id", "project_key", "agent", "kind", "state", "id"),
    Index("ix_note_project_key_kind_state_id", "project_key", "kind", "state", "id"),
)

# Search columns of notes in addition to the agent: the files that they refer to.
note_file = Table(
    "note_file",
    metadata,
    Column("path", Text, primary_key=True),
    Column("note_id", ForeignKey("note.id"), primary_key=True),
    Column("sha256", String(64), nullable=False),
    Index("ix_note_file_note_id", "note_id"),
)

# Files that tools made, for other machines; only rows of shared databases.
artifact = Table(
    "artifact",
    metadata,
    Column("project_key", String(96), primary_key=True),
    Column("sha256", String(64), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("stored_at", _TIME, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# Which process measures on a device. A released row stays, so that its fencing token only increases.
device_lease = Table(
    "device_lease",
    metadata,
    Column("device", String(255), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("machine", Text, nullable=False),
    Column("project_key", String(96), nullable=False),
    Column("claimed_at", _TIME, nullable=False),
)

# Model requests outside sessions with their responses: reported as cost, and not sent twice.
exchange = Table(
    "exchange",
    metadata,
    Column("id", _SEQUENCE, primary_key=True, autoincrement=True),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("purpose", Text, nullable=False),
    Column("request_sha256", String(64), nullable=False),
    Column("at", _TIME, nullable=False),
    Column("record", Text, nullable=False),
    Index("ix_exchange_project_key_request_sha256", "project_key", "request_sha256"),
)
