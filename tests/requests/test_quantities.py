"""Tests of the sizes that a request names."""

from __future__ import annotations

import pytest

from esper_agents.domain.request import Quantity
from esper_agents.requests.quantities import named_sizes, observations


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (
            "oom with 200k entities, emb dim 200, batch size 256. b_size 16 works",
            [("entities", 200_000), ("emb dim", 200), ("batch size", 256), ("b_size", 16)],
        ),
        ("seq len 4096 batch 8, hidden=1024", [("seq len", 4096), ("batch", 8), ("hidden", 1024)]),
        ("50,000 points per cloud", [("points", 50_000)]),
        ("verbose=1 is slower than verbose=0", [("verbose", 1)]),
        ("after 400 updates, 30 epochs, torch 2.4, 12 GB, gpu at 30 %", []),
        ("", []),
    ],
)
def test_numbers_beside_what_they_count_are_sizes_and_times_bytes_and_shares_are_not(text, sizes):
    assert list(named_sizes(text)) == sizes


def test_a_size_is_no_ratio():
    assert observations("inside Unet(dim=64) with 128x128 rgb, can i feed 100x100") == ()
    (seen,) = observations("B is 1.3x faster")
    assert seen.quantity is Quantity.RATIO
