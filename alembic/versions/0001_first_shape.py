"""the first shape: projects, sessions, ledger, certificates, notes."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "project",
        sa.Column("key", sa.String(length=96), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_project")),
    )
    op.create_table(
        "session",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "open", "waiting", "done", "refused", "cancelled", name="sessionstate", native_enum=False, length=32
            ),
            nullable=False,
        ),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("certificate_id", sa.String(length=40), nullable=False),
        sa.Column("changed_at", sa.String(length=24), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["project_key"], ["project.key"], name=op.f("fk_session_project_key_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session")),
    )
    with op.batch_alter_table("session", schema=None) as batch_op:
        batch_op.create_index("ix_session_project_key_id", ["project_key", "id"], unique=False)

    op.create_table(
        "certificate",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("session_id", sa.String(length=40), nullable=False),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("issued_at", sa.String(length=24), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column(
            "kind",
            sa.Enum("approval", "go", "recommendation", "advice", name="kind", native_enum=False, length=32),
            nullable=False,
        ),
        sa.Column(
            "status",
            sa.Enum(
                "APPROVED",
                "CONDITIONALLY_APPROVED",
                "REJECTED",
                "REQUIRES_REMEDIATION",
                "GO",
                "NO_GO",
                "RECOMMEND",
                "DO_NOT_RECOMMEND",
                "ADVISORY_ONLY",
                "NEEDS_FURTHER_REVIEW",
                "EMERGENCY_STOP",
                name="status",
                native_enum=False,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column(
            "ceiling",
            sa.Enum(
                "APPROVED",
                "CONDITIONALLY_APPROVED",
                "REJECTED",
                "REQUIRES_REMEDIATION",
                "GO",
                "NO_GO",
                "RECOMMEND",
                "DO_NOT_RECOMMEND",
                "ADVISORY_ONLY",
                "NEEDS_FURTHER_REVIEW",
                "EMERGENCY_STOP",
                name="status",
                native_enum=False,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("descriptor", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("revision", sa.String(length=64), nullable=False),
        sa.Column("view_name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("statement", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["project_key"], ["project.key"], name=op.f("fk_certificate_project_key_project")),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_certificate_session_id_session")),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_certificate")),
        sa.UniqueConstraint("id", name=op.f("uq_certificate_id")),
    )
    with op.batch_alter_table("certificate", schema=None) as batch_op:
        batch_op.create_index("ix_certificate_project_key_position", ["project_key", "position"], unique=False)

    op.create_table(
        "ledger",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("session_id", sa.String(length=40), nullable=False),
        sa.Column("frame", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("call", sa.Integer(), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "submitted",
                "routed",
                "refused",
                "opened",
                "deciding",
                "moved",
                "move-refused",
                "asked",
                "answered",
                "calling",
                "called",
                "handed-off",
                "concluded",
                "certified",
                "cancelled",
                name="rowkind",
                native_enum=False,
                length=32,
            ),
            nullable=False,
        ),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_ledger_session_id_session")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_ledger")),
        sa.UniqueConstraint(
            "session_id", "frame", "step", "call", "kind", name=op.f("uq_ledger_session_id_frame_step_call_kind")
        ),
    )
    with op.batch_alter_table("ledger", schema=None) as batch_op:
        batch_op.create_index("ix_ledger_session_id_seq", ["session_id", "seq"], unique=False)

    op.create_table(
        "note",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column(
            "kind",
            sa.Enum("working-memory", "decisions-log", "next-actions", name="notekind", native_enum=False, length=32),
            nullable=False,
        ),
        sa.Column(
            "state",
            sa.Enum("current", "superseded", "done", "dropped", name="notestate", native_enum=False, length=32),
            nullable=False,
        ),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("command", sa.Text(), nullable=False),
        sa.Column("session_id", sa.String(length=40), nullable=False),
        sa.Column("certificate_id", sa.String(length=40), nullable=False),
        sa.Column("revision", sa.String(length=64), nullable=False),
        sa.Column("sources", sa.Text(), nullable=False),
        sa.Column("written_at", sa.String(length=24), nullable=False),
        sa.ForeignKeyConstraint(["project_key"], ["project.key"], name=op.f("fk_note_project_key_project")),
        sa.ForeignKeyConstraint(["session_id"], ["session.id"], name=op.f("fk_note_session_id_session")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_note")),
        sa.UniqueConstraint(
            "session_id", "agent", "kind", "subject", name=op.f("uq_note_session_id_agent_kind_subject")
        ),
    )
    with op.batch_alter_table("note", schema=None) as batch_op:
        batch_op.create_index(
            "ix_note_project_key_agent_kind_state", ["project_key", "agent", "kind", "state"], unique=False
        )
