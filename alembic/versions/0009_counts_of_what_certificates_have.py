"""indexes by position and by key: to count the files and rules of certificates, and to find those of a signer."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_certificate_file_position", "certificate_file", ["position"])
    op.create_index("ix_certificate_rule_position", "certificate_rule", ["position"])
    op.create_index("ix_log_entry_key_id_record_id", "log_entry", ["key_id", "record_id"])
