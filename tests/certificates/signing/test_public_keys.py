from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.certificates.signing.public_keys import (
    check_public_key,
    decoded,
    from_ssh,
    is_key_id,
    is_signature,
    key_id_of,
    read_public_key,
)
from esper_agents.certificates.signing.signing_key import as_note_key, as_pem, as_ssh, signing_key
from esper_agents.errors import IntegrityError

PRIME = 2**255 - 19
CURVE_D = -121665 * pow(121666, -1, PRIME) % PRIME


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return signing_key(tmp_path_factory.mktemp("home"))


def add(one, two):
    """Add two points of the curve, by the formulas of RFC 8032."""
    (a, b), (c, d) = one, two
    product = CURVE_D * a * b * c * d % PRIME
    x = (a * d + b * c) * pow(1 + product, -1, PRIME) % PRIME
    y = (b * d + a * c) * pow(1 - product, -1, PRIME) % PRIME
    return x, y


def point(y):
    """Return a point of this height; None where the curve has none."""
    square = (y * y - 1) * pow(CURVE_D * y * y + 1, -1, PRIME) % PRIME
    root = pow(square, (PRIME + 3) // 8, PRIME)
    for x in (root, root * pow(2, (PRIME - 1) // 4, PRIME) % PRIME):
        if x * x % PRIME == square:
            return x, y
    return None


def small_order():
    """Return the eight points that eight times themselves are nothing, computed and not copied from a list."""
    order = 2**252 + 27742317777372353535851937790883648493
    for y in range(2, 100):
        start = point(y)
        if start is None:
            continue
        total, double = (0, 1), start
        for bit in range(order.bit_length()):
            if order >> bit & 1:
                total = add(total, double)
            double = add(double, double)
        found, each = {total}, total
        for _ in range(7):
            each = add(each, total)
            found.add(each)
        if len(found) == 8:
            return found
    raise AssertionError("no generator of the small group found")


def encodings(x, y):
    """Return every 32 bytes that some implementation reads as the point."""
    for height in (y, y + PRIME):
        if height < 2**255:
            for sign in {x & 1, 0, 1} if x == 0 else {x & 1}:
                yield (height | sign << 255).to_bytes(32, "little")


def test_all_points_of_small_order_are_refused_in_every_encoding():
    known = [encoding for found in small_order() for encoding in encodings(*found)]
    assert len(known) == len(set(known)) == 14
    for raw in known:
        with pytest.raises(IntegrityError, match=r"small order|canonical encoding"):
            check_public_key(raw)


def test_a_key_of_small_order_has_signed_nothing_though_the_equation_holds():
    # R = identity, S = 0: right for the identity as a key, whatever the message.
    identity = (1).to_bytes(32, "little")
    forged = identity + bytes(32)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    Ed25519PublicKey.from_public_bytes(identity).verify(forged, b"anything")
    assert not is_signature(forged, b"anything", identity)


def test_heights_beyond_the_field_are_refused():
    for height in range(PRIME, 2**255):
        for sign in (0, 1):
            with pytest.raises(IntegrityError, match="canonical encoding"):
                check_public_key((height | sign << 255).to_bytes(32, "little"))


@pytest.mark.parametrize("size", [0, 1, 31, 33, 57, 64])
def test_a_key_of_another_size_is_refused(size):
    with pytest.raises(IntegrityError, match="32"):
        check_public_key(b"\x09" * size)
    assert not is_signature(bytes(64), b"", b"\x09" * size)


def test_a_made_key_is_taken_and_comes_back_from_every_form(key):
    check_public_key(key.public_key)
    assert read_public_key(as_ssh(key.public_key)) == key.public_key
    assert read_public_key(f"{as_ssh(key.public_key)} a comment of words\n") == key.public_key
    assert read_public_key(as_pem(key.public_key)) == key.public_key
    assert read_public_key(as_pem(key.public_key).replace("\n", "\r\n")) == key.public_key
    assert read_public_key(as_note_key(key.public_key, "example.org/log")) == key.public_key


def test_the_note_key_is_the_example_of_go_s_documentation():
    # golang.org/x/mod/sumdb/note, ExampleVerify.
    written = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
    raw = read_public_key(written)
    assert as_note_key(raw, "PeterNeumann") == written


@settings(max_examples=500)
@given(text=st.text(max_size=120) | st.from_regex(r"(ssh-ed25519 |a\+|-----BEGIN PUBLIC KEY-----\n)[ -~\n]{0,90}"))
def test_what_is_no_key_is_refused_and_nothing_else_happens(text):
    with pytest.raises(IntegrityError):
        read_public_key(text)


@settings(max_examples=300)
@given(data=st.data())
def test_one_character_changed_is_no_key_or_another_key(key, data):
    form = data.draw(
        st.sampled_from([as_ssh(key.public_key), as_pem(key.public_key), as_note_key(key.public_key, "a")])
    )
    place = data.draw(st.integers(0, len(form) - 2))
    changed = form[:place] + data.draw(st.characters(min_codepoint=33, max_codepoint=126)) + form[place + 1 :]
    if changed == form:
        return
    try:
        found = read_public_key(changed)
    except IntegrityError:
        return
    assert found != key.public_key or form.startswith("a+")


def test_a_key_of_another_type_in_the_place_of_ed25519_is_refused(key):
    blob = as_ssh(key.public_key).split(" ")[1]
    for kind in ("ssh-rsa", "ssh-dss", "ecdsa-sha2-nistp256", "ssh-ed25519-cert-v01@openssh.com", "ssh-ed448", ""):
        with pytest.raises(IntegrityError, match="only ssh-ed25519"):
            from_ssh(kind, blob)


def test_bytes_after_the_key_are_refused(key):
    from binascii import a2b_base64, b2a_base64

    wire = a2b_base64(as_ssh(key.public_key).split(" ")[1])
    for longer in (wire + b"\0", wire + wire):
        with pytest.raises(IntegrityError):
            from_ssh("ssh-ed25519", b2a_base64(longer, newline=False).decode())


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "é", "a" * 201, "a\x00"])
def test_a_name_that_a_note_cannot_have_is_refused(key, name):
    with pytest.raises(IntegrityError, match="not a valid name"):
        as_note_key(key.public_key, name)


@given(data=st.binary(max_size=60))
def test_base64_is_read_in_one_form_only(data):
    from binascii import b2a_base64

    text = b2a_base64(data, newline=False).decode()
    assert decoded(text, most=100) == data
    for other in (text + "=", text + "\n", " " + text, text.rstrip("=") + "AA=" * 0 + "\t"):
        assert decoded(other, most=100) is None
    assert decoded(text, most=len(text) - 1) is None


def test_base64_in_another_alphabet_or_with_spare_bits_is_none():
    for text in ("-_==", "QR==", "QQ", "QQ=", "Q", "====", "Q Q==", "ÄÄÄÄ"):
        assert decoded(text, most=100) is None


def test_the_fingerprint_is_the_one_that_ssh_keygen_shows(key, tmp_path):
    file = tmp_path / "key.pub"
    file.write_text(as_ssh(key.public_key) + " me\n")
    said = subprocess.run(["ssh-keygen", "-l", "-f", file], capture_output=True, text=True, check=True).stdout
    assert said.split()[:2] == ["256", key.key_id]
    assert is_key_id(key.key_id)
    assert key_id_of(key.public_key) == key.key_id


@pytest.mark.parametrize(
    "text",
    ["", "SHA256:", "MD5:" + "a" * 43, "SHA256:" + "a" * 42, "SHA256:" + "a" * 44, "SHA256:" + "A" * 42 + "B", "\n"],
)
def test_what_is_no_fingerprint_is_none(text):
    assert not is_key_id(text)
