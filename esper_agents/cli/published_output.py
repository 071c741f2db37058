"""Output about published certificates of others: origin, untrusted keys, refused files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.cli.terminal import note
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from esper_agents.api import CertificateSummary, OpenProject, PublishedStatus

_MOST_KEYS, _MOST_FILES = 5, 20
# Below this number, reading takes less time than a user notices.
_FEW = 200


def origin_of(entry: CertificateSummary) -> str:
    """Return the origin of a listed certificate in a few words; empty for one of the local archive."""
    from esper_agents.api import CertificateOrigin

    if entry.origin is CertificateOrigin.LOCAL:
        return ""
    return f"published, signed by {entry.signer}" if entry.is_trusted else "published, NOT TRUSTED"


def show_trust(entry: CertificateSummary) -> None:
    """Print to standard error that a certificate is not signed by a trusted key."""
    if not entry.is_trusted:
        note(f"NOT TRUSTED: signed by {entry.key_id}, a key that you do not trust; it may say anything")
        note(f"trust the key, if its owner confirms this fingerprint: esper keys trust {entry.key_id}")


def show_status(status: PublishedStatus) -> None:
    """Print the untrusted keys and the refused files of the published certificates."""
    for key in status.untrusted[:_MOST_KEYS]:
        outline(f"not trusted: {number_of(key.certificates, 'published certificate')} signed by {key.key_id}")
        outline_command("if its owner confirms this fingerprint", f"esper keys trust {key.key_id}", 1)
    if len(status.untrusted) > _MOST_KEYS:
        outline(f"and {len(status.untrusted) - _MOST_KEYS} more keys that are not trusted")
    for file in status.refused[:_MOST_FILES]:
        outline(f"not read: {file.path}: {file.why}")
    if len(status.refused) > _MOST_FILES:
        outline(f"and {number_of(len(status.refused) - _MOST_FILES, 'more file')} not read")


def report_reading(project: OpenProject) -> None:
    """Print to standard error that many published certificates are read for the first time."""
    project.certificates.report_reading(
        lambda count: note(f"reading {count:,} published certificates once") if count > _FEW else None
    )
