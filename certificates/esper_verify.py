"""Check certificates of esper-agents without esper-agents: one file, Python 3.10 or newer and `cryptography`.

    python esper_verify.py --key KEY|FILE [--tree DIR] NAME.dsse.json|NAME.md ...

KEY is what `esper keys export` prints, `ssh-ed25519 AAAA...`; FILE holds that, PEM, or lines of an OpenSSH
allowed_signers file. Get it from the person whose it is, and not from where the certificates came from. Beside
NAME.dsse.json, the signed envelope, stand NAME.tlog-proof, NAME.md (a view for people) and NAME.N.notice.json.

Said apart, each with its reasons: whether it is genuine, whether it stands in the log, whether it is current.
Exits with 0 where all of that holds; 7 where something is not what was issued; 8 where it is stale, superseded or
revoked; 4 where that cannot be decided; 2 for wrong usage. Of several certificates the worst counts, in that order.
`esper certificates verify` does more: it derives the ceiling from the evidence again, compares the whole view and the
repository, follows keys that a trusted key brought into the log, and knows what nobody put beside the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import stat
import sys
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key, load_ssh_public_key

HOLDS, FAILS, UNDECIDED = "holds", "fails", "cannot decide"
OK, CANNOT_DECIDE, NOT_GENUINE, NOT_CURRENT, ENDINGS = 0, 4, 7, 8, ("revoked", "superseded", UNDECIDED)
PAYLOAD_TYPE, STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
STATEMENT_MEMBERS = {"_type", "subject", "predicateType", "predicate"}
CERTIFICATE, NOTICE, OVERRIDE = "certificate/v1", "notice/v1", "notice/v2"  # Each in one of these vocabularies.
OURS = ("urn:uuid:efb3b188-f73f-4522-ad3f-ae5a415f40ff#", "https://esper-agents.dev/")
WORDS = {(CERTIFICATE, "supersedes"): "superseded", (CERTIFICATE, "revokes"): "revoked"}
WORDS |= {(NOTICE, "certificate-revoked"): "revoked", (OVERRIDE, "overridden"): "overridden to {}"}
MOST_BYTES, MOST_PROOF, MOST_DEPTH = 64 * 2**20, 128 * 2**10, 64
# For each kind of question its stances from best to worst, each with the status that spells it.
_LOW = "undecided/NEEDS_FURTHER_REVIEW against/{} rejected/{} emergency/EMERGENCY_STOP"
_ADVICE = "for/{0} conditional/{0} against/{0} rejected/{0}".format("ADVISORY_ONLY")
ROWS = {
    "approval": f"for/APPROVED conditional/CONDITIONALLY_APPROVED {_LOW.format('REQUIRES_REMEDIATION', 'REJECTED')}",
    "go": f"for/GO conditional/GO {_LOW.format('NO_GO', 'NO_GO')}",
    "recommendation": f"for/RECOMMEND conditional/RECOMMEND {_LOW.format(*['DO_NOT_RECOMMEND'] * 2)}",
    "advice": f"{_ADVICE} undecided/NEEDS_FURTHER_REVIEW emergency/EMERGENCY_STOP",
}
File = tuple[str, str, str]  # Its path, sha256 and git blob.
Keys = dict[str, tuple[bytes, str]]  # By fingerprint: the key, and whose it is said to be.


class RefusedError(ValueError):
    """Bytes that are not what they should be; or, with UNDECIDED as second argument, too new for this program."""


class Check(NamedTuple):
    """One thing that was looked at, how that ended, and why."""

    name: str
    outcome: str
    why: str


def base64(text: object, what: str) -> bytes:
    """Return what standard padded base64 (RFC 4648, section 4) stands for, in the one way to write it."""
    found = b""
    with suppress(ValueError):
        found = b64decode(str(text), validate=True)
    if b64encode(found).decode() != text:
        raise RefusedError(f"{what} is not in standard base64")
    return found


def strict_json(data: bytes) -> Any:
    """Return JSON that two readers cannot understand differently: I-JSON (RFC 7493) without floats, 64 deep."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise RefusedError("a member stands twice in one object")
        return dict(pairs)

    def integer(digits: str) -> int:
        if len(digits) > len("-9007199254740991") or digits == "-0" or abs(int(digits)) >= 2**53:
            raise RefusedError("a number is no integer of at most 53 bits")
        return int(digits)

    if len(data) > MOST_BYTES:
        raise RefusedError(f"it has over {MOST_BYTES} bytes")
    hooks = {"parse_int": integer, "parse_float": integer, "parse_constant": integer}
    try:
        level = [value := json.loads(data.decode("utf-8"), object_pairs_hook=members, **hooks)]  # type: ignore[arg-type]
    except (ValueError, RecursionError):
        raise RefusedError("it is no JSON in UTF-8 with each member once and integers of 53 bits alone") from None
    for _ in range(MOST_DEPTH + 1):
        nested = [each for each in level if isinstance(each, (dict, list))]
        if not nested:
            return value
        level = [inner for each in nested for inner in (each.values() if isinstance(each, dict) else each)]
    raise RefusedError(f"it nests deeper than {MOST_DEPTH}")


def at(value: Any, *way: str, shape: type = str) -> Any:
    """Return a member of members; it must be there, and of a type."""
    for name in way:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, shape):
        return value
    raise RefusedError(f"it has no {'.'.join(way)}")


def shown(text: object) -> str:
    """Return text that a terminal does not obey: what cannot be printed, escapes and bidi marks, by its number."""
    return "".join(each if each.isprintable() else f"\\u{ord(each):04x}" for each in str(text)[:400])


def read_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return a file's bytes, at most one more than the most. Never waits for a FIFO, never reads a device."""
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        if stat.S_ISREG(os.fstat(opened).st_mode):
            return file.read(most + 1)
    raise OSError(f"{path} is no regular file")


_PRIME = 2**255 - 19
_EIGHT = int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little")
# The heights of the eight points of small order: under such a key one signature fits many messages.
_SMALL_ORDER = frozenset((0, 1, _PRIME - 1, _EIGHT, _PRIME - _EIGHT))
_OPTION = r'(?:namespaces="(?:[^"*?!]*,)?esper-certificate(?:,[^"*?!]*)?"\s+)?'
_LINE = re.compile(rf"(?:(?!ssh-)([\w.+@=:/~-]+)\s+)?{_OPTION}ssh-ed25519\s+(\S+)(?:\s.*)?")


def read_keys(text: str) -> Keys:
    """Return the Ed25519 keys in text: PEM (RFC 8410), OpenSSH lines, allowed_signers (ssh-keygen(1))."""
    found: Keys = {}
    for line in [text] if text.startswith("-----BEGIN") else filter(None, map(str.strip, text.splitlines())):
        match = _LINE.fullmatch(line)
        who, blob = match.groups() if match else ("", "")
        with suppress(ValueError, UnsupportedAlgorithm):
            key = load_ssh_public_key(f"ssh-ed25519 {blob}".encode()) if match else load_pem_public_key(line.encode())
            raw = key.public_bytes_raw() if isinstance(key, Ed25519PublicKey) else b""
            height = int.from_bytes(raw, "little") % 2**255
            if height < _PRIME and height not in _SMALL_ORDER:
                digest = hashlib.sha256(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + raw).digest()
                found[f"SHA256:{b64encode(digest).decode().rstrip('=')}"] = raw, who or "a key that was given"
                continue
        if not line.startswith("#"):
            print(f"not taken, as it is no Ed25519 key that may sign certificates: {shown(line)}", file=sys.stderr)
    return found


def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Return whether an Ed25519 signature (RFC 8032) is a key's over a message."""
    with suppress(InvalidSignature, ValueError):
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        return True
    return False


def read_envelope(data: bytes) -> tuple[bytes, str, bytes]:
    """Return payload, keyid and signature of a DSSE v1 envelope, which must be in the one form of RFC 8785."""
    value = strict_json(data)
    signatures = at(value, "signatures", shape=list)
    if len(signatures) != 1:
        raise RefusedError("it has not one signature")
    payload, key_id, sig = at(value, "payload"), at(signatures[0], "keyid"), at(signatures[0], "sig")
    form = {"payload": payload, "payloadType": PAYLOAD_TYPE, "signatures": [{"keyid": key_id, "sig": sig}]}
    found = base64(payload, "its payload"), key_id, base64(sig, "its signature")
    is_one = re.fullmatch("SHA256:[A-Za-z0-9+/]{43}", key_id) and len(found[2]) == 64  # noqa: PLR2004 - RFC 8032
    if not is_one or json.dumps(form, separators=(",", ":")).encode() != data:
        raise RefusedError("it is not in the one form that envelopes have")
    return found


def signature_check(payload: bytes, key_id: str, signature: bytes, keys: Keys) -> Check:
    """Say who signed an envelope: over DSSE's pre-authentication encoding of its type and payload."""
    if key_id not in keys:
        return Check("signature", UNDECIDED, f"no key that was given is {key_id}: ask its owner")
    key, who = keys[key_id]
    if not is_signed(key, signature, f"DSSEv1 {len(PAYLOAD_TYPE)} {PAYLOAD_TYPE} {len(payload)} ".encode() + payload):
        return Check("signature", FAILS, f"it does not carry the signature of {key_id}")
    return Check("signature", HOLDS, f"by {who}, {key_id}")


def read_statement(payload: bytes, *kinds: str) -> dict[str, Any]:
    """Return an in-toto Statement v1 with a predicate of a kind, in one of the versions that this program knows."""
    value = strict_json(payload)
    said = (given := at(value, "predicateType")).removeprefix(next(filter(given.startswith, OURS), given))
    if said not in kinds and re.fullmatch(re.escape(kinds[-1][:-1]) + "[1-9][0-9]{0,5}", said):
        raise RefusedError(f"it is a {shown(given)}, and {kinds[-1]} is known here: get a newer program", UNDECIDED)
    if {*value} != STATEMENT_MEMBERS or value["_type"] != STATEMENT or said not in kinds:
        raise RefusedError(f"it is no in-toto Statement v1 with a {kinds[-1]}")
    return at(value, "predicate", shape=dict) and {**value, "predicateType": said}


def verdict_check(said: dict[str, Any]) -> Check:
    """Say whether status and ceiling are spelled as their kind of question does, and the status is not above it."""
    verdict = at(said, "verdict", shape=dict)
    kind, row = at(verdict, "kind"), ROWS.get(verdict["kind"], "").split()
    best = f"{at(verdict, 'ceiling', 'stance')}/{at(verdict, 'ceiling', 'status')}"
    given = f"{at(verdict, 'stance')}/{at(verdict, 'status')}"
    if kind != at(said, "task", "kind") or not {best, given} <= set(row):
        return Check("verdict", FAILS, f"{given} under {best} is no answer to a question of kind {kind}")
    if row.index(given) < row.index(best):
        return Check("verdict", FAILS, f"{given} is above its ceiling {best}")
    return Check("verdict", HOLDS, f"{given} is not above its recorded ceiling {best}")


def view_check(page: str, payload: bytes, status: str) -> Check:
    """Say whether a Markdown view names this record and its status, each in one line and no other."""
    wanted = [f"**Status**: {status}", f"Certificate Hash: sha256:{hashlib.sha256(payload).hexdigest()}"]
    named = r"^[ \t>+*-]*[*_\\]*(?:Status|Certificate Hash)[*_\\]*:.*$"
    if re.findall(named, page.replace("\r\n", "\n"), re.MULTILINE) != wanted:
        return Check("view", FAILS, f"it does not say {' and '.join(wanted)}, each once and in this order")
    return Check("view", HOLDS, f"it names this record and its status {status}; its prose is not compared")


def read_proof(leaf: bytes, data: bytes) -> tuple[str, str, list[tuple[str, bytes]]]:
    """Return origin, text and signatures of the checkpoint that a C2SP tlog-proof leads to from an envelope."""
    head, _, note = data.decode("utf-8").partition("\n\n")
    text, _, under = note.rpartition("\n\n")
    version, number, *hashes = head.split("\n")
    origin, size, root = text.split("\n")
    said = f"{version}\n{number}\n{origin}\n{size}"
    form = r"c2sp\.org/tlog-proof@v1\nindex (0|[1-9][0-9]{0,17})\n[!-*,-~]{1,200}\n[1-9][0-9]{0,17}"
    if len(data) > MOST_PROOF or re.search(rb"[\x00-\x09\x0b-\x1f]", data) or not re.fullmatch(form, said):
        raise RefusedError("it is no tlog-proof of version 1")
    path = [base64(each, "a hash") for each in hashes]
    if not includes(leaf, int(number[len("index ") :]), int(size), path, base64(root, "its root")):
        raise RefusedError(f"it does not lead from this envelope to the checkpoint of {origin}")
    lines = [re.fullmatch(r"\u2014 ([^\s+]{1,200}) (\S+)\n", each) for each in under.splitlines(keepends=True)]
    if not lines or None in lines:
        raise RefusedError("what stands under its checkpoint are no signatures")
    return origin, f"{text}\n", [(line[1], base64(line[2], "a signature")) for line in lines if line]


def log_check(leaf: bytes, data: bytes | None, keys: Keys) -> Check:
    """Say whether an envelope stands in a log whose head, a C2SP tlog-checkpoint, one of the keys signed."""
    if data is None:
        return Check("proof", UNDECIDED, "there is no NAME.tlog-proof beside it")
    try:
        origin, text, signed = read_proof(leaf, data)
    except ValueError as error:
        return Check("proof", FAILS, str(error) if isinstance(error, RefusedError) else "it is no tlog-proof")
    for raw, who in keys.values():
        # C2SP signed-note: four bytes name the key, sha256 of name, line feed, algorithm 1 (Ed25519) and key.
        name = hashlib.sha256(f"{origin}\n\x01".encode() + raw).digest()[:4]
        if any(by == origin and sig[:4] == name and is_signed(raw, sig[4:], text.encode()) for by, sig in signed):
            return Check("proof", HOLDS, f"it leads to the checkpoint of {origin} that {who} signed")
    return Check("proof", UNDECIDED, f"no key that was given signed the checkpoint of {origin}")


def includes(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> bool:
    """Return whether an inclusion proof holds: hashing of RFC 6962, steps of RFC 9162, section 2.1.3.2."""
    node, last, found = index, size - 1, hashlib.sha256(b"\x00" + leaf).digest()
    for each in path:
        while node == last and not node & 1 and node:
            node, last = node >> 1, last >> 1
        if last == 0:
            return False
        found = hashlib.sha256(b"\x01" + (each + found if node & 1 else found + each)).digest()
        node, last = node >> 1, last >> 1
    return index < size and last == 0 and found == root


def examined(statement: dict[str, Any]) -> list[File]:
    """Return the files that were judged; the subjects must be just these and the commit, or the session where none."""
    said, subjects = at(statement, "predicate", shape=dict), at(statement, "subject", shape=list)
    files = [(at(e, "path"), at(e, "sha256"), at(e, "git_blob")) for e in at(said, "examined", shape=list)]
    wanted: list[Any] = [{"name": p, "digest": {"sha256": d} | ({"gitBlob": b} if b else {})} for p, d, b in files]
    if "files" in said:  # More than fifty: as sha256sum lists them, with one digest for the list.
        listed = at(said, "files", "list")
        files = [(line[66:], line[:64], "") for line in listed.splitlines()]
        wanted = [{"name": "files.sha256", "digest": {"sha256": hashlib.sha256(listed.encode()).hexdigest()}}]
    rest = [at(each, "name").partition(":")[0] for each in subjects[len(wanted) :]]
    if subjects[: len(wanted)] != wanted or rest not in ([[], ["git"]] if files else [["session"]]):
        raise RefusedError("its subjects are not the files that it says were read")
    return files


def file_state(tree: Path, path: str, digest: str, blob: str) -> str:
    """Return what became of a file: valid, stale, missing or unreadable. Nothing outside the tree is read."""
    relative = PurePosixPath(path)
    try:
        place = (tree / relative).resolve()
        inside = not relative.is_absolute() and ".." not in relative.parts and place.is_relative_to(tree.resolve())
        data = read_file(place) if inside and place.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return "unreadable"
    if data is None:
        return "missing" if inside else "unreadable"
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return "valid" if hashlib.sha256(data).hexdigest() == digest and blob in {"", git.hexdigest()} else "stale"


def later(certificate_id: str, stem: Path, keys: Keys, signer: str) -> list[tuple[str, str, str]]:
    """Return what is said of a certificate beside it, by notices and later ones: in a word, why, and of which bytes."""
    found, name = [], re.compile(re.escape(stem.name) + r"\.[0-9]+\.notice\.json|.*\.dsse\.json", re.DOTALL)
    for path in sorted(each for each in stem.parent.iterdir() if name.fullmatch(each.name)):
        kinds = (NOTICE, OVERRIDE) if path.name.endswith(".notice.json") else (CERTIFICATE,)
        try:
            payload, key_id, signature = read_envelope(read_file(path))
            signed = signature_check(payload, key_id, signature, keys)
            if signed.outcome != HOLDS:  # A later entry counts only where a key that was given signed it.
                raise RefusedError(signed.why, *[FAILS] * (signed.outcome == FAILS and NOTICE in kinds))
            statement = read_statement(payload, *kinds)
            said = statement["predicate"]
            why = f"at {said.get('at') or said.get('issued_at')} by {said.get('by') or said.get('id')}"
            why += f": {said.get('reason') or said.get('summary')} ({path.name})"
            for each in [said] if NOTICE in kinds else said.get("relations", ()):
                word = WORDS.get((statement["predicateType"], at(each, "kind")), "").format(each.get("status"))
                if word and at(each, "certificate") == certificate_id:
                    if word in ENDINGS and key_id != signer:  # Another key than the signer's objects.
                        word, why = UNDECIDED, f"only its signer can {word.removesuffix('d')} it: {why}"
                    found.append((word, why, str(each.get("certificate_sha256"))))
        except (ValueError, OSError, TypeError) as error:
            found += [(w, f"for {path.name}: {error.args[0]}", "") for w in (UNDECIDED, FAILS) if w in error.args]
    return found


def check(given: Path, tree: Path | None, keys: Keys) -> tuple[list[str], int]:
    """Return what there is to say of the envelope that was named, or the one beside a view, and what to exit with."""
    stem = given.with_name(re.sub(r"\.(dsse\.json|md)$", "", given.name))
    data = read_file(stem.with_name(f"{stem.name}.dsse.json"))
    view, proof = stem.with_name(f"{stem.name}.md"), stem.with_name(f"{stem.name}.tlog-proof")
    logged = [log_check(data, read_file(proof, MOST_PROOF) if os.path.lexists(proof) else None, keys)]
    title, overridden, genuine, current = given.name, [], [], (UNDECIDED, ["the record is not known"])
    try:
        payload, key_id, signature = read_envelope(data)
        genuine.append(signature_check(payload, key_id, signature, keys))
        statement = read_statement(payload, CERTIFICATE)
        said = statement["predicate"]
        certificate_id, status = at(said, "id"), at(said, "verdict", "status")
        title = f"{certificate_id}: {status} for {said.get('component')}, by {said.get('agent')}"
        files, digest = examined(statement), hashlib.sha256(payload).hexdigest()
        genuine += [Check("record", HOLDS, f"sha256:{digest}"), verdict_check(said)]
        found = later(certificate_id, stem, keys, key_id)
        genuine += [Check("notice", FAILS, why) for word, why, _ in found if word == FAILS]
        spelled = {each.partition("/")[2] for each in ROWS.get(at(said, "verdict", "kind"), "").split()}
        words = {f"overridden to {each}" for each in spelled - {"EMERGENCY_STOP"} if status != "EMERGENCY_STOP"}
        # Of several overrides the last one counts, by the time that is signed in it.
        overridden = sorted((why, word) for word, why, of in found if word in words and of == digest)[-1:]
        if os.path.lexists(view):
            genuine.append(view_check(read_file(view).decode("utf-8", "replace"), payload, status))
        where = tree or next((each for each in given.absolute().parents if (each / ".git").exists()), Path.cwd())
        current = currency(where, at(said, "project"), files, [each[:2] for each in found if each[0] in ENDINGS])
    except RefusedError as refused:
        genuine.append(Check("record", UNDECIDED if UNDECIDED in refused.args else FAILS, str(refused.args[0])))
    lines = [title, *(f"  {word} {why}" for why, word in overridden)]
    for name, checks in (("genuine", genuine), ("in the log", logged)):
        lines.append(f"  {name}: {next((w for w in (FAILS, UNDECIDED) if w in {c.outcome for c in checks}), HOLDS)}")
        lines += [f"    {each.name} {each.outcome}: {each.why}" for each in checks]
    lines += [f"  current: {current[0]}", *(f"    {each}" for each in current[1])]
    outcomes = {each.outcome for each in (*genuine, *logged)}
    code = {"valid": (CANNOT_DECIDE, OK)[outcomes == {HOLDS}], UNDECIDED: CANNOT_DECIDE}.get(current[0], NOT_CURRENT)
    return lines, NOT_GENUINE if FAILS in outcomes else code


def currency(where: Path, project: str, files: list[File], ended: list[tuple[str, str]]) -> tuple[str, list[str]]:
    """Return whether a certificate still speaks of a tree, in one word and with reasons."""
    states = [(path, file_state(where, path, digest, blob)) for path, digest, blob in files]
    changed = [f"{path} is {state}" for path, state in states if state != "valid"]
    reasons = [*(f"{word} {why}" for word, why in ended), *changed]
    reasons.append(f"{len(states) - len(changed)} of {len(states)} files are what they were in {where}")
    found, words = {state for _, state in states}, {word for word, _ in ended}
    if words:
        return next(each for each in ENDINGS if each in words), reasons
    # That nothing at all is there says that this is another project's tree, and nothing of the files.
    if found & {"stale", "missing"} and (found != {"missing"} or where.resolve().name == project):
        return "stale", reasons
    return UNDECIDED if changed else "valid", reasons


def main() -> int:
    """Read the command line, check, print, and return what to exit with."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", action="append", required=True, metavar="KEY|FILE", help="whose signatures count")
    parser.add_argument("--tree", type=Path, help="the files to compare with; else the git repository around each")
    parser.add_argument("files", nargs="+", type=Path, metavar="NAME.dsse.json|NAME.md")
    given = parser.parse_args()
    keys: Keys = {}
    try:
        for each in given.key:
            keys |= read_keys(each if each.startswith("ssh-") else read_file(Path(each)).decode("utf-8", "replace"))
        if not keys:
            parser.error("no Ed25519 public key was given")
        found = [check(each, given.tree, keys) for each in given.files]
    except (OSError, ValueError) as error:
        parser.error(shown(error))
    print("\n".join(shown(line) for lines, _ in found for line in lines))
    return next(each for each in (NOT_GENUINE, NOT_CURRENT, CANNOT_DECIDE, OK) if each in {code for _, code in found})


if __name__ == "__main__":
    sys.exit(main())
