"""Relations between certificates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RelationKind(StrEnum):
    """Kind of relation between certificates."""

    SUPERSEDES = "supersedes"
    REVOKES = "revokes"
    DEPENDS_ON = "depends on"
    COUNTERSIGNS = "countersigns"


@dataclass(frozen=True, slots=True)
class Relation:
    """Relation of a certificate to another one.

    Attributes:
        kind: Kind of the relation.
        certificate: The `crt_` identifier of the other certificate.
        sha256: Digest of the other certificate's statement, 64 hex digits.
    """

    kind: RelationKind
    certificate: str
    sha256: str
