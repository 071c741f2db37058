"""Programs that are not ours read what is sealed here, and say the same of it."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess

import pytest
from certificate_samples import certificate, full

from esper_agents.certificates.signing.dsse import envelope_bytes, pae, seal
from esper_agents.certificates.signing.signing_key import as_pem, as_ssh, key_file, signing_key
from esper_agents.certificates.statement import statement

PAYLOADS = {"small": statement(certificate()), "full": statement(full()), "empty": b""}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def key(home):
    return signing_key(home)


@pytest.fixture(params=PAYLOADS)
def sealed(request, key):
    return json.loads(envelope_bytes(seal(key, PAYLOADS[request.param])))


def needs(program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: that it agrees was NOT tested")


def parts(sealed, folder, key):
    """Write what a person needs to check an envelope by hand, as the page on keys does it."""
    payload = base64.b64decode(sealed["payload"])
    kind = sealed["payloadType"]
    (folder / "message").write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
    (folder / "signature").write_bytes(base64.b64decode(sealed["signatures"][0]["sig"]))
    (folder / "key.pem").write_text(as_pem(key.public_key))


def test_openssl_agrees(sealed, key, tmp_path):
    needs("openssl")
    parts(sealed, tmp_path, key)
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pem", "-rawin"]
    command += ["-in", "message", "-sigfile", "signature"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    (tmp_path / "message").write_bytes((tmp_path / "message").read_bytes() + b" ")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0


def test_openssl_reads_the_key_that_was_made_and_the_public_half_that_is_exported(key, home):
    needs("openssl")
    made = subprocess.run(
        ["openssl", "pkey", "-in", key_file(home), "-pubout"], capture_output=True, text=True, check=True
    )
    assert made.stdout == as_pem(key.public_key)


def test_ssh_keygen_calls_the_key_by_the_same_name_and_form(sealed, key, tmp_path):
    needs("ssh-keygen")
    (tmp_path / "key.pub").write_text(as_ssh(key.public_key) + "\n")
    said = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "key.pub"], capture_output=True, text=True, check=True)
    assert said.stdout.split()[1] == sealed["signatures"][0]["keyid"] == key.key_id
    (tmp_path / "key.pem").write_text(as_pem(key.public_key))
    exported = ["ssh-keygen", "-e", "-m", "pkcs8", "-f", tmp_path / "key.pub"]
    done = subprocess.run(exported, capture_output=True, text=True, check=False)
    if done.returncode == 0 and "BEGIN PUBLIC KEY" in done.stdout:
        assert done.stdout.split() == as_pem(key.public_key).split()


_NODE = """
const { verify, createPublicKey } = require("node:crypto");
const { readFileSync } = require("node:fs");
const [message, signature] = ["message", "signature"].map((name) => readFileSync(name));
const key = createPublicKey(readFileSync("key.pem"));
process.stdout.write(`${verify(null, message, key, signature)} `);
message[message.length - 1] ^= 1;
process.stdout.write(`${verify(null, message, key, signature)}`);
"""


def test_node_agrees(sealed, key, tmp_path):
    needs("node")
    parts(sealed, tmp_path, key)
    done = subprocess.run(["node", "-e", _NODE], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "true false"


def test_securesystemslib_agrees(sealed, key):
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed: NOT tested")
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    theirs = dsse.Envelope.from_dict(json.loads(json.dumps(sealed)))
    public = SSlibKey(key.key_id, "ed25519", "ed25519", {"public": key.public_key.hex()})
    assert list(theirs.verify([public], 1)) == [key.key_id]
    assert theirs.pae() == pae(theirs.payload_type, theirs.payload)
    theirs.payload += b" "
    with pytest.raises(VerificationError):
        theirs.verify([public], 1)


def test_what_securesystemslib_signs_is_read_here(home, key):
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed: NOT tested")
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner, SSlibKey

    from esper_agents.certificates.signing.dsse import PAYLOAD_TYPE, is_signed_by, read_envelope

    public = SSlibKey(key.key_id, "ed25519", "ed25519", {"public": key.public_key.hex()})
    signer = CryptoSigner(load_pem_private_key(key_file(home).read_bytes(), None), public)
    theirs = dsse.Envelope(PAYLOADS["full"], PAYLOAD_TYPE, {})
    theirs.sign(signer)
    data = json.dumps(theirs.to_dict(), separators=(",", ":"), sort_keys=True).encode()
    assert is_signed_by(read_envelope(data), key.public_key)
