"""leases of devices: two measurements of projects that share a database never run on one device at once."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_lease",
        sa.Column("device", sa.String(length=255), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=False),
        sa.Column("machine", sa.Text(), nullable=False),
        sa.Column("project_key", sa.String(length=96), nullable=False),
        sa.Column("claimed_at", sa.String(length=24), nullable=False),
        sa.PrimaryKeyConstraint("device", name=op.f("pk_device_lease")),
    )
