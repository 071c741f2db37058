"""indexes that answer several filters at once, and words among the newest rows on PostgreSQL."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # What a list is filtered by besides stands in the index that it is walked by: no certificate is read for it.
    for column, others in (
        ("status", ["agent", "component"]),
        ("agent", ["status", "component"]),
        ("component", ["status", "agent"]),
    ):
        op.drop_index(f"ix_certificate_project_key_{column}_position", "certificate")
        op.create_index(
            f"ix_certificate_project_key_{column}_position", "certificate", ["project_key", column, "position", *others]
        )
    op.drop_index("ix_certificate_project_key_issued_at_position", "certificate")
    op.create_index(
        "ix_certificate_project_key_issued_at_position",
        "certificate",
        ["project_key", "issued_at", "position", "status", "agent", "component"],
    )
    if op.get_bind().dialect.name == "postgresql":
        # What the newest rows say is known by this index and that of words together, before any row is read. It is on a
        # form of the key that the key's own index does not serve: by that one, rows would be read one after another.
        for table, form in (
            ("certificate_text", "position + 0"),
            ("note_text", "id || ''"),
            ("session_text", "id || ''"),
        ):
            op.execute(
                f"CREATE INDEX ix_{table}_window ON {table}"
                f" USING brin (({form})) WITH (pages_per_range = 32, autosummarize = on)"
            )
