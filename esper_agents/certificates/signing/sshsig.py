"""Create and verify countersignatures of SSH keys with `ssh-keygen -Y`."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from binascii import b2a_base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from esper_agents.certificates.signing.allowed_signers import NAMESPACE, Signer, read_signers, signer_of, wire_fields
from esper_agents.certificates.signing.public_keys import decoded
from esper_agents.certificates.signing.signing_key import given_key_file, key_file
from esper_agents.errors import EvidenceError, IntegrityError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_CHARACTERS = 32 * 2**10
# The user may have to type a passphrase or touch a device.
_SIGN_S = 120
_VERIFY_S = 20
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_MAGIC = b"SSHSIG\x00\x00\x00\x01"
_HASHES = frozenset((b"sha256", b"sha512"))
_BODY_LINE = re.compile(r"[A-Za-z0-9+/=]{1,76}")
# Variables for passphrase prompts and the SSH agent; ssh-keygen gets no others.
_ASKING = frozenset(
    (
        *("PATH", "HOME", "TERM", "LANG", "SSH_AUTH_SOCK", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_SK_PROVIDER"),
        *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"),
    )
)


@dataclass(frozen=True, slots=True)
class _Ran:
    code: int
    stdout: bytes
    stderr: str


def countersign(statement: bytes, private_key_file: Path, home: Path) -> str:
    """Return an armoured SSH signature over the bytes of a statement.

    Args:
        statement: Bytes to sign.
        private_key_file: The user's SSH key; or its public half if an agent holds the private one.
        home: `paths.home()`; its own key cannot countersign.

    Raises:
        UsageError: The file does not exist, it is the key that signs certificates here, or it cannot sign.
        EvidenceError: ssh-keygen is not installed or did not answer.
    """
    place = private_key_file.expanduser().absolute()
    if not place.is_file():
        raise UsageError(
            f"key file {str(private_key_file)!r} does not exist", remedy="name an SSH key, such as ~/.ssh/id_ed25519"
        )
    own = [each.resolve() for each in (key_file(home), given_key_file()) if each is not None]
    if place.resolve() in own:
        raise UsageError(
            f"{str(private_key_file)!r} is the signing key of certificates, so it cannot countersign",
            remedy="name your own SSH key, such as ~/.ssh/id_ed25519",
        )
    environment = {name: text for name, text in os.environ.items() if name in _ASKING} | {"LC_ALL": "C"}
    ran = _ssh_keygen(("-Y", "sign", "-q", "-n", NAMESPACE, "-f", str(place)), statement, environment, _SIGN_S)
    armoured = ran.stdout.decode("ascii", "replace")
    if ran.code:
        raise UsageError(
            f"{str(private_key_file)!r} cannot sign: {_last_line(ran.stderr)}",
            remedy="name your OpenSSH private key, or a public key whose private half `ssh-add -l` lists",
        )
    signer_in(armoured)
    return armoured


def check_countersignature(statement: bytes, armoured: str, allowed_signers_text: str) -> str:
    """Return the owner of a countersignature after verifying it.

    Args:
        statement: Signed bytes.
        armoured: Armoured signature.
        allowed_signers_text: Keys that may countersign, as written by `trust.TrustedKeys.allowed_signers`; a line that
            `signers.read_signers` refuses is ignored.

    Raises:
        IntegrityError: The signature is malformed, or is over other bytes.
        EvidenceError: Its key is not trusted to countersign, or ssh-keygen is not installed or did not answer.
    """
    kind, blob = signer_in(armoured)
    signer = _trusted_signer(allowed_signers_text, kind, blob)
    # The user's own SSH settings must not influence the result.
    with tempfile.TemporaryDirectory(prefix="esper-countersignature-") as folder:
        signers, signature = Path(folder, "allowed_signers"), Path(folder, "signature")
        signers.write_text(f"{signer.line()}\n", encoding="ascii")
        signature.write_text(armoured, encoding="ascii")
        ran = _ssh_keygen(
            *(("-Y", "verify", "-f", signers.name, "-I", signer.principal, "-n", NAMESPACE, "-s", signature.name),),
            statement,
            {"PATH": os.environ.get("PATH", os.defpath), "HOME": folder, "LC_ALL": "C"},
            _VERIFY_S,
            folder=folder,
        )
    if ran.code:
        _refuse(
            f"signature does not match the key of {signer.principal} and this certificate ({_last_line(ran.stderr)})"
        )
    return signer.principal


def signer_in(armoured: str) -> tuple[str, str]:
    """Return the key type and key that a signature names; the signature is not verified.

    Raises:
        IntegrityError: Not an SSH signature in ssh-keygen's armour, or made for another purpose.
    """
    wire = _unarmoured(armoured)
    if not wire.startswith(_MAGIC):
        _refuse("it is not an SSH signature of version 1")
    fields = wire_fields(wire[len(_MAGIC) :])
    if len(fields) != 5:  # noqa: PLR2004 - key, namespace, reserved, hash, signature
        _refuse("it is truncated")
    key, namespace, _, digest, _ = fields
    if namespace != NAMESPACE.encode():
        _refuse(f"it was made for {namespace[:40]!a}, not for {NAMESPACE}")
    kinds = wire_fields(key)
    if digest not in _HASHES or not kinds:
        _refuse("its digest or key type is not supported")
    kind = kinds[0].decode("ascii", "replace")
    blob = b2a_base64(key, newline=False).decode("ascii")
    signer_of("anybody", (NAMESPACE,), kind, blob)
    return kind, blob


def _trusted_signer(allowed_signers_text: str, kind: str, blob: str) -> Signer:
    for signer in read_signers(allowed_signers_text.encode("utf-8", "replace"), "allowed_signers").signers:
        if (signer.kind, signer.blob) == (kind, blob) and signer.may_sign(NAMESPACE):
            return signer
    raise EvidenceError(
        f"countersignature is from an untrusted key: {kind} {blob}",
        remedy="confirm the key with its owner, then run `esper keys trust`",
    )


def _unarmoured(armoured: str) -> bytes:
    lines = armoured.removesuffix("\n").split("\n") if len(armoured) <= _MOST_CHARACTERS else []
    if len(lines) < 3 or lines[0] != _BEGIN or lines[-1] != _END:  # noqa: PLR2004 - begin, body, end
        _refuse("it is not an armoured SSH signature")
    body = lines[1:-1]
    if not all(_BODY_LINE.fullmatch(each) for each in body):
        _refuse("its armour holds what is no base64")
    wire = decoded("".join(body), most=_MOST_CHARACTERS)
    if wire is None:
        _refuse("its armour holds what is no base64")
    return wire


def _ssh_keygen(
    arguments: Sequence[str], fed: bytes, environment: dict[str, str], limit_s: int, *, folder: str | None = None
) -> _Ran:
    try:
        done = subprocess.run(
            ["ssh-keygen", *arguments],
            input=fed,
            capture_output=True,
            env=environment,
            cwd=folder,
            timeout=limit_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise EvidenceError(
            "ssh-keygen is not installed, but countersignatures require it",
            remedy="install the OpenSSH client, 8.2 or newer",
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EvidenceError(
            f"ssh-keygen did not finish: {type(error).__name__}", remedy="run the command again, and answer the prompt"
        ) from error
    return _Ran(done.returncode, done.stdout, done.stderr.decode("utf-8", "replace"))


def _last_line(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1][:200] if lines else "no reason given"


def _refuse(problem: str) -> NoReturn:
    raise IntegrityError(
        f"not a countersignature: {problem}", remedy="create it again with `esper certificates countersign`"
    )
