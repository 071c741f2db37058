"""Output of `esper keys`: keys as text and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.domain.pluralize import number_of

if TYPE_CHECKING:
    from esper_agents.api import KeyListing, PublicKey, RefusedLine


def show_own(found: KeyListing) -> None:
    """Print the signing key."""
    if found.own is None:
        outline("own: none yet; the first certificate makes it, and so does `esper keys export`")
        return
    outline(f"own: {found.own.key_id}")
    outline_command("public", found.own.public_key, 1)
    source = ", from ESPER_SIGNING_KEY_FILE" if found.is_from_environment else ""
    outline(f"private half in {found.private_file}{source}", 1)


def show_trusted(found: KeyListing) -> None:
    """Print the trusted keys besides the own key, the untrusted ones, and the rejected lines."""
    others = [each for each in found.trusted if each.source != "own"]
    outline(f"trusted: {len(others)} more" if others else "trusted: no other key")
    for each in others:
        outline(f"{summary(each)}, {each.source}", 1)
    if found.has_untrusted_file:
        outline(f"brought by the project, not trusted: {number_of(len(found.untrusted), 'key')} of .esper/trusted_keys")
        for key in found.untrusted:
            outline(summary(key), 1)
        outline_command("if they are your team's", "esper keys trust --from-project", 1)
    show_refused(found.refused)


def show_refused(refused: tuple[RefusedLine, ...]) -> None:
    """Print the rejected lines of key files."""
    for each in refused:
        outline(f"refused: {each.where}: {each.why}")


def summary(key: PublicKey) -> str:
    """Return the owner and the fingerprint of a key in one line."""
    return f"{key.name} {key.key_id} ({key.kind})"


def as_data(found: KeyListing) -> dict[str, Any]:
    """Return the keys as JSON."""

    def listed(key: PublicKey) -> dict[str, Any]:
        return {
            "name": key.name,
            "key_id": key.key_id,
            "public_key": key.public_key,
            "namespaces": list(key.namespaces),
        }

    own = found.own
    return {
        "own": {"key_id": own.key_id, "public_key": own.public_key} if own else None,
        "trusted": [listed(each) | {"source": each.source} for each in found.trusted],
        "brought_by_the_project_not_trusted": [listed(each) for each in found.untrusted],
        "refused": [asdict(each) for each in found.refused],
    }
