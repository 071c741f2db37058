"""Names of reasoners in the options of a task and in definitions."""

from __future__ import annotations

# Name of the reasoner in a task's options and in a definition.
REASONER, PLAYBOOK, UNATTENDED, CLAUDE = "reasoner", "playbook", "unattended", "claude"
# Option that names a second model, which argues the opposite side.
SECOND_OPINION = "second-opinion"
