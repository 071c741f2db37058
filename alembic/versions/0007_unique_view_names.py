"""view names that are unique within a project, with digits for duplicates; current notes found by their subject."""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

# The oldest certificate of a name keeps it. Each further one gets the name that it would have today.
_RENAME_DUPLICATES = (
    "UPDATE certificate SET view_name ="
    " CASE WHEN view_name LIKE '%.md' THEN substr(view_name, 1, length(view_name) - 3) ELSE view_name END"
    " || '_' || substr(id, length(id) - {digits} + 1) || '.md'"
    " WHERE position IN (SELECT position FROM (SELECT position, row_number() OVER"
    " (PARTITION BY project_key, view_name ORDER BY position) AS place FROM certificate) AS named WHERE place > 1)"
)
# If a name with 12 digits is taken, all of them.
_DIGITS = (12, 32)


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        # An older version that still runs must not add a duplicate between the renaming and the index.
        op.execute("LOCK TABLE certificate IN SHARE ROW EXCLUSIVE MODE")
    for digits in _DIGITS:
        op.execute(_RENAME_DUPLICATES.format(digits=digits))
    op.create_index("uq_certificate_project_key_view_name", "certificate", ["project_key", "view_name"], unique=True)
    current = sa.text("state = 'current'")
    op.create_index(
        "ix_note_current",
        "note",
        ["project_key", "agent", "kind", "subject"],
        sqlite_where=current,
        postgresql_where=current,
    )
