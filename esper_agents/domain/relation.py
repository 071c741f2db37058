"""Relations between certificates."""

from __future__ import annotations

from dataclasses import dataclass

from esper_agents.domain.stored_kinds import RelationKind as RelationKind  # noqa: PLC0414 - exported


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
