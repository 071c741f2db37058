"""Envelopes with one bit changed anywhere, and certificates put in the place of others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from certificate_samples import certificate, of_status

from esper_agents.archive.verification.signature import Keyring, read_sealed, signature_check
from esper_agents.certificates.check import Check, CheckOutcome
from esper_agents.certificates.signing.dsse import envelope_bytes, seal
from esper_agents.certificates.signing.key_history import key_history
from esper_agents.certificates.signing.signing_key import signing_key
from esper_agents.certificates.signing.trusted_keys import trusted
from esper_agents.certificates.statement import statement
from esper_agents.domain.status import Status

CERTIFICATES = [
    *(of_status(each) for each in Status),
    *(replace(certificate(), component=f"part_{number}") for number in range(9)),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def keyring(place):
    signing_key(place)
    found = trusted(place, None)
    return Keyring(found, key_history((), found.roots()))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_one_bit_of_any_byte_of_twenty_certificates_is_noticed(place, keyring, number):
    data = envelope_bytes(seal(signing_key(place), statement(CERTIFICATES[number])))

    def is_genuine(changed):
        sealed = read_sealed(changed)
        return not isinstance(sealed, Check) and signature_check(sealed, keyring, 0).outcome is CheckOutcome.HOLDS

    assert is_genuine(data)
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << (at + number) % 8
        assert not is_genuine(bytes(changed)), at


def test_the_twenty_differ():
    assert len({statement(each) for each in CERTIFICATES}) == 20
