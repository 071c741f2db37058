"""Private signing key: created at first use, readable by its owner only."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from esper_agents.atomic_file import sync_folder, write_atomically
from esper_agents.certificates.signing.public_keys import as_note_key, as_pem, as_ssh, check_public_key, key_id_of
from esper_agents.certificates.signing.regular_file import read_plain
from esper_agents.errors import StorageError, UsageError
from esper_agents.storage import locks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "SigningKey",
    "as_note_key",
    "as_pem",
    "as_ssh",
    "check_public_key",
    "existing_key",
    "given_key_file",
    "key_id_of",
    "secret_places",
    "signing_key",
    "take_key_file",
]

VARIABLE = "ESPER_SIGNING_KEY_FILE"
_MOST_BYTES = 16 * 2**10
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_given: Path | None = None
_read: dict[Path, SigningKey] = {}


class SigningKey:
    """Private signing key. Its repr, log and pickle output never contains the private half.

    Attributes:
        public_key: Public half, 32 bytes.
        key_id: Fingerprint of the key.
    """

    __slots__ = ("_private", "key_id", "public_key")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public_key = private.public_key().public_bytes_raw()
        self.key_id = key_id_of(self.public_key)

    def sign(self, message: bytes) -> bytes:
        """Return the signature over a message, 64 bytes."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"SigningKey({self.key_id})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a signing key stays in its process")


def signing_key(home: Path) -> SigningKey:
    """Return the signing key: from `ESPER_SIGNING_KEY_FILE`, else from the data directory, created if missing.

    It is read on every call: call this within the transaction that the signature goes into, so that nothing is signed
    with a key that has been retired in the meantime.

    Args:
        home: `paths.home()`.

    Raises:
        UsageError: The file contains no unencrypted Ed25519 key, or other users can read it.
        StorageError: The folder cannot be written.
    """
    return existing_key(home) or _make(home)


def existing_key(home: Path) -> SigningKey | None:
    """Return the signing key if it exists; never creates one.

    Raises:
        UsageError: See `signing_key`.
    """
    given = given_key_file()
    if given is not None:
        # The file may already be deleted: CI runners remove theirs early.
        if given not in _read:
            _read[given] = load(given)
        return _read[given]
    place = key_file(home)
    return load(place) if os.path.lexists(place) else None


def take_key_file() -> None:
    """Remove `ESPER_SIGNING_KEY_FILE` from the environment and remember it, so that no child process inherits it."""
    global _given  # noqa: PLW0603 - the environment is the process's own, too
    named = os.environ.pop(VARIABLE, "")
    if named:
        _given = Path(named).expanduser().absolute()
        _read.pop(_given, None)


def given_key_file() -> Path | None:
    """Return the file that `ESPER_SIGNING_KEY_FILE` named at process start, or None."""
    take_key_file()
    return _given


def secret_places(home: Path) -> tuple[Path, ...]:
    """Return the files and folders that measured code must not read."""
    given = given_key_file()
    return (home, given) if given is not None and given.exists() else (home,)


def key_file(home: Path) -> Path:
    """Return the path of the signing key in the data directory."""
    return home / "keys" / "signing-key.pem"


def load(place: Path) -> SigningKey:
    """Load a private key: PKCS8 in PEM, or OpenSSH format, without a passphrase.

    Raises:
        UsageError: It cannot be read, other users can read it, or it contains no such key.
    """
    data = _read_private(place)
    refused = UsageError(
        f"{str(place)!r} contains no unencrypted Ed25519 private key",
        remedy="create one with `openssl genpkey -algorithm ed25519`, or restore the file from a backup",
    )
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key

    read = load_ssh_private_key if data.startswith(b"-----BEGIN OPENSSH") else load_pem_private_key
    try:
        private = read(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # The library's message may contain bytes of the private key, so it is not shown.
        raise refused from None
    if not isinstance(private, Ed25519PrivateKey):
        raise refused
    return SigningKey(private)


@contextmanager
def locked_folder(home: Path) -> Iterator[Path]:
    """Yield the key folder, created if missing, under an exclusive lock.

    Raises:
        StorageError: It cannot be written.
        UsageError: Other users can access it.
        BusyError: Another process held the lock for too long.
    """
    folder = key_file(home).parent
    try:
        home.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        _refuse_open(folder, folder.stat(), "chmod 700")
        # A lock file, because folders cannot be locked on every platform.
        lock = locks.locked(folder / "lock")
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        yield folder
    finally:
        locks.release(lock)


def new_private_file(place: Path) -> None:
    """Write a new private key to a file of mode 0600 atomically; only within `locked_folder`.

    Raises:
        StorageError: It cannot be written.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_whole(place, pem)


def write_whole(place: Path, data: bytes) -> None:
    """Write a file of mode 0600 atomically; only within `locked_folder`.

    Raises:
        StorageError: It cannot be written.
    """
    try:
        write_atomically(place, data, mode=0o600, scratch=place.with_name(f"{place.name}.new"))
        sync_folder(place.parent)
    except OSError as error:
        raise _unwritable(place, error) from error


def _make(home: Path) -> SigningKey:
    with locked_folder(home):
        place = key_file(home)
        if not os.path.lexists(place):
            new_private_file(place)
        return load(place)


def _read_private(place: Path) -> bytes:
    try:
        found = read_plain(place, _MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"the signing key {str(place)!r} cannot be read: {error.strerror}",
            remedy=f"set {VARIABLE} to a readable file, or unset it",
        ) from error
    if found is None:
        raise UsageError(f"{str(place)!r} is not a file", remedy=f"set {VARIABLE} to a file, or unset it")
    _refuse_open(place, found.status, "chmod 600")
    return found.data[:_MOST_BYTES]


def _refuse_open(place: Path, found: os.stat_result, command: str) -> None:
    from shlex import quote

    if found.st_uid not in {0, os.geteuid()}:
        raise UsageError(
            f"{str(place)!r}, which contains signing keys, belongs to another user",
            remedy=f"run `chown {os.geteuid()} {quote(str(place))}`, or set {VARIABLE} to your own file",
        )
    if found.st_mode & _OTHERS:
        raise UsageError(
            f"other users can access {str(place)!r}, which contains signing keys",
            remedy=f"run `{command} {quote(str(place))}`; if others may have read it, also run `esper keys rotate`",
        )


def _unwritable(place: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{str(place)!r} cannot be written: {error.strerror}", remedy="set ESPER_HOME to a writable folder"
    )
