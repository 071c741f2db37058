"""Files that store secrets are recognised by their content, in any encoding; what resembles one is not."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa

from esper_agents.errors import EvidenceError
from esper_agents.tools.file_access import is_private
from esper_agents.tools.secret_stores import secret_store

RSA = rsa.generate_private_key(65537, 2048)
KEYS = {
    "rsa": RSA,
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "ec large": ec.generate_private_key(ec.SECP521R1()),
    "dsa": dsa.generate_private_key(1024),  # noqa: S505 - a longer one takes seconds to find, and is stored alike
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
}


def exports():
    secret = form.BestAvailableEncryption(b"pass phrase")
    for name, key in KEYS.items():
        formats = [form.PrivateFormat.PKCS8, *([] if name == "ed25519" else [form.PrivateFormat.TraditionalOpenSSL])]
        for written in formats:
            for encoding in (form.Encoding.PEM, form.Encoding.DER):
                yield (
                    f"{name} {written} {encoding}",
                    key.private_bytes(encoding, written, form.NoEncryption()),
                )
        for encoding in (form.Encoding.PEM, form.Encoding.DER):
            yield f"{name} locked {encoding}", key.private_bytes(encoding, form.PrivateFormat.PKCS8, secret)
        if name != "dsa":
            ssh = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
            yield f"{name} OpenSSH", ssh


PEM = RSA.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
DER = RSA.private_bytes(form.Encoding.DER, form.PrivateFormat.PKCS8, form.NoEncryption())
STORES = dict(exports()) | {
    "UTF-16 with a mark": PEM.decode().encode("utf-16"),
    "UTF-16 without a mark": PEM.decode().encode("utf-16-le"),
    "UTF-16 of the other order": b"\xfe\xff" + PEM.decode().encode("utf-16-be"),
    "UTF-32": PEM.decode().encode("utf-32"),
    "UTF-8 with a mark": b"\xef\xbb\xbf" + PEM,
    "old line ends": PEM.replace(b"\n", b"\r"),
    "DER in base64": base64.b64encode(DER),
    "DER in base64 with lines": base64.encodebytes(DER),
    "DER in hex": DER.hex().encode(),
    "PEM in base64": base64.b64encode(PEM),
    "PuTTY": b"PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 1\nAAAA\n",
    "SSH2": b"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAAAA\n",
    "OpenPGP": b"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\nlQ\n",
    "age": b"# created\nAGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQ\n",
    "WireGuard": b"[Interface]\nPrivateKey = " + base64.b64encode(bytes(range(32))) + b"\n",
    "JWK": json.dumps({"kty": "EC", "crv": "P-256", "x": "a", "y": "b", "d": "c"}).encode(),
    "JWKS": json.dumps({"keys": [{"kty": "oct", "k": "c"}]}).encode(),
    "Terraform": json.dumps({"version": 4, "terraform_version": "1.9", "resources": []}).encode(),
    "kubeconfig": b"apiVersion: v1\nkind: Config\nusers:\n- name: me\n  user:\n    token: abcdef\n",
    "kubeconfig as JSON": json.dumps({"kind": "Config", "users": []}).encode(),
    "service account": json.dumps({"type": "service_account", "private_key": "x"}).encode(),
    "gcloud": json.dumps({"type": "authorized_user", "refresh_token": "x"}).encode(),
    "OAuth client": json.dumps({"installed": {"client_id": "a", "client_secret": "b"}}).encode(),
    "AWS": b"[default]\naws_access_key_id = AKIA\naws_secret_access_key = abcdefghijklmnopqrstuvwxyz\n",
    "AWS session": json.dumps({"Credentials": {"SecretAccessKey": "x"}}).encode(),
    "Azure": json.dumps({"accessToken": "a", "refreshToken": "b"}).encode(),
    "docker": json.dumps({"auths": {"r.example": {"auth": "eDp5"}}}).encode(),
    ".netrc": b"machine example.org\n  login me\n  password hunter2\n",
    ".pypirc": b"[pypi]\nusername = __token__\npassword = pypi-abc\n",
    ".npmrc": b"//registry.npmjs.org/:_authToken=npm_abcdefgh\n",
    "htpasswd": b"me:$apr1$abc$def\nyou:$2y$05$abcdefg\n",
    ".pgpass": b"localhost:5432:db:me:hunter2\n*:*:*:me:x\n",
    ".git-credentials": b"https://me:hunter2@example.org\n",
    "dotenv": b"# local\nDEBUG=1\nexport API_KEY='abcdefgh12345678'\n",
    "Java key store": b"\xfe\xed\xfe\xed\0\0\0\2",
    "KeePass": b"\x03\xd9\xa2\x9a\x67\xfb\x4b\xb5",
}
PUBLIC = RSA.public_key()
HARMLESS = {
    "public PEM": PUBLIC.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo),
    "public DER": PUBLIC.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo),
    "public DER of elliptic curves": KEYS["ec"]
    .public_key()
    .public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo),
    "public SSH": PUBLIC.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH),
    "public JWK": json.dumps({"kty": "EC", "x": "a", "y": "b"}).encode(),
    "settings": b"[model]\nkey_dim = 64\ntokenizer = 'gpt2'\n",
    "settings of a shell": b"BATCH=32\nLR=0.001\nTOKENIZER=gpt2-medium-long\n",
    "YAML": b"kind: Config\nmodel:\n  token_dim: 4\n",
    "requirements": b"torch==2.13.0\nnumpy>=2\n",
    ".npmrc without a token": b"registry=https://registry.npmjs.org/\n//r.example/:_authToken=${NPM_TOKEN}\n",
    "setup.cfg": b"[metadata]\nname = x\n[tool:pytest]\naddopts = -q\n",
    "weights": bytes(range(256)) * 16,
    "a checkpoint": b"PK\x03\x04" + bytes(64),
    "numbers": b"0 1 2 3\n" * 100,
    "a digest": b"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n",
    "a package": json.dumps({"name": "x", "version": "1", "token_type_ids": [0]}).encode(),
    "empty": b"",
}


@pytest.mark.parametrize("name", STORES)
def test_a_store_of_secrets_is_recognised_by_its_content(name):
    assert secret_store(STORES[name], "notes.txt")


@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_resembles_one_is_not(name):
    assert not secret_store(HARMLESS[name], "notes.txt")


def test_source_that_quotes_a_key_is_no_store():
    assert not secret_store(b"KEY = '''\n" + PEM + b"'''\n", "tests/test_tls.py")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl: PKCS#12 was NOT tested")
def test_pkcs12_is_recognised(tmp_path):
    (tmp_path / "key.pem").write_bytes(PEM)
    command = "openssl req -new -x509 -key key.pem -subj /CN=x -out cert.pem && "
    command += "openssl pkcs12 -export -inkey key.pem -in cert.pem -out both -passout pass:x"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)  # noqa: S602
    assert secret_store((tmp_path / "both").read_bytes())
    assert not secret_store((tmp_path / "cert.pem").read_bytes())


@pytest.mark.parametrize(
    "path",
    ["terraform.tfstate", "infra/terraform.tfstate.backup", "kubeconfig", "conf/kubeconfig.yaml", ".my.cnf", "a.p8"],
)
def test_stores_are_recognised_by_their_names(path):
    assert is_private(path)


@pytest.mark.anyio
@pytest.mark.parametrize("data", [PEM, STORES["UTF-16 with a mark"], STORES["kubeconfig"]])
async def test_no_tool_shows_a_store_and_each_says_so(call, project, data):
    (project / "notes.txt").write_bytes(data)
    with pytest.raises(EvidenceError, match="not shown to models: it holds"):
        await call("read-file", path="notes.txt")
    found = await call("search-files", pattern=".", files="notes.txt")
    assert found.output["hits"] == []
    assert [each["path"] for each in found.output["withheld"]] == ["notes.txt"]
    assert "1 file withheld" in found.summary


@pytest.mark.anyio
async def test_a_key_that_source_quotes_is_struck_out_line_by_line(call, project):
    body = PEM.decode().splitlines()[1]
    (project / "tls.py").write_text(f"KEY = '''\n{PEM.decode()}'''\nafter = 1\n")
    read = await call("read-file", path="tls.py")
    assert body not in "\n".join(read.output["lines"])
    assert read.output["lines"][-1] == "after = 1"
    assert len(read.output["lines"]) == len((project / "tls.py").read_text().splitlines())
    for tool, asked in (("search-files", {"pattern": "MII"}), ("search-code", {"text": "MII", "paths": ["."]})):
        assert (await call(tool, **asked)).output["hits"] == []
