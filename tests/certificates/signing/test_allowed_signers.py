from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.certificates.signing.allowed_signers import (
    MOST_BYTES,
    MOST_LINE,
    MOST_LINES,
    NAMESPACE,
    own_signer,
    read_signers,
)
from esper_agents.certificates.signing.signing_key import as_ssh, signing_key

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlE5Va5r0xAJ+ITmTCADl/vyGHmGX5M0BJqz3gvy6tn"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Return real keys of every type that `ssh-keygen` makes without a device, by type."""
    folder = tmp_path_factory.mktemp("pairs")
    for kind, options in {
        "ed25519": ("-t", "ed25519"),
        "ecdsa": ("-t", "ecdsa"),
        "rsa": ("-t", "rsa"),
        "small-rsa": ("-t", "rsa", "-b", "1024"),
    }.items():
        command = ["ssh-keygen", "-q", *options, "-N", "", "-C", f"{kind}@example.org", "-f", folder / kind]
        subprocess.run(command, check=True)
    return folder


def public(pairs, kind):
    return " ".join((pairs / f"{kind}.pub").read_text().split()[:2])


def read(text):
    return read_signers(text.encode("utf-8", "surrogateescape"), "keys")


def ssh_keygen_takes(pairs, line, *, kind="ed25519", principal="ann", namespace=NAMESPACE):
    """Return whether ssh-keygen takes a signature of a key under a file with this one line."""
    (pairs / "allowed").write_bytes(line.encode("utf-8", "surrogateescape") + b"\n")
    signed = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-n", namespace, "-f", pairs / kind],
        input=b"message",
        capture_output=True,
        check=True,
    )
    (pairs / "signature").write_bytes(signed.stdout)
    verify = ["-Y", "verify", "-f", "allowed", "-I", principal, "-n", namespace, "-s", "signature"]
    done = subprocess.run(["ssh-keygen", *verify], cwd=pairs, input=b"message", capture_output=True, check=False)
    return done.returncode == 0


def test_a_line_says_whose_key_it_is_and_what_it_may_sign():
    (found,) = read(f'ann@example.org namespaces="{NAMESPACE},git" {KEY} a comment').signers
    assert (found.principal, found.namespaces) == ("ann@example.org", (NAMESPACE, "git"))
    assert as_ssh(found.raw) == KEY
    assert found.may_sign(NAMESPACE)
    assert not found.may_sign("file")


def test_a_line_without_namespaces_may_sign_anything_as_with_openssh(pairs):
    line = f"ann {public(pairs, 'ed25519')}"
    (found,) = read(line).signers
    assert found.may_sign(NAMESPACE)
    assert ssh_keygen_takes(pairs, line)


def test_empty_lines_and_comments_say_nothing():
    found = read(f"\n# ann {KEY}\n   \t\n\r\n  # x\nann {KEY}\r\n")
    assert [signer.principal for signer in found.signers] == ["ann"]
    assert found.refused == ()


def test_a_written_line_is_read_as_it_was(tmp_path):
    signer = own_signer("ann", signing_key(tmp_path).public_key)
    assert read(signer.line()).signers == (signer,)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_keys_that_people_have_are_read_and_only_ed25519_can_sign_envelopes(pairs, kind):
    (found,) = read(f"ann {public(pairs, kind)}").signers
    assert bool(found.raw) == (kind == "ed25519")
    assert ssh_keygen_takes(pairs, found.line(), kind=kind)


def test_a_short_rsa_key_is_refused(pairs):
    found = read(f"ann {public(pairs, 'small-rsa')}")
    assert found.signers == ()
    assert "2048" in found.refused[0].why


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"ann cert-authority {KEY}", id="a certificate authority"),
        pytest.param(f'ann cert-authority,namespaces="{NAMESPACE}" {KEY}', id="an authority in a list of options"),
        pytest.param(f'ann namespaces="{NAMESPACE}",CERT-AUTHORITY {KEY}', id="an authority in capitals"),
        pytest.param(f'ann valid-after="20200101" {KEY}', id="a time that it begins"),
        pytest.param(f'ann valid-before="20200101" {KEY}', id="a time that it ends"),
        pytest.param(f'ann namespaces="{NAMESPACE}",valid-before="20200101" {KEY}', id="a time among options"),
        pytest.param(f"* {KEY}", id="anybody"),
        pytest.param(f"*@example.org {KEY}", id="a pattern"),
        pytest.param(f"an? {KEY}", id="a pattern of one character"),
        pytest.param(f"!bob,* {KEY}", id="anybody but one"),
        pytest.param(f"ann,bob {KEY}", id="two people"),
        pytest.param(f'"ann" {KEY}', id="a name in quotes"),
        pytest.param(f"-oann {KEY}", id="a name like an option"),
        pytest.param(f'ann namespaces="*" {KEY}', id="any namespace by a pattern"),
        pytest.param(f'ann namespaces="esper-*" {KEY}', id="a pattern of namespaces"),
        pytest.param(f'ann namespaces="!esper-certificate,*" {KEY}', id="all namespaces but ours"),
        pytest.param(f'ann namespaces="" {KEY}', id="no namespace"),
        pytest.param(f"ann namespaces {KEY}", id="namespaces of nothing"),
        pytest.param(f'ann namespaces="a",namespaces="{NAMESPACE}" {KEY}', id="namespaces twice"),
        pytest.param(f'ann namespaces="{NAMESPACE}", {KEY}', id="a comma that is left over"),
        pytest.param(f'ann namespaces="{NAMESPACE} {KEY}', id="a quote that is open"),
        pytest.param(f'ann namespaces="a b" {KEY}', id="a space in a namespace"),
        pytest.param(f"ann no-such-option {KEY}", id="an option that nobody knows"),
        pytest.param(KEY, id="no name"),
        pytest.param("ann", id="no key"),
        pytest.param("ann ssh-ed25519", id="a type without a key"),
        pytest.param(f"ann {KEY[:-4]}", id="a key cut off"),
        pytest.param(f"ann {KEY}AAAA", id="a key too long"),
        pytest.param(f"ann {KEY.replace('ssh-ed25519', 'ssh-rsa')}", id="another type than the key's"),
        pytest.param(f"ann {KEY.replace('ssh-ed25519', 'ssh-dss')}", id="a type that is broken"),
        pytest.param(f"ann {KEY.replace('ssh-ed25519', 'ssh-ed25519-cert-v01@openssh.com')}", id="a certificate"),
        pytest.param(
            "ann ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", id="small order"
        ),
        pytest.param(f"ann {KEY} \x1b[2Jcomment", id="a terminal escape"),
        pytest.param(f"ann {KEY} \u202ecomment", id="a turned direction"),
        pytest.param(f"ann\x00 {KEY}", id="NUL"),
        pytest.param(f"ann\u00a0{KEY}", id="another space"),
        pytest.param(f"\u0430nn {KEY}", id="a name that only looks like another"),
        pytest.param(f"ann\x0b{KEY}", id="a vertical tab"),
        pytest.param("a" * 300 + f" {KEY}", id="a long name"),
        pytest.param(f"ann {KEY} " + "c" * MOST_LINE, id="a long line"),
    ],
)
def test_a_line_that_is_not_plain_is_refused_aloud_and_the_others_count(line):
    found = read(f"# keys\n{line}\n")
    assert found.signers == ()
    assert [each.where for each in found.refused] == ["keys:2"]
    assert found.refused[0].why
    both = read(f"{line}\nbob {KEY}\n")
    assert [signer.principal for signer in both.signers] == ["bob"]


@pytest.mark.sample(68)
@pytest.mark.parametrize(
    "options",
    [
        "",
        'namespaces="esper-certificate"',
        'namespaces="git,esper-certificate"',
        'namespaces="git"',
        'NAMESPACES="esper-certificate"',
        'namespaces="esper-*"',
        'namespaces="!esper-certificate,*"',
        'namespaces=""',
        "cert-authority",
        'valid-before="20200101"',
        'valid-after="20200101"',
        'valid-after="29990101"',
        "namespaces=esper-certificate",
        'namespaces="git",namespaces="esper-certificate"',
        'namespaces="esper-certificate",',
        ',namespaces="esper-certificate"',
        "nonsense",
    ],
)
@pytest.mark.parametrize("name", ["ann", "ann,bob", "*", "!ann,*", '"ann"', "a?n", "bob", "#ann"])
def test_never_more_is_trusted_than_ssh_keygen_trusts(pairs, name, options):
    line = " ".join(each for each in (name, options, public(pairs, "ed25519")) if each)
    ours = any(signer.principal == "ann" and signer.may_sign(NAMESPACE) for signer in read(line).signers)
    if ours:
        assert ssh_keygen_takes(pairs, line)


@settings(max_examples=60)
@given(data=st.data())
def test_no_changed_line_is_trusted_more_than_ssh_keygen_trusts_it(pairs, data):
    line = f'ann namespaces="{NAMESPACE}" {public(pairs, "ed25519")} comment'
    for _ in range(data.draw(st.integers(1, 2))):
        place = data.draw(st.integers(0, len(line)))
        length = data.draw(st.integers(0, 2))
        piece = data.draw(st.sampled_from(["", " ", "\t", ",", '"', "*", "!", "#", "=", "A", "\\", "\x0b", "é", "'"]))
        line = line[:place] + piece + line[place + length :]
    for signer in read(line).signers:
        if signer.may_sign(NAMESPACE) and f"{signer.kind} {signer.blob}" == public(pairs, "ed25519"):
            assert ssh_keygen_takes(pairs, line, principal=signer.principal)


@settings(max_examples=300)
@given(junk=st.binary(max_size=300))
def test_any_bytes_are_read_and_give_nobody_any_trust(junk):
    found = read_signers(junk, "keys")
    assert found.signers == ()


def test_of_two_lines_for_one_key_the_first_counts():
    found = read(f"ann {KEY}\nbob {KEY}\n")
    assert [signer.principal for signer in found.signers] == ["ann"]
    assert found.refused[0].where == "keys:2"


def test_a_file_beyond_the_bounds_gives_nobody_any_trust():
    line = f"ann {KEY}\n".encode()
    for data in (line + b"#" * MOST_BYTES, line + b"\n" * MOST_LINES):
        found = read_signers(data, "keys")
        assert found.signers == ()
        assert "the maximum" in found.refused[0].why
