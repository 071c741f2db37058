"""queued sessions, where sessions come from, whose notes and on what files."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("note", schema=None) as batch_op:
        batch_op.add_column(sa.Column("author", sa.Text(), server_default="", nullable=False))
        batch_op.alter_column("session_id", existing_type=sa.String(length=40), nullable=True)
        # Newest first within each: a listing takes the ends of a few runs, however many notes there are.
        batch_op.drop_index("ix_note_project_key_agent_kind_state")
        batch_op.create_index(
            "ix_note_project_key_agent_kind_state_id", ["project_key", "agent", "kind", "state", "id"], unique=False
        )
        batch_op.create_index("ix_note_project_key_kind_state_id", ["project_key", "kind", "state", "id"], unique=False)

    op.create_table(
        "note_file",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("note_id", sa.String(length=40), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(["note_id"], ["note.id"], name=op.f("fk_note_file_note_id_note")),
        sa.PrimaryKeyConstraint("path", "note_id", name=op.f("pk_note_file")),
    )
    with op.batch_alter_table("note_file", schema=None) as batch_op:
        batch_op.create_index("ix_note_file_note_id", ["note_id"], unique=False)

    # Columns are added one by one: a table that others point at is not made anew.
    op.add_column("session", sa.Column("queued", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.add_column("session", sa.Column("origin_id", sa.String(length=40), server_default="", nullable=False))
    kinds = sa.Enum("submitted", "forked", "continued", name="originkind", native_enum=False, length=32)
    op.add_column("session", sa.Column("origin_kind", kinds, server_default="submitted", nullable=False))
    op.create_index("ix_session_project_key_changed_at", "session", ["project_key", "changed_at"], unique=False)
    op.create_index("ix_session_project_key_state_id", "session", ["project_key", "state", "id"], unique=False)
    op.create_index("ix_session_project_key_agent_id", "session", ["project_key", "agent", "id"], unique=False)
    op.create_index("ix_session_queued_id", "session", ["queued", "id"], unique=False)

    for name in ("note_text", "session_text"):
        if op.get_bind().dialect.name == "sqlite":
            op.execute(f"CREATE VIRTUAL TABLE {name} USING fts5(id UNINDEXED, words, tokenize='unicode61')")
        else:
            op.execute(f"CREATE TABLE {name} (id VARCHAR(40) PRIMARY KEY, words TSVECTOR NOT NULL)")
            op.execute(f"CREATE INDEX ix_{name}_words ON {name} USING gin (words)")
