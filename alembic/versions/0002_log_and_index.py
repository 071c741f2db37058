"""the log, and what certificates are found by: files, rules, metrics, words."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "log",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("created_at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log")),
    )
    op.create_table(
        "log_checkpoint",
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("size", name=op.f("pk_log_checkpoint")),
    )
    op.create_table(
        "log_node",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "idx", name=op.f("pk_log_node")),
        # In the order of its key: a level is read from end to end, and a node without a second look.
        sqlite_with_rowid=False,
    )
    op.create_table(
        "imported",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("agent", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("component", sa.Text(), nullable=False),
        sa.Column("dated", sa.Text(), nullable=False),
        sa.Column("problems", sa.Text(), nullable=False),
        sa.Column("text", sa.LargeBinary(), nullable=False),
        sa.Column("imported_at", sa.String(length=24), nullable=False),
        sa.ForeignKeyConstraint(["project_key"], ["project.key"], name=op.f("fk_imported_project_key_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_imported")),
        sa.UniqueConstraint("project_key", "path", "sha256", name=op.f("uq_imported_project_key_path_sha256")),
    )
    op.create_table(
        "log_entry",
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("record_id", sa.String(length=40), nullable=False),
        sa.Column(
            "kind", sa.Enum("certificate", "notice", name="entrykind", native_enum=False, length=32), nullable=False
        ),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("about", sa.String(length=40), nullable=False),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.Column("key_id", sa.String(length=64), nullable=False),
        sa.Column("signature", sa.LargeBinary(), nullable=False),
        sa.Column("leaf_hash", sa.LargeBinary(), nullable=False),
        sa.Column("statement", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["project_key"], ["project.key"], name=op.f("fk_log_entry_project_key_project")),
        sa.PrimaryKeyConstraint("idx", name=op.f("pk_log_entry")),
        sa.UniqueConstraint("record_id", name=op.f("uq_log_entry_record_id")),
    )
    with op.batch_alter_table("log_entry", schema=None) as batch_op:
        batch_op.create_index("ix_log_entry_about", ["about"], unique=False)
        batch_op.create_index("ix_log_entry_kind_idx", ["kind", "idx"], unique=False)

    op.create_table(
        "certificate_file",
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["position"], ["certificate.position"], name=op.f("fk_certificate_file_position_certificate")
        ),
        sa.PrimaryKeyConstraint("path", "position", name=op.f("pk_certificate_file")),
    )
    with op.batch_alter_table("certificate_file", schema=None) as batch_op:
        batch_op.create_index("ix_certificate_file_position", ["position"], unique=False)

    op.create_table(
        "certificate_metric",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("evidence_id", sa.String(length=40), nullable=False),
        sa.Column("amount", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["position"], ["certificate.position"], name=op.f("fk_certificate_metric_position_certificate")
        ),
        sa.PrimaryKeyConstraint("name", "position", "evidence_id", name=op.f("pk_certificate_metric")),
    )
    with op.batch_alter_table("certificate_metric", schema=None) as batch_op:
        batch_op.create_index("ix_certificate_metric_position", ["position"], unique=False)

    op.create_table(
        "certificate_relation",
        sa.Column("other", sa.String(length=40), nullable=False),
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "supersedes",
                "revokes",
                "depends on",
                "countersigns",
                name="relationkind",
                native_enum=False,
                length=32,
            ),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["position"], ["certificate.position"], name=op.f("fk_certificate_relation_position_certificate")
        ),
        sa.PrimaryKeyConstraint("other", "position", "kind", name=op.f("pk_certificate_relation")),
    )
    with op.batch_alter_table("certificate_relation", schema=None) as batch_op:
        batch_op.create_index("ix_certificate_relation_position", ["position"], unique=False)

    op.create_table(
        "certificate_rule",
        sa.Column("rule", sa.String(length=64), nullable=False),
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.ForeignKeyConstraint(
            ["position"], ["certificate.position"], name=op.f("fk_certificate_rule_position_certificate")
        ),
        sa.PrimaryKeyConstraint("rule", "position", name=op.f("pk_certificate_rule")),
    )
    with op.batch_alter_table("certificate_rule", schema=None) as batch_op:
        batch_op.create_index("ix_certificate_rule_position", ["position"], unique=False)

    with op.batch_alter_table("certificate", schema=None) as batch_op:
        batch_op.create_index(
            "ix_certificate_project_key_agent_position", ["project_key", "agent", "position"], unique=False
        )
        batch_op.create_index(
            "ix_certificate_project_key_component_position", ["project_key", "component", "position"], unique=False
        )
        batch_op.create_index(
            "ix_certificate_project_key_revision_position", ["project_key", "revision", "position"], unique=False
        )
        batch_op.create_index(
            "ix_certificate_project_key_status_position", ["project_key", "status", "position"], unique=False
        )
        batch_op.create_index(
            "ix_certificate_project_key_issued_at_position", ["project_key", "issued_at", "position"], unique=False
        )
        batch_op.create_index("ix_certificate_session_id", ["session_id"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        # Contentless: the words alone are kept, and the statement is where they come from.
        op.execute("CREATE VIRTUAL TABLE certificate_text USING fts5(words, content='', tokenize='unicode61')")
    else:
        op.execute("CREATE TABLE certificate_text (position BIGINT PRIMARY KEY, words TSVECTOR NOT NULL)")
        op.execute("CREATE INDEX ix_certificate_text_words ON certificate_text USING gin (words)")
