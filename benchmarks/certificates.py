"""How many certificates one core checks in a second: signature, strict parse, and inclusion in the log.

Each certificate has 20 findings and 20 subjects and stands in a log of its own size; every one is checked by its
published bytes alone, as somebody does who only has the files: envelope, signature, the statement as strict JSON, proof
and checkpoint. Reading every member of the certificate into its type, hashing the files, and deriving the verdict again
are counted apart.

    python benchmarks/certificates.py [--certificates 200] [--seconds 10] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esper_agents.archive.verification.signature import Keyring, proof_check, read_sealed, signature_check
from esper_agents.archive.verification.statement import verify_statement, verify_subjects
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.log import merkle
from esper_agents.certificates.log.note import Checkpoint, signed_checkpoint, write_proof
from esper_agents.certificates.policy.policy_file import policy_text
from esper_agents.certificates.policy.question_type import kinds_text
from esper_agents.certificates.signing.allowed_signers import own_signer
from esper_agents.certificates.signing.dsse import envelope_bytes, read_envelope, seal
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.signing.trusted_keys import TrustedKey, TrustedKeys, TrustOrigin
from esper_agents.certificates.statement import PREDICATE_TYPE, parse, statement
from esper_agents.certificates.strict_json import loads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from esper_agents.certificates.signing.signing_key import SigningKey
    from esper_agents.domain.certificate import Certificate

AIM_PER_S = 2_000
FINDINGS = FILES = 20
LINES = 200


@dataclass(frozen=True, slots=True)
class Published:
    """The bytes that are published of one certificate.

    Attributes:
        envelope: NAME.dsse.json.
        proof: NAME.tlog-proof.
        payload: The statement in the envelope.
    """

    envelope: bytes
    proof: bytes
    payload: bytes


def certificate_of(number: int, root: Path) -> Certificate:
    """Return a certificate on the files of a project, each with one finding in it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    samples = importlib.import_module("certificate_samples")

    lines = [f"x_{line} = loss_{line}.item()" for line in range(1, LINES + 1)]
    files, findings = [], []
    for at in range(FILES):
        path, text = f"src/part_{at:02}.py", "\n".join(lines) + f"\n# {at}\n"
        (root / "src").mkdir(exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        files.append(samples.source(path, text))
        where = replace(samples.claim().location, path=path, line=at + 1, end_line=at + 1)
        findings.append(samples.finding(at + 1, location=where, excerpt=lines[at]))
    evidence = (samples.evidence(examined=tuple(files)), samples.ran_tests(examined=()))
    made = samples.certificate(examined=tuple(files), findings=tuple(findings[:FINDINGS]), evidence=evidence)
    issued: Certificate = replace(made, id=f"crt_{number:032x}", summary=f"judgement {number}")
    return issued


def publish(records: Sequence[bytes], key: SigningKey) -> list[Published]:
    """Return what is published of certificates that stand in one log."""
    envelopes = [envelope_bytes(seal(key, each)) for each in records]
    nodes: dict[merkle.SubtreeIndex, bytes] = {}

    def read(places: Sequence[merkle.SubtreeIndex]) -> list[bytes]:
        return [nodes[place] for place in places]

    for size, envelope in enumerate(envelopes):
        nodes |= merkle.appended(size, merkle.leaf_hash(envelope), read)
    size = len(envelopes)
    note = signed_checkpoint(Checkpoint("esper-agents.dev/log/benchmark", size, merkle.root(size, read)), key)
    return [
        Published(envelope, write_proof(idx, merkle.inclusion(idx, size, read), note).encode(), record)
        for idx, (envelope, record) in enumerate(zip(envelopes, records, strict=True))
    ]


def verify(published: Published, keyring: Keyring) -> None:
    """Check everything of a certificate that does not need the files or the policy."""
    sealed = read_sealed(published.envelope)
    if isinstance(sealed, Check):
        sys.exit(sealed.detail)
    if loads(sealed.payload)["predicateType"] != PREDICATE_TYPE:
        sys.exit("it is no certificate")
    checks = signature_check(sealed, keyring, None), proof_check(published.envelope, published.proof, keyring)
    if {check.outcome for check in checks} != {CheckOutcome.HOLDS}:
        sys.exit(str(checks))


def per_second(work: Callable[[Published], object], certificates: Sequence[Published], seconds: float) -> float:
    """Return how often a piece of work is done in a second of this process's time, in its best of five stretches."""
    best = 0.0
    for _ in range(5):
        done, began = 0, time.process_time()
        while (took := time.process_time() - began) < seconds / 5:
            for certificate in certificates:
                work(certificate)
            done += len(certificates)
        best = max(best, done / took)
    return best


def measure(count: int, seconds: float) -> dict[str, Any]:
    """Return how many certificates a second, whole and by part."""
    with tempfile.TemporaryDirectory(prefix="esper-certificates-") as name:
        folder = Path(name)
        key = signing_key(folder / "home")
        root = folder / "project"
        root.mkdir()
        certificates = publish([statement(certificate_of(each, root)) for each in range(count)], key)
        trusted = TrustedKeys((TrustedKey(own_signer("benchmark", key.public_key), TrustOrigin.OWN),))
        keyring = Keyring(trusted, key_history((), trusted.roots()))
        policy, kinds = policy_text(), kinds_text()
        parts: dict[str, Callable[[Published], object]] = {
            "envelope alone": lambda each: read_sealed(each.envelope),
            "envelope, signature": lambda each: signature_check(read_envelope(each.envelope), keyring, None),
            "strict parse": lambda each: loads(each.payload),
            "inclusion": lambda each: proof_check(each.envelope, each.proof, keyring),
            "typed reading": lambda each: parse(each.payload),
            "derivation": lambda each: verify_statement(each.payload, policy, kinds),
            "files": lambda each: verify_subjects(each.payload, root),
            "sha256": lambda each: sha256(each.payload).digest(),
        }
        whole = per_second(lambda each: verify(each, keyring), certificates, seconds)
        rates = {name: per_second(work, certificates[:20], seconds / 5) for name, work in parts.items()}
    return {
        "certificates": count,
        "bytes": len(certificates[0].payload),
        "python": platform.python_version(),
        "load_1min": round(os.getloadavg()[0], 1),
        "verified_per_s": round(whole),
        "parts_us": {name: round(1e6 / rate, 1) for name, rate in rates.items()},
    }


def main() -> None:
    """Measure and print; exit with 1 where the aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--certificates", type=int, default=200, help="how many different ones")
    parser.add_argument("--seconds", type=float, default=10.0, help="for the whole check; a fifth of it for each part")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    measured = measure(given.certificates, given.seconds)
    is_met = measured["verified_per_s"] >= AIM_PER_S
    if given.json:
        print(json.dumps(measured))
        sys.exit(not is_met)
    print(
        f"{measured['certificates']} certificates of {measured['bytes']} bytes, {FINDINGS} findings and {FILES} files;"
        f" Python {measured['python']}, load {measured['load_1min']}"
    )
    for name, took_us in measured["parts_us"].items():
        print(f"{name:20}{took_us:10.1f} us")
    word = "met" if is_met else "MISSED"
    print(f"whole check         {measured['verified_per_s']:10} a second on one core (aim {AIM_PER_S}): {word}")
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
