"""Output of `esper keys`: keys as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from esper_agents.cli.indented_output import outline, outline_command
from esper_agents.domain.pluralize import number_of
from esper_agents.paths import home

if TYPE_CHECKING:
    from esper_agents.certificates.signing.allowed_signers import RefusedLine, Signer
    from esper_agents.certificates.signing.trusted_keys import TrustedKeys


def show_own(public_key: bytes | None) -> None:
    """Print the signing key."""
    from esper_agents.certificates.signing.signing_key import as_ssh, given_key_file, key_file, key_id_of

    if public_key is None:
        outline("own: none yet; the first certificate makes it, and so does `esper keys export`")
        return
    outline(f"own: {key_id_of(public_key)}")
    outline_command("public", as_ssh(public_key), 1)
    given = given_key_file()
    outline(
        f"private half in {given}, from ESPER_SIGNING_KEY_FILE" if given else f"private half in {key_file(home())}", 1
    )


def show_trusted(keys: TrustedKeys) -> None:
    """Print the trusted keys besides the own key, the untrusted ones, and the rejected lines."""
    from esper_agents.certificates.signing.trusted_keys import TrustOrigin

    others = [each for each in keys.keys if each.source is not TrustOrigin.OWN]
    outline(f"trusted: {len(others)} more" if others else "trusted: no other key")
    for each in others:
        outline(f"{described(each.signer)}, {each.source}", 1)
    if keys.brought_sha256:
        outline(f"brought by the project, not trusted: {number_of(len(keys.brought), 'key')} of .esper/trusted_keys")
        for signer in keys.brought:
            outline(described(signer), 1)
        outline_command("if they are your team's", "esper keys trust --project", 1)
    show_refused(keys.refused)


def show_refused(refused: tuple[RefusedLine, ...]) -> None:
    """Print the rejected lines of key files."""
    for each in refused:
        outline(f"refused: {each.where}: {each.why}")


def described(signer: Signer) -> str:
    """Return the owner and the fingerprint of a key in one line."""
    from esper_agents.certificates.signing.key_input import fingerprint

    return f"{signer.principal} {fingerprint(signer)} ({signer.kind})"


def as_data(public_key: bytes | None, keys: TrustedKeys) -> dict[str, Any]:
    """Return the keys as JSON."""
    from dataclasses import asdict

    from esper_agents.certificates.signing.key_input import fingerprint
    from esper_agents.certificates.signing.signing_key import as_ssh, key_id_of

    def listed(signer: Signer) -> dict[str, Any]:
        return {
            "name": signer.principal,
            "key_id": fingerprint(signer),
            "public_key": f"{signer.kind} {signer.blob}",
            "namespaces": list(signer.namespaces),
        }

    return {
        "own": {"key_id": key_id_of(public_key), "public_key": as_ssh(public_key)} if public_key else None,
        "trusted": [listed(each.signer) | {"source": each.source} for each in keys.keys],
        "brought_by_the_project_not_trusted": [listed(each) for each in keys.brought],
        "refused": [asdict(each) for each in keys.refused],
    }
