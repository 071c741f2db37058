"""a log for each project: entries, nodes and checkpoints name their log, and projects name theirs."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# The one log of all projects until now. Its projects go on in it: its history is one, and stays whole.
_SHARED = 1


def upgrade() -> None:
    with op.batch_alter_table("project") as batch:
        batch.add_column(sa.Column("log_id", sa.Integer(), nullable=False, server_default="0"))
    op.execute(
        f"UPDATE project SET log_id = {_SHARED} WHERE key IN (SELECT DISTINCT project_key FROM log_entry)"  # noqa: S608
    )
    if op.get_bind().dialect.name == "sqlite":
        _copy_tables()
    else:
        _change_keys()
    op.create_index("ix_log_entry_log_id_kind_idx", "log_entry", ["log_id", "kind", "idx"])


def _change_keys() -> None:
    """Change the keys in place: no row of a table is written, however long the log is."""
    op.drop_index("ix_log_entry_kind_idx", "log_entry")
    op.drop_constraint("uq_log_entry_record_id", "log_entry")
    for table, key in (("log_entry", ["idx"]), ("log_node", ["level", "idx"]), ("log_checkpoint", ["size"])):
        # A constant default is kept once for the table; new rows name their log.
        op.add_column(table, sa.Column("log_id", sa.Integer(), nullable=False, server_default=str(_SHARED)))
        op.alter_column(table, "log_id", server_default=None)
        op.drop_constraint(f"pk_{table}", table)
        op.create_primary_key(f"pk_{table}", table, ["log_id", *key])
    op.create_unique_constraint("uq_log_entry_record_id_log_id", "log_entry", ["record_id", "log_id"])


def _copy_tables() -> None:
    """Copy the tables: SQLite changes no key of a table."""
    op.create_table(
        "log_entry_copy",
        _log_id(),
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
        sa.PrimaryKeyConstraint("log_id", "idx", name=op.f("pk_log_entry")),
        sa.UniqueConstraint("record_id", "log_id", name=op.f("uq_log_entry_record_id_log_id")),
    )
    op.create_table(
        "log_node_copy",
        _log_id(),
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("idx", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("log_id", "level", "idx", name=op.f("pk_log_node")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "log_checkpoint_copy",
        _log_id(),
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("log_id", "size", name=op.f("pk_log_checkpoint")),
    )
    for table, columns, order in (
        ("log_entry", "idx, record_id, kind, project_key, about, at, key_id, signature, leaf_hash, statement", "idx"),
        ("log_node", "level, idx, hash", "level, idx"),
        ("log_checkpoint", "size, note, at", "size"),
    ):
        op.execute(
            f"INSERT INTO {table}_copy (log_id, {columns}) SELECT {_SHARED}, {columns} FROM {table} ORDER BY {order}"  # noqa: S608
        )
        op.drop_table(table)
        op.rename_table(f"{table}_copy", table)
    op.create_index("ix_log_entry_about", "log_entry", ["about"])


def _log_id() -> sa.Column[int]:
    return sa.Column("log_id", sa.Integer(), autoincrement=False, nullable=False)
