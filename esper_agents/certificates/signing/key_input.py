"""Parse a public key that a user gives as text or file, in any common format."""

from __future__ import annotations

import getpass
import os
import platform
import re
from binascii import a2b_base64, b2a_base64
from hashlib import sha256
from pathlib import Path
from typing import NoReturn

from esper_agents.certificates.signing.allowed_signers import (
    NAMESPACE,
    RefusedLine,
    Signer,
    Signers,
    is_principal,
    read_signer,
    read_signers,
    signer_of,
)
from esper_agents.certificates.signing.public_keys import as_ssh, read_public_key
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import IntegrityError, UsageError

_MOST_BYTES = 64 * 2**10
_MOST_LINES = 100
_SSH = re.compile(r"(?:ssh|ecdsa|sk)-[a-z0-9@.-]+ ")
_PEM = "-----BEGIN "
_NOTE = re.compile(r"([^\s+]+)\+[0-9a-f]{8}\+[A-Za-z0-9+/=]+")


def claimed_signer(key: str, name: str) -> Signer:
    """Parse a public key with its owner; the key may sign certificates only.

    Args:
        key: OpenSSH public key, signed-note key, or line of an allowed_signers file; or a file that contains one of
            these or PEM.
        name: Owner of the key; if empty, the name stated with the key.

    Raises:
        UsageError: The key is malformed, weak or private, or its owner is not stated.
    """
    text = key.strip()
    if not (_SSH.match(text) or _NOTE.fullmatch(text)):
        text = _text_of(key).strip()
    try:
        signer = _read(text, name)
    except IntegrityError as error:
        raise UsageError(
            error.problem, remedy="use the public key as written by `ssh-keygen` or `esper keys export`"
        ) from error
    if not is_principal(signer.principal):
        raise UsageError("the key has no owner name of letters, digits and ._+@=:/~- only", remedy="add --name NAME")
    return signer


def claimed_signers(key: str, name: str) -> Signers:
    """Parse a public key, or a saved list of keys such as a code host serves at `/NAME.keys`.

    Args:
        key: As for `claimed_signer`, or a file with one OpenSSH key or allowed_signers line per line.
        name: Owner of the keys; if empty, the name stated with each key.

    Raises:
        UsageError: As for `claimed_signer`; or no line of the list is a key.
    """
    text = key.strip()
    if not (_SSH.match(text) or _NOTE.fullmatch(text)):
        text = _text_of(key).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if text.startswith(_PEM) or "PRIVATE KEY" in text[:200] or len(lines) <= 1:
        return Signers((claimed_signer(key, name),))
    found: dict[str, Signer] = {}
    refused = []
    for number, line in enumerate(lines[:_MOST_LINES], start=1):
        try:
            signer = _read(line, name)
        except IntegrityError as error:
            refused.append(RefusedLine(f"key {number}", error.problem))
            continue
        if not is_principal(signer.principal):
            raise UsageError(f"key {number} of the list has no owner name", remedy="add --name NAME")
        found.setdefault(signer.blob, signer)
    if len(lines) > _MOST_LINES:
        refused.append(RefusedLine(f"key {_MOST_LINES + 1}", f"the list has more than {_MOST_LINES} keys"))
    if not found:
        raise UsageError(f"no line of {key[:200]!r} is a key: {refused[0].why}", remedy="save the list again")
    return Signers(tuple(found.values()), tuple(refused))


def signers_in(text: str) -> tuple[Signer, ...]:
    """Parse one public key, or all keys of an allowed_signers file.

    Args:
        text: As for `claimed_signer`, or the path of an allowed_signers file.

    Raises:
        UsageError: A key is malformed, weak or private.
    """
    file = Path(text).expanduser()
    if not text.startswith("ssh-") and file.is_file():
        found = read_signers(file.read_bytes(), str(file))
        if found.signers and not found.refused:
            return found.signers
    return (claimed_signer(text, "given"),)


def fingerprint(signer: Signer) -> str:
    """Return a key's fingerprint, as `ssh-keygen -l` shows it."""
    digest = sha256(a2b_base64(signer.blob)).digest()
    return "SHA256:" + b2a_base64(digest, newline=False).decode("ascii").rstrip("=")


def this_user() -> str:
    """Return the current user and machine as a name that is valid in a key file."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    found = re.sub(r"[^A-Za-z0-9._@-]", "-", f"{user}@{platform.node() or 'localhost'}")[:100]
    return found if is_principal(found) else f"user-{found}"


def _read(text: str, name: str) -> Signer:
    if "PRIVATE KEY" in text[:200]:
        _refuse("it is a private key, which must not be shared")
    if text.startswith(_PEM):
        kind, blob = as_ssh(read_public_key(text)).split(" ")
        return signer_of(name, (NAMESPACE,), kind, blob)
    if "\n" in text:
        _refuse("it has more than one line")
    if note := _NOTE.fullmatch(text):
        kind, blob = as_ssh(read_public_key(text)).split(" ")
        return signer_of(name or note[1], (NAMESPACE,), kind, blob)
    if _SSH.match(text):
        kind, blob, *comment = text.split(None, 2)
        return signer_of(name or "".join(comment), (NAMESPACE,), kind, blob)
    line = read_signer(text)
    if not line.may_sign(NAMESPACE):
        _refuse(f"its line allows {', '.join(line.namespaces)}, but not {NAMESPACE}")
    return signer_of(name or line.principal, (NAMESPACE,), line.kind, line.blob)


def _text_of(place: str) -> str:
    try:
        found = read_plain(Path(place).expanduser(), _MOST_BYTES)
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(
            f"{place[:200]!r} is neither a key nor a file that can be read",
            remedy="use `ssh-ed25519 AAAA...`, or a file written by `esper keys export`",
        ) from error
    data = found.data if found else b""
    if not data or len(data) > _MOST_BYTES:
        raise UsageError(f"{place!r} is not a file with one key", remedy="use a file written by `esper keys export`")
    return data.decode("utf-8", "backslashreplace")


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(problem, remedy="")
