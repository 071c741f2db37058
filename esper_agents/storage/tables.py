"""The shape of the database. Times are UTC text of one width (`domain` says which), so that they sort."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Enum,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from esper_agents.domain.ledger import RowKind
from esper_agents.domain.memory import NoteKind, NoteState
from esper_agents.domain.session import SessionState
from esper_agents.domain.status import Kind, Status

# What 0001 creates. A later shape is a later migration; HEAD names the newest.
HEAD = "0001"

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
)

session = Table(
    "session",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("project_key", ForeignKey("project.key"), nullable=False),
    Column("request", Text, nullable=False),
    Column("created_at", _TIME, nullable=False),
    # Copies of what the ledger says, written in the transaction that says it, so that listing reads no ledger.
    Column("state", _words(SessionState), nullable=False),
    Column("agent", Text, nullable=False),
    Column("certificate_id", _ID, nullable=False),
    Column("changed_at", _TIME, nullable=False),
    # The lease. The fence grows with every claim; a write that names an older one is refused.
    Column("owner", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    Column("expires_ms", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    Index("ix_session_project_key_id", "project_key", "id"),
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
    Column("kind", _words(Kind), nullable=False),
    Column("status", _words(Status), nullable=False),
    Column("ceiling", _words(Status), nullable=False),
    Column("descriptor", Text, nullable=False),
    Column("component", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("revision", String(64), nullable=False),
    Column("view_name", Text, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("statement", LargeBinary, nullable=False),
    Index("ix_certificate_project_key_position", "project_key", "position"),
)

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
    Column("session_id", ForeignKey("session.id"), nullable=False),
    Column("certificate_id", _ID, nullable=False),
    Column("revision", String(64), nullable=False),
    Column("sources", Text, nullable=False),
    Column("written_at", _TIME, nullable=False),
    UniqueConstraint("session_id", "agent", "kind", "subject"),
    Index("ix_note_project_key_agent_kind_state", "project_key", "agent", "kind", "state"),
)
