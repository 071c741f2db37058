"""Relations between certificates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RelationKind(StrEnum):
    """How a certificate stands to another one."""

    SUPERSEDES = "supersedes"
    REVOKES = "revokes"
    DEPENDS_ON = "depends on"
    COUNTERSIGNS = "countersigns"


@dataclass(frozen=True, slots=True)
class Relation:
    """How a certificate stands to another one.

    Attributes:
        kind: How.
        certificate: The other one's `crt_` identifier.
        sha256: Digest of the other one's statement, 64 hex digits.
    """

    kind: RelationKind
    certificate: str
    sha256: str
