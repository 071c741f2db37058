"""Recognize files that store secrets by content: private keys in any encoding, tool credentials."""

from __future__ import annotations

import base64
import binascii
import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Code and prose may quote a key, which redaction removes; they are not secret stores.
_QUOTING = frozenset((".py", ".pyi", ".ipynb", ".md", ".rst", ".toml"))
# The longer first: UTF-32's byte-order mark begins with that of UTF-16.
_MARKS = {
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
    b"\xef\xbb\xbf": "utf-8",
}
_MAGIC = {
    b"\xfe\xed\xfe\xed": "a Java key store",
    b"\xce\xce\xce\xce": "a Java key store",
    b"\x03\xd9\xa2\x9a": "a KeePass database",
    b"openssh-key-v1\0": "a private key of OpenSSH",
}
# After version and lengths: PKCS#1, PKCS#8, SEC 1, encrypted PKCS#8 (PBES1 and 2), PKCS#12.
_DER = re.compile(
    rb"\x02\x01[\x00\x01]\x02(?:[\x81\x82]|[\x10-\x7f])|\x02\x01[\x00\x01]\x30.{1,3}\x06|\x02\x01\x01\x04[\x10-\x50]"
    rb"|\x30.{0,3}\x06.\x2a\x86\x48\x86\xf7\x0d\x01(?:\x05|\x0c\x01)|\x02\x01\x03\x30",
    re.DOTALL,
)
_WHOLE_ENCODING = re.compile(r"[A-Za-z0-9+/_\s-]{80,}={0,2}\s*")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[\s:]*){40,}")
_LONGEST_ENCODED = 64 << 10
_LONGEST_READ = 4 << 20
_TEXTS = {
    "a private key": r"^\s*-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY",
    "a private key of PuTTY": r"\A\s*PuTTY-User-Key-File-\d",
    "a private key of age": r"^AGE-SECRET-KEY-1[0-9A-Z]{20}",
    "a private key of WireGuard": r"^\s*PrivateKey\s*=\s*[A-Za-z0-9+/]{42,43}=",
    "credentials of AWS": r"^\s*aws_(?:secret_access_key|session_token)\s*=\s*[A-Za-z0-9/+=]{16,}\s*$",
    "passwords of .netrc": r"^\s*(?:machine\s+\S+|default)\s+(?:login|user)\s+\S+\s+"
    r"(?:account\s+\S+\s+)?password\s+\S+",
    "a token of a package index": r"^//\S+:(?:_authToken|_password|_auth)\s*=\s*(?!\$\{)\S{8,}"
    r"|^_auth(?:Token)?\s*=\s*\S{8,}",
    "a password of a package index": r"^\[[^\]\n]+\]\s*\n(?:(?!\[).*\n)*?\s*(?:repository|username)\s*[:=].*\n"
    r"(?:(?!\[).*\n)*?\s*password\s*[:=]\s*(?!\$|%)\S{4,}",
    "a token of Terraform": r'^\s*credentials\s+"[^"\n]+"\s*\{\s*\n?\s*token\s*=',
}
_KUBE = (
    re.compile(r"^kind:\s*[\"']?Config\b", re.MULTILINE),
    re.compile(
        r"^\s*(?:-\s*)?(?:token|client-key-data|password|client-key|id-token|refresh-token):\s*\S", re.MULTILINE
    ),
)
# Files in which every line has the same form.
_LINES = {
    "hashes of passwords": r"[^:\s]+:(?:\$(?:apr1|2[abxy]?|5|6|y|argon2\w*)\$|\{SHA\})\S+",
    "passwords of PostgreSQL": r"[^:\s#]+:(?:\d+|\*):[^:\s]+:[^:\s]+:\S+",
    "passwords of git": r"https?://[^:@/\s]+:[^@/\s]+@\S+",
}
_ASSIGNMENT = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<text>.*)")
_SECRET_NAME = re.compile(r"(?i).*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)")
_SHORTEST_SECRET = 8
_REGISTRY = {"auth", "identitytoken", "password"}


def secret_store(data: bytes, path: str = "") -> str:
    """Return the kind of secrets that a file stores; empty if it is not a known secret store.

    Args:
        data: Content of the file.
        path: Path of the file: source and prose, which may quote a key, are not secret stores.
    """
    if why := _binary(data):
        return why
    if PurePosixPath(path).suffix.lower() in _QUOTING:
        return ""
    text = decoded(data)
    return _told(text[:_LONGEST_READ]) or _encoded(text)


def decoded(data: bytes) -> str:
    """Return the text of a file in UTF-8, UTF-16 or UTF-32, with or without a byte order mark."""
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    head = data[:400]
    # In UTF-16, text of ASCII characters has a null byte in every pair.
    for encoding, zeros, others in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        if len(head) >= 8 and not any(zeros) and all(others):  # noqa: PLR2004 - shorter ones prove nothing
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "replace")


def _binary(data: bytes) -> str:
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            return what
    return "a private key" if _is_der_key(data) else ""


def _is_der_key(data: bytes) -> bool:
    """Return whether the content is one ASN.1 sequence that begins as private keys do."""
    if len(data) < 40 or data[0] != 0x30:  # noqa: PLR2004 - ASN.1 tag of a sequence, and less than the shortest key
        return False
    width = data[1] & 0x7F if data[1] & 0x80 else 0
    if width > 4:  # noqa: PLR2004 - 4 GiB
        return False
    length = int.from_bytes(data[2 : 2 + width], "big") if width else data[1]
    body = data[2 + width :]
    # A line end may follow; PKCS#12 may have an indefinite length (0x80).
    is_whole = data[1] == 0x80 or length <= len(body) <= length + 2  # noqa: PLR2004
    return is_whole and _DER.match(body) is not None


def _encoded(text: str) -> str:
    """Return the kind of secrets in a text that consists of base64 or hexadecimal digits only."""
    stripped = text.strip()
    if not stripped or len(stripped) > _LONGEST_ENCODED:
        return ""
    inner = b""
    try:
        if _HEX.fullmatch(stripped):
            inner = bytes.fromhex(re.sub(r"[\s:]", "", stripped))
        elif _WHOLE_ENCODING.fullmatch(stripped):
            inner = base64.b64decode(re.sub(r"\s", "", stripped).replace("-", "+").replace("_", "/") + "==")
    except (ValueError, binascii.Error):
        return ""
    return (_binary(inner) or _told(inner.decode("utf-8", "replace"))) if inner else ""


def _told(text: str) -> str:
    for what, pattern in _TEXTS.items():
        if re.search(pattern, text, re.MULTILINE):
            return what
    if all(each.search(text) for each in _KUBE):
        return "credentials of Kubernetes"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", ";"))]
    for what, pattern in _LINES.items():
        if lines and all(re.fullmatch(pattern, line) for line in lines):
            return what
    return _of_environment(lines) or _of_json(text)


def _of_environment(lines: list[str]) -> str:
    """Return the kind of secrets in a list of environment variables, whatever the file's name."""
    found = [_ASSIGNMENT.fullmatch(line) for line in lines]
    secrets = [
        each
        for each in found
        if each and _SECRET_NAME.fullmatch(each["name"]) and len(each["text"].strip("\"'")) >= _SHORTEST_SECRET
    ]
    is_code = any(each and "(" in each["text"] for each in found)
    return "secrets of an environment" if lines and all(found) and secrets and not is_code else ""


def _of_json(text: str) -> str:
    if text.lstrip()[:1] != "{":
        return ""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return _of_object(value) if isinstance(value, dict) else ""


def _of_object(value: Mapping[str, Any]) -> str:
    inner = {name: each for name, each in value.items() if isinstance(each, dict)}
    listed = value.get("keys")
    keys = listed if isinstance(listed, list) else [value]
    registries = [each for each in inner.get("auths", {}).values() if isinstance(each, dict)]
    names = {each.casefold() for each in value}
    told = {
        "a private key (JWK)": any(isinstance(key, dict) and _is_private_jwk(key) for key in keys),
        "the state of Terraform": "terraform_version" in value and bool({"resources", "modules", "outputs"} & names),
        "credentials of Kubernetes": value.get("kind") == "Config" and "users" in value,
        "credentials of Google Cloud": value.get("type") in {"service_account", "authorized_user", "external_account"},
        "a client secret": any("client_secret" in each for each in (value, *inner.values())),
        "credentials of a container registry": any(_REGISTRY & registry.keys() for registry in registries),
        "credentials of AWS": "secretaccesskey" in names or "SecretAccessKey" in inner.get("Credentials", {}),
        "tokens of a cloud": "refresh_token" in names or {"accesstoken", "refreshtoken"} <= names,
    }
    return next((what for what, is_so in told.items() if is_so), "")


def _is_private_jwk(key: Mapping[str, Any]) -> bool:
    return isinstance(key.get("kty"), str) and bool({"d", "k", "p", "q"} & key.keys())
