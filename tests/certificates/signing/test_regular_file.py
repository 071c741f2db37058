"""Bounded reads: complete at every size, and of no more than the limit."""

from __future__ import annotations

import os

import pytest

from esper_agents.certificates.signing import regular_file
from esper_agents.certificates.signing.regular_file import read_plain


@pytest.mark.parametrize("size", [0, 1, 99, 100, 101, 5000])
@pytest.mark.parametrize("limit", [0, 1, 100])
def test_a_file_is_read_up_to_one_byte_more_than_the_limit(tmp_path, size, limit):
    file = tmp_path / "file"
    file.write_bytes(b"x" * size)
    found = read_plain(file, limit)
    assert found is not None
    assert found.data == b"x" * min(size, limit + 1)


def test_a_file_that_grows_while_it_is_read_is_read_to_its_end(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_bytes(b"first")
    opened = os.open

    def grown(*arguments):
        descriptor = opened(*arguments)
        monkeypatch.setattr(os, "open", opened)
        status = os.fstat(descriptor)
        file.write_bytes(b"y" * 200_000)
        monkeypatch.setattr(os, "fstat", lambda _: status)
        return descriptor

    monkeypatch.setattr(regular_file.os, "open", grown)
    found = read_plain(file, 10**6)
    assert found is not None
    assert found.data == b"y" * 200_000
