from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from certificate_samples import certificate, full
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.certificates.signing.allowed_signers import NAMESPACE
from esper_agents.certificates.signing.signing_key import key_file, signing_key
from esper_agents.certificates.signing.sshsig import check_countersignature, countersign, signer_in
from esper_agents.certificates.statement import statement
from esper_agents.errors import EvidenceError, IntegrityError, UsageError

STATEMENT = statement(certificate())
KINDS = ("ed25519", "ecdsa", "rsa")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for kind in KINDS:
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "c", "-f", folder / kind], check=True)
    return folder


@pytest.fixture(scope="module")
def signed(pairs, tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    return {kind: countersign(STATEMENT, pairs / kind, home) for kind in KINDS}


def allowed(pairs, *names, options=f'namespaces="{NAMESPACE}" '):
    lines = zip(names, KINDS, strict=False)
    return "".join(
        f"{name} {options}{' '.join((pairs / f'{kind}.pub').read_text().split()[:2])}\n" for name, kind in lines
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_countersignature_says_whose_it_is(pairs, signed, kind):
    assert (
        check_countersignature(STATEMENT, signed[kind], allowed(pairs, "ann", "bob", "cleo"))
        == {
            "ed25519": "ann",
            "ecdsa": "bob",
            "rsa": "cleo",
        }[kind]
    )


def test_ssh_keygen_takes_it_by_hand_and_so_can_anybody(pairs, signed, tmp_path):
    (tmp_path / "allowed").write_text(allowed(pairs, "ann"))
    (tmp_path / "signature").write_text(signed["ed25519"])
    command = ["ssh-keygen", "-Y", "verify", "-f", "allowed", "-I", "ann", "-n", NAMESPACE, "-s", "signature"]
    subprocess.run(command, cwd=tmp_path, input=STATEMENT, check=True, capture_output=True)


def test_a_countersignature_made_by_hand_is_taken(pairs):
    command = ["ssh-keygen", "-Y", "sign", "-q", "-n", NAMESPACE, "-f", pairs / "ed25519"]
    made = subprocess.run(command, input=STATEMENT, capture_output=True, check=True).stdout.decode()
    assert check_countersignature(STATEMENT, made, allowed(pairs, "ann")) == "ann"


def test_a_key_that_an_agent_holds_signs_by_its_public_half(pairs, tmp_path, monkeypatch):
    socket = tmp_path / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE)
    try:
        assert b"SSH_AUTH_SOCK" in agent.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        subprocess.run(["ssh-add", "-q", pairs / "ed25519"], check=True, capture_output=True)
        public = tmp_path / "only.pub"
        public.write_bytes((pairs / "ed25519.pub").read_bytes())
        made = countersign(STATEMENT, public, tmp_path / "home")
    finally:
        agent.terminate()
        agent.wait()
        agent.stdout.close()
    assert check_countersignature(STATEMENT, made, allowed(pairs, "ann")) == "ann"


@pytest.mark.parametrize("other", [b"", STATEMENT + b" ", STATEMENT[:-1], statement(full())])
def test_a_countersignature_of_other_bytes_is_refused(pairs, signed, other):
    with pytest.raises(IntegrityError, match="does not match the key of ann"):
        check_countersignature(other, signed["ed25519"], allowed(pairs, "ann"))


def test_a_key_that_nobody_trusts_decides_nothing(pairs, signed):
    for text in ("", "# nobody\n", allowed(pairs, "ann", options='namespaces="git" '), f"* {'x' * 40}\n"):
        with pytest.raises(EvidenceError, match="untrusted key"):
            check_countersignature(STATEMENT, signed["ed25519"], text)
    with pytest.raises(EvidenceError, match="untrusted key"):
        check_countersignature(STATEMENT, signed["rsa"], allowed(pairs, "ann", "bob"))


def test_lines_that_are_refused_give_no_trust_here_either(pairs, signed):
    public = " ".join((pairs / "ed25519.pub").read_text().split()[:2])
    for line in (f"* {public}", f"ann cert-authority {public}", f'ann valid-after="20200101" {public}'):
        with pytest.raises(EvidenceError, match="untrusted key"):
            check_countersignature(STATEMENT, signed["ed25519"], line)


def test_a_signature_for_another_purpose_is_refused(pairs):
    for namespace in ("git", "file", "esper-certificate2"):
        command = ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", pairs / "ed25519"]
        made = subprocess.run(command, input=STATEMENT, capture_output=True, check=True).stdout.decode()
        with pytest.raises(IntegrityError, match="was made for"):
            check_countersignature(STATEMENT, made, allowed(pairs, "ann"))


@settings(max_examples=60)
@given(data=st.data())
def test_no_changed_signature_is_anybody_s(pairs, signed, data):
    armoured = signed["ed25519"]
    place = data.draw(st.integers(0, len(armoured) - 2))
    changed = armoured[:place] + data.draw(st.characters(max_codepoint=127)) + armoured[place + 1 :]
    if changed != armoured:
        with pytest.raises((IntegrityError, EvidenceError)):
            check_countersignature(STATEMENT, changed, allowed(pairs, "ann"))


@settings(max_examples=200)
@given(text=st.text(max_size=200) | st.binary(max_size=200).map(lambda data: data.decode("latin-1")))
def test_what_is_no_signature_is_refused_without_asking_ssh_keygen(text):
    for armoured in (text, f"-----BEGIN SSH SIGNATURE-----\n{text}\n-----END SSH SIGNATURE-----\n"):
        with pytest.raises(IntegrityError):
            signer_in(armoured)


@pytest.mark.parametrize("size", [2**16, 2**22])
def test_a_large_signature_is_refused_without_being_decoded(size):
    with pytest.raises(IntegrityError, match="armour"):
        signer_in(f"-----BEGIN SSH SIGNATURE-----\n{'A' * size}\n-----END SSH SIGNATURE-----\n")


def test_the_key_that_signs_what_is_issued_gives_no_second_opinion(tmp_path):
    signing_key(tmp_path)
    (tmp_path / "link").symlink_to(key_file(tmp_path))
    for place in (key_file(tmp_path), tmp_path / "link"):
        with pytest.raises(UsageError, match="cannot countersign"):
            countersign(STATEMENT, place, tmp_path)


@pytest.mark.parametrize("what", ["missing", "folder", "junk", "passphrase", "public"])
def test_a_key_that_does_not_sign_is_named_with_a_remedy(tmp_path, monkeypatch, what):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    place = tmp_path / "key"
    match what:
        case "folder":
            place.mkdir()
        case "junk":
            place.write_text("junk")
            place.chmod(0o600)
        case "passphrase":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret words", "-f", place], check=True)
        case "public":
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", place], check=True)
            place.unlink()
            place = tmp_path / "key.pub"
    with pytest.raises(UsageError) as refused:
        countersign(STATEMENT, place, tmp_path / "home")
    assert refused.value.remedy


def test_without_ssh_keygen_it_is_said_in_one_line_what_to_install(pairs, signed, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for attempt in (
        lambda: countersign(STATEMENT, pairs / "ed25519", tmp_path),
        lambda: check_countersignature(STATEMENT, signed["ed25519"], allowed(pairs, "ann")),
    ):
        with pytest.raises(EvidenceError, match="not installed") as refused:
            attempt()
        assert "OpenSSH" in refused.value.remedy


def test_a_verifier_that_never_ends_is_given_up(pairs, signed, tmp_path, monkeypatch):
    from esper_agents.certificates.signing import sshsig

    slow = tmp_path / "ssh-keygen"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(sshsig, "_VERIFY_S", 0.2)
    with pytest.raises(EvidenceError, match="did not finish"):
        check_countersignature(STATEMENT, signed["ed25519"], allowed(pairs, "ann"))


def test_verifying_sees_nothing_of_the_person_s_settings(pairs, signed, tmp_path, monkeypatch):
    spy = tmp_path / "ssh-keygen"
    spy.write_text(f"#!/bin/sh\nenv | sort > {tmp_path}/seen\npwd >> {tmp_path}/seen\nls -A >> {tmp_path}/seen\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "secret-agent"))
    monkeypatch.setenv("ESPER_SIGNING_KEY_FILE", str(tmp_path / "secret-key"))
    check_countersignature(STATEMENT, signed["ed25519"], allowed(pairs, "ann"))
    seen = (tmp_path / "seen").read_text()
    assert "secret-" not in seen
    assert str(Path.home()) not in [line.removeprefix("HOME=") for line in seen.splitlines()]
    assert seen.splitlines()[-2:] == ["allowed_signers", "signature"]


def test_signing_sees_no_signing_key_of_ours_and_none_of_the_person_s_secrets(pairs, tmp_path, monkeypatch, signed):
    spy = tmp_path / "ssh-keygen"
    (tmp_path / "answer").write_text(signed["ed25519"])
    spy.write_text(f"#!/bin/sh\nenv > {tmp_path}/seen\ncat {tmp_path}/answer\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("ESPER_SIGNING_KEY_FILE", str(tmp_path / "secret-key"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    countersign(STATEMENT, pairs / "ed25519", tmp_path)
    assert "secret" not in (tmp_path / "seen").read_text()
