"""Store the policy texts by digest, so that old verdicts can be derived again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from esper_agents.certificates.policy.policy_file import policy_text
from esper_agents.certificates.policy.question_type import kinds_text
from esper_agents.errors import EsperError
from esper_agents.paths import data_folder
from esper_agents.storage.artifacts import Artifacts

if TYPE_CHECKING:
    from esper_agents.domain.certificate import Certificate


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Texts that a certificate's verdict was derived from.

    Attributes:
        policy: Text of the policy.
        kinds: Text of the trigger table of question types.
    """

    policy: str
    kinds: str


def shipped() -> Rulebook:
    """Return the rulebook of this version."""
    return Rulebook(policy_text(), kinds_text())


def keep(folder: Path) -> None:
    """Store the rulebook of this version among a project's artifacts; existing files are not changed."""
    store = Artifacts(folder)
    book = shipped()
    for name, text in (("policy.toml", book.policy), ("question_kinds.toml", book.kinds)):
        if _kept(folder, digest(text)) is None:
            with TemporaryDirectory(prefix="esper-rulebook-") as scratch:
                file = Path(scratch, name)
                file.write_bytes(text.encode("utf-8", "surrogatepass"))
                store.keep(file, name, "application/toml")


def rulebook_of(certificate: Certificate, folder: Path | None) -> Rulebook:
    """Return the texts that a certificate references by digest; those of this version for unknown digests.

    Known texts are those of this version, those of earlier versions, which are shipped, and those stored in a project.

    Args:
        certificate: The certificate.
        folder: Folder of a project's artifacts; None if there is none.
    """
    book = shipped()
    return Rulebook(
        policy=_named(certificate.verdict.ceiling.policy_sha256, book.policy, folder),
        kinds=_named(certificate.question_kinds_sha256, book.kinds, folder),
    )


def digest(text: str) -> str:
    """Return the digest by which a certificate references a text, as 64 hex digits."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _named(sha256_hex: str, text: str, folder: Path | None) -> str:
    if digest(text) == sha256_hex:
        return text
    known = _earlier().get(sha256_hex) or (_kept(folder, sha256_hex) if folder else None)
    return known or text


@cache
def _earlier() -> dict[str, str]:
    """Return the texts of earlier versions by digest: a published certificate does not contain them."""
    files = (data_folder("certificates") / "earlier").glob("*.toml")
    texts = [file.read_bytes().decode("utf-8") for file in files]
    return {digest(text): text for text in texts}


def _kept(folder: Path, sha256_hex: str) -> str | None:
    try:
        return Artifacts(folder).path(sha256_hex).read_bytes().decode("utf-8", "surrogatepass")
    except (EsperError, OSError, UnicodeDecodeError):
        return None
