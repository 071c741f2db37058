"""what models were asked outside of sessions, so that it is paid for once and told with all other cost."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "exchange",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("request_sha256", sa.String(length=64), nullable=False),
        sa.Column("at", sa.String(length=24), nullable=False),
        sa.Column("record", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project_key"], ["project.key"], name=op.f("fk_exchange_project_key_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exchange")),
    )
    op.create_index("ix_exchange_project_key_request_sha256", "exchange", ["project_key", "request_sha256"])
