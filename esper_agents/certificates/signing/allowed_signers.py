"""Strict reader and writer for trusted keys in OpenSSH's allowed_signers format."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from esper_agents.certificates.signing.public_keys import SSH_TYPE, as_ssh, decoded, from_ssh
from esper_agents.errors import IntegrityError

NAMESPACE = "esper-certificate"
MOST_BYTES = 256 * 2**10
MOST_LINES = 2_000
MOST_LINE = 8 * 2**10
_PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@=:/~-]{0,127}")
_OPTION = re.compile(r'([A-Za-z-]{1,40})(?:="([^"]{0,400})")?(?:,(?=[A-Za-z])|$)')
_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+/-]{0,99}")
_FORBIDDEN = re.compile(r"[^\t\x20-\x7e]")
# Key types that `ssh-keygen -Y` can verify besides Ed25519. Envelopes are signed with Ed25519 only.
_OTHER_TYPES = frozenset(
    (
        "ssh-rsa",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ssh-ed25519@openssh.com",
        "sk-ecdsa-sha2-nistp256@openssh.com",
    )
)
_FEWEST_RSA_BITS = 2048


@dataclass(frozen=True, slots=True)
class Signer:
    """Line of an allowed_signers file: the owner of a key and its permitted namespaces.

    Attributes:
        principal: Owner of the key.
        namespaces: Permitted namespaces; empty permits any, as in OpenSSH.
        kind: Type of the key, such as `ssh-ed25519`.
        blob: Key as OpenSSH writes it after the type.
        raw: The 32 bytes of an Ed25519 key; empty for every other type.
    """

    principal: str
    namespaces: tuple[str, ...]
    kind: str
    blob: str
    raw: bytes

    def may_sign(self, namespace: str) -> bool:
        """Return whether the key may sign in a namespace."""
        return not self.namespaces or namespace in self.namespaces

    def line(self) -> str:
        """Return the signer as a line of an allowed_signers file, without a comment."""
        options = f'namespaces="{",".join(self.namespaces)}" ' if self.namespaces else ""
        return f"{self.principal} {options}{self.kind} {self.blob}"


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """Line that was refused and adds no trusted key.

    Attributes:
        where: File, with a line number from 1 if the problem concerns one line.
        why: Reason for the refusal.
    """

    where: str
    why: str


@dataclass(frozen=True, slots=True)
class Signers:
    """Content of a file of trusted keys.

    Attributes:
        signers: Accepted keys, in order, without duplicates.
        refused: Refused lines.
    """

    signers: tuple[Signer, ...] = ()
    refused: tuple[RefusedLine, ...] = ()


def read_signers(data: bytes, where: str) -> Signers:
    """Parse a file of trusted keys.

    A line is accepted only if it has the same meaning for `ssh-keygen`. Lines with `cert-authority`, times, patterns
    or several names are refused: here a key has one owner and no time limit. If two lines name the same key, the
    first one applies.

    Args:
        data: Bytes of the file.
        where: Name of the file for refused lines.
    """
    if len(data) > MOST_BYTES:
        return Signers((), (RefusedLine(where, f"it has {len(data)} bytes; the maximum is {MOST_BYTES}"),))
    # Non-ASCII bytes cause the refusal of their own line only.
    lines = data.decode("latin-1").split("\n")
    if len(lines) > MOST_LINES:
        return Signers((), (RefusedLine(where, f"it has {len(lines)} lines; the maximum is {MOST_LINES}"),))
    found: dict[tuple[str, str], Signer] = {}
    refused: list[RefusedLine] = []
    for number, line in enumerate(lines, start=1):
        text = line.removesuffix("\r").strip(" \t")
        if not text or text.startswith("#"):
            continue
        try:
            signer = read_signer(text)
        except IntegrityError as error:
            refused.append(RefusedLine(f"{where}:{number}", error.problem))
            continue
        if (signer.kind, signer.blob) in found:
            refused.append(RefusedLine(f"{where}:{number}", "duplicate key; the earlier line applies"))
        found.setdefault((signer.kind, signer.blob), signer)
    return Signers(tuple(found.values()), tuple(refused))


def read_signer(text: str) -> Signer:
    """Parse one line of an allowed_signers file.

    Raises:
        IntegrityError: The line is malformed or uses an unsupported feature.
    """
    if len(text) > MOST_LINE or _FORBIDDEN.search(text):
        _refuse(f"it has over {MOST_LINE} characters, or one that is not printable ASCII")
    words = text.split(None, 1)
    principal, rest = words[0], words[1] if len(words) > 1 else ""
    if not is_principal(principal):
        _refuse(f"{principal[:60]!a} is not a single name: patterns and lists of names are not supported")
    options, kind, blob = _fields(rest)
    namespaces = _namespaces(options)
    return signer_of(principal, namespaces, kind, blob)


def signer_of(principal: str, namespaces: tuple[str, ...], kind: str, blob: str) -> Signer:
    """Return a signer whose key is validated.

    Raises:
        IntegrityError: The key has an unsupported type, or is malformed or weak.
    """
    if kind == SSH_TYPE:
        return Signer(principal, namespaces, kind, blob, from_ssh(kind, blob))
    if kind not in _OTHER_TYPES:
        _refuse(f"key type {kind[:40]!a} is not supported")
    wire = decoded(blob, most=MOST_LINE)
    fields = wire_fields(wire) if wire else []
    if not fields or fields[0] != kind.encode():
        _refuse(f"the text after {kind} is not such a key")
    # Shorter RSA keys can be broken by well-funded attackers; ssh-keygen has not created them for years.
    if kind == "ssh-rsa" and (len(fields) != 3 or _bits(fields[2]) < _FEWEST_RSA_BITS):  # noqa: PLR2004 - type, e, n
        _refuse(f"RSA key with fewer than {_FEWEST_RSA_BITS} bits")
    return Signer(principal, namespaces, kind, blob, b"")


def own_signer(principal: str, public_key: bytes) -> Signer:
    """Return the signer of an Ed25519 key that may sign certificates."""
    kind, blob = as_ssh(public_key).split(" ")
    return Signer(principal, (NAMESPACE,), kind, blob, public_key)


def is_principal(text: str) -> bool:
    """Return whether text is a single name that can be written to such a file unchanged."""
    return _PRINCIPAL.fullmatch(text) is not None


def wire_fields(wire: bytes) -> list[bytes]:
    """Return the strings of OpenSSH's wire format; empty if it is malformed."""
    fields: list[bytes] = []
    at = 0
    while at < len(wire):
        size = int.from_bytes(wire[at : at + 4], "big")
        end = at + 4 + size
        if end > len(wire) or len(fields) > 9:  # noqa: PLR2004 - more than any key has
            return []
        fields.append(wire[at + 4 : end])
        at = end
    return fields


def _fields(rest: str) -> tuple[str, str, str]:
    """Return the options, type and key that follow the name."""
    words = rest.split(None, 2)
    if words and (words[0] == SSH_TYPE or words[0] in _OTHER_TYPES):
        options = ""
    else:
        # Namespace names contain no white space, so options do not either.
        options, *words = rest.split(None, 3) or [""]
    if len(words) < 2:  # noqa: PLR2004 - type and key
        _refuse("expected a name, a key type and a key")
    return options, words[0], words[1]


def _namespaces(options: str) -> tuple[str, ...]:
    found: tuple[str, ...] = ()
    at = 0
    while at < len(options):
        option = _OPTION.match(options, at)
        if option is None:
            _refuse("its options cannot be read")
        name = option[1].lower()
        if name != "namespaces" or option[2] is None or found:
            _refuse(f"option {name[:40]!a} is not supported; only namespaces is")
        found = tuple(option[2].split(","))
        if not all(_NAMESPACE.fullmatch(each) for each in found):
            _refuse("its namespaces are not plain names: patterns are not supported")
        at = option.end()
    return found


def _bits(number: bytes) -> int:
    return int.from_bytes(number, "big").bit_length()


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(problem, remedy='write it as: NAME namespaces="esper-certificate" ssh-ed25519 AAAA...')
