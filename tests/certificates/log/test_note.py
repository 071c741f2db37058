from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_samples import leaf

from esper_agents.certificates.log.merkle import appended, inclusion, leaf_hash, root
from esper_agents.certificates.log.note import (
    MOST_BYTES,
    Checkpoint,
    checkpoint_text,
    includes,
    is_signed_by,
    read_checkpoint,
    read_note,
    read_proof,
    signed_checkpoint,
    signer,
    write_proof,
)
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.errors import IntegrityError

ORIGIN = "example.org/log"
HEAD = Checkpoint(ORIGIN, 3, leaf(0))
# Russ Cox's example of a note, from the documentation of golang.org/x/mod/sumdb/note.
VERIFIER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


@pytest.fixture
def key(home):
    return signing_key(home)


def hash_line(number=0):
    return b64encode(leaf(number)).decode()


def test_a_note_that_others_signed_is_read_and_its_signature_holds():
    from base64 import b64decode

    note = read_note(NOTE)
    public_key = b64decode(VERIFIER.split("+", 2)[2])[1:]
    assert note.text == NOTE.partition("\n\n")[0] + "\n"
    assert is_signed_by(note, "PeterNeumann", public_key)
    assert not is_signed_by(read_note(NOTE.replace("problem is", "problem was")), "PeterNeumann", public_key)
    assert not is_signed_by(note, "Peter", public_key)


def test_a_checkpoint_is_what_was_signed_and_the_same_key_gives_the_same_bytes(key):
    note = signed_checkpoint(HEAD, key)
    assert note == signed_checkpoint(HEAD, key)
    assert note.startswith(f"{ORIGIN}\n3\n{hash_line()}\n\n— {ORIGIN} ")
    assert read_checkpoint(read_note(note)) == HEAD
    assert signer(read_note(note.encode()), ORIGIN, [b"\x05" * 32, key.public_key]) == key.public_key


def test_what_a_key_signed_for_one_log_is_not_signed_for_another(key):
    note = signed_checkpoint(HEAD, key)
    assert signer(read_note(note), "example.org/other", [key.public_key]) is None
    renamed = note.replace(f"— {ORIGIN}", "— example.org/other")
    assert signer(read_note(renamed), "example.org/other", [key.public_key]) is None


def test_witnesses_may_sign_below(key):
    note = signed_checkpoint(HEAD, key) + f"— witness.example {b64encode(b'1' * 76).decode()}\n"
    assert is_signed_by(read_note(note), ORIGIN, key.public_key)


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note[:-1],
        lambda note: note + "\n",
        lambda note: note.replace("\n\n", "\n"),
        lambda note: note.replace("\n", "\r\n"),
        lambda note: note.replace("— ", "- "),
        lambda note: note + note.splitlines(keepends=True)[-1],
        lambda note: note + "— a+b AAAAAAAAAAAA\n",
        lambda note: note + "— a b AAAAAAAAAAAA\n",
        lambda note: note + "— a AAAA\n",
        lambda note: note + "— a AAAAAAB=\n",
        lambda note: note + "".join(f"— w{each} AAAAAAAA\n" for each in range(10_000)),
        lambda note: note.replace(ORIGIN, ORIGIN + "\x1b[31m"),
        lambda note: note.replace(ORIGIN, ORIGIN + "\x00"),
        lambda note: "x" * MOST_BYTES + note,
        lambda _note: "",
        lambda _note: "\n\n",
    ],
)
def test_what_is_not_exactly_a_note_is_refused(key, change):
    with pytest.raises(IntegrityError, match="not a signed note of a log"):
        read_note(change(signed_checkpoint(HEAD, key)))


@pytest.mark.parametrize(
    "text",
    [
        f"{ORIGIN}\n3\n",
        f"{ORIGIN}\n3\n{hash_line()}\nextension\n",
        f"\n3\n{hash_line()}\n",
        f"two words\n3\n{hash_line()}\n",
        f"a+b\n3\n{hash_line()}\n",
        f"exämple\n3\n{hash_line()}\n",
        f"{ORIGIN}\n03\n{hash_line()}\n",
        f"{ORIGIN}\n-3\n{hash_line()}\n",
        f"{ORIGIN}\n+3\n{hash_line()}\n",
        f"{ORIGIN}\n\N{FULLWIDTH DIGIT THREE}\n{hash_line()}\n",
        f"{ORIGIN}\n{'9' * 19}\n{hash_line()}\n",
        f"{ORIGIN}\n3\n{hash_line()[:-4]}\n",
        f"{ORIGIN}\n3\n{hash_line().rstrip('=')}\n",
        f"{ORIGIN}\n3\n{b64encode(b'short').decode()}\n",
    ],
)
def test_a_note_that_is_no_checkpoint_is_refused(text):
    with pytest.raises(IntegrityError, match="not a signed note of a log"):
        read_checkpoint(read_note(f"{text}\n— {ORIGIN} AAAAAAAA\n"))


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_whatever_bytes_hold_they_are_read_or_refused(data):
    for read in (read_note, read_proof):
        with pytest.raises(IntegrityError):
            read(data)


def proof_of(key, idx=2, size=5):
    leaves, nodes = [f"leaf {each}".encode() for each in range(size)], {}

    def read(places):
        return [nodes[place] for place in places]

    for place, each in enumerate(leaves):
        nodes.update(appended(place, leaf_hash(each), read))
    note = signed_checkpoint(Checkpoint(ORIGIN, size, root(size, read)), key)
    return write_proof(idx, inclusion(idx, size, read), note), leaves


def test_a_proof_leads_from_its_leaf_to_its_checkpoint(key):
    text, leaves = proof_of(key)
    proof = read_proof(text.encode())
    assert text.startswith("c2sp.org/tlog-proof@v1\nindex 2\n")
    assert [includes(proof, each) for each in leaves] == [False, False, True, False, False]
    assert is_signed_by(proof.note, proof.checkpoint.origin, key.public_key)
    assert write_proof(proof.idx, proof.hashes, text.partition("\n\n")[2]) == text


def test_the_proof_of_the_only_entry_has_no_hashes(key):
    text, leaves = proof_of(key, 0, 1)
    assert text.startswith("c2sp.org/tlog-proof@v1\nindex 0\n\n")
    assert includes(read_proof(text), leaves[0])


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("@v1", "@v2"),
        lambda text: text.replace("index 2\n", ""),
        lambda text: text.replace("index 2", "index 02"),
        lambda text: text.replace("index 2", "index 5"),
        lambda text: text.replace("index 2", "index 2\nindex 2"),
        lambda text: text.replace("index 2", "extra AAAA\nindex 2"),
        lambda text: text.replace("index 2\n", "index 2\n" + f"{hash_line()}\n" * 65),
        lambda text: text.replace("\n\n", "\n"),
        lambda text: text[:-2],
        lambda text: text.replace("\n", "\r\n"),
    ],
)
def test_what_is_not_exactly_a_proof_is_refused(key, change):
    text, _ = proof_of(key)
    with pytest.raises(IntegrityError, match="not a signed note of a log"):
        read_proof(change(text))


@given(st.data())
def test_a_proof_with_any_character_changed_is_refused_or_leads_nowhere(tmp_path_factory, data):
    key = signing_key(tmp_path_factory.getbasetemp() / "one-home")
    text, leaves = proof_of(key)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("\n A0+=é").filter(lambda each: each != text[at]))
    try:
        proof = read_proof(text[:at] + other + text[at + 1 :])
    except IntegrityError:
        return
    assert not (includes(proof, leaves[2]) and is_signed_by(proof.note, ORIGIN, key.public_key))


def test_the_text_of_a_checkpoint_ends_with_a_line_feed():
    assert checkpoint_text(HEAD) == f"{ORIGIN}\n3\n{hash_line()}\n"
