"""Certificate as an in-toto Statement v1 in RFC 8785 bytes: write and parse."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from esper_agents.certificates.canonical_json import canonical_bytes
from esper_agents.certificates.file_manifest import SUBJECT, compact, digest_of_manifest, expand
from esper_agents.certificates.json_conversion import from_json, to_json
from esper_agents.certificates.strict_json import MOST_BYTES, loads, refuse
from esper_agents.domain.certificate import Certificate
from esper_agents.domain.identifier import Prefix, is_id
from esper_agents.errors import EvidenceError, NewerRecordError

if TYPE_CHECKING:
    from esper_agents.domain.codec import JsonObject
    from esper_agents.domain.handoff import Handoff

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
# A UUID needs no registry or domain name; the fragment names the predicate.
VOCABULARY = "urn:uuid:efb3b188-f73f-4522-ad3f-ae5a415f40ff#"
# Written by 0.1.0. It is read as the same type and no longer written.
OLD_VOCABULARY = "https://esper-agents.dev/"
CERTIFICATE = "certificate/v1"
PREDICATE_TYPE = VOCABULARY + CERTIFICATE
# The base64 envelope must not exceed the read limit.
MOST_ISSUED = MOST_BYTES // 4 * 3 - 2**10
_SMALL = 64 * 2**10
_MEMBERS = frozenset({"_type", "subject", "predicateType", "predicate"})
_ISSUED_AT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")
# Members unknown to 0.1.0: a certificate without them keeps the same bytes as there.
_SINCE = frozenset({"events_sha256", "notes_sha256", "earlier", "model_rationale"})
_SHA256 = re.compile(r"[0-9a-f]{64}")


def statement(certificate: Certificate) -> bytes:
    """Return the canonical bytes of a certificate.

    The predicate is the whole certificate, as `normal` has it. Subjects are the files that were read, each by its path
    with its sha256 and git object ID, then the commit and its tree if git knew one. If no file was read, the only
    subject is the session, with the digest of its task: in-toto requires a subject, and a commit that was not read is
    not listed.

    There are no floats in it: those in tool arguments and outputs are decimal strings as `repr` gives, as are
    integers beyond 53 bits. Control characters and lone surrogates are visible escapes.

    Raises:
        IntegrityError: An identifier, a time or a digest is malformed.
        EvidenceError: It would exceed the read limit.
    """
    _check_forms(certificate)
    predicate = compact({name: each for name, each in to_json(certificate).items() if each or name not in _SINCE})
    data = canonical_bytes(
        {
            "_type": STATEMENT_TYPE,
            "subject": _subjects(certificate, predicate),
            "predicateType": PREDICATE_TYPE,
            "predicate": predicate,
        }
    )
    if len(data) > MOST_ISSUED:
        problem = f"the certificate would have {len(data)} bytes; the maximum is {MOST_ISSUED}"
        raise EvidenceError(problem, remedy="submit fewer files at once")
    return data


def parse(data: bytes) -> Certificate:
    """Parse a certificate strictly.

    The bytes need not be in canonical form: the digest of the bytes identifies what was issued.

    Raises:
        NewerRecordError: The certificate was written by a newer version.
        IntegrityError: The bytes are not strict JSON (see `strict_json.loads`), not a known statement type, or contain
            an unknown or missing member, a wrong type, an unknown status, or subjects that differ from the
            certificate's.
    """
    # Cached, because views and checks parse the same bytes in a row, and a server shows the same certificates again.
    return (_small if len(data) <= _SMALL else _large)(bytes(data))


def _parsed(data: bytes) -> Certificate:
    value = loads(data)
    said = predicate_of(value, CERTIFICATE)
    if not isinstance(value, dict) or set(value) != _MEMBERS:
        refuse(f"a statement has the members {', '.join(sorted(_MEMBERS))}")
    if value["_type"] != STATEMENT_TYPE or said != CERTIFICATE:
        refuse(f"not a {STATEMENT_TYPE} with a {PREDICATE_TYPE}")
    certificate = from_json(Certificate, expand(value["predicate"]))
    _check_forms(certificate)
    # The task as recorded: a record from before a member was added keeps the digest computed at that time.
    said, subjects = value["predicate"], value["subject"]
    if subjects != _subjects(certificate, said) and subjects != _subjects(certificate, said, tree=False):
        refuse("its subjects differ from the files that it lists as read")
    return certificate


_small = lru_cache(maxsize=64)(_parsed)
_large = lru_cache(maxsize=2)(_parsed)


def predicate_of(value: Any, known: str) -> str:
    """Return the predicate of a statement without its vocabulary, such as `certificate/v1`; empty if unknown.

    Args:
        value: The statement.
        known: Newest known version of that predicate.

    Raises:
        NewerRecordError: It has a newer version, which only a newer program can validate.
    """
    said = value.get("predicateType") if isinstance(value, dict) else None
    vocabulary = next((each for each in (VOCABULARY, OLD_VOCABULARY) if str(said).startswith(each)), None)
    if not isinstance(said, str) or vocabulary is None:
        return ""
    named = said.removeprefix(vocabulary)
    kind, _, number = known.rpartition("/v")
    found = re.fullmatch(f"{re.escape(kind)}/v([1-9][0-9]{{0,5}})", named)
    if found and int(found[1]) > int(number):
        raise NewerRecordError(
            f"it is a {said}; this version of esper-agents supports {vocabulary}{known}",
            remedy="pip install --upgrade esper-agents",
        )
    return named


def normal(certificate: Certificate) -> Certificate:
    """Return a certificate as `parse` returns it; a normalized one is unchanged."""
    return from_json(Certificate, to_json(certificate))


def digest_of(data: bytes) -> str:
    """Return the digest of a statement's bytes, as `sha256:` and 64 hex digits."""
    return f"sha256:{sha256(data).hexdigest()}"


def digest_of_value(value: JsonObject) -> str:
    """Return the sha256 of a tool's recorded arguments or output, in RFC 8785 bytes, as hex digits.

    Anyone can recompute it from the certificate alone.
    """
    return sha256(canonical_bytes(to_json(value))).hexdigest()


def digest_of_packet(packet: Handoff) -> str:
    """Return the sha256 of a recorded handoff, in RFC 8785 bytes, as hex digits.

    The next handoff references it, so that the chain can be checked from the certificate alone.
    """
    return digest_of_value(to_json(packet))


def _subjects(certificate: Certificate, predicate: dict[str, Any], *, tree: bool = True) -> list[dict[str, Any]]:
    """Return the subjects of a certificate; versions without a log recorded the commit without its tree."""
    if not certificate.examined:
        task = sha256(canonical_bytes(predicate["task"])).hexdigest()
        return [{"name": f"session:{certificate.session}", "digest": {"sha256": task}}]
    manifest = digest_of_manifest(predicate)
    subjects: list[dict[str, Any]] = [
        {
            "name": to_json(file.path),
            "digest": {"sha256": file.sha256} | ({"gitBlob": to_json(file.git_blob)} if file.git_blob else {}),
        }
        for file in certificate.examined
        if not manifest
    ]
    if manifest:
        subjects.append({"name": SUBJECT, "digest": {"sha256": manifest}})
    revision = certificate.revision
    if revision.commit:
        name = f"git:{revision.remote or certificate.project}"
        digest = {"gitCommit": to_json(revision.commit)}
        subjects.append({"name": to_json(name), "digest": digest | _tree(revision.tree if tree else "")})
    return subjects


def _tree(tree: str) -> dict[str, Any]:
    return {"gitTree": to_json(tree)} if tree else {}


def _check_forms(certificate: Certificate) -> None:
    if not is_id(certificate.id) or not certificate.id.startswith(f"{Prefix.CERTIFICATE}_"):
        refuse(f"{certificate.id[:60]!a} is not a certificate ID")
    if not is_id(certificate.session) or not certificate.session.startswith(f"{Prefix.SESSION}_"):
        refuse(f"{certificate.session[:60]!a} is not a session ID")
    if not is_time(certificate.issued_at):
        refuse(f"{certificate.issued_at[:60]!a} is not a time such as 2026-01-31T09:30:00.000Z")
    for file in certificate.examined:
        if not _SHA256.fullmatch(file.sha256):
            refuse(f"{file.sha256[:80]!a} is not the sha256 of a file")
    for digest in (certificate.events_sha256, certificate.notes_sha256):
        if digest and not _SHA256.fullmatch(digest):
            refuse(f"{digest[:80]!a} is not a sha256")


def is_time(text: str) -> bool:
    """Return whether a text is a time such as 2026-01-31T09:30:00.000Z."""
    if not _ISSUED_AT.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True
