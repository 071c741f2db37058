"""files and rules of certificates without the indexes by place, which nothing asks."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # PostgreSQL took them for whether a file or rule is at some places, and read all that those certificates have. The
    # primary key says it without reading a row.
    for table in ("certificate_file", "certificate_rule"):
        op.drop_index(f"ix_{table}_position", table)
