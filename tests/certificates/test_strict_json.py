from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esper_agents.certificates.strict_json import MOST_BYTES, loads
from esper_agents.errors import IntegrityError

EXACT = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
)


@given(EXACT)
def test_json_without_floats_is_read_as_it_is(value):
    assert loads(json.dumps(value).encode()) == value
    assert loads(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not JSON"),
        (b"{", "line 1, column 2 is not JSON"),
        (b"{}{}", "is not JSON"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b'"\xff"', "byte 1 is not UTF-8"),
        (b'"\xed\xa0\x80"', "is not UTF-8"),
        (b'"\xc0\x80"', "is not UTF-8"),
        ("{}".encode("utf-16"), "is not UTF-8"),
        (b'"a\nb"', "is not JSON"),
        (b"{'a': 1}", "is not JSON"),
        (b'{"a": 1,}', "is not JSON"),
        (b'{"a": 1, "b": {"c": 1, "c": 1}}', "member 'c' occurs twice"),
        (b'{"a": 1, "\\u0061": 2}', "member 'a' occurs twice"),
        (b"NaN", "NaN is not an integer"),
        (b"[-Infinity]", "-Infinity is not an integer"),
        (b"[Infinity]", "Infinity is not an integer"),
        (b"1.0", "1.0 is not an integer"),
        (b"1e3", "1e3 is not an integer"),
        (b"-0", "not an integer of at most 53 bits"),
        (b"9007199254740992", "not an integer of at most 53 bits"),
        (b"-9007199254740992", "not an integer of at most 53 bits"),
        (b"1" * 5000, "not an integer of at most 53 bits"),
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
        (b"[" * 1_000_000, "deeper than 64"),
        (b"[" * 100_000 + b"]" * 100_000, "deeper than 64"),
        (b" " * (MOST_BYTES + 1), "the maximum is"),
    ],
    ids=range(27),
)
def test_what_two_readers_could_read_differently_is_refused(data, words):
    with pytest.raises(IntegrityError, match="not a certificate: ") as caught:
        loads(data)
    assert words in caught.value.problem
    assert len(caught.value.problem) < 200


def test_what_nests_64_deep_is_read():
    assert loads(b"[" * 64 + b"]" * 64)
    assert loads(b"9007199254740991") == 2**53 - 1


@given(st.binary())
def test_any_bytes_are_read_like_json_or_refused(data):
    with contextlib.suppress(IntegrityError):
        assert loads(data) == json.loads(data)
