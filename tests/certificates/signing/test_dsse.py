from __future__ import annotations

import base64
import json
from binascii import a2b_base64, b2a_base64
from dataclasses import replace

import pytest
from certificate_samples import certificate, full, of_status
from hypothesis import given, settings
from hypothesis import strategies as st

from esper_agents.archive import published_notices
from esper_agents.archive.verification.signature import read_sealed
from esper_agents.certificates.signing import dsse
from esper_agents.certificates.signing.dsse import (
    PAYLOAD_TYPE,
    Envelope,
    encodings_within,
    envelope_bytes,
    is_signed_by,
    pae,
    read_envelope,
    seal,
)
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.statement import statement
from esper_agents.domain.status import Status
from esper_agents.errors import IntegrityError

FULL = statement(full())


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return signing_key(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def other_key(tmp_path_factory):
    return signing_key(tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def envelope(key):
    return seal(key, statement(certificate()))


def is_genuine(data, public_key, payload):
    """Return whether bytes are an envelope of this key over this payload, or over any other."""
    try:
        found = read_envelope(data)
    except IntegrityError:
        return False
    return is_signed_by(found, public_key) and found.payload == payload


def as_json(envelope, **changes):
    return json.loads(envelope_bytes(envelope)) | changes


def written(value):
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def test_what_is_sealed_is_read_back_and_signed_by_its_key_alone(key, other_key, envelope):
    read = read_envelope(envelope_bytes(envelope))
    assert read == envelope
    assert read.payload == statement(certificate())
    assert is_signed_by(read, key.public_key)
    assert not is_signed_by(read, other_key.public_key)


def test_what_is_signed_is_the_example_of_the_specification():
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("", b"") == b"DSSEv1 0  0 "


def test_an_envelope_is_rfc_8785(envelope):
    import rfc8785

    assert envelope_bytes(envelope) == rfc8785.dumps(as_json(envelope))


STATUSES = [Status.APPROVED, Status.NEEDS_FURTHER_REVIEW, Status.NO_GO]


@pytest.mark.parametrize("status", STATUSES)
def test_a_flipped_byte_of_an_envelope_is_noticed(key, status):
    # Every eleventh byte, other ones for each status: payload, signature and the members' names.
    flip_every_byte(key, statement(of_status(status)), (1,), slice(STATUSES.index(status), None, 11))


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0x01, 0x02, 0x20, 0x80])
@pytest.mark.parametrize("status", Status)
def test_every_flipped_byte_of_an_envelope_is_noticed(key, status, mask):
    flip_every_byte(key, statement(of_status(status)), (mask,))


def flip_every_byte(key, payload, masks, places=slice(None)):
    data = envelope_bytes(seal(key, payload))
    assert is_genuine(data, key.public_key, payload)
    changed = flipped(data, range(len(data))[places], masks)
    assert not any(is_genuine(each, key.public_key, payload) for each in changed)


def flipped(data, places, masks):
    for place in places:
        for mask in masks:
            changed = bytearray(data)
            changed[place] ^= mask
            yield bytes(changed)


@pytest.mark.parametrize(
    "masks",
    [(1, 2, 4, 8, 16, 32, 64, 128, 255), pytest.param(range(1, 256), marks=pytest.mark.slow)],
    ids=["some", "all"],
)
def test_every_flip_of_bits_outside_the_payload_is_noticed(key, envelope, masks):
    data = envelope_bytes(envelope)
    outside = [*range(16), *range(data.index(b'","payloadType"') - 4, len(data))]
    assert not any(is_genuine(each, key.public_key, envelope.payload) for each in flipped(data, outside, masks))


@settings(max_examples=200)
@given(data=st.data())
def test_no_other_bytes_than_those_sealed_are_genuine(key, data):
    sealed = envelope_bytes(seal(key, FULL))
    start = data.draw(st.integers(0, len(sealed)))
    end = data.draw(st.integers(start, min(len(sealed), start + 8)))
    changed = sealed[:start] + data.draw(st.binary(max_size=8)) + sealed[end:]
    assert is_genuine(changed, key.public_key, FULL) == (changed == sealed)


@settings(max_examples=300)
@given(payload=st.binary(max_size=200))
def test_any_payload_comes_back_as_it_was(key, payload):
    sealed = seal(key, payload)
    assert read_envelope(envelope_bytes(sealed)) == sealed
    assert is_signed_by(sealed, key.public_key)


@settings(max_examples=200)
@given(
    junk=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["payload", "payloadType", "signatures", "keyid", "sig"]), inner, max_size=5
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_what_is_no_envelope_is_refused_and_nothing_else_happens(junk):
    with pytest.raises(IntegrityError):
        read_envelope(junk)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"extra": 1}, id="a member more"),
        pytest.param({"payloadType": "application/vnd.in-toto+json "}, id="another type"),
        pytest.param({"payloadType": "text/plain"}, id="a type of text"),
        pytest.param({"payloadType": None}, id="no type"),
        pytest.param({"payload": None}, id="no payload"),
        pytest.param({"payload": 7}, id="a number for a payload"),
        pytest.param({"payload": "eyJhIjoxfQ"}, id="no padding"),
        pytest.param({"payload": "eyJhIjoxfQ="}, id="half the padding"),
        pytest.param({"payload": "eyJhIjoxfQ=="[:-2] + "==="}, id="too much padding"),
        pytest.param({"payload": "eyJhIjoxfR=="}, id="bits that no byte needs"),
        pytest.param({"payload": "eyJh\nIjoxfQ=="}, id="a line feed in base64"),
        pytest.param({"payload": " eyJhIjoxfQ=="}, id="a space before base64"),
        pytest.param({"payload": "_-__"}, id="the other alphabet"),
        pytest.param({"payload": "eyJhIjoxfQ==é"}, id="no ASCII"),
        pytest.param({"signatures": []}, id="no signature"),
        pytest.param({"signatures": {}}, id="no list of signatures"),
        pytest.param({"signatures": [None]}, id="a signature that is none"),
        pytest.param({"signatures": [{"sig": "AA=="}]}, id="no key id"),
        pytest.param({"signatures": [{"keyid": "", "sig": "AA=="}]}, id="an empty key id"),
    ],
)
def test_another_form_is_refused(envelope, change):
    with pytest.raises(IntegrityError):
        read_envelope(written(as_json(envelope, **change)))


def test_a_missing_member_is_refused(envelope):
    for name in ("payload", "payloadType", "signatures"):
        value = as_json(envelope)
        del value[name]
        with pytest.raises(IntegrityError, match="exactly the members"):
            read_envelope(written(value))


@pytest.mark.parametrize(
    "rewrite",
    [
        pytest.param(lambda data: data + b"\n", id="a line feed at the end"),
        pytest.param(lambda data: b" " + data, id="a space before"),
        pytest.param(lambda data: b"\xef\xbb\xbf" + data, id="a mark of byte order"),
        pytest.param(lambda data: json.dumps(json.loads(data)).encode(), id="spaces"),
        pytest.param(lambda data: data.replace(b"application/", b"application\\/"), id="an escape"),
        pytest.param(lambda data: data.replace(b'"sig"', b'"\\u0073ig"'), id="an escaped member"),
        pytest.param(lambda data: data.replace(b'{"payload"', b'{"payload":"","payload"'), id="a member twice"),
        pytest.param(lambda data: b"[" + data + b"]", id="a list round it"),
        pytest.param(lambda data: data[:-1], id="cut off"),
        pytest.param(lambda data: b"\0" * len(data), id="NUL"),
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda data: data.decode().encode("utf-16"), id="UTF-16"),
    ],
)
def test_the_same_content_in_other_bytes_is_refused(envelope, rewrite):
    with pytest.raises(IntegrityError):
        read_envelope(rewrite(envelope_bytes(envelope)))


def test_members_in_another_order_are_refused(envelope):
    value = as_json(envelope)
    turned = dict(reversed(value.items()))
    with pytest.raises(IntegrityError, match="canonical form"):
        read_envelope(json.dumps(turned, separators=(",", ":")).encode())


def test_a_signature_with_a_member_more_is_refused(envelope):
    (only,) = as_json(envelope)["signatures"]
    with pytest.raises(IntegrityError, match="exactly the members keyid, sig"):
        read_envelope(written(as_json(envelope, signatures=[only | {"cert": ""}])))


@pytest.mark.parametrize("count", [2, 10_000])
def test_many_signatures_are_refused_even_where_each_is_right(envelope, count):
    (only,) = as_json(envelope)["signatures"]
    with pytest.raises(IntegrityError, match=f"{count} signatures"):
        read_envelope(written(as_json(envelope, signatures=[only] * count)))


def test_ten_thousand_signatures_are_refused_before_any_is_checked(envelope, monkeypatch):
    (only,) = as_json(envelope)["signatures"]
    monkeypatch.setattr(dsse, "_decoded", lambda _, what: b"" if what == "its payload" else pytest.fail(what))
    monkeypatch.setattr(dsse, "is_signature", lambda *_: pytest.fail("it was checked"))
    with pytest.raises(IntegrityError, match="10000 signatures"):
        read_envelope(written(as_json(envelope, signatures=[only] * 10_000)))


@pytest.mark.parametrize("size", [0, 1, 32, 63, 65, 71, 96, 256])
def test_a_signature_that_is_not_64_bytes_is_refused(key, envelope, size):
    sig = b2a_base64(b"\1" * size, newline=False).decode()
    (only,) = as_json(envelope)["signatures"]
    with pytest.raises(IntegrityError, match="64"):
        read_envelope(written(as_json(envelope, signatures=[only | {"sig": sig}])))
    assert not is_signed_by(replace(envelope, signature=b"\1" * size), key.public_key)


def test_a_forged_key_id_names_a_key_that_did_not_sign(key, other_key, envelope):
    forged = replace(seal(other_key, envelope.payload), key_id=key.key_id)
    read = read_envelope(envelope_bytes(forged))
    assert not is_signed_by(read, key.public_key)
    assert not is_signed_by(read, other_key.public_key)


def test_a_right_signature_under_another_key_id_does_not_count(key, other_key, envelope):
    assert not is_signed_by(replace(envelope, key_id=other_key.key_id), key.public_key)


def test_a_signature_over_the_payload_alone_or_under_another_type_does_not_count(key, envelope):
    for message in (envelope.payload, pae("text/plain", envelope.payload)):
        assert not is_signed_by(replace(envelope, signature=key.sign(message)), key.public_key)
    other = Envelope("text/plain", b"x", key.key_id, key.sign(pae("text/plain", b"x")))
    assert not is_signed_by(other, key.public_key)


def test_a_signature_with_the_group_order_added_does_not_count(key, envelope):
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(envelope.signature[32:], "little") + order
    malleated = envelope.signature[:32] + scalar.to_bytes(32, "little")
    assert not is_signed_by(replace(envelope, signature=malleated), key.public_key)


@pytest.mark.parametrize("algorithm", ["rsa", "ecdsa", "ed448", "hmac"])
def test_no_other_algorithm_signs(key, envelope, algorithm):
    from cryptography.hazmat.primitives import hashes, hmac
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, padding, rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from esper_agents.certificates.signing.public_keys import key_id_of

    message = pae(PAYLOAD_TYPE, envelope.payload)
    public = key.public_key
    match algorithm:
        case "rsa":
            private = rsa.generate_private_key(65537, 2048)
            signature = private.sign(message, padding.PKCS1v15(), hashes.SHA256())
            public = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        case "ecdsa":
            private = ec.generate_private_key(ec.SECP256R1())
            signature = private.sign(message, ec.ECDSA(hashes.SHA256()))
            public = private.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        case "ed448":
            private = ed448.Ed448PrivateKey.generate()
            signature, public = private.sign(message), private.public_key().public_bytes_raw()
        case "hmac":
            # The public key taken for a shared secret.
            mac = hmac.HMAC(public, hashes.SHA512())
            mac.update(message)
            signature = mac.finalize()
    forged = replace(envelope, key_id=key_id_of(public), signature=signature)
    assert not is_signed_by(forged, public)


def test_a_payload_swapped_for_that_of_another_certificate_is_noticed(key, envelope):
    swapped = replace(envelope, payload=statement(full()))
    assert not is_signed_by(read_envelope(envelope_bytes(swapped)), key.public_key)


def test_an_envelope_over_the_most_bytes_is_refused():
    with pytest.raises(IntegrityError, match="the maximum"):
        read_envelope(b" " * (64 * 2**20 + 1))


def test_the_quick_reader_takes_what_the_slow_one_takes_and_nothing_else(envelope):
    data = envelope_bytes(envelope)
    assert dsse._read_canonical(data) == dsse._read_slowly(data) == envelope
    places = [*range(14), *range(len(data) - 280, len(data))]
    for changed in flipped(data, places, (1, 2, 4, 8, 16, 32, 64, 128)):
        quick = dsse._read_canonical(changed)
        try:
            slow = dsse._read_slowly(changed)
        except IntegrityError:
            slow = None
        assert quick == slow


@given(payload=st.binary(max_size=60), junk=st.binary(max_size=9))
def test_the_quick_reader_agrees_on_payloads_of_every_length(key, payload, junk):
    data = envelope_bytes(seal(key, payload))
    assert dsse._read_canonical(data) == dsse._read_slowly(data)
    assert dsse._read_canonical(data + junk) is None or not junk
    assert dsse._read_canonical(data[: len(junk)]) is None


def test_the_payload_is_what_standard_base64_says(envelope):
    assert base64.b64decode(as_json(envelope)["payload"], validate=True) == envelope.payload
    assert a2b_base64(as_json(envelope)["signatures"][0]["sig"]) == envelope.signature


@given(st.binary(max_size=9), st.text(max_size=40).map(str.encode), st.binary(max_size=9))
def test_an_envelope_whose_payload_contains_a_text_contains_a_fragment_of_its_encoding(key, before, text, after):
    data = envelope_bytes(seal(key, before + text + after))
    assert any(fragment in data for fragment in encodings_within(text))


def test_an_envelope_that_does_not_mention_a_certificate_is_not_decoded(key, tmp_path, monkeypatch):
    names = [f"crt_{str(number) * 32}" for number in range(3)]
    for name in names:
        (tmp_path / f"{name}.dsse.json").write_bytes(envelope_bytes(seal(key, f"x{name}".encode())))
    decoded = []
    monkeypatch.setattr(published_notices, "read_sealed", lambda data: decoded.append(data) or read_sealed(data))
    (found,) = published_notices.sealed_files(sorted(tmp_path.iterdir()), names[1])
    assert found.envelope.payload.decode() == f"x{names[1]}"
    assert len(decoded) == 1
